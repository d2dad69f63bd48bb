"""Functions of a node's well, on arrays: potential, force, stationary point, and how far thermal motion reaches.

    U(x; h) = J2 x^2 + J3 x^3 + J4 x^4 - h x            F = -dU/dx

A well with J3 is one without, moved: with x = s + y and s = -J3 / (4 J4),

    U(x; h) = J2' y^2 + J4 y^4 - h' y + constant        J2' = J2 - 3 J3^2 / (8 J4)        h' = F(s; h)

So what is known of the well that is even in x holds for any other. `well` is anything with J2, J3 and J4: numbers, or
arrays (N,) for as many nodes, along the last axis of x and h.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid

Array = NDArray[np.float64]

# Beyond this many kT above the minimum the Boltzmann weight, exp(-40) = 4e-18, is below float64 rounding.
TAIL_KT = 40.0
# Points per thermal width sqrt(kT / U''). The trapezoid rule on a Gaussian of width sigma errs by
# 2 exp(-2 (pi sigma / step)^2), far below rounding at three points per width.
_POINTS_PER_WIDTH = 3.0
# Points of a quadrature over one node, at most: a colder node is narrower than float64 can resolve beside its well.
_MOST_POINTS = 10**7
# A J2' that is smaller than this, beside the terms it is the difference of, is rounding.
_ROUNDING = 1e-14
# Newton steps after the closed form of a well with J3, in which s and y may cancel.
_POLISHING = 3


class Well(NamedTuple):
    """The coefficients of a well."""

    J2: Any
    J3: Any
    J4: Any


class Centred(NamedTuple):
    """A well as one that is even in y = x - s."""

    s: Any
    even: Well
    drive: Any
    """h'"""


def force(x: Any, h: Any, well: Any) -> Any:
    """F = -dU/dx = h - 2 J2 x - 3 J3 x^2 - 4 J4 x^3, on arrays of NumPy or of JAX."""
    if not np.any(well.J3):
        return h - x * (2 * well.J2 + 4 * well.J4 * x * x)
    return h - x * (2 * well.J2 + x * (3 * well.J3 + 4 * well.J4 * x))


def potential(x: Any, h: Any, well: Any) -> Any:
    """U(x; h)."""
    if not np.any(well.J3):
        return x * (x * (well.J2 + well.J4 * x * x) - h)
    return x * (x * (well.J2 + x * (well.J3 + well.J4 * x)) - h)


def curvature(x: Any, well: Any) -> Any:
    """U'' = 2 J2 + 6 J3 x + 12 J4 x^2."""
    if not np.any(well.J3):
        return 2 * well.J2 + 12 * well.J4 * x * x
    return 2 * well.J2 + x * (6 * well.J3 + 12 * well.J4 * x)


def centred(h: Any, well: Any) -> Centred:
    """The same well, even about s, and its drive."""
    J2, J3, J4 = well.J2, well.J3, well.J4
    safe = np.where(J4 == 0, 1.0, J4)  # where J4 = 0, J3 = 0 too
    s, change = -J3 / (4 * safe), 3 * J3 * J3 / (8 * safe)
    lowered: Any = np.where(np.abs(J2 - change) > _ROUNDING * (np.abs(J2) + change), J2 - change, 0.0)
    if np.ndim(lowered) == 0:
        s, lowered = float(s), float(lowered)
    return Centred(s, Well(lowered, 0.0, J4), force(s, h, well))


def stationary_point(h: Any, well: Any, xp: Any = np) -> Any:
    """x*(h), the global minimum of U(x; h), on arrays of `xp`: NumPy, or jax.numpy where it is traced."""
    if not np.any(well.J3):
        return _even_point(h, well, xp)
    s, even, drive = centred(h, well)
    x = s + _even_point(drive, even, xp)
    for _ in range(_POLISHING):
        stiffness = curvature(x, well)
        x = x + xp.where(stiffness > 0, force(x, h, well) / xp.where(stiffness > 0, stiffness, 1.0), 0.0)
    return x


def _even_point(h: Any, well: Any, xp: Any) -> Any:
    J2, J4 = well.J2, well.J4
    if np.ndim(J2) or np.ndim(J4):
        return _even_points(h, J2, J4)
    if J4 == 0:
        return h / (2 * J2)
    if J2 == 0:
        return xp.cbrt(h / (4 * J4))
    # With x = 2 a y the cubic is 4 y^3 + 3 sign(J2) y = r: the triple-angle formula of sinh, cos or cosh.
    a = math.sqrt(abs(J2) / (6 * J4))
    r = xp.abs(h) / (8 * J4 * a**3)
    if J2 > 0:
        y = xp.sinh(xp.arcsinh(r) / 3)
    else:
        y = xp.where(r <= 1, xp.cos(xp.arccos(xp.minimum(r, 1)) / 3), xp.cosh(xp.arccosh(xp.maximum(r, 1)) / 3))
    return xp.where(h < 0, -1.0, 1.0) * 2 * a * y


