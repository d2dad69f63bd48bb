"""The equation solved by torchsde, as its documentation shows: a batch of paths through `sdeint` with diagonal noise.

torchsde cannot clip x after a step; at the paper's drives no update comes near the clip.
"""

from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
import torchsde  # type: ignore[import-not-found,import-untyped,unused-ignore]
from problem import DT, KT, ORDERS, Array, Contestant, M, N, W


class _Network(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, h: Any) -> None:
        super().__init__()
        self.h = h
        self.coupling = torch.tensor(W.T, dtype=h.dtype, device=h.device)

    def f(self, _t: Any, x: Any) -> Any:
        return -2 * x - 4 * x**3 + self.h + x @ self.coupling

    def g(self, _t: Any, x: Any) -> Any:
        return torch.full_like(x, float(np.sqrt(2 * KT)))


def batch(device: str) -> Contestant:
    def run(h: Array, n_steps: int) -> Array:
        torch.manual_seed(1)
        with torch.inference_mode():
            drive = torch.tensor(h, dtype=torch.float32, device=device).repeat_interleave(M, dim=0)
            times = torch.tensor([0.0, n_steps * DT], device=device)
            paths = torchsde.sdeint(_Network(drive), torch.zeros_like(drive), times, method="euler", dt=DT)
            x = paths[-1].reshape(len(h), M, N)
            moments = torch.stack([(x**p).mean(dim=1) for p in ORDERS], dim=1)
            return np.asarray(moments.cpu().numpy())

    return run
