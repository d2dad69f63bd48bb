"""How JAX compiles here: into programs that give the same bits every time, on a GPU too, and that are kept."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from thermoment._support.files import cache_folder

REPRODUCIBLE = {"xla_gpu_deterministic_ops": True, "xla_gpu_autotune_level": 0}
"""No race, and no choice of an algorithm by stopwatch."""
ONE_CORE = {"xla_cpu_multi_thread_eigen": False}
"""On a processor, matrix products by one thread each: for programs that run side by side."""

_KEPT = {
    "jax_persistent_cache_min_compile_time_secs": 0.5,  # what is compiled sooner is hardly read any sooner
    "jax_persistent_cache_enable_xla_caches": "none",  # whole programs only, no timings of parts of them
}


def keep_compiled() -> None:
    """From now on this process keeps what it compiles for an accelerator in the cache, and finds what others kept.

    Starts JAX. Does nothing where JAX has a processor only, whose programs need not run on another processor, and where
    the user has set the folder in JAX itself. Other settings of JAX in the environment are left as they are.
    """
    import jax

    config: Any = jax.config
    with suppress(RuntimeError):  # JAX does not start: to be said to who computes with it
        if jax.default_backend() == "cpu" or config.jax_compilation_cache_dir is not None:
            return
        folder = cache_folder() / "compiled"
        if _is_own(folder):
            for name, value in _KEPT.items():
                if name.upper() not in os.environ:
                    config.update(name, value)
            config.update("jax_compilation_cache_dir", str(folder))


def _is_own(folder: Path) -> bool:
    """Whether the folder can be made, and nobody else can write to it: what lies there is run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return False
    return os.name != "posix" or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
