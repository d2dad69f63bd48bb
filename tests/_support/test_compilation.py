"""Programs that JAX compiled are kept on an accelerator, unless the user has said where; never on a processor."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from thermoment._support.compilation import keep_compiled

FOLDER, SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
CONFIG: Any = jax.config


def set_to() -> tuple[Any, Any]:
    return CONFIG.values[FOLDER], CONFIG.values[SECONDS]


@pytest.fixture(autouse=True)
def _a_gpu_and_nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = (FOLDER, SECONDS, "jax_persistent_cache_enable_xla_caches")
    before = {name: CONFIG.values[name] for name in names}
    CONFIG.update(FOLDER, None)
    CONFIG.update(SECONDS, 1.0)
    monkeypatch.delenv(SECONDS.upper(), raising=False)
    monkeypatch.setenv("THERMOMENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    yield
    for name, value in before.items():
        CONFIG.update(name, value)


def test_on_an_accelerator_they_are_kept_in_a_folder_of_the_user_alone(tmp_path: Path) -> None:
    keep_compiled()
    folder = tmp_path / "cache/compiled"
    assert set_to() == (str(folder), 0.5)
    assert os.name != "posix" or folder.stat().st_mode & 0o777 == 0o700


def test_on_a_processor_they_are_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    keep_compiled()
    assert set_to() == (None, 1.0)
    assert not (tmp_path / "cache").exists()


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    CONFIG.update(FOLDER, "/own")
    keep_compiled()
    assert set_to() == ("/own", 1.0)
    CONFIG.update(FOLDER, None)
    monkeypatch.setenv(SECONDS.upper(), "1.0")
    keep_compiled()
    assert set_to()[1] == 1.0


def test_not_where_others_can_write_or_nobody_can(tmp_path: Path) -> None:
    folder = tmp_path / "cache/compiled"
    folder.mkdir(parents=True)
    folder.chmod(0o770)
    keep_compiled()
    assert set_to() == (None, 1.0)
    folder.rmdir()
    folder.write_text("in the way")
    keep_compiled()
    assert set_to() == (None, 1.0)


def test_an_accelerator_that_does_not_start_is_left_to_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise RuntimeError("Unable to initialize backend 'cuda'")

    monkeypatch.setattr(jax, "default_backend", fails)
    keep_compiled()
    assert set_to() == (None, 1.0)


def test_another_process_finds_what_one_compiled(tmp_path: Path) -> None:
    """A processor that is called a GPU: the second process reads the program and compiles none."""
    program = (
        "import sys, jax; from thermoment._support.compilation import keep_compiled\n"
        "found = []; jax.monitoring.register_event_listener(lambda event, **_: found.append(event))\n"
        "jax.default_backend = lambda: 'gpu'; keep_compiled(); jax.jit(lambda x: x + 1)(2.0)\n"
        "print(found.count('/jax/compilation_cache/cache_hits'), found.count('/jax/compilation_cache/cache_misses'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != FOLDER.upper()}
    environment |= {SECONDS.upper(): "0", "THERMOMENT_CACHE": str(tmp_path / "cache")}
    counted = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        counted.append(tuple(map(int, done.stdout.split())))
    (_, misses), second = counted
    assert misses > 0
    assert second == (misses, 0)