def _even_points(h: Any, J2: Any, J4: Any) -> Array:
    """The stationary point where the nodes' wells differ: each kind of well by its own formula."""
    h, J2, J4 = np.broadcast_arrays(np.asarray(h, np.float64), J2, J4)
    found = np.empty(h.shape)
    kinds = (J4 == 0, (J4 > 0) & (J2 == 0), (J4 > 0) & (J2 > 0), (J4 > 0) & (J2 < 0))
    linear, quartic, single, double = kinds
    found[linear] = h[linear] / (2 * J2[linear])
    found[quartic] = np.cbrt(h[quartic] / (4 * J4[quartic]))
    for kind in (single, double):
        a = np.sqrt(np.abs(J2[kind]) / (6 * J4[kind]))
        r = np.abs(h[kind]) / (8 * J4[kind] * a**3)
        if kind is single:
            y = np.sinh(np.arcsinh(r) / 3)
        else:
            y = np.where(r <= 1, np.cos(np.arccos(np.minimum(r, 1)) / 3), np.cosh(np.arccosh(np.maximum(r, 1)) / 3))
        found[kind] = np.where(h[kind] < 0, -1.0, 1.0) * 2 * a * y
    return found


def reach(h: Array, well: Any, kT: float) -> tuple[Array, Array]:
    """Per drive (H,), an interval outside which U is more than `TAIL_KT` kT above its minimum. For one node's well."""
    if well.J3:
        s, even, drive = centred(h, well)
        low, high = reach(drive, even, kT)
        return low + s, high + s
    with np.errstate(over="ignore", invalid="ignore"):
        return _even_reach(h, well, kT)


def _even_reach(h: Array, well: Any, kT: float) -> tuple[Array, Array]:
    lowest = stationary_point(h, well)
    ceiling = potential(lowest, h, well) + TAIL_KT * kT
    outer = 2 * np.abs(lowest) + np.sqrt(kT) + 1
    for sign in (-1.0, 1.0):
        while np.any(potential(sign * outer, h, well) < ceiling):
            outer = outer * 2
    # Outside the wells U is monotonic, so bisection finds the outermost crossing.
    other_well = np.sqrt(-well.J2 / (2 * well.J4)) if well.J2 < 0 else None
    ends = []
    for sign in (-1.0, 1.0):
        inside = lowest
        if other_well is not None:
            inside = np.where(sign * lowest > 0, lowest, sign * other_well)
        outside = sign * outer
        for _ in range(40):
            middle = (inside + outside) / 2
            beyond = potential(middle, h, well) > ceiling
            outside = np.where(beyond, middle, outside)
            inside = np.where(beyond, inside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def quadrature_points(h: Array, well: Any, kT: float) -> int:
    """How many points resolve the narrowest thermal width over the widest interval of these drives."""
    with np.errstate(over="ignore", invalid="ignore"):  # then there are infinitely many
        low, high = reach(h, well, kT)
        steepest = np.maximum(curvature(low, well), curvature(high, well))
        widths = (high - low) / np.sqrt(kT / np.maximum(steepest, 1e-300))
    points = float(np.ceil(_POINTS_PER_WIDTH * widths.max())) + 2
    if not points <= _MOST_POINTS:
        raise invalid("kT", "be zero, or large enough to be resolved beside the well and the drive", kT)
    return int(points)


def boltzmann_quadrature(h: Array, well: Any, kT: float, points: int) -> tuple[Array, Array, Array]:
    """Grid (H, Q), weights exp(-(U - Umin)/kT) (H, Q) and their sums (H,) on an even grid per drive."""
    low, high = reach(h, well, kT)
    grid = np.linspace(low, high, points, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        minimum = potential(stationary_point(h, well), h, well)
        weight = np.exp(-(potential(grid, h[:, None], well) - minimum[:, None]) / kT)
    return grid, weight, weight.sum(axis=1)


def stiffest(h: float, norm: float, well: Any) -> Any:
    """The largest U'' that a node meets under drives up to |h| and a coupling of norm |W|, from x = 0 on.

    The coupling can push the node to where the stationary point of a well is whose J2 is lowered by |W| / 2.
    """
    if not np.any(well.J3):
        x = stationary_point(abs(h), Well(well.J2 - norm / 2, 0.0, np.where(well.J4 == 0, 1.0, well.J4)))
        return curvature(x, well)
    softened = Well(well.J2 - norm / 2, well.J3, well.J4)
    s, even, up = centred(abs(h), softened)
    _, _, down = centred(-abs(h), softened)
    y = stationary_point(np.maximum(np.abs(up), np.abs(down)), even)
    return curvature(s + y, well)  # as stiff as at s - y, and x = 0, where y = -s, is not stiffer
