"""Machines that ship with the package: trained for hours once, so that nobody has to wait for them.

Each is a file NAME.safetensors in this folder, which `Classifier.load` reads. Numbers are in half precision.
tools/make_pretrained.py makes them.
"""

from importlib import resources

from thermoment._engines.task import Engine
from thermoment._support.checks import invalid
from thermoment.machines.classifier import Classifier

_ENDING = ".safetensors"


def pretrained(name: str | None = None, *, engine: str | Engine = "auto") -> Classifier | tuple[str, ...]:
    """The names of the machines that ship with the package, or the one called `name`.

    Args:
        name: "mnist", for example; None for the list of names.
        engine: what simulates the machine where nothing else is asked for.

    Returns:
        A `Classifier`, whose `facts` say what it was trained on, how, and what it gets right.
    """
    names = tuple(
        sorted(
            file.name.removesuffix(_ENDING)
            for file in resources.files(__package__).iterdir()
            if file.name.endswith(_ENDING)
        )
    )
    if name is None:
        return names
    if name not in names:
        raise invalid("name", f"be one of {', '.join(names) or 'none, as there are none'}", repr(name))
    with resources.as_file(resources.files(__package__) / f"{name}{_ENDING}") as path:
        return Classifier.load(path, engine=engine)
