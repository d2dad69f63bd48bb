"""What `meanfield` has done in C++ on a processor: the draws of its replicas and the curves of its rounds."""

import importlib.util
import math
import sys
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import thermoment as tm
from support.kernels import KERNELS, built
from thermoment._engines import xla_calls
from thermoment._engines.meanfield import curves, engine, network, replicas
from thermoment._engines.meanfield.curves import Shapes, sums_in_cpp
from thermoment._engines.meanfield.quantiles import NORMALS
from thermoment._engines.meanfield.replicas import Quantiles
from thermoment.noise import round_keys

LAWS = 5


def law() -> Quantiles:
    """Shapes that increase; their moments are not read here."""
    rng = np.random.default_rng(1)
    shape = np.cumsum(rng.random((LAWS, len(NORMALS))), axis=1).astype(np.float32) / 50 - 2
    rise = np.diff(shape, axis=1, append=shape[:, -1:])
    flat = jnp.asarray(shape.reshape(-1)), jnp.asarray(rise.reshape(-1))
    return Quantiles(jnp.float32(1), *flat, jnp.zeros((8, LAWS)))


def drawn(how: Any, S: slice, N: int, draws: int, orders: tuple[int, ...]) -> Any:
    """Sums by one of the two functions, of some of ten samples."""
    rng = np.random.default_rng(N)
    mean, spread = (rng.normal(size=(10, N)).astype(np.float32)[S] for _ in range(2))
    row = rng.integers(0, LAWS, (10, N)).astype(np.int32)[S]
    ids = (np.arange(10, dtype=np.uint64) * 2**33 + 5)[S]
    with jax.enable_x64(True):
        keys = jnp.asarray(round_keys(7, 3))
        arrays = [jnp.asarray(a) for a in (mean, spread, row)]
        return np.asarray(how(*arrays, orders, law(), jnp.asarray(ids), keys, jnp.int64(draws)))


@cache
def drawn_by_jax(N: int, draws: int, orders: tuple[int, ...]) -> Any:
    """Sums by the program in JAX, which takes a second to compile."""
    return drawn(replicas._sums, slice(None), N, draws, orders)


# Draws that fill no vector, one and several; nodes that fill no group, and some.
@built
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("N", "draws"), [(3, 1), (8, 32), (9, 5), (5, 100)])
def test_draws_are_those_of_the_program_in_jax(
    kernel: str, N: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "KERNEL", KERNELS[kernel])
    for orders in ((1, 2, 4), (1, 2, 3, 5, 8)) if N == 9 else ((1, 2, 4),):
        found = drawn(replicas._sums_in_cpp, slice(None), N, draws, orders)
        wanted = drawn_by_jax(N, draws, orders)
        # Where z differs by 1e-6, x^p does by p x^(p - 1) times that.
        scale = draws * np.abs(wanted / draws).max(axis=(0, 2), keepdims=True)
        assert np.all(np.abs(found - wanted) <= 2e-5 * scale)
        assert np.all(np.abs(wanted).max(axis=(0, 2)) > 0.1)


@built
def test_draws_of_a_sample_have_the_same_bits_in_any_batch() -> None:
    whole = drawn(replicas._sums_in_cpp, slice(None), 9, 50, (1, 2, 4))
    np.testing.assert_array_equal(drawn(replicas._sums_in_cpp, slice(3, 5), 9, 50, (1, 2, 4)), whole[3:5])


def shapes(B: int) -> Shapes:
    rng = np.random.default_rng(B)
    return Shapes(jnp.float32(0.5), jnp.asarray(rng.normal(size=(40, 4, B)), jnp.float32))


# Few shapes, an odd number, all that there can be; drives that fill vectors, and some that do not.
@built
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("B", "S", "N"), [(8, 4, 16), (13, 3, 7), (32, 5, 9)])
def test_sums_of_curves_are_those_of_jax(kernel: str, B: int, S: int, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "KERNEL", KERNELS[kernel])
    rng = np.random.default_rng(S)
    h = jnp.asarray(np.abs(rng.normal(size=(S, N))), jnp.float32)
    matrix, fields = (jnp.asarray(rng.normal(size=n), jnp.float32) for n in ((21, B), (7, S, N)))
    table = curves.curves(matrix, shapes(B), h)
    np.testing.assert_allclose(sums_in_cpp(matrix, shapes(B), h), table, atol=3e-5 * float(jnp.abs(table).max()))
    wanted = (table.reshape(3, 7, S, N) * fields).sum(axis=1)
    found = sums_in_cpp(matrix, shapes(B), h, fields)
    np.testing.assert_allclose(found, wanted, atol=3e-5 * float(jnp.abs(wanted).max()))


@built
@pytest.mark.parametrize("dynamics", [tm.Dynamics(), pytest.param(tm.Dynamics(J3=0.2), marks=pytest.mark.slow)])
def test_the_engine_answers_as_it_does_without(dynamics: tm.Dynamics, monkeypatch: pytest.MonkeyPatch) -> None:
    reservoir = tm.Reservoir.draw(20, 6, seed=3, s_W=0.2, dynamics=dynamics)
    inputs, found = np.random.default_rng(2).normal(size=(30, 6)), {}
    for M in (64, math.inf):
        protocol = tm.Protocol(dt=5e-3, n_replicas=M, orders=(1, 2, 3, 4))
        found[M, True] = tm.simulate(reservoir, inputs, protocol, engine="meanfield").raw
    for module in (network, replicas):
        monkeypatch.setattr(module, "can_call", lambda: False)
    engine._curves.cache_clear()
    engine._with_fluctuation.clear_cache()  # type: ignore[attr-defined]
    for M in (64, math.inf):
        protocol = tm.Protocol(dt=5e-3, n_replicas=M, orders=(1, 2, 3, 4))
        found[M, False] = tm.simulate(reservoir, inputs, protocol, engine="meanfield").raw
        np.testing.assert_allclose(found[M, True], found[M, False], atol=5e-6)
        assert np.any(found[M, True] != found[M, False])  # another program indeed
    engine._curves.cache_clear()
    engine._with_fluctuation.clear_cache()  # type: ignore[attr-defined]


def anew() -> Any:
    """xla_calls.py once more, under another name."""
    spec = importlib.util.spec_from_file_location("xla_calls_anew", xla_calls.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_the_extension_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thermoment._engines._native", None)
    assert not anew().can_call()


@built
def test_with_an_xla_that_calls_functions_otherwise_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("another version of the interface")

    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
    assert not anew().can_call()


@built
def test_on_a_gpu_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not xla_calls.can_call()
