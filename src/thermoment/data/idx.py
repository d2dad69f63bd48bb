"""IDX, the file format of MNIST: found under its usual names, unpacked within a bound, parsed into an array."""

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from thermoment.data.dataset import Dataset, from_images, grey

NAMES = {
    "train-images-idx3-ubyte": 3,
    "train-labels-idx1-ubyte": 1,
    "t10k-images-idx3-ubyte": 3,
    "t10k-labels-idx1-ubyte": 1,
}
"""The four files of a data set, and the dimensions of each."""

MOST_BYTES = 2**32
"""No file is unpacked past this: a few kilobytes of gzip can hold more than a machine's memory."""

_UNSIGNED_BYTE = 0x08
_PART = 2**20


def find(folder: Path, name: str) -> Path | None:
    """The file `name` in `folder`: as it is, or with a dot before "idx", plain before gzipped."""
    plain = (name, name.replace("-idx", ".idx"))
    candidates = (folder / (stem + suffix) for suffix in ("", ".gz") for stem in plain)
    return next((path for path in candidates if path.is_file()), None)


def read(folder: Path) -> Dataset:
    """The data set in the four files of `folder`, with the folder's name."""
    found = {name: find(folder, name) for name in NAMES}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise ValueError(f"It must hold {', '.join(NAMES)}, plain or gzipped (.gz), but lacks {', '.join(missing)}.")
    files = {}
    for name, path in found.items():
        assert path is not None
        with open(path, "rb") as file:
            files[name] = path.name, unpack(file, path.name)
    return _dataset(folder.name, files)


def from_files(name: str, files: Mapping[str, bytes]) -> Dataset:
    """The data set called `name` in the unpacked bytes of the four files."""
    return _dataset(name, {file: (file, data) for file, data in files.items()})


def _dataset(name: str, files: Mapping[str, tuple[str, bytes]]) -> Dataset:
    arrays = {file: parse(files[file][1], files[file][0], n_dims) for file, n_dims in NAMES.items()}
    x_train, y_train, x_test, y_test = (arrays[file] for file in NAMES)
    return from_images(name, grey(x_train), y_train, grey(x_test), y_test)


def unpack(file: IO[bytes], where: str, most: int = MOST_BYTES) -> bytes:
    """What `file` holds, gunzipped if its first bytes say gzip; never more than `most` bytes."""
    gzipped = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    stream = gzip.GzipFile(fileobj=file) if gzipped else file
    parts, left = [], most + 1
    try:
        while left > 0 and (part := stream.read(min(left, _PART))):
            parts.append(part)
            left -= len(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{where} must be a whole gzip file, but is cut off or damaged: {error}.") from None
    if left == 0:
        raise ValueError(f"{where} must unpack to at most {most} bytes, but holds more.")
    return b"".join(parts)


def parse(data: bytes, where: str, n_dims: int) -> NDArray[np.uint8]:
    """The array of `n_dims` dimensions in an IDX file's bytes, which it shares: 0x00, 0x00, the type, the number of
    dimensions, each length as a big-endian 32-bit integer, then the elements, last index fastest.
    """
    magic = bytes([0, 0, _UNSIGNED_BYTE, n_dims])
    if data[:4] != magic:
        raise ValueError(
            f"{where} must begin with {magic.hex(' ')}, an IDX file of unsigned bytes with dimension {n_dims}, "
            f"but begins with {data[:4].hex(' ') or 'nothing'}."
        )
    start = 4 + 4 * n_dims
    if len(data) < start:
        raise ValueError(f"{where} must have a header of {start} bytes, but is cut off after {len(data)}.")
    shape = struct.unpack(f">{n_dims}I", data[4:start])
    if 0 in shape:
        raise ValueError(f"{where} must hold at least one element, but has shape {shape}.")
    if len(data) - start != math.prod(shape):
        raise ValueError(
            f"{where} must hold {math.prod(shape)} bytes after its header, for shape {shape}, "
            f"but holds {len(data) - start}."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
