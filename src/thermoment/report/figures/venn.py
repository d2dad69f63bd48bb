"""Circles for two or three sets: areas and pairwise overlaps to scale, and where in each region a label has most room.

Circles cannot in general also match the overlap of all three. So every region carries its count, and only the areas of
the circles and of their pairwise overlaps are to scale.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from scipy.optimize import brentq

Array = NDArray[np.float64]
Members = frozenset[int]
"""Which of the sets a region lies in."""

_PIXELS = 400
_GAP, _STEP, _TURNS = 0.4, 0.05, 64
"""Radians between labels around the circles, by which they are turned, and how often at most."""


@dataclass(frozen=True, eq=False)
class Circles:
    """Circle k has area equal to the size of set k."""

    centres: Array
    """(n, 2), around the origin; the first above, the third below"""
    radii: Array
    """(n,)"""

    @property
    def reach(self) -> float:
        """The radius around the origin that holds all circles."""
        return float((np.linalg.norm(self.centres, axis=1) + self.radii).max())


@dataclass(frozen=True)
class Spot:
    """The point of a region that is furthest from its edge, and how far that is."""

    x: float
    y: float
    room: float


def circles(regions: Mapping[Members, int], n_sets: int) -> Circles:
    """Circles for two or three sets, from the number of elements in exactly each set of them."""
    sizes = [sum(count for members, count in regions.items() if k in members) for k in range(n_sets)]
    radii = np.sqrt(np.array(sizes, np.float64) / math.pi)

    def apart(a: int, b: int) -> float:
        overlap = sum(count for members, count in regions.items() if {a, b} <= members)
        return distance(float(radii[a]), float(radii[b]), overlap)

    centres = np.zeros((n_sets, 2))
    centres[1, 0] = apart(0, 1)
    if n_sets == 3:
        # Two sides and the base fix the third corner; sides too short to meet are laid along the base.
        base, to_first, to_second = centres[1, 0], apart(0, 2), apart(1, 2)
        along = (base**2 + to_first**2 - to_second**2) / (2 * base) if base else 0.0
        along = float(np.clip(along, -to_first, to_first))
        centres[2] = along, -math.sqrt(max(to_first**2 - along**2, 0.0))
    low, high = (centres - radii[:, None]).min(axis=0), (centres + radii[:, None]).max(axis=0)
    return Circles(centres - (low + high) / 2, radii)


def distance(r: float, s: float, overlap: float) -> float:
    """How far apart circles of radii r and s have the given area in common."""
    smaller = math.pi * min(r, s) ** 2
    if overlap <= 1e-9 * smaller:
        return r + s
    if overlap >= (1 - 1e-9) * smaller:
        return abs(r - s)
    return float(brentq(lambda d: lens(r, s, d) - overlap, abs(r - s), r + s))


def lens(r: float, s: float, d: float) -> float:
    """The area that circles of radii r and s have in common at distance d."""
    if d >= r + s:
        return 0.0
    if d <= abs(r - s):
        return math.pi * min(r, s) ** 2
    along = (d * d + r * r - s * s) / (2 * d)
    height = math.sqrt(max(r * r - along * along, 0.0))
    sector_r = r * r * math.atan2(height, along)
    sector_s = s * s * math.atan2(height, d - along)
    return sector_r + sector_s - d * height


def spots(drawn: Circles) -> dict[Members, Spot]:
    """Where to label each region that is there to see."""
    reach = drawn.reach * 1.02
    axis = np.linspace(-reach, reach, _PIXELS)
    x, y = np.meshgrid(axis, axis)
    inside = [(x - cx) ** 2 + (y - cy) ** 2 < r * r for (cx, cy), r in zip(drawn.centres, drawn.radii, strict=True)]
    found = {}
    for flags in product((False, True), repeat=len(inside)):
        region = np.all([mask == flag for mask, flag in zip(inside, flags, strict=True)], axis=0)
        if any(flags) and region.any():
            depth = distance_transform_edt(region)
            k = int(np.argmax(depth))
            room = float(depth.flat[k]) * (axis[1] - axis[0])
            found[frozenset(np.flatnonzero(flags).tolist())] = Spot(float(x.flat[k]), float(y.flat[k]), room)
    return found


def around(drawn: Circles, points: Sequence[tuple[float, float]], fallback: Sequence[float]) -> list[Array]:
    """Places for labels around all circles, each in the direction of its point, turned until none are in the way.

    `fallback` are the angles in degrees for points at the origin, which have no direction. Of two labels that would
    meet, the later one gives way.
    """
    taken: list[float] = []
    for (x, y), angle in zip(points, fallback, strict=True):
        wanted = math.atan2(y, x) if math.hypot(x, y) > 1e-3 * drawn.reach else math.radians(angle)
        turns = (sign * _STEP * k for k in range(_TURNS) for sign in (1, -1))
        free = (wanted + turn for turn in turns if all(_between(wanted + turn, other) > _GAP for other in taken))
        taken.append(next(free, wanted))
    return [_beyond(drawn, np.array([math.cos(angle), math.sin(angle)])) for angle in taken]


def _between(a: float, b: float) -> float:
    """The angle between two directions."""
    return abs(math.remainder(a - b, math.tau))


def _beyond(drawn: Circles, direction: Array) -> Array:
    """The point a little beyond the last circle on the way out from the origin."""
    along = drawn.centres @ direction
    aside = np.linalg.norm(drawn.centres, axis=1) ** 2 - along**2
    hit = aside < drawn.radii**2
    out = along[hit] + np.sqrt(drawn.radii[hit] ** 2 - aside[hit])
    return np.asarray(direction * (float(out.max(initial=0.0)) + 0.08 * drawn.reach))
