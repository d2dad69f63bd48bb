"""Tables of one node over its drive: moments, response, covariance, second order; built once and kept on disk.

The time modes are the singular vectors of <x(t)> over the drive, the field and reaction kernels those of the two-time
covariance and of the response. All are even or odd in h, so only h >= 0 is kept, evenly in u = asinh(h / scale).
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.meanfield.node import (
    NORMALS,
    Grid,
    Law,
    Modes,
    grid,
    halved,
    inner,
    mean_and_memory,
    path,
    reach,
    richardson,
    solve,
    substeps,
    times,
)
from thermoment._support.files import cache_folder, read_tensors, write_tensors
from thermoment._support.threads import cores
from thermoment.physics import LARGEST_DRIVE, Dynamics

Array = NDArray[np.float64]

VERSION = 5
"""Raised whenever a table changes for the same arguments."""
RANGES = (20.0, LARGEST_DRIVE)
"""Largest drives that tables are made for."""
TOP = 8
"""Moments are tabulated up to this order."""
_POINTS = 48
_SCOUTS = 12
"""Drives from which the modes and kernels are found."""
_ENRICHMENT = (2, 4, 6)
"""Time modes kept after each round of adding responses; the last is r."""
TYPICAL_COUPLING = 0.5
"""s_W at which responses are weighed against means in the choice of modes."""
_SQUARES = 2
"""Leading modes whose second-order response is kept."""
_MODES, _MEMORIES, _FIELDS, _REACTIONS = _ENRICHMENT[-1], 3, 2, 2


SQUARES = [(a, b) for a in range(_SQUARES) for b in range(a, _SQUARES)]
"""Products of mean fields (counted from 0) that act at second order."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Functions of the drive at `points` values of u = asinh(h / scale) from 0; H of them.

    r time modes phi_a, K field kernels, R reaction kernels, p = 1..8. docs/theory.md has the equations.
    """

    scale: Array
    """(1,)"""
    h: Array
    """(H,)"""
    t: Array
    """(T + 1,)"""
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
    """as `rest`, for A_a: (H, r, r)"""
    mean_square: Array
    """(H, r, Q)"""
    mean_by_field: Array
    """(H, r, K)"""
    mean_by_memory: Array
    """(H, r, R)"""
    shape: Array
    """(x - M_1) / sqrt(variance) at t_final as a function of a standard normal at `NORMALS`: (H, Z)"""
    missed: Array
    """rms over time of the part of <x(t)> outside the modes: (H,)"""

    @property
    def h_max(self) -> float:
        return float(self.h[-1])


def tables(dynamics: Dynamics, t_final: float, h_max: float) -> Tables:
    """Tables for |h| up to `h_max` (one of `RANGES`): from memory, from disk, or built, which takes seconds."""
    return _kept(dynamics, float(t_final), float(h_max))


@cache
def _kept(dynamics: Dynamics, t_final: float, h_max: float) -> Tables:
    facts = {"version": VERSION, "dynamics": asdict(dynamics), "t_final": t_final, "h_max": h_max}
    path = cache_folder() / f"node-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()}.safetensors"
    names = [field.name for field in fields(Tables)]
    try:
        tensors, text = read_tensors(path, "node", names)
        if json.loads(text)["digest"] == _digest(tensors):
            return Tables(**tensors)
    except (ImportError, OSError, ValueError, KeyError):
        pass  # absent, damaged or unreadable here: built anew
    built = build(dynamics, t_final, h_max)
    tensors = {name: getattr(built, name) for name in names}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, "node", tensors, json.dumps(facts | {"digest": _digest(tensors)}))
    except (ImportError, OSError):
        pass  # a folder that cannot be written to costs the next process a few seconds, no more
    return built


def _digest(tensors: dict[str, NDArray[Any]]) -> str:
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(tensors[name]).tobytes() for name in sorted(tensors))
    ).hexdigest()


def build(dynamics: Dynamics, t_final: float, h_max: float) -> Tables:
    """Solves the single node at every drive on two grids. Seconds on two cores."""
    scale = _scale(dynamics, t_final)
    h = scale * np.sinh(np.linspace(0, np.arcsinh(h_max / scale), _POINTS))
    coarse_t = times(dynamics, h_max, t_final)
    noiseless = path(dynamics, h, coarse_t)
    parts = substeps(dynamics, h, coarse_t, noiseless)
    low, high = reach(dynamics, h, noiseless)

    def cells(k: int, refine: int) -> Grid:
        return grid(dynamics, float(h[k]), low[k], high[k], t_final, refine)

    def laws(refine: int, t: Array, parts: NDArray[np.intp], modes: Modes) -> dict[str, Array]:
        def one(k: int) -> Law:
            return solve(dynamics, float(h[k]), cells(k, refine), t, parts[:, k], modes, TOP)

        return _collect(_each(one, range(_POINTS)), t, modes)

    scouts = np.linspace(0, _POINTS - 1, _SCOUTS).astype(int)
    few = [(float(h[k]), cells(k, 1), coarse_t, np.ones_like(parts[:, k])) for k in scouts]
    modes = _find_modes(dynamics, few, coarse_t)
    # Both the cells and the time steps of the fine solution are half those of the coarse one.
    # What is of second order in the coupling needs no more than three digits: the coarse grid has them.
    coarse = laws(1, coarse_t, parts, modes)
    fine = laws(2, halved(coarse_t), np.repeat(parts, 2, axis=0), modes.halved().first_order(1 + _MODES))
    found = coarse | {name: richardson(coarse[name][..., : fine[name].shape[-1]], fine[name]) for name in _FIRST_ORDER}
    # Not smooth in the cells: extrapolation would not help.
    found |= {name: fine[name] for name in ("quantiles", "missed")}
    return _assemble(found, modes, np.array([scale]), h, coarse_t)


_FIRST_ORDER = ("moments", "response", "mean", "mean_response")


def _scale(dynamics: Dynamics, t_final: float) -> float:
    """The drive below which all is linear in h: kT over the thermal spread, or what moves x so far until t_final."""
    spread = float(np.sqrt(dynamics.boltzmann_moments(0.0, [2])[0]))
    return max(dynamics.kT / spread, spread / (dynamics.mu * t_final))


def _find_modes(dynamics: Dynamics, few: list[tuple[float, Grid, Array, NDArray[np.intp]]], t: Array) -> Modes:
    """Time modes and kernels from a few drives, on coarse cells: they choose a basis and need no precision.

    First come the trajectories in which the mean field lives: <x(t)> at constant drives and, in rounds, the responses
    to the modes found so far, for a node driven by others is not at a constant drive. What is missing of the nodes'
    memories of their drive follows: a quadratic form of the memories sees a covariance only through its projection on
    their span.
    """

    def laws(phi: Array, kernels: int = 0) -> list[Law]:
        modes = Modes(phi, *(np.zeros((kernels, len(phi), len(phi))) for _ in range(2)))
        return _each(lambda one: solve(dynamics, one[0], one[1], one[2], one[3], modes, 1), few)

    both = _each(lambda one: mean_and_memory(dynamics, *one), few)
    means, memories = (np.array(part) for part in zip(*both, strict=True))
    products, constant = inner(t), np.ones((1, len(t)))
    phi = _orthonormal(means, products, 1)
    for count in _ENRICHMENT:
        sizes = TYPICAL_COUPLING * np.sqrt(((means @ products @ phi.T) ** 2).mean(axis=0))
        responses = np.array([law.mean_response.T * sizes[:, None] for law in laws(phi)]).reshape(-1, len(t))
        phi = _orthonormal(np.concatenate([means, responses]), products, count)
    rest = memories - memories @ products @ phi.T @ phi
    phi = np.concatenate([constant, phi, _orthonormal(rest, products, _MEMORIES)])
    found = laws(phi, kernels=1)  # the covariances come with kernels, whatever they are
    covariances = np.array([law.covariance for law in found])
    responses = np.array([phi @ products @ law.mean_response for law in found])
    return Modes(
        phi,
        np.concatenate([_pair_kernels(len(phi)), _leading(covariances, _FIELDS)]),
        _leading(responses, _REACTIONS),
    )


def _each(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    """function(argument) for each, on all cores."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, arguments))


