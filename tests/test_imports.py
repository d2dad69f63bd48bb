"""Imports point one way, and what reads settings or results does not import what computes."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = " ".join(f"thermoment.results.{path.stem}" for path in sorted((ROOT / "src/thermoment/results").glob("*.py")))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/import_graph.py, where the order of the parts is written down."""
    spec = importlib.util.spec_from_file_location("import_graph", ROOT / "tools/import_graph.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_import_points_one_way_and_the_picture_is_of_today() -> None:
    done = subprocess.run(
        [sys.executable, "tools/import_graph.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "text", "mistake"),
    [
        ("physics", "from thermoment.simulation import simulate", "physics may import _support, wells."),
        (
            "physics",
            "from thermoment import simulation",
            "imports thermoment.simulation: physics may import _support, wells.",
        ),
        (
            "physics",
            "def f():\n    import thermoment.runs.store",
            "(line 2) imports thermoment.runs.store: physics may",
        ),
        (
            "physics",
            "if TYPE_CHECKING:\n    from thermoment.moments import Moments",
            "physics may import _support, wells.",
        ),
        (
            "physics",
            "from .simulation import simulate",
            "imports thermoment.simulation: physics may import _support, wells.",
        ),
        ("report/page", "from ..runs import plan", "imports thermoment.runs.plan: report may import"),
        ("experiments/toml", "from thermoment.learning.fit import fit_sgd", "experiments may import"),
        ("results/paper", "from thermoment import simulate", "imports thermoment: results may import"),
        ("somewhere", "from thermoment.physics import Dynamics", "somewhere has no place in ORDER."),
        (
            "results/paper",
            "import jax.numpy as jnp",
            "jax is imported only in thermoment._engines, thermoment.learning",
        ),
        ("_engines/native", "import cupy", "cupy is imported only in thermoment._engines.cuda."),
        (
            "machines/learn",
            "from sklearn.base import clone",
            "sklearn is imported only in thermoment.data, thermoment.m",
        ),
        ("report/page", "from matplotlib.figure import Figure", "matplotlib is imported only in thermoment.plot"),
    ],
)
def test_a_wrong_import_is_named(tool: ModuleType, tmp_path: Path, module: str, text: str, mistake: str) -> None:
    for name in ("__init__", "physics", "simulation", "runs/plan", module):
        path = tmp_path / f"thermoment/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == module else "", "utf-8")
    (wrong,) = tool.mistakes(list(tool.imports(tmp_path / "thermoment")))
    assert wrong.startswith(f"thermoment.{module.replace('/', '.')} (line ")
    assert mistake in wrong


def test_what_may_be_imported_is_not_refused(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "thermoment/report").mkdir(parents=True)
    text = "from thermoment import __version__\nfrom thermoment._support import files\nimport numpy\n"
    (tmp_path / "thermoment/report/page.py").write_text(text, "utf-8")
    assert tool.mistakes(list(tool.imports(tmp_path / "thermoment"))) == []


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        ("thermoment", "jax safetensors zarr matplotlib sklearn"),
        (f"thermoment.experiments.experiment thermoment.learning.options {RESULTS}", "jax optax zarr matplotlib"),
        ("thermoment.plot thermoment.machines.neurons thermoment.machines.signals", "jax optax"),
        ("thermoment.cli thermoment._support.host thermoment._support.progress", "jax zarr matplotlib rich"),
        ("thermoment.runs.figure_process", "jax optax zarr sklearn"),
        ("thermoment.runs.run thermoment.report.page", "matplotlib"),
    ],
)
def test_a_light_module_imports_nothing_heavy(modules: str, without: str) -> None:
    program = f"import sys, {', '.join(modules.split())}; print(*(n for n in {without.split()!r} if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("command", "without", "most"),
    [
        ("--help", "numpy jax scipy rich", 200),
        ("info", "matplotlib zarr optax sklearn pandas dask distributed starlette safetensors", 1500),
    ],
)
def test_a_command_that_computes_nothing_starts_at_once(command: str, without: str, most: int) -> None:
    """By what it imports: `--help` nothing but click, `info` what says which engines run, and nothing that draws."""
    program = (
        f"import sys; from thermoment.cli import main; main([{command!r}], standalone_mode=False); "
        f"print(len(sys.modules), *(n for n in {without.split()!r} if n in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, *imported = done.stderr.splitlines()[-1].split()
    assert imported == []
    assert int(count) < most
