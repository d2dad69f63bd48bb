"""How JAX compiles here: into programs that give the same bits every time, on a GPU too."""

REPRODUCIBLE = {"xla_gpu_deterministic_ops": True, "xla_gpu_autotune_level": 0}
"""No race, and no choice of an algorithm by stopwatch."""
ONE_CORE = {"xla_cpu_multi_thread_eigen": False}
"""On a processor, matrix products by one thread each: for programs that run side by side."""
