"""IDX files: exact parses, bounded unpacking, and an error for every way to be wrong."""

import gzip
import io
import tracemalloc
from pathlib import Path

import pytest

from support.idx_files import TINY, images, labels, write
from thermoment.data import idx


class TestParse:
    def test_images_from_their_bytes(self) -> None:
        data = bytes.fromhex("00000803 00000002 00000001 00000003 00 01 02 fd fe ff")
        assert idx.parse(data, "it", 3).tolist() == [[[0, 1, 2]], [[253, 254, 255]]]

    def test_labels_from_their_bytes(self) -> None:
        assert idx.parse(bytes.fromhex("00000801 00000004 07 02 01 00"), "it", 1).tolist() == [7, 2, 1, 0]

    @pytest.mark.parametrize(
        ("data", "n_dims", "message"),
        [
            (labels(1, 2), 3, "it must begin with 00 00 08 03, .* but begins with 00 00 08 01"),
            (images(1, 2, 3, 4), 1, "it must begin with 00 00 08 01, .* but begins with 00 00 08 03"),
            (bytes.fromhex("00000d01 00000001 3f800000"), 1, "unsigned bytes .* but begins with 00 00 0d 01"),
            (b"<!DOCTYPE html>", 3, "but begins with 3c 21 44 4f"),
            (b"", 3, "but begins with nothing"),
            (images(1, 2, 3, 4)[:15], 3, "it must have a header of 16 bytes, but is cut off after 15"),
            (images(1, 2, 3, 4)[:-1], 3, r"it must hold 4 bytes after its header, for shape \(1, 2, 2\), but holds 3"),
            (images(1, 2, 3, 4) + b"\0", 3, "it must hold 4 bytes .* but holds 5"),
            (labels(), 1, r"it must hold at least one element, but has shape \(0,\)"),
            (images(rows=2, columns=2), 3, r"at least one element, but has shape \(0, 2, 2\)"),
            (bytes.fromhex("00000803 00000005 00000000 0000001c"), 3, r"at least one element, .* \(5, 0, 28\)"),
            (
                bytes.fromhex("00000803 ffffffff ffffffff ffffffff 00"),
                3,
                "must hold 79228162458924105385300197375 bytes",
            ),
        ],
    )
    def test_errors(self, data: bytes, n_dims: int, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            idx.parse(data, "it", n_dims)


class TestUnpack:
    def test_gzipped_and_plain_are_told_apart_by_their_bytes(self) -> None:
        data = TINY["train-images-idx3-ubyte"]
        for packed in (data, gzip.compress(data)):
            assert idx.unpack(io.BytesIO(packed), "it", most=len(data)) == data

    def test_longer_than_a_part(self) -> None:
        data = bytes(range(251)) * 10000
        for packed in (data, gzip.compress(data)):
            assert idx.unpack(io.BytesIO(packed), "it") == data

    @pytest.mark.parametrize("packed", [bytes(1001), gzip.compress(bytes(1001))], ids=["plain", "gzipped"])
    def test_bound(self, packed: bytes) -> None:
        assert idx.unpack(io.BytesIO(packed), "it", most=1001) == bytes(1001)
        with pytest.raises(ValueError, match="it must unpack to at most 1000 bytes, but holds more"):
            idx.unpack(io.BytesIO(packed), "it", most=1000)

    def test_a_bomb_does_not_go_off(self) -> None:
        """64 MiB of zeros in 64 KiB: refused in a few megabytes of memory."""
        bomb = io.BytesIO(gzip.compress(bytes(2**26)))
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="at most 1000 bytes"):
                idx.unpack(bomb, "it", most=1000)
            assert tracemalloc.get_traced_memory()[1] < 2**22
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("damage", ["cut", "flags", "block", "middle", "checksum"])
    def test_damaged_gzip(self, damage: str) -> None:
        whole = bytearray(gzip.compress(bytes(range(256)) * 4))
        if damage == "cut":
            del whole[-9:]
        else:
            whole[{"flags": 3, "block": 10, "middle": 14, "checksum": -6}[damage]] ^= 0xFF
        with pytest.raises(ValueError, match="it must be a whole gzip file, but is cut off or damaged"):
            idx.unpack(io.BytesIO(bytes(whole)), "it")


class TestFolder:
    @pytest.mark.parametrize("gzipped", [False, True])
    @pytest.mark.parametrize("dotted", [False, True])
    def test_every_usual_name(self, tmp_path: Path, gzipped: bool, dotted: bool) -> None:
        files = {name.replace("-idx", ".idx") if dotted else name: data for name, data in TINY.items()}
        dataset = idx.read(write(tmp_path / "tiny", files, gzipped=gzipped))
        assert (dataset.name, dataset.image_shape) == ("tiny", (2, 2))
        assert (dataset.y_train.tolist(), dataset.y_test.tolist()) == ([2, 0, 1], [1, 0])
        assert (dataset.x_test * 255).round().tolist() == [[255, 0, 0, 255], [5, 6, 7, 8]]

    def test_plain_comes_before_gzipped(self, tmp_path: Path) -> None:
        write(tmp_path, {"t10k-labels.idx1-ubyte": b""})
        write(tmp_path, TINY, gzipped=True)
        assert idx.find(tmp_path, "t10k-labels-idx1-ubyte") == tmp_path / "t10k-labels.idx1-ubyte"

    def test_a_folder_under_a_files_name_is_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "t10k-labels-idx1-ubyte").mkdir()
        assert idx.find(tmp_path, "t10k-labels-idx1-ubyte") is None

    def test_what_is_missing_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, {name: TINY[name] for name in list(TINY)[:2]})
        with pytest.raises(ValueError, match="but lacks t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte"):
            idx.read(tmp_path)

    def test_a_bad_file_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, TINY | {"t10k-labels-idx1-ubyte": labels(1, 0)[:-1]}, gzipped=True)
        with pytest.raises(ValueError, match=r"^t10k-labels-idx1-ubyte\.gz must hold 2 bytes"):
            idx.read(tmp_path)
