"""Inputs for a machine: every kind of file gives the same numbers, and what does not fit is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support.digits_by_hand import DIGITS
from support.idx_files import images
from thermoment.data.columns import Columns
from thermoment.data.drawing import draw, fit
from thermoment.data.inputs import Inputs, read

PIXELS = np.array([[0, 51, 102], [153, 204, 255], [0, 255, 0]], np.uint8)
WANTED = (PIXELS.reshape(1, 9) / 255).astype(np.float32)


def taken(path: Path, **options: Any) -> Inputs:
    return read(path, 9, 3, **{"fitted": False, **options})


def test_every_kind_of_file_gives_the_same_pixels(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "image.png")
    Image.fromarray(PIXELS).convert("RGB").save(tmp_path / "colour.bmp")
    (tmp_path / "images.idx").write_bytes(images(*PIXELS.ravel().tolist(), rows=3, columns=3))
    np.savez(tmp_path / "images.npz", x=PIXELS[np.newaxis])
    np.savez(tmp_path / "set.npz", x_test=WANTED, y_test=np.array([2]))
    names = [f"p{k}" for k in range(9)]
    cells = [f"{value:.9f}" for value in WANTED[0]]
    (tmp_path / "rows.csv").write_text(",".join(["what", *names]) + "\n" + ",".join(["1", *cells]) + "\n")
    for name in ("image.png", "colour.bmp", "images.idx", "images.npz", "set.npz"):
        found = taken(tmp_path / name)
        np.testing.assert_allclose(found.x, WANTED, atol=1e-7, err_msg=name)
        assert (found.y is None) == (name != "set.npz")
    rows = taken(tmp_path / "rows.csv", label="what")
    np.testing.assert_allclose(rows.x, WANTED, atol=1e-7)
    assert rows.y is not None
    assert rows.y.tolist() == [1]


def test_a_table_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    columns = Columns("kind", ("cat", "dog"), ("b", "a"), (0.0, 10.0), (2.0, 20.0), "range")
    path = tmp_path / "rows.csv"
    path.write_text("a,extra,b\n15,9,0.5\n99,9,2\n")
    found = read(path, 2, 2, columns=columns, fitted=False)
    np.testing.assert_array_equal(found.x, [[0.25, 0.5], [1.0, 1.0]])
    assert found.y is None
    path.write_text("a,kind,b\n15,dog,0.5\n")
    labels = read(path, 2, 2, columns=columns, fitted=False).y
    assert labels is not None
    assert labels.tolist() == [1]
    path.write_text("a,kind,b\n15,cow,0.5\n")
    with pytest.raises(ValueError, match="'kind' must be one of cat, dog, but is 'cow' in row 1"):
        read(path, 2, 2, columns=columns, fitted=False)
    path.write_text("a,kind\n15,dog\n")
    with pytest.raises(ValueError, match="must have a column 'b'"):
        read(path, 2, 2, columns=columns, fitted=False)
    Image.fromarray(PIXELS).save(tmp_path / "image.png")
    with pytest.raises(ValueError, match="needs a CSV file with b, a"):
        read(tmp_path / "image.png", 2, 2, columns=columns, fitted=False)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    Image.fromarray(PIXELS[:2]).save(tmp_path / "image.png")
    (tmp_path / "words.txt").write_text("hello")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:2000])
    np.savez(tmp_path / "none.npz", z=WANTED)
    np.savez(tmp_path / "range.npz", x=2 * WANTED)
    np.savez(tmp_path / "label.npz", x=WANTED, y=np.array([3]))
    (tmp_path / "few.csv").write_text("a,b\n1,2\n")
    for name, message in {
        "image.png": "must be of 3 x 3 pixels, as the machine takes, but is of 2 x 3",
        "words.txt": "must be an image, an .npz file, an IDX file or a CSV file",
        "cut.png": "cannot be read as an image",
        "none.npz": "must hold the array x or x_test, but holds neither",
        "range.npz": r"must lie in \[0, 1\], but row 1 has others",
        "label.npz": "class numbers from 0 to 2",
        "few.csv": "must have 9 columns of inputs, as the machine takes, but has 2",
        "absent.png": "is not a file",
    }.items():
        with pytest.raises(ValueError, match=message) as told:
            taken(tmp_path / name)
        assert str(told.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize("digit", range(10))
def test_a_photograph_is_fitted_as_strokes_are(digit: int) -> None:
    """Drawn large, off the centre, dark on light and noisy, the digit comes back almost as its strokes give it."""
    drawn = draw(DIGITS[digit])
    photograph = np.full((300, 260), 0.9)
    photograph[20:216, 50:246] -= 0.7 * np.asarray(drawn).repeat(7, axis=0).repeat(7, axis=1)
    photograph += np.random.default_rng(digit).uniform(-0.05, 0.05, photograph.shape)
    found = fit(photograph)
    assert np.corrcoef(found.ravel(), drawn.ravel())[0, 1] > 0.8
    axis = np.arange(28) - 13.5
    assert abs(found.sum(axis=0) @ axis / found.sum()) <= 0.51
    assert abs(found.sum(axis=1) @ axis / found.sum()) <= 0.51
    with pytest.raises(ValueError, match="all of one shade"):
        fit(np.full((30, 30), 0.5))
