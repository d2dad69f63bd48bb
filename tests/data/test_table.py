"""CSV files as data sets: what each row becomes can be said by hand, and what cannot be read is named."""

from pathlib import Path

import numpy as np
import pytest

from thermoment.data import load
from thermoment.data.table import Split, describe

ROWS = [f"{k / 8},{k / 16},{'dog' if k % 2 else 'cat'}" for k in range(8)]


def written(folder: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path = folder / "animals.csv"
    path.write_text("\n".join(lines) + "\n", encoding)
    return path


def animals(folder: Path) -> Path:
    return written(folder, "weight,height,kind", *ROWS)


def test_a_quarter_of_every_class_is_the_test_set_and_every_row_is_used_once(tmp_path: Path) -> None:
    data = load(animals(tmp_path), split=Split("kind", scaling="none"))
    assert (data.name, data.n_train, data.n_test, data.image_shape) == ("animals", 6, 2, (2,))
    assert sorted(data.y_test) == [0, 1]
    rows = np.concatenate([np.c_[data.x_train, data.y_train], np.c_[data.x_test, data.y_test]])
    assert sorted(map(tuple, rows)) == [(k / 8, k / 16, k % 2) for k in range(8)]
    assert data.columns is not None
    assert (data.columns.label, data.columns.classes) == ("kind", ("cat", "dog"))
    assert load(animals(tmp_path), split=Split("kind", scaling="none", seed=3)).sha256 != data.sha256
    assert load(animals(tmp_path), split=Split("kind", scaling="none")).sha256 == data.sha256


def test_scaling_is_found_from_the_training_rows_alone(tmp_path: Path) -> None:
    for seed in range(4):
        as_it_is = load(animals(tmp_path), split=Split("kind", seed=seed, scaling="none"))
        data = load(animals(tmp_path), split=Split("kind", seed=seed, scaling="range"))
        assert data.columns is not None
        low, high = as_it_is.x_train.min(axis=0), as_it_is.x_train.max(axis=0)
        assert (data.columns.low, data.columns.high) == (tuple(low), tuple(high))
        np.testing.assert_allclose(data.x_train, (as_it_is.x_train - low) / (high - low), atol=1e-7)
        np.testing.assert_allclose(data.x_test, ((as_it_is.x_test - low) / (high - low)).clip(0, 1), atol=1e-7)


def test_three_deviations_either_side_of_the_mean(tmp_path: Path) -> None:
    data = load(animals(tmp_path), split=Split("kind", test_share=0.25, scaling="standard"))
    assert data.columns is not None
    centre, reach = data.x_train.mean(axis=0), data.x_train.std(axis=0)
    np.testing.assert_allclose(centre, 0.5, atol=1e-6)
    np.testing.assert_allclose(reach, 1 / 6, atol=1e-6)


def test_columns_left_out_semicolons_quotes_and_a_byte_order_mark(tmp_path: Path) -> None:
    lines = ['name;"my weight";kind', '"Tom; the cat";0.25;" cat"', "Rex;0.5;dog", "Ann;0.75;cat", "Bob;1.0;dog"]
    path = written(tmp_path, *lines, encoding="utf-8-sig")
    data = load(path, split=Split("kind", test_share=0.5, scaling="none", leave_out=("name",)))
    assert data.columns is not None
    assert (data.columns.names, data.columns.classes) == (("my weight",), ("cat", "dog"))
    assert sorted(np.concatenate([data.x_train, data.x_test])[:, 0]) == [0.25, 0.5, 0.75, 1.0]


def test_how_it_was_split_and_scaled_is_said(tmp_path: Path) -> None:
    split = Split("kind", seed=5)
    assert describe(load(animals(tmp_path), split=split), split) == (
        "animals: 6 training and 2 test rows (data.test_share = 0.25, data.split_seed = 5); 2 columns, their smallest "
        "and largest training values become 0 and 1 (data.scaling = \"range\"); 2 classes in column 'kind'."
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["weight,height", "1,2"], "must have a column 'kind', but has 'weight', 'height'"),
        (["kind", "a", "b"], "must have a column beside 'kind'"),
        (["weight,weight,kind", "1,2,a"], "names 'weight' twice"),
        ([""], "names none"),
        (["weight,kind"], "must have rows below its names, but has none"),
        (["weight,kind", "1,a", "heavy,b"], "Column 'weight' must hold numbers, but is 'heavy' in row 2"),
        (["weight,kind", "1,a", ",b"], "Column 'weight' must hold numbers, but is '' in row 2"),
        (["weight,kind", "nan,a", "1,b"], "Column 'weight' must hold numbers, but is 'nan' in row 1"),
        (["weight,height,kind", "1,2,a", "1,b"], "Row 2 must have 3 cells, but has 2|must hold|column"),
        (["weight,kind", "1,a", "2,"], "Column 'kind' must hold a class, but is empty in row 2"),
        (["weight,kind", "1,a", "2,a"], "must hold two classes or more, but holds only 'a'"),
        (["weight,kind", "1,a", "2,b"], "`test_share` must leave a row of some class for the test set of 2 rows"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as told:
        load(written(tmp_path, *lines), split=Split("kind"))
    assert str(told.value).startswith(str(tmp_path / "animals.csv"))


def test_text_of_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be text in UTF-8"):
        load(written(tmp_path, "größe,kind", "1,a", encoding="latin-1"), split=Split("kind"))


def test_without_scaling_numbers_must_fit(tmp_path: Path) -> None:
    path = written(tmp_path, "weight,kind", "0.5,a", "0.2,a", "1.5,b", "0.1,b")
    with pytest.raises(ValueError, match=r"column 'weight' must lie in \[0, 1\], but is 1.5 in row 3"):
        load(path, split=Split("kind", test_share=0.5, scaling="none"))


def test_a_label_is_for_csv_files_and_must_be_there_for_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"set `data\.label`"):
        load(animals(tmp_path))
    with pytest.raises(ValueError, match="is no CSV file"):
        load("digits", split=Split("kind"))
    for wrong in ({"test_share": 1.0}, {"scaling": "max"}, {"leave_out": ("kind",)}, {"seed": -1}):
        with pytest.raises(ValueError, match=r"`(test_share|scaling|leave_out|split_seed)` must"):
            Split("kind", **wrong)
