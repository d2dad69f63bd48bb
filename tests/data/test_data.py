"""Data sets: what is loaded is exactly what was there, and everything else is refused."""

import hashlib
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.idx_files import TINY, images, labels, write
from thermoment.data import idx, load
from thermoment.data.dataset import Dataset

RNG = np.random.default_rng(0)
SMALL = Dataset(
    "small",
    RNG.uniform(0.1, 0.9, (4, 6)).astype(np.float32),
    np.array([0, 2, 1, 2]),
    RNG.uniform(0.1, 0.9, (3, 6)).astype(np.float32),
    np.array([1, 1, 0]),
    (2, 3),
)


def changed(array: NDArray[Any], index: tuple[int, ...], value: object) -> NDArray[Any]:
    copy = array.copy()
    copy[index] = value
    return copy


def but(**change: Any) -> Dataset:
    """SMALL with something else in some places."""
    return replace(SMALL, **change)


class TestDataset:
    def test_counts(self) -> None:
        assert (SMALL.n_train, SMALL.n_test, SMALL.n_inputs, SMALL.n_classes) == (4, 3, 6, 3)

    def test_types(self) -> None:
        loose = Dataset("loose", [[0.5]], [1], np.array([[1.0]], np.float16), np.array([0], np.uint8), [1])  # type: ignore
        assert {loose.x_train.dtype, loose.x_test.dtype} == {np.dtype(np.float32)}
        assert {loose.y_train.dtype, loose.y_test.dtype} == {np.dtype(np.int64)}
        assert loose.image_shape == (1,)

    def test_arrays_are_own_and_read_only(self) -> None:
        x, y = np.full((1, 1), 0.5, np.float32), np.array([0])
        dataset = Dataset("d", x, y, x, y, (1,))
        x[0, 0], y[0] = 1.0, 1
        assert (dataset.x_train[0, 0], dataset.y_test[0]) == (0.5, 0)
        for array in (dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1

    def test_the_first_few(self) -> None:
        few = SMALL.first(3, 1)
        assert (few.n_train, few.n_test, few.name, few.image_shape) == (3, 1, "small", (2, 3))
        assert np.array_equal(few.x_train, SMALL.x_train[:3])
        assert np.array_equal(few.y_train, SMALL.y_train[:3])
        assert np.array_equal(few.x_test, SMALL.x_test[:1])
        assert np.array_equal(few.y_test, SMALL.y_test[:1])
        assert np.shares_memory(few.x_train, SMALL.x_train)
        assert SMALL.first(None, 2).n_train == 4
        assert SMALL.first(2, None).n_test == 3
        assert SMALL.first(None, None).sha256 == SMALL.sha256

    @pytest.mark.parametrize(("n_train", "n_test"), [(0, 1), (5, 1), (1, 0), (1, 4), (-1, 1), (1.5, 1), (True, 1)])
    def test_the_first_few_are_as_many_as_there_are(self, n_train: Any, n_test: Any) -> None:
        with pytest.raises(ValueError, match=r"Argument `n_(train|test)` must be an integer"):
            SMALL.first(n_train, n_test)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"x_train": changed(SMALL.x_train, (1, 2), np.nan)},
                r"`x_train` must lie in \[0, 1\].* nan at .*\(1, 2\)",
            ),
            ({"x_test": changed(SMALL.x_test, (2, 0), 1.5)}, r"`x_test` must lie in \[0, 1\].* 1.5 at index \(2, 0\)"),
            ({"x_test": changed(SMALL.x_test, (0, 5), -1e-9)}, r"`x_test` must lie in \[0, 1\]"),
            ({"x_train": changed(SMALL.x_train, (3, 5), np.inf)}, r"`x_train` must lie in \[0, 1\].* inf"),
            ({"x_train": np.ones((4, 6), int)}, r"`x_train` must be floats in \[0, 1\], but was of type int64"),
            ({"x_train": SMALL.x_train.astype(complex)}, "`x_train` must be a real array"),
            ({"x_train": SMALL.x_train[:, :5]}, r"`x_train` must have shape \(S, 6\), but has shape \(4, 5\)"),
            ({"x_test": SMALL.x_test[:, :5]}, r"`x_test` must have shape \(S, 6\), but has shape \(3, 5\)"),
            ({"x_test": SMALL.x_test.reshape(3, 2, 3)}, r"`x_test` must have shape \(S, 6\)"),
            ({"x_train": SMALL.x_train[:0]}, r"`x_train` must have shape \(S, 6\), but has shape \(0, 6\)"),
            ({"y_train": SMALL.y_train[:3]}, r"`y_train` must have shape \(4,\), but has shape \(3,\)"),
            ({"y_test": SMALL.y_test[:, None]}, r"`y_test` must have shape \(3,\), but has shape \(3, 1\)"),
            ({"y_test": np.array([1.0, 1.0, 0.0])}, "`y_test` must be integers, but was of type float64"),
            ({"y_test": np.array([True, True, False])}, "`y_test` must be integers, but was of type bool"),
            ({"y_test": np.array([1, -1, 0])}, "`y_test` must be labels from 0 to 65535, but was -1 at index 1"),
            ({"y_train": np.array([0, 2, 1, 65536])}, "`y_train` must be labels from 0 .* 65536 at index 3"),
            ({"y_train": np.array([0, 2, 1, 2**64 - 1], np.uint64)}, "`y_train` must be labels from 0 to 65535"),
            ({"image_shape": (2, 4)}, r"`x_train` must have shape \(S, 8\)"),
            ({"image_shape": (6, 0)}, "`image_shape` must be an integer from 1"),
        ],
    )
    def test_errors(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"Argument {message}"):
            but(**change)


