"""A data set of a few pixels as IDX files, written byte by byte."""

import gzip
import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path

from thermoment.data.sources import File


def images(*pixels: int, rows: int = 2, columns: int = 2) -> bytes:
    return struct.pack(">4I", 0x803, len(pixels) // (rows * columns), rows, columns) + bytes(pixels)


def labels(*classes: int) -> bytes:
    return struct.pack(">2I", 0x801, len(classes)) + bytes(classes)


TINY = {
    "train-images-idx3-ubyte": images(0, 51, 102, 153, 204, 255, 0, 0, 1, 2, 3, 4),
    "train-labels-idx1-ubyte": labels(2, 0, 1),
    "t10k-images-idx3-ubyte": images(255, 0, 0, 255, 5, 6, 7, 8),
    "t10k-labels-idx1-ubyte": labels(1, 0),
}
"""Three images of 2 x 2 to learn from, two to be judged by."""

FILES = tuple(File(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in TINY.items())
"""What TINY must be."""


def write(folder: Path, files: Mapping[str, bytes], *, gzipped: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / (name + (".gz" if gzipped else ""))
        path.write_bytes(gzip.compress(data) if gzipped else data)
    return folder
