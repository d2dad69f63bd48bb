"""The recursion in PyTorch: eager, or with its step compiled; products in float32, or on a GPU in TF32."""

from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
from problem import CLIP, DT, ORDERS, SIGMA, Array, Contestant, M, N, W


def _step(x: Any, h: Any, coupling: Any) -> Any:
    force = -2 * x - 4 * x**3 + h + x @ coupling
    return torch.clamp(x + DT * force + SIGMA * torch.randn_like(x), -CLIP, CLIP)


def eager(device: str, *, tf32: bool = False) -> Contestant:
    return _loop(_step, device, tf32)


def compiled(device: str, *, tf32: bool = False) -> Contestant:
    return _loop(torch.compile(_step), device, tf32)


def _loop(step: Any, device: str, tf32: bool) -> Contestant:
    def run(h: Array, n_steps: int) -> Array:
        # "high" lets a GPU round the factors of a product to 11 bits.
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.manual_seed(1)
        with torch.inference_mode():
            drive = torch.tensor(h, dtype=torch.float32, device=device)[:, None]
            coupling = torch.tensor(W.T, dtype=torch.float32, device=device)
            x = torch.zeros(len(h), M, N, device=device)
            for _ in range(n_steps):
                x = step(x, drive, coupling)
            moments = torch.stack([(x**p).mean(dim=1) for p in ORDERS], dim=1)
            return np.asarray(moments.cpu().numpy())

    return run
