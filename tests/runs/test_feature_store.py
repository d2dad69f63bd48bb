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
