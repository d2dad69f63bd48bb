"""Drawings as images: fitted into 20 x 20, their mass in the centre, whatever the canvas."""

from typing import Any

import numpy as np
import pytest

from support.digits_by_hand import DIGITS
from thermoment.data.drawing import draw


def box(image: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[int, int]:
    """Height and width of the ink."""
    rows, columns = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
    return int(rows[-1] - rows[0]) + 1, int(columns[-1] - columns[0]) + 1


@pytest.mark.parametrize("digit", DIGITS)
def test_fitted_into_its_box_with_its_mass_in_the_centre(digit: int) -> None:
    image = draw(DIGITS[digit])
    assert image.shape == (28, 28)
    assert image.min() >= 0
    assert image.max() == 1
    assert max(box(image)) in (20, 21)  # 20, which may lie across 21 pixels
    axis = np.arange(28) - 13.5
    centre = np.array([(image @ axis).sum(), (image.T @ axis).sum()]) / image.sum()
    assert np.abs(centre).max() < 0.1


def test_place_and_size_on_the_canvas_do_not_matter() -> None:
    small = [[(0.1 + 0.05 * x, 0.8 + 0.05 * y) for x, y in stroke] for stroke in DIGITS[5]]
    np.testing.assert_allclose(
        draw(small), draw(DIGITS[5]), atol=0.07
    )  # a sample of a pixel may fall to the other side


def test_right_is_right_and_down_is_down() -> None:
    image = draw([[(0.0, 0.0), (0.0, 1.0), (0.6, 1.0)]])  # an L
    dark = image > 0.5
    assert dark[:, :14].sum() > dark[:, 14:].sum()
    assert dark[14:].sum() > dark[:14].sum()


def test_a_dot_is_a_dot() -> None:
    image = draw([[(0.3, 0.3)]])
    assert box(image) in ((4, 4), (3, 3), (2, 2))
    assert image[13:15, 13:15].min() > 0.5


@pytest.mark.parametrize(
    ("strokes", "message"),
    [
        ([], "`strokes` must hold at least one"),
        ([[]], r"`strokes\[0\]` must have shape"),
        ([[(0.0, 1.0, 2.0)]], r"`strokes\[0\]` must have shape"),
        ([[(0.0, float("nan"))]], r"`strokes\[0\]` must be finite"),
        ([np.zeros((100_001, 2))], "at most 100000 points"),
    ],
)
def test_what_is_no_drawing_is_refused(strokes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(strokes)
