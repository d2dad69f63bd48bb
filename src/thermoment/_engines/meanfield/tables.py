"""Tables of one node over its drive: moments, response, covariance, second order; built once and kept on disk.

Drives are even in u = asinh(h / scale). In a well without J3 all that is tabulated is even or odd in h, so only h >= 0
is kept.
"""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.grids import NodeGrids, halved, inner_products
from thermoment._engines.meanfield.modes import N_MODES, PAIRS, find_modes
from thermoment._engines.meanfield.node import Expansion, Modes, richardson, solve
from thermoment._engines.meanfield.quantiles import shapes
from thermoment._support.files import cache_folder, read_tensors, write_tensors
from thermoment._support.identity import stated
from thermoment._support.threads import cores
from thermoment.physics import LARGEST_DRIVE, Dynamics

Array = NDArray[np.float64]

VERSION = 5
"""Raised whenever a table changes for the same arguments."""
RANGES = (20.0, LARGEST_DRIVE, 1000.0)
"""Largest drives that tables are made for."""
TOP = 8
"""Moments are tabulated up to this order."""
_POINTS = 48
"""H, the drives in a table, of one sign."""
_SCOUTS = 12
"""Drives from which modes and kernels are found."""


@dataclass(frozen=True, eq=False)
class NodeTables:
    """Functions of the drive at H values of u = asinh(h / scale), evenly from 0; of both signs where there is a J3.

    r time modes phi_a, Q products of two modes, K field kernels, R reaction kernels, moments of order p = 1..8,
    Z normals (quantiles.py). docs/theory.md has the equations.
    """

    scale: Array
    """(1,)"""
    h: Array
    """(H,)"""
    t: Array
    """(T + 1,), up to t_final; the drive comes at 0"""
    phi: Array
    """(r, T + 1)"""
    moments: Array
    """M_p: (H, 8)"""
    slope: Array
    """dM_p/dh: (H, 8)"""
    mean: Array
    """A_a, the mean trajectory on the modes: (H, r)"""
    shift: Array
    """c_a, the constant drive that moves M_1 as much as a drive phi_a does: (H, r)"""
    rest: Array
    """response of M_p to phi_a - c_a: (H, 8, r)"""
    square: Array
    """second-order response of M_p to products of phi_a - c_a, in the order of `SQUARES`: (H, 8, Q)"""
    field: Array
    """two-time covariance on the field kernels: (H, K)"""
    by_field: Array
    """change of M_p by a field of these covariances: (H, 8, K)"""
    memory: Array
    """linear response of the mean on the reaction kernels: (H, R)"""
    by_memory: Array
    """change of M_p by a reaction with these kernels: (H, 8, R)"""
    mean_rest: Array
    """response of A_b to phi_a - c_a: (H, r, r), b first"""
    mean_square: Array
    """second-order response of A_b, as `square`: (H, r, Q)"""
    mean_by_field: Array
    """change of A_b, as `by_field`: (H, r, K)"""
    mean_by_memory: Array
    """change of A_b, as `by_memory`: (H, r, R)"""
    shape: Array
    """(x - M_1) / sqrt(variance) at t_final as a function of a standard normal at `NORMALS`: (H, Z)"""
    missed: Array
    """rms over time of the part of <x(t)> outside the modes: (H,)"""

    @property
    def signed(self) -> bool:
        """Whether there are drives of both signs."""
        return bool(self.h[0] < 0)

    @property
    def h_max(self) -> float:
        return float(self.h[-1])


def node_tables(dynamics: Dynamics, t_final: float, h_max: float, t_rest: float = 0.0) -> NodeTables:
    """Tables for |h| up to `h_max` (one of `RANGES`): from memory, from disk, or built, which takes seconds.

    The drive comes to a node that has been without any for a time `t_rest`, since it was at x = 0.
    """
    return _cached(dynamics, float(t_final), float(h_max), float(t_rest))


@cache
def _cached(dynamics: Dynamics, t_final: float, h_max: float, t_rest: float) -> NodeTables:
    facts = {"version": VERSION, "dynamics": stated(dynamics), "t_final": t_final, "h_max": h_max}
    if t_rest:
        facts["t_rest"] = t_rest
    path = cache_folder() / f"node-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()}.safetensors"
    names = [field.name for field in fields(NodeTables)]
    try:
        tensors, text = read_tensors(path, "node", names)
        if json.loads(text)["digest"] == _digest(tensors):
            return NodeTables(**tensors)
    except (ImportError, OSError, ValueError, KeyError):
        pass  # absent, damaged or unreadable here: built anew
    built = build(dynamics, t_final, h_max, t_rest)
    tensors = {name: getattr(built, name) for name in names}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, "node", tensors, json.dumps(facts | {"digest": _digest(tensors)}))
    except (ImportError, OSError):
        pass  # where the folder cannot be written to, the next process builds the tables again
    return built


def _digest(tensors: dict[str, NDArray[Any]]) -> str:
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(tensors[name]).tobytes() for name in sorted(tensors))
    ).hexdigest()