class TestSha256:
    def test_by_hand(self) -> None:
        dataset = Dataset("d", [[0.5, 1.0]], [3], [[0.0, 0.25]], [1], (2,))  # type: ignore[arg-type]
        text = b"x_train <f4 (1, 2)\n" + bytes.fromhex("0000003f 0000803f")
        text += b"y_train <i8 (1,)\n" + bytes.fromhex("0300000000000000")
        text += b"x_test <f4 (1, 2)\n" + bytes.fromhex("00000000 0000803e")
        text += b"y_test <i8 (1,)\n" + bytes.fromhex("0100000000000000")
        assert dataset.sha256 == hashlib.sha256(text).hexdigest()

    def test_of_the_same_data_is_the_same(self) -> None:
        assert but(name="renamed", x_train=np.asfortranarray(SMALL.x_train)).sha256 == SMALL.sha256

    def test_every_bit_of_every_pixel_counts(self) -> None:
        seen = {SMALL.sha256}
        flips = 0
        for name in ("x_train", "x_test"):
            bits = getattr(SMALL, name).view(np.uint32)
            for index in np.ndindex(bits.shape):
                for bit in range(23):  # of the mantissa: the pixel stays below 1
                    flipped = changed(bits, index, bits[index] ^ (1 << bit)).view(np.float32)
                    seen.add(but(**{name: flipped}).sha256)
                    flips += 1
        assert len(seen) == 1 + flips

    def test_every_label_counts(self) -> None:
        seen = {SMALL.sha256}
        for name in ("y_train", "y_test"):
            y = getattr(SMALL, name)
            seen |= {but(**{name: changed(y, (k,), y[k] + 1)}).sha256 for k in range(len(y))}
        assert len(seen) == 1 + 7

    def test_shapes_and_places_count(self) -> None:
        """The same bytes cut into other rows, and the two halves exchanged."""
        x, y = np.full((6, 2), 0.5, np.float32), np.zeros(6, int)
        cut = [
            Dataset("d", x[:4], y[:4], x[:2], y[:2], (2,)),
            Dataset("d", x[:2], y[:2], x[:4], y[:4], (2,)),
            Dataset("d", x[:4].reshape(2, 4), y[:2], x[:2].reshape(1, 4), y[:1], (4,)),
            Dataset("d", x[:4].reshape(8, 1), y[:4].repeat(2), x[:2].reshape(4, 1), y[:4], (1,)),
        ]
        assert len({dataset.sha256 for dataset in cut}) == 4

    def test_order_counts(self) -> None:
        assert but(x_train=SMALL.x_train[::-1], y_train=SMALL.y_train[::-1]).sha256 != SMALL.sha256


class TestDigits:
    def test_first_1297_and_last_500_of_scikit_learn(self) -> None:
        from sklearn.datasets import load_digits

        digits, theirs = load("digits"), load_digits()
        assert (digits.name, digits.n_train, digits.n_test, digits.n_classes) == ("digits", 1297, 500, 10)
        assert digits.image_shape == (8, 8)
        assert np.array_equal(digits.x_train * 16, theirs.images[:1297].reshape(1297, 64))
        assert np.array_equal(digits.x_test * 16, theirs.images[-500:].reshape(500, 64))
        assert np.array_equal(digits.y_train, theirs.target[:1297])
        assert np.array_equal(digits.y_test, theirs.target[-500:])

    def test_no_folder_is_looked_at(self, tmp_path: Path) -> None:
        assert load("digits", tmp_path / "nowhere").n_train == 1297


