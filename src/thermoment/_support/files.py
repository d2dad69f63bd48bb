"""Files written whole or not at all, safetensors checked when read, and the folder where thermoment keeps its own."""

import json
import os
import secrets
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid, quoted

# safetensors and platformdirs are imported where they are used: a machine without them can still simulate.

_VERSION = "1"

DAMAGED_NPZ = (
    ArithmeticError,
    EOFError,
    KeyError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and zipfile raise for an .npz file whose bytes are damaged, as far as it is no error of the disk."""


def write_tensors(path: str | PathLike[str], kind: str, tensors: Mapping[str, NDArray[Any]], facts: str) -> None:
    """Writes `tensors` and `facts` to `path`, replacing it only when the new file is complete."""
    target = _check_path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise invalid("path", "be a file in a folder that exists", quoted(os.fspath(path)))
    from safetensors.numpy import save

    data = save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()},
        {"format": f"thermoment.{kind}", "version": _VERSION, "facts": facts},
    )
    write_whole(path, _in_order(data))


def _in_order(data: bytes) -> bytes:
    """The same safetensors with the keys of its header sorted: the library writes the metadata in a random order."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[end:]


def write_whole(path: str | PathLike[str], data: bytes, *, synced: bool = True) -> None:
    """Writes `data` to `path` so that a reader sees the old file or the new one, never a part.

    After a loss of power too, unless `synced` is false: then the file may be empty, which its reader must notice.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with named(path):
            with open(partial, "xb") as file:
                file.write(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(partial, path)
    finally:
        with suppress(OSError):  # the error to be told is the first one
            partial.unlink(missing_ok=True)


def write_json(path: str | PathLike[str], value: Any) -> None:
    """Writes `value` as a text of JSON with a line for every number, whole or not at all."""
    write_whole(path, (json.dumps(value, indent=1) + "\n").encode())


@contextmanager
def named(path: str | PathLike[str]) -> Iterator[None]:
    """Errors inside name the file: a full or failing disk is noticed by calls that know no name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def cache_folder() -> Path:
    """$THERMOMENT_CACHE, else thermoment/ where the system keeps caches: on Linux $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("THERMOMENT_CACHE"):
        return Path(own)
    from platformdirs import user_cache_path

    return user_cache_path("thermoment", appauthor=False)


def read_tensors(
    path: str | PathLike[str], kind: str, names: Sequence[str] | None, optional: Sequence[str] = ()
) -> tuple[dict[str, NDArray[Any]], str]:
    """The tensors and the facts of a file of this `kind`: those called `names` and any `optional` ones, or all."""
    if _check_path(path).is_dir():
        raise invalid("path", "be a file", f"the folder {os.fspath(path)!r}")
    from safetensors import SafetensorError, safe_open

    try:
        with named(path), safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, KeyError) as error:  # the last two: a type of number that NumPy does not have
        raise ValueError(f"{os.fspath(path)} is not a whole safetensors file: {error}.") from None
    found = metadata.get("format"), metadata.get("version")
    expected = names is None or set(names) <= set(tensors) <= {*names, *optional}
    if found != (f"thermoment.{kind}", _VERSION) or not expected:
        wanted = f" with {', '.join(names)}" if names else ""
        raise ValueError(
            f"{os.fspath(path)} must hold a thermoment.{kind} of version {_VERSION}{wanted}, "
            f"but holds {found[0] or 'an unnamed format'} of version {found[1]} with {', '.join(sorted(tensors))}."
        )
    return tensors, metadata.get("facts", "")


def read_facts(text: str, path: str | PathLike[str], *names: str) -> dict[str, Any]:
    """The facts of a file that `read_tensors` read, parsed: a JSON object with at least the keys `names`."""
    try:
        facts = json.loads(text)
        if isinstance(facts, dict) and facts.keys() >= set(names):
            return facts
    except ValueError:
        pass
    raise ValueError(f"{os.fspath(path)} is damaged: it does not say its {', '.join(names)}.")


def _check_path(path: str | PathLike[str]) -> Path:
    try:
        text = os.fspath(path)
        if isinstance(text, str) and text and "\0" not in text:
            return Path(text)
    except TypeError:
        pass
    raise invalid("path", "be the path of a file", quoted(path))
