"""The choice of an engine: what can run, what "auto" takes, and what it says when something cannot."""

import pydoc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from thermoment._engines import choice
from thermoment._engines.task import Outcome, Report, Segment, Task

NODE = tm.Reservoir(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
QUICK = tm.Protocol(dt=0.1, n_replicas=2)


@pytest.fixture
def no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without JAX."""
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "thermoment._engines.xla", raising=False)


def test_what_can_run_here() -> None:
    found = tm.engines()
    assert all(found[name].can_run for name in ("reference", "xla"))
    assert found["reference"].note == f"NumPy {np.__version__} in float64"


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError", "AttributeError"])
def test_an_engine_that_cannot_be_imported_says_why(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX on a processor that it was not built for has the last two, one after the other."""
    (tmp_path / "refusing.py").write_text(f"raise {error}('not on this processor')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(choice.MODULES, "refusing", "refusing:Engine")
    assert tm.engines()["refusing"] == (False, "not on this processor")


def test_auto_says_what_it_chose_and_why() -> None:
    info = tm.simulate(NODE, [[1.0]], QUICK).info
    assert info.choice.startswith("auto: the fastest that can run here, on ")
    assert info.engine in tm.engines()
    assert info.engine != "reference"


class Picky:
    """An engine that can run, but only for one replica."""

    name = "picky"
    tasks_at_once = 1

    def status(self) -> str:
        return "a whim"

    def check(self, task: Task) -> None:
        if task.protocol.n_replicas > 1:
            raise ValueError("Argument `n_replicas` must be 1")

    def moments(self, task: Task, report: Report) -> Outcome:
        return Outcome(np.ones((1, 3, 1)), 0)


def test_auto_passes_over_an_engine_that_cannot_do_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choice.MODULES, "picky", f"{__name__}:Picky")
    monkeypatch.setattr(choice, "_AUTO", ("picky", "xla"))
    one, two = (tm.simulate(NODE, [[1.0]], tm.Protocol(dt=0.1, n_replicas=M)).info for M in (1, 2))
    assert one.engine == "picky"
    assert two.engine == "xla"
    assert two.choice.endswith("; picky cannot: Argument `n_replicas` must be 1")
    with pytest.raises(ValueError, match="`n_replicas` must be 1"):
        tm.simulate(NODE, [[1.0]], QUICK, engine="picky")
    with pytest.raises(ValueError, match="`n_replicas` must be finite"):
        tm.simulate(NODE, [[1.0]], tm.Protocol(dt=0.1, n_replicas=np.inf))


def test_auto_prefers_cuda_to_native_to_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """And takes neither the reference, which is slow, nor meanfield, which does not sample."""
    able = list(tm.engines())

    def status(name: str) -> tuple[Picky | None, choice.Status]:
        if name not in able:
            return None, choice.Status(False, "out of order")
        engine = Picky()
        engine.name = name
        return engine, choice.Status(True, "a whim")

    monkeypatch.setattr(choice, "_status", status)
    for best in ("cuda", "native", "xla"):
        found, why = choice.choose("auto")
        assert found.name == best
        able.remove(best)
    assert why.endswith("; cuda cannot: out of order; native cannot: out of order")
    with pytest.raises(RuntimeError, match='No engine for "auto" can run here'):
        choice.choose("auto")


@pytest.mark.parametrize("on_gpu", [True, False])
def test_what_cuda_cannot_do_xla_does_if_it_has_the_gpu(monkeypatch: pytest.MonkeyPatch, on_gpu: bool) -> None:
    class Able(Picky):
        def check(self, task: Task) -> None:
            pass

    def status(name: str) -> tuple[Picky, choice.Status]:
        engine = Picky() if name == "cuda" else Able()
        engine.name = name
        if name == "xla":
            vars(engine)["on_gpu"] = on_gpu
        return engine, choice.Status(True, "a whim")

    monkeypatch.setattr(choice, "_status", status)
    only = Segment(10, np.ones((1, 1)), np.zeros((1, 1)))
    task = Task((only,), tm.Dynamics(), QUICK, np.zeros(1, np.uint64), 0)
    found, why = choice.choose("auto", task)
    assert found.name == ("xla" if on_gpu else "native")
    assert why.endswith("; cuda cannot: Argument `n_replicas` must be 1")


def test_asked_for() -> None:
    info = tm.simulate(NODE, [[1.0]], QUICK, engine="reference").info
    assert (info.engine, info.choice, info.n_steps) == ("reference", "asked for", 10)
    assert info.seconds > 0


@pytest.mark.usefixtures("no_jax")
def test_an_engine_that_cannot_run_says_why_and_nothing_takes_its_place() -> None:
    assert not tm.engines()["xla"].can_run
    assert "jax" in tm.engines()["xla"].note
    with pytest.raises(RuntimeError, match=r"Engine `xla` cannot run here: .*jax"):
        tm.simulate(NODE, [[1.0]], QUICK, engine="xla")
    assert tm.simulate(NODE, [[1.0]], QUICK, engine="reference").info.engine == "reference"


class TestStep:
    def task(self) -> Task:
        dynamics = tm.Dynamics(J2=0.5, J4=0.25, mu=2.0, kT=0.3, J3=0.1)
        segment = Segment(10, np.ones((1, 3)), np.zeros((3, 3)))
        return Task((segment,), dynamics, tm.Protocol(dt=0.1), np.zeros(1, np.uint64), 0)

    def test_coefficients_of_every_node(self) -> None:
        step = self.task().step
        for found, expected in zip(step, (0.2, -0.2, -0.2, np.sqrt(0.12), -0.06), strict=True):
            np.testing.assert_allclose(found, [expected] * 3, rtol=1e-15)
        assert step.uniform() == tuple(float(values[0]) for values in step)[:4]

    def test_nodes_that_differ_are_not_taken_for_one(self) -> None:
        step = self.task().step
        unlike = step._replace(sigma=step.sigma * [1.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="`dynamics` must be the same for all nodes for this engine"):
            unlike.uniform()


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Seconds that a user of another engine need not wait; asking what there is costs nothing either."""
    code = "import sys, thermoment; dir(thermoment); print([m for m in %r if m in sys.modules])"
    heavy = ["jax", "cupy", "safetensors", "scipy.stats", "sklearn", "zarr", "matplotlib"]
    done = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class TestClasses:
    """Engine classes are names of the package, loaded when they are first used."""

    def test_each_is_the_engine_that_its_name_chooses(self) -> None:
        for cls, name in (("Reference", "reference"), ("Xla", "xla"), ("Native", "native"), ("MeanField", "meanfield")):
            assert cls in dir(tm)
            assert getattr(tm, cls).name == name
        info = tm.simulate(NODE, [[1.0]], QUICK, engine=tm.Xla("float64")).info
        assert (info.engine, info.choice) == ("xla", "asked for")

    def test_one_that_cannot_be_loaded_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        monkeypatch.delitem(sys.modules, "thermoment._engines.cuda", raising=False)
        assert "Cuda" in dir(tm)
        with pytest.raises(AttributeError, match=r"thermoment\.Cuda cannot be used here: CuPy is not installed"):
            _ = tm.Cuda
        assert "Langevin computers" in pydoc.render_doc(tm), "help() leaves out what cannot be loaded"

    def test_other_names_are_no_names(self) -> None:
        with pytest.raises(AttributeError, match="module 'thermoment' has no attribute 'Abacus'"):
            vars(tm)["__getattr__"]("Abacus")

    def test_the_function_and_the_modules_do_not_collide(self) -> None:
        import thermoment._engines.reference as module

        assert module.Reference is tm.Reference
        assert callable(tm.engines)