class TestFolder:
    @pytest.mark.parametrize("gzipped", [False, True])
    def test_exactly_what_the_bytes_say(self, tmp_path: Path, gzipped: bool) -> None:
        dataset = load(write(tmp_path / "tiny", TINY, gzipped=gzipped))
        assert (dataset.name, dataset.image_shape) == ("tiny", (2, 2))
        expected = np.array([[0, 51, 102, 153], [204, 255, 0, 0], [1, 2, 3, 4]]) / 255
        assert np.array_equal(dataset.x_train, expected.astype(np.float32))
        assert dataset.x_test.tolist()[0] == [1, 0, 0, 1]
        assert (dataset.y_train.tolist(), dataset.y_test.tolist()) == ([2, 0, 1], [1, 0])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"train-labels-idx1-ubyte": labels(2, 0)}, r"`y_train` must have shape \(3,\), but has shape \(2,\)"),
            ({"t10k-labels-idx1-ubyte": labels(1, 0, 1)}, r"`y_test` must have shape \(2,\), but has shape \(3,\)"),
            ({"t10k-images-idx3-ubyte": images(*range(8), rows=1, columns=4)}, r"`x_test` must have shape \(S, 2, 2\)"),
            ({"t10k-labels-idx1-ubyte": labels(1, 3)}, "`y_test` must have labels up to 2, .* but was 3"),
            ({"t10k-labels-idx1-ubyte": labels()}, "t10k-labels-idx1-ubyte must hold at least one element"),
            ({"t10k-labels-idx1-ubyte": images(1, 0, 0, 0)}, "t10k-labels-idx1-ubyte must begin with 00 00 08 01"),
            ({"train-images-idx3-ubyte": TINY["train-images-idx3-ubyte"][:-1]}, "train-images-idx3-ubyte must hold 12"),
        ],
    )
    def test_errors_name_the_folder(self, tmp_path: Path, change: dict[str, bytes], message: str) -> None:
        folder = write(tmp_path / "tiny", TINY | change)
        with pytest.raises(ValueError, match=f"^{folder}: .*{message}"):
            load(folder)

    def test_missing_files_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=f"^{tmp_path}: .* but lacks train-images-idx3-ubyte, train-labels"):
            load(tmp_path)


