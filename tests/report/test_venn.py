"""Circles of error sets: areas to scale, labels in their regions and apart from each other."""

import math

import numpy as np
import pytest

from thermoment.report.figures import venn


class TestVenn:
    COUNTS = (
        {frozenset({0}): 87, frozenset({1}): 57, frozenset({0, 1}): 300},
        {
            frozenset({0}): 87,
            frozenset({1}): 57,
            frozenset({2}): 88,
            frozenset({0, 1}): 51,
            frozenset({0, 2}): 65,
            frozenset({1, 2}): 48,
            frozenset({0, 1, 2}): 240,
        },
        {frozenset({0}): 10, frozenset({1}): 20, frozenset({2}): 30},
    )

    @pytest.mark.parametrize("counts", COUNTS)
    def test_areas_are_sizes_and_overlaps(self, counts: dict[venn.Members, int]) -> None:
        """Measured by counting the pixels of a fine raster: good to 1 per cent of the largest set."""
        n = max(max(members) for members in counts) + 1
        drawn = venn.circles(counts, n)
        axis = np.linspace(-drawn.reach, drawn.reach, 1500)
        x, y = np.meshgrid(axis, axis)
        inside = [(x - cx) ** 2 + (y - cy) ** 2 < r * r for (cx, cy), r in zip(drawn.centres, drawn.radii, strict=True)]
        pixel = (axis[1] - axis[0]) ** 2
        for a in range(n):
            for b in range(a + 1):
                expected = sum(count for members, count in counts.items() if {a, b} <= members)
                assert (inside[a] & inside[b]).sum() * pixel == pytest.approx(expected, abs=4)

    def test_spots_lie_in_their_regions(self) -> None:
        drawn = venn.circles(self.COUNTS[1], 3)
        found = venn.spots(drawn)
        assert found.keys() == self.COUNTS[1].keys()
        for members, spot in found.items():
            away = np.hypot(spot.x - drawn.centres[:, 0], spot.y - drawn.centres[:, 1]) - drawn.radii
            assert {k for k in range(3) if away[k] < 0} == set(members)
            assert np.abs(away).min() == pytest.approx(spot.room, abs=0.02 * drawn.reach)

    @pytest.mark.parametrize(("r", "s"), [(1.0, 1.0), (2.0, 0.5)])
    def test_lens(self, r: float, s: float) -> None:
        """Ends in closed form, and its derivative: minus the length of the chord the circles share."""
        assert venn.lens(r, s, r + s) == 0
        assert venn.lens(r, s, abs(r - s)) == pytest.approx(math.pi * min(r, s) ** 2)
        d, step = (abs(r - s) + r + s) / 2, 1e-6
        along = (d * d + r * r - s * s) / (2 * d)
        slope = (venn.lens(r, s, d + step) - venn.lens(r, s, d - step)) / (2 * step)
        assert slope == pytest.approx(-2 * math.sqrt(r * r - along * along), rel=1e-6)

    def test_distance_inverts_lens(self) -> None:
        assert venn.lens(2.0, 1.5, venn.distance(2.0, 1.5, 1.0)) == pytest.approx(1.0)
        assert venn.distance(2.0, 1.5, 0.0) == 3.5
        assert venn.distance(2.0, 1.5, math.pi * 1.5**2) == 0.5

    def test_labels_around_keep_apart_and_outside(self) -> None:
        drawn = venn.circles(self.COUNTS[1], 3)
        places = venn.around(drawn, [(1.0, 0.0)] * 4 + [(0.0, 0.0)], [0, 0, 0, 0, 90])
        angles = [math.atan2(y, x) for x, y in places]
        assert angles[0] == 0
        gaps = [abs(math.remainder(a - b, math.tau)) for i, a in enumerate(angles) for b in angles[:i]]
        assert min(gaps) > 0.39
        for place in places:
            assert (np.linalg.norm(place - drawn.centres, axis=1) > drawn.radii).all()
