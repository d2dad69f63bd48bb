"""The functions in C++ that a program which JAX compiles for a processor can call: kernels/cpu/README.md."""

import jax

try:
    from thermoment._engines._native import (
        curve_sums,
        draw_sums,
        kernels,
        narrow_product,
        narrow_sums,
        sparse_product,
        sparse_transposed_product,
    )

    for _name, _function in (
        ("curve_sums", curve_sums),
        ("draw_sums", draw_sums),
        ("narrow_product", narrow_product),
        ("narrow_sums", narrow_sums),
        ("sparse_product", sparse_product),
        ("sparse_transposed_product", sparse_transposed_product),
    ):
        jax.ffi.register_ffi_target(f"thermoment_{_name}", _function, platform="cpu")
    _kernel = next(number for number, (_, _, runs_here, _) in enumerate(kernels()) if runs_here)
except (ImportError, RuntimeError):  # it was not built, or this version of XLA calls functions in another way
    _kernel = -1

KERNEL = _kernel
"""The fastest kernel that runs here, as these functions count them; -1 where there are none."""


def can_call() -> bool:
    """Whether programs can call them: they are there, and JAX computes on the processor."""
    return KERNEL >= 0 and jax.default_backend() == "cpu"