Arrays = dict[str, NDArray[Any]]


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Writes SMALL as an .npz file, with some of its arrays replaced or, by None, left out."""

    def write_npz(**change: Any) -> Path:
        arrays = {name: getattr(SMALL, name) for name in ("x_train", "y_train", "x_test", "y_test")} | change
        path = tmp_path / "own.npz"
        with open(path, "wb") as file:
            np.savez_compressed(file, **{name: array for name, array in arrays.items() if array is not None})
        return path

    return write_npz


class TestNpz:
    def test_floats_stay_as_they_are(self, save: Callable[..., Path]) -> None:
        dataset = load(save())
        assert (dataset.name, dataset.image_shape) == ("own", (6,))
        assert dataset.sha256 == SMALL.sha256

    @pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, ">u4"])
    def test_integers_are_grey_levels(self, save: Callable[..., Path], dtype: Any) -> None:
        levels = np.arange(256).astype(dtype).reshape(8, 4, 8)
        dataset = load(save(x_train=levels, y_train=np.arange(8), x_test=levels[4:], y_test=np.arange(4)))
        assert dataset.image_shape == (4, 8)
        assert np.array_equal(dataset.x_train.ravel(), np.arange(256, dtype=np.float32) / np.float32(255))

    def test_booleans_are_0_and_1(self, save: Callable[..., Path]) -> None:
        dataset = load(save(x_train=SMALL.x_train > 0.5, x_test=SMALL.x_test > 0.5))
        assert np.array_equal(dataset.x_train, SMALL.x_train > 0.5)

    def test_colours_are_one_more_dimension(self, save: Callable[..., Path]) -> None:
        x = np.linspace(0, 1, 48).reshape(4, 2, 2, 3)
        dataset = load(save(x_train=x, x_test=x[:3]))
        assert (dataset.image_shape, dataset.n_inputs) == ((2, 2, 3), 12)

    def test_more_arrays_do_no_harm(self, save: Callable[..., Path]) -> None:
        assert load(save(notes=np.array("by hand"))).sha256 == SMALL.sha256

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"x_train": SMALL.x_train.astype(object)}, "Object arrays cannot be loaded when allow_pickle=False"),
            ({"y_test": np.array([1, None, 0])}, "Object arrays cannot be loaded when allow_pickle=False"),
            ({"y_test": None}, "It must hold x_train, y_train, x_test, y_test, but holds x_train, y_train, x_test"),
            ({"x_train": changed(SMALL.x_train, (0, 0), np.nan)}, r"`x_train` must lie in \[0, 1\], but was nan"),
            ({"x_train": SMALL.x_train * 255}, r"`x_train` must lie in \[0, 1\]"),
            ({"x_train": np.full((4, 6), 256)}, "`x_train` must be grey levels .* integers from 256 to 256"),
            (
                {"x_test": np.array([[-1, 200, 0]] * 3).repeat(2, axis=1)},
                "`x_test` must be grey levels .* from -1 to 200",
            ),
            ({"x_train": np.full((4, 6), 16)}, r"some above 127, or else floats in \[0, 1\], but was .* from 16 to 16"),
            ({"x_train": np.full((4, 6), "a")}, "`x_train` must be a real array"),
            ({"x_train": np.ones(4)}, r"`x_train` must have shape \(S, D\) or \(S, ...\), but has shape \(4,\)"),
            ({"x_train": np.array(0.5)}, r"`x_train` must have shape .* but has shape \(\)"),
            ({"x_test": np.array(0.5)}, r"`x_test` must have shape \(S, 6\), but has shape \(\)"),
            ({"x_train": np.ones((0, 6))}, r"`x_train` must have shape .* but has shape \(0, 6\)"),
            ({"x_test": np.ones((0, 6), int)}, r"`x_test` must have shape .* but has shape \(0, 6\)"),
            ({"x_test": np.ones((3, 3, 2))}, r"`x_test` must have shape \(S, 6\), but has shape \(3, 3, 2\)"),
            ({"y_train": np.array([0, 1, 2])}, r"`y_train` must have shape \(4,\)"),
            ({"y_train": np.array([0, 1, 2, -2])}, "`y_train` must be labels from 0"),
            ({"y_test": np.array([0, 1, 3])}, "`y_test` must have labels up to 2, the largest of y_train, but was 3"),
        ],
    )
    def test_errors_name_the_file(self, save: Callable[..., Path], change: Arrays, message: str) -> None:
        path = save(**change)
        with pytest.raises(ValueError, match=f"^{path}: .*{message}"):
            load(path)

    def test_a_pickle_is_not_run(self, save: Callable[..., Path], tmp_path: Path) -> None:
        class Trap:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (tmp_path / "sprung",)

        with pytest.raises(ValueError, match="allow_pickle=False"):
            load(save(y_train=np.array([Trap()] * 4, object)))
        assert not (tmp_path / "sprung").exists()

    @pytest.mark.parametrize("damage", ["empty", "cut", "byte", "lone array"])
    def test_damaged(self, save: Callable[..., Path], damage: str) -> None:
        path = save()
        whole = bytearray(path.read_bytes())
        if damage == "byte":
            whole[150] ^= 0xFF  # in the compressed x_train
            path.write_bytes(whole)
        elif damage == "lone array":
            with open(path, "wb") as file:
                np.save(file, SMALL.x_train)
        else:
            path.write_bytes(whole[: len(whole) // 2 if damage == "cut" else 0])
        with pytest.raises(ValueError, match=f"^{path}: It must be a whole .npz file"):
            load(path)

    def test_an_impossible_shape_is_an_error(self, save: Callable[..., Path]) -> None:
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**45, 6)})
        path = save(x_train=None)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("x_train.npy", file.getvalue())
        with pytest.raises(ValueError, match=f"^{path}: "):
            load(path)

    def test_a_bomb_is_not_unpacked(self, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
        path = save(x_train=np.zeros((4, 2**16)), x_test=np.zeros((3, 2**16)))
        assert load(path).n_inputs == 2**16
        monkeypatch.setattr(idx, "MOST_BYTES", 2**20)
        with pytest.raises(ValueError, match="Its arrays must have at most 1048576 bytes, but one has more"):
            load(path)


@pytest.mark.parametrize("name", ["MNIST", "mnist2", "", "digits.txt", "nowhere/own.npz"])
def test_a_name_that_is_nothing(name: str) -> None:
    message = (
        "`name` must be digits, mnist, fashion-mnist, a folder of IDX files, an .npz or a CSV file that exists, but was"
    )
    with pytest.raises(ValueError, match=f"{message} '{name}'"):
        load(name)


def test_the_name_of_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path / "tiny", TINY))
    assert load(".").name == "tiny"
