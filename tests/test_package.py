"""What is installed: files of sdist and wheel, a wheel without C++, and machine code that any processor can load."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
SOURCES_OF_TESTS = ("tests", "benchmarks", "studies", "tools", "docs", "examples", ".ci")


def build(out: Path, *options: str) -> Path:
    """Runs `python -m build` with what is installed, and returns the wheel."""
    for module in ("build", "scikit_build_core"):
        pytest.importorskip(module)
    how = ("--no-isolation", "--skip-dependency-check", "--outdir", str(out), *options)
    done = subprocess.run([sys.executable, "-m", "build", *how, str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def files_below(folder: Path) -> Iterator[Path]:
    """The files of the tree that someone wrote."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in (".pyc", ".so"):
            yield path


@pytest.fixture(scope="module")
def without_cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that a machine without a compiler would make of it, in one folder."""
    out = tmp_path_factory.mktemp("dist")
    build(out, "--config-setting=wheel.cmake=false")
    return out


def test_the_wheel_has_every_file_of_the_package_but_the_cpp(without_cpp: Path) -> None:
    (wheel,) = without_cpp.glob("*.whl")
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    tree = {path.relative_to(source).as_posix() for path in files_below(source) if path.suffix not in (".cpp", ".hpp")}
    assert held == tree
    for kind in ("templates/run.html.j2", "templates/style.css", "shipped/paper.toml", "langevin.cu", "py.typed"):
        assert any(name.endswith(kind) for name in held), kind


def test_the_wheel_has_the_licences_of_what_is_linked_in(without_cpp: Path) -> None:
    (wheel,) = without_cpp.glob("*.whl")
    licences = [name.partition("/licenses/")[2] for name in ZipFile(wheel).namelist() if "/licenses/" in name]
    assert sorted(licences) == ["LICENSE", "LICENSES/nanobind.txt", "LICENSES/robin-map.txt"]


def test_the_sdist_can_be_built_and_tested(without_cpp: Path) -> None:
    (sdist,) = without_cpp.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("src", *SOURCES_OF_TESTS)
    tree = {path.relative_to(ROOT).as_posix() for folder in folders for path in files_below(ROOT / folder)}
    beside = {path.name for path in ROOT.glob("*.*") if path.suffix in (".toml", ".txt", ".md", ".cff")}
    assert held >= tree | beside | {"LICENSE"}
    assert not [name for name in held if name.endswith((".so", ".pyc"))]


def test_the_wheel_runs_without_cpp(without_cpp: Path, tmp_path: Path) -> None:
    """Unpacked alone, it says that `native` was not built, and finds templates and experiments."""
    (wheel,) = without_cpp.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    ZipFile(wheel).extractall(tmp_path)
    program = """
import jinja2, thermoment, thermoment.cli
print(thermoment.__file__)
print(jinja2.PackageLoader("thermoment.report").list_templates())
thermoment.cli.main(["info"])
"""
    alone = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=alone, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert "'run.html.j2'" in done.stdout
    assert re.search(r"native +no +was not built: no working C\+\+ compiler", done.stdout)
    assert re.search(r"^paper +The paper's full experiment", done.stdout, re.MULTILINE)


def test_the_extras_that_the_hints_name_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    cuda = (ROOT / "src/thermoment/_engines/cuda.py").read_text()
    hint = re.search(r"CuPy is not installed: pip install '\.\[(\w+)\]' .*\((\w+) for CUDA 12\)", cuda)
    assert hint is not None
    for name, version in zip(hint.groups(), ("13", "12"), strict=True):
        assert [re.split(r"[<>=]", line)[0] for line in extras[name]] == [f"cupy-cuda{version}x", f"jax[cuda{version}]"]


def functions_of(library: Path) -> dict[str, str]:
    """The machine code of every function, by its C++ name."""
    listing = subprocess.run(
        ["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", str(library)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    pieces = re.split(r"^[0-9a-f]+ <(.*)>:$", listing, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@pytest.mark.slow
def test_only_kernels_have_instructions_that_a_processor_may_lack(tmp_path: Path) -> None:
    """A function that the linker took from the AVX-512 file and gave to all others would be seen here.

    The wheel is built as it is for release, with the names of its functions kept.
    """
    pytest.importorskip("nanobind")
    for tool in ("objdump", "cmake", "c++"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    if platform.machine() != "x86_64":
        pytest.skip("there is one kernel only")
    wheel = build(
        tmp_path,
        "--wheel",
        "--config-setting=cmake.build-type=RelWithDebInfo",
        "--config-setting=cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -DNDEBUG",
        "--config-setting=install.strip=false",
    )
    ZipFile(wheel).extractall(tmp_path)
    (library,) = tmp_path.glob("thermoment/_engines/_native*.so")
    owners: dict[str, set[str]] = {"AVX": set(), "AVX-512": set(), "bfloat16": set()}
    for name, code in functions_of(library).items():
        owner = re.search(r"thermoment::(Avx\w+)\b", name)
        who = owner[1] if owner else name
        if re.search(r"\tv\w+ ", code):  # instructions with three operands, all of AVX or later
            owners["AVX"].add(who)
        if re.search(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])", code):
            owners["AVX-512"].add(who)
        if re.search(r"\tv\w*bf16", code):
            owners["bfloat16"].add(who)
    assert owners == {
        "AVX": {"Avx2", "Avx512", "Avx512Bf16"},
        "AVX-512": {"Avx512", "Avx512Bf16"},
        "bfloat16": {"Avx512Bf16"},
    }
