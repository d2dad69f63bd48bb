"""What the cuda engine says where it cannot run: no CuPy, no CUDA, no GPU, one too old, a driver too old.

And which tasks it takes where it can: nothing is computed here, so no GPU is needed.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thermoment as tm
from thermoment._engines.choice import Status, choose
from thermoment._engines.task import Task
from thermoment.simulation import prepare

NAME = "thermoment._engines.cuda"


class CUDARuntimeError(RuntimeError):
    """CuPy's error."""


def stand_in(count: Callable[[], int] = lambda: 1, capability: tuple[int, int] = (9, 0), driver: int = 13000) -> Any:
    """A CuPy that answers as on a machine with these GPUs and this driver; its compiler is CUDA 13."""
    name, major, minor = b"NVIDIA Some", *capability
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=count,
        getDeviceProperties=lambda _: {"name": name, "major": major, "minor": minor},
        driverGetVersion=lambda: driver,
    )
    attributes = {"MaxSharedMemoryPerBlockOptin": 232448, "MultiProcessorCount": 132}
    device = SimpleNamespace(compute_capability=f"{major}{minor}", attributes=attributes)
    cuda = ModuleType("cupy.cuda")
    vars(cuda).update(runtime=runtime, Device=lambda _=0: device, nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)))
    cupy = ModuleType("cupy")
    vars(cupy).update(cuda=cuda)
    return cupy


@pytest.fixture
def with_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], Status]]:
    """What `tm.engines()` says of cuda with this CuPy (None: not installed). The engine in use stays as it was."""
    package = sys.modules["thermoment._engines"]
    before = sys.modules.pop(NAME, None)

    def status(cupy: Any) -> Status:
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        monkeypatch.setitem(sys.modules, "cupy.cuda", getattr(cupy, "cuda", None))
        sys.modules.pop(NAME, None)
        return tm.engines()["cuda"]

    yield status
    sys.modules.pop(NAME, None)
    vars(package).pop("cuda", None)
    if before is not None:
        sys.modules[NAME] = before
        vars(package)["cuda"] = before


With = Callable[[Any], Status]


def test_a_good_gpu_can_run(with_cupy: With) -> None:
    """The control: with nothing wrong the stand-in is accepted."""
    assert with_cupy(stand_in()) == (True, "1 x NVIDIA Some with wgmma")
    assert with_cupy(stand_in(capability=(8, 6))) == (True, "1 x NVIDIA Some with mma")


def test_no_cupy(with_cupy: With) -> None:
    hint = "CuPy is not installed: pip install '.[cuda13]' in a checkout of thermoment (cuda12 for CUDA 12)"
    assert with_cupy(None) == (False, hint)


def test_no_cuda(with_cupy: With) -> None:
    def count() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    can_run, note = with_cupy(stand_in(count))
    assert not can_run
    assert note == "CUDA does not answer: cudaErrorInsufficientDriver: CUDA driver version is insufficient"


def test_no_gpu(with_cupy: With) -> None:
    assert with_cupy(stand_in(lambda: 0)) == (False, "there is no NVIDIA GPU")


def test_a_gpu_that_is_too_old(with_cupy: With) -> None:
    can_run, note = with_cupy(stand_in(capability=(7, 5)))
    assert not can_run
    assert note == "NVIDIA Some has compute capability 7.5, 8.0 is needed (Ampere)"


def test_a_driver_that_is_too_old_for_the_kernel(with_cupy: With) -> None:
    can_run, note = with_cupy(stand_in(driver=12090))
    assert not can_run
    assert note == "the driver knows CUDA 12, and the kernel would be compiled by CUDA 13"


def test_nothing_takes_its_place(with_cupy: With) -> None:
    with_cupy(stand_in(lambda: 0))
    node = tm.Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
    with pytest.raises(RuntimeError, match="Engine `cuda` cannot run here: there is no NVIDIA GPU"):
        tm.simulate(node, [[1.0]], tm.Protocol(dt=0.1, n_replicas=2), engine="cuda")
    info = tm.simulate(node, [[1.0]], tm.Protocol(dt=0.1, n_replicas=2)).info
    assert info.engine != "cuda"
    assert "cuda cannot: there is no NVIDIA GPU" in info.choice


RESERVOIR = tm.Reservoir.draw(6, 2, seed=1)
PROTOCOL = tm.Protocol(dt=0.01, n_replicas=2)
INPUTS = np.ones((3, 2))
RESTED = replace(PROTOCOL, start="rest", t_rest=1.5)
FROM_X0 = prepare(RESERVOIR, INPUTS, PROTOCOL, x0=np.ones((3, 6)))


def test_it_takes_what_the_other_engines_that_sample_take(with_cupy: With) -> None:
    """And "auto" takes it, whatever the start and however many segments there are."""
    with_cupy(stand_in())
    plain = prepare(RESERVOIR, INPUTS, PROTOCOL)
    several = replace(FROM_X0, segments=FROM_X0.segments * 3, first_step=7, keep_states=True)
    for task in (plain, prepare(RESERVOIR, INPUTS, RESTED), FROM_X0, several):
        assert choose("auto", task)[0].name == "cuda"


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (replace(FROM_X0, dynamics=tm.Dynamics(J3=0.1)), "`J3` must be zero for the cuda engine"),
        (
            replace(FROM_X0, dynamics=tm.Dynamics(kT=np.ones(6))),
            "`dynamics` must be the same for all nodes for the cuda",
        ),
        (replace(FROM_X0, first_step=2**32 - 100), "`t_final` must be of fewer steps for cuda"),
        (replace(FROM_X0, pairs=((0, 1),)), "`pairs` must be empty for the cuda engine"),
        (replace(FROM_X0, observables=(tm.Heat(),)), "`observables` must be empty for the cuda engine"),
        (
            prepare(RESERVOIR, INPUTS, replace(PROTOCOL, clip=np.inf), x0=np.full(6, 7e4)),
            "`x0` must be within 60000 for the cuda engine .* but was 70000",
        ),
    ],
)
def test_it_refuses_the_rest_in_a_sentence(with_cupy: With, task: Task, sentence: str) -> None:
    with_cupy(stand_in())
    with pytest.raises(ValueError, match=sentence):
        choose("cuda")[0].check(task)
    assert choose("auto", task)[0].name != "cuda"
