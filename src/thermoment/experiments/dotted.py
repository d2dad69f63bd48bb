"""Settings by dotted keys, such as protocol.n_replicas or reservoirs.*.n_nodes, in the tables of a TOML file."""

from collections.abc import Iterator, Mapping
from typing import Any


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def override(table: dict[str, Any], key: str, value: Any) -> None:
    """Sets the dotted `key`. In a list of tables a step is a name, a number, or * for all of them."""
    step, dot, rest = key.partition(".")
    if not dot:
        table[step] = value
        return
    inner = table.setdefault(step, {})
    if not isinstance(inner, list):
        if not isinstance(inner, dict):
            raise ValueError(f"`{key}` cannot be set: {step} is a value, not a table.")
        override(inner, rest, value)
        return
    which, dot, rest = rest.partition(".")
    chosen = [
        item
        for number, item in enumerate(inner)
        if isinstance(item, dict) and which in ("*", str(number), item.get("name"))
    ]
    if not chosen or not dot:
        names = ", ".join(str(item.get("name", number)) for number, item in enumerate(inner) if isinstance(item, dict))
        raise ValueError(f"`{key}` cannot be set: write {step}.NAME.key=value with a name of {names}, or * for all.")
    for item in chosen:
        override(item, rest, value)
