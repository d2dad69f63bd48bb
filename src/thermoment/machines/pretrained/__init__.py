"""Machines that ship with the package: trained on a GPU once, so that nobody has to wait for them.

Each is a file NAME.safetensors in this folder, which `Classifier.load` reads. Numbers are in half precision. SHA256SUMS
lists the files. tools/make_pretrained.py makes them.
"""

import hashlib
from importlib import resources
from typing import overload

from thermoment._engines.task import Engine
from thermoment._support.checks import invalid
from thermoment.machines.classifier import Classifier

_ENDING = ".safetensors"


@overload
def pretrained(name: None = None) -> tuple[str, ...]: ...


@overload
def pretrained(name: str, *, engine: str | Engine = "auto") -> Classifier: ...


def pretrained(name: str | None = None, *, engine: str | Engine = "auto") -> Classifier | tuple[str, ...]:
    """The names of the machines that ship with the package, or the one called `name`.

    Args:
        name: "mnist", for example; None for the list of names.
        engine: what simulates the machine where nothing else is asked for.

    Returns:
        A `Classifier`, whose `facts` say what it was trained on, how, and what it gets right.
    """
    folder = resources.files(__package__)
    lines = (folder / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {file.removesuffix(_ENDING): digest for digest, _, file in (line.partition("  ") for line in lines)}
    if name is None:
        return tuple(sorted(sums))
    if name not in sums:
        raise invalid("name", f"be one of {', '.join(sorted(sums))}", repr(name))
    with resources.as_file(folder / f"{name}{_ENDING}") as path:
        if hashlib.sha256(path.read_bytes()).hexdigest() != sums[name]:
            raise ValueError(f"{path} is damaged: install thermoment again.")
        return Classifier.load(path, engine=engine)