def _orthonormal(rows: Array, products: Array, count: int) -> Array:
    """The `count` leading functions of time, orthonormal under the inner product, that make up the rows."""
    root = np.linalg.cholesky(products)
    leading = np.linalg.svd(rows @ root, full_matrices=False)[2][:count]
    return np.asarray(np.linalg.solve(root.T, leading.T).T)


_PAIRS = [(a, b) for a in range(1 + _SQUARES) for b in range(a, 1 + _SQUARES)]
"""Pairs of modes, the constant one with them, whose second-order response is found."""


def _pair_kernels(n_f: int) -> Array:
    """phi_a phi_b + phi_b phi_a for each pair, once where a = b: (len(_PAIRS), n_f, n_f)."""
    kernels = np.zeros((len(_PAIRS), n_f, n_f))
    for kernel, (a, b) in zip(kernels, _PAIRS, strict=True):
        kernel[a, b] = kernel[b, a] = 1.0
    return kernels


def _squares(second: Array, shift: Array) -> Array:
    """Second-order response to (phi_a - c_a)(phi_b - c_b), 1 <= a <= b, from that to `_PAIRS`: (H, ..., Q)."""
    by_pair = {pair: second[..., k] for k, pair in enumerate(_PAIRS)}
    c = shift.reshape(len(shift), *(1,) * (second.ndim - 2), -1)
    found = []
    for (a, b), both in by_pair.items():
        if a > 0:
            # (phi_a - c_a)(phi_b - c_b); a pair of different modes already counts both orders.
            twice = 2 if a == b else 1
            cross = c[..., b - 1] * by_pair[0, a] + (c[..., a - 1] * by_pair[0, b] if a != b else 0)
            constant = (2 // twice) * c[..., a - 1] * c[..., b - 1] * by_pair[0, 0]
            found.append(both - cross + constant)
    return np.stack(found, axis=-1)


def _shapes(quantiles: Array, moments: Array) -> Array:
    """Standardised quantiles: (H, Z). A narrow density in full flight is resolved in its moments but not in its shape:
    where the skewness shows it, the shape is a Gaussian's bent to the right skewness (Cornish and Fisher).
    """
    shape = standardised(quantiles)
    m1, m2, m3 = moments[:, :3].T
    skewness = (m3 - 3 * m1 * m2 + 2 * m1**3) / (m2 - m1**2) ** 1.5
    off = np.abs(shape_moments(shape)[:, 2] - skewness) > 0.02 * (1 + np.abs(skewness))
    bent = NORMALS + skewness[:, None] / 6 * (NORMALS**2 - 1)
    return np.where(off[:, None], standardised(bent), shape)


def standardised(shape: Array) -> Array:
    """Laws (H, Z) with mean 0 and variance 1 over a standard normal."""
    for _ in range(2):  # to rounding: the second removes what the first left
        first, second = shape_moments(shape)[:, :2].T
        shape = (shape - first[:, None]) / np.sqrt(second - first**2)[:, None]
    return shape


def shape_moments(shape: Array) -> Array:
    """Moments of order 1 to 8 of rows of a table read linearly between `NORMALS`, over a standard normal: (H, 8)."""
    # Gauss-Legendre inside each interval: exact but for the normal density, which is smooth.
    nodes, weight = np.polynomial.legendre.leggauss(5)
    f = (nodes + 1) / 2
    z = NORMALS[:-1, None] + np.diff(NORMALS)[:, None] * f
    mass = weight / 2 * np.exp(-(z**2) / 2) * np.diff(NORMALS)[:, None]
    mass = mass / mass.sum()
    y = shape[:, :-1, None] * (1 - f) + shape[:, 1:, None] * f
    power, moments = mass, []
    for _ in range(TOP):
        power = power * y
        moments.append(power.sum(axis=(1, 2)))
    return np.stack(moments, axis=1)


def _leading(kernels: Array, count: int) -> Array:
    """The `count` leading shapes of kernels (H, n_f, n_f) over H, without the constant mode: (count, n_f, n_f)."""
    n_f = kernels.shape[1]
    _, _, shapes = np.linalg.svd(kernels[:, 1:, 1:].reshape(len(kernels), -1), full_matrices=False)
    leading = np.zeros((count, n_f, n_f))
    leading[:, 1:, 1:] = shapes[:count].reshape(count, n_f - 1, n_f - 1)
    return leading


def _collect(laws: list[Law], t: Array, modes: Modes) -> dict[str, Array]:
    """The laws with trajectories projected on the modes; drives first."""
    products, inside = inner(t), slice(1, 1 + _MODES)
    project = modes.phi[inside] @ products
    names = ("moments", "response", "second", "reaction", "covariance", "quantiles")
    found = {name: np.array([getattr(law, name) for law in laws]) for name in names}
    for name in ("mean", "mean_response", "mean_second", "mean_reaction"):
        found[name] = np.array([project @ getattr(law, name) for law in laws])
    found["kernel"] = np.array([modes.phi @ products @ law.mean_response for law in laws])
    left = np.array([law.mean for law in laws]) - found["mean"] @ modes.phi[inside]
    found["missed"] = np.einsum("ht,ts,hs->h", left, products, left) / t[-1]
    return found


def _assemble(found: dict[str, Array], modes: Modes, scale: Array, h: Array, t: Array) -> Tables:
    """The combinations that the coupled solution reads."""
    slope, mean_slope = found["response"][..., 0], found["mean_response"][..., 0]
    mean_modes = slice(1, 1 + _MODES)
    response, mean_response = found["response"][..., mean_modes], found["mean_response"][..., mean_modes]
    shift = response[:, 0] / slope[:, :1]
    n = len(_PAIRS)

    return Tables(
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
        shape=_shapes(found["quantiles"], found["moments"]),
        missed=np.sqrt(found["missed"]),
    )
