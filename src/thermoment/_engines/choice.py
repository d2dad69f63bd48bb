"""Which engines there are, and which one runs."""

from importlib import import_module
from typing import NamedTuple

from thermoment._engines.task import Engine, Task
from thermoment._support.checks import invalid, quoted

MODULES = {
    "reference": "thermoment._engines.reference:Reference",
    "xla": "thermoment._engines.xla:Xla",
    "native": "thermoment._engines.native:Native",
    "cuda": "thermoment._engines.cuda:Cuda",
    "meanfield": "thermoment._engines.meanfield.engine:MeanField",
}
_AUTO = ("cuda", "native", "xla")
"""The engines that "auto" tries, fastest first. Where `cuda` can run but not do the task, JAX is asked for the GPU."""


class Status(NamedTuple):
    """Whether an engine can run here; `note` says on what, or why not."""

    can_run: bool
    note: str


def engines() -> dict[str, Status]:
    """What can run here.

    Returns:
        For every engine by name `can_run`, and `note`, which says on what it runs or why it cannot.
    """
    return {name: _status(name)[1] for name in MODULES}


def choose(engine: "str | Engine", task: Task | None = None) -> tuple[Engine, str]:
    """The engine that was asked for, and why it is this one; "auto" asks for the first that can do the task here."""
    if not isinstance(engine, str):
        if isinstance(engine, type) or not isinstance(engine, Engine):
            raise invalid("engine", "be a name or an engine", quoted(engine))
        engine.status()
        return engine, "asked for"
    if engine == "auto":
        passed: list[str] = []
        names = list(_AUTO)
        while names:
            name = names.pop(0)
            found, status = _status(name)
            if found is None:
                passed.append(f"{name} cannot: {status.note}")
                continue
            try:
                if task is not None:
                    found.check(task)
            except ValueError as refusal:
                if not names:
                    raise
                passed.append(f"{name} cannot: {refusal}")
                if name == "cuda":  # there is a GPU, on which xla is faster than native on the CPU
                    names.sort(key=lambda other: not getattr(_status(other)[0], "on_gpu", False))
                continue
            reasons = "".join(f"; {line}" for line in passed)
            return found, f"auto: the fastest that can run here, on {status.note}{reasons}"
        raise RuntimeError(f'No engine for "auto" can run here: {"; ".join(passed)}.')
    if engine not in MODULES:
        listing = "\n".join(
            f"  {name}: {'' if status.can_run else 'cannot run here, '}{status.note}"
            for name, status in engines().items()
        )
        raise ValueError(f"Argument `engine` must be one of the following, but was {quoted(engine)}.\n{listing}")
    found, status = _status(engine)
    if found is None:
        raise RuntimeError(f"Engine `{engine}` cannot run here: {status.note}.")
    return found, "asked for"


def _status(name: str) -> tuple[Engine | None, Status]:
    module, _, cls = MODULES[name].partition(":")
    try:
        engine: Engine = getattr(import_module(module), cls)()
        return engine, Status(True, engine.status())
    # JAX refuses a processor without AVX by a RuntimeError, and when it is imported again by an AttributeError.
    except (ImportError, RuntimeError, AttributeError) as error:
        return None, Status(False, str(error))