def build(dynamics: Dynamics, t_final: float, h_max: float, t_rest: float = 0.0) -> NodeTables:
    """Solves the single node at every drive on two grids. Takes seconds on two cores."""
    scale, h = drives_of(dynamics, t_final, h_max)
    grids = NodeGrids.of(dynamics, h, t_final, t_rest)
    coarse_t, n_substeps = grids.t, grids.n_substeps

    with ThreadPoolExecutor(cores()) as pool:

        def over_drives(refine: int, t: Array, n_substeps: NDArray[np.intp], modes: Modes) -> dict[str, Array]:
            def one(k: int) -> Expansion:
                return solve(dynamics, float(h[k]), grids.cells(k, refine), t, n_substeps[:, k], modes, TOP)

            return _collect(list(pool.map(one, range(len(h)))), t, modes)

        scouts = np.linspace(0, len(h) - 1, _SCOUTS if h[0] == 0 else 2 * _SCOUTS - 1).astype(int)
        few = [(float(h[k]), grids.cells(k, 1), coarse_t, np.ones_like(n_substeps[:, k])) for k in scouts]
        modes = find_modes(dynamics, few, coarse_t, pool)
        # Cells and time steps of the fine solution are half those of the coarse one. Only what does not depend on the
        # coupling is refined: what is of second order in the coupling needs three digits, which the coarse grid gives.
        coarse = over_drives(1, coarse_t, n_substeps, modes)
        first_order = modes.halved().first_order(1 + N_MODES)
        fine = over_drives(2, halved(coarse_t), np.repeat(n_substeps, 2, axis=0), first_order)
    found = coarse | {name: richardson(coarse[name][..., : fine[name].shape[-1]], fine[name]) for name in _FIRST_ORDER}
    # These two are not smooth functions of the cell size, so extrapolation would not improve them.
    found |= {name: fine[name] for name in ("quantiles", "missed")}
    return _assemble(found, modes, np.array([scale]), h, coarse_t)


_FIRST_ORDER = ("moments", "response", "mean", "mean_response")


def drives_of(dynamics: Dynamics, t_final: float, h_max: float) -> tuple[float, Array]:
    """The scale of a table, and its drives: (H,)."""
    scale = _scale(dynamics, t_final)
    h = np.asarray(scale * np.sinh(np.linspace(0, np.arcsinh(h_max / scale), _POINTS)))
    return scale, np.concatenate([-h[:0:-1], h]) if dynamics.J3 else h


def _scale(dynamics: Dynamics, t_final: float) -> float:
    """The drive below which all is linear in h: where h times the thermal spread is kT, or where h alone would move x
    by the thermal spread until t_final, whichever is larger.
    """
    spread = float(np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    return max(dynamics.kT / spread, spread / (dynamics.mu * t_final))


def _collect(expansions: list[Expansion], t: Array, modes: Modes) -> dict[str, Array]:
    """The expansions stacked, drives first, their trajectories projected on the modes."""
    products, inside = inner_products(t), slice(1, 1 + N_MODES)
    project = modes.phi[inside] @ products
    names = ("moments", "response", "second", "reaction", "covariance", "quantiles")
    found = {name: np.array([getattr(one, name) for one in expansions]) for name in names}
    for name in ("mean", "mean_response", "mean_second", "mean_reaction"):
        found[name] = np.array([project @ getattr(one, name) for one in expansions])
    found["kernel"] = np.array([modes.phi @ products @ one.mean_response for one in expansions])
    left = np.array([one.mean for one in expansions]) - found["mean"] @ modes.phi[inside]
    found["missed"] = np.einsum("ht,ts,hs->h", left, products, left) / t[-1]
    return found


def _squares(second: Array, shift: Array) -> Array:
    """Second-order response to (phi_a - c_a)(phi_b - c_b), 1 <= a <= b, from that to `PAIRS`: (H, ..., Q)."""
    by_pair = {pair: second[..., k] for k, pair in enumerate(PAIRS)}
    c = shift.reshape(len(shift), *(1,) * (second.ndim - 2), -1)
    found = []
    for (a, b), both in by_pair.items():
        if a > 0:
            # A pair of different modes counts both orders, phi_a phi_b and phi_b phi_a; a pair of equal modes only one.
            orders = 1 if a == b else 2
            cross = c[..., b - 1] * by_pair[0, a] + (c[..., a - 1] * by_pair[0, b] if a != b else 0)
            constant = orders * c[..., a - 1] * c[..., b - 1] * by_pair[0, 0]
            found.append(both - cross + constant)
    return np.stack(found, axis=-1)


def _assemble(found: dict[str, Array], modes: Modes, scale: Array, h: Array, t: Array) -> NodeTables:
    """The combinations that the network (network.py) reads."""
    slope, mean_slope = found["response"][..., 0], found["mean_response"][..., 0]
    mean_modes = slice(1, 1 + N_MODES)
    response, mean_response = found["response"][..., mean_modes], found["mean_response"][..., mean_modes]
    shift = response[:, 0] / slope[:, :1]
    n = len(PAIRS)

    return NodeTables(
        scale=scale,
        h=h,
        t=t,
        phi=modes.phi[mean_modes],
        moments=found["moments"],
        slope=slope,
        mean=found["mean"],
        shift=shift,
        rest=response - slope[..., None] * shift[:, None, :],
        square=_squares(found["second"], shift),
        field=np.einsum("hab,kab->hk", found["covariance"], modes.fields[n:]),
        by_field=found["second"][..., n:],
        memory=np.einsum("hab,kab->hk", found["kernel"], modes.reactions),
        by_memory=found["reaction"],
        mean_rest=mean_response - mean_slope[..., None] * shift[:, None, :],
        mean_square=_squares(found["mean_second"], shift),
        mean_by_field=found["mean_second"][..., n:],
        mean_by_memory=found["mean_reaction"],
        shape=shapes(found["quantiles"], found["moments"]),
        missed=np.sqrt(found["missed"]),
    )
