"""Features on disk: chunks have the bytes that Zarr writes, and one that is not whole is not there."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

from thermoment.runs.feature_store import FeatureStore


def written(folder: Path) -> FeatureStore:
    """25 samples in chunks of 10, the last of which is not full."""
    features = FeatureStore(folder, 25, (1, 2), 4, 10)
    features.prepare()
    rng = np.random.default_rng(0)
    for number in range(3):
        features.write(number, rng.normal(size=(features.size(number), 2, 4)), number, {1: 0.5})
    return features


def test_a_chunk_has_the_bytes_that_zarr_writes(tmp_path: Path) -> None:
    features, other = written(tmp_path / "ours"), FeatureStore(tmp_path / "zarr", 25, (1, 2), 4, 10)
    other.prepare()
    group = zarr.open_group(LocalStore(other.folder), mode="r+")
    rng = np.random.default_rng(0)
    for number in range(3):
        group["clip_count"][number] = number  # type: ignore[index]
        group["error"][number] = [0.25, 0.0]  # type: ignore[index]
        group["moments"][other.rows(number)] = rng.normal(size=(other.size(number), 2, 4)).astype(np.float32)  # type: ignore[index]
    names = [str(path.relative_to(features.folder)) for path in features.files()]
    assert names == [str(path.relative_to(other.folder)) for path in other.files()]
    assert len(names) == 4 + 3 * 3
    assert [(other.folder / name).read_bytes() for name in names] == [path.read_bytes() for path in features.files()]
    assert features.missing() == []
    assert features.clip_count() == 3


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("left", [None, 0, 3])
def test_a_chunk_of_which_a_file_was_lost_or_cut_is_not_there(tmp_path: Path, place: int, left: int | None) -> None:
    features = written(tmp_path)
    path = tmp_path / features.chunk_files(1)[place]
    data = path.read_bytes()
    path.unlink()
    if left is not None:  # as after a loss of power
        path.write_bytes(data[:left])
    assert features.missing() == [1]


@pytest.mark.parametrize("rows", [slice(None), slice(0, 10), slice(7, 23), slice(20, None), slice(5, 5)])
def test_features_of_some_samples_are_what_zarr_reads(tmp_path: Path, rows: slice) -> None:
    features = written(tmp_path)
    expected = np.asarray(zarr.open_group(LocalStore(tmp_path), mode="r")["moments"])[rows].reshape(-1, 8)
    assert np.array_equal(features.features(rows), expected)
    beside = np.full((len(expected), 6), np.float32(9))
    features.features(rows, into=beside[:, 1:5])
    assert np.array_equal(beside[:, 1:5], expected[:, :4])
    assert (beside[:, [0, 5]] == 9).all()


@pytest.mark.parametrize("damage", ["gone", "cut", "another byte"])
def test_features_that_are_damaged_meanwhile_are_not_read(tmp_path: Path, damage: str) -> None:
    features = written(tmp_path)
    path = tmp_path / features.chunk_files(2)[-1]
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage != "gone":
        data[7] ^= damage == "another byte"
        path.write_bytes(data[:-8] if damage == "cut" else data)
    assert len(features.features(slice(0, 20))) == 20
    with pytest.raises(RuntimeError, match="Features vanished"):
        features.features()
