"""Files written whole or not at all, safetensors checked when read, and the folder where thermoment keeps its own."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# safetensors and platformdirs are imported where they are used: a machine without them can still simulate.

_VERSION = "1"


def write_tensors(path: str | PathLike[str], kind: str, tensors: Mapping[str, NDArray[Any]], facts: str) -> None:
    """Writes `tensors` and `facts` to `path`, replacing it only when the new file is complete."""
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


def write_whole(path: str | PathLike[str], data: bytes) -> None:
    """Writes `data` to `path` so that a reader sees the old file or the new one, never a part."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        if error.filename is None:  # a full or failing disk is noticed by calls that know no name
            error.filename = os.fspath(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


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
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{os.fspath(path)} is not a whole safetensors file: {error}.") from None
    found = metadata.get("format"), metadata.get("version")
    expected = names is None or set(names) <= set(tensors) <= {*names, *optional}
    if found != (f"thermoment.{kind}", _VERSION) or not expected:
        wanted = f" with {', '.join(names)}" if names else ""
        raise ValueError(
            f"{os.fspath(path)} must hold a thermoment.{kind} of version {_VERSION}{wanted}, "
            f"but holds {found[0] or 'an unnamed format'} of version {found[1]} with {', '.join(sorted(tensors))}."
        )
    return tensors, metadata["facts"]
