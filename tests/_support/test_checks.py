"""The checks of arguments: what is taken, and the one sentence about what is not."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import thermoment as tm
from thermoment._support.checks import check_array, check_integer, check_positive, check_real, check_shape, shown

HUGE = 10**5000
Protocol: Any = tm.Protocol


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0), jnp.float32(2)])
def test_a_real_number_of_any_type_is_taken(value: Any) -> None:
    assert check_real("x", value) == 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_real("x", "1"), "`x` must be a real number, but was '1'."),
        (lambda: check_real("x", b"1"), "`x` must be a real number, but was b'1'."),
        (lambda: check_real("x", None), "`x` must be a real number, but was None."),
        (lambda: check_real("x", 1j), "`x` must be a real number, but was 1j."),
        (lambda: check_real("x", math.nan), "`x` must be finite, but was nan."),
        (lambda: check_real("x", HUGE), "`x` must be within the range of a float, but was about 10^5000."),
        (lambda: check_positive("x", -HUGE), "`x` must be within the range of a float, but was about -10^5000."),
        (lambda: check_integer("x", HUGE, 0, 9), "`x` must be an integer from 0 to 9, but was about 10^5000."),
        (lambda: check_integer("x", 10, 0, 9), "`x` must be an integer from 0 to 9, but was 10."),
        (lambda: Protocol(t_final="1"), "`t_final` must be a real number, but was '1'."),
        (lambda: Protocol(dt="fast"), "`dt` must be a real number, but was 'fast'."),
        (lambda: Protocol(clip=HUGE), "`clip` must be within the range of a float, but was about 10^5000."),
        (lambda: Protocol(seed=HUGE), "`seed` must be an integer from 0 to 4294967295, but was about 10^5000."),
        (lambda: check_shape("x", ["a"], ("N",)), "`x` must be a real array, but was of type list."),
        (lambda: check_shape("x", np.zeros(2, "V2"), ("N",)), "`x` must be a real array, but was of type ndarray."),
    ],
)
def test_what_is_refused_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match="Argument ") as caught:
        call()
    assert str(caught.value) == f"Argument {message}"


def test_a_long_value_is_cut_and_an_endless_one_is_not_written() -> None:
    assert shown("x" * 300) == "x" * 300
    assert shown("x" * 301) == "x" * 300 + "... (301 characters)"
    assert shown([HUGE]) == "a list too long to show"
    assert shown(12345) == "12345"


class TestArrays:
    def test_a_masked_cell_is_refused_and_a_mask_without_one_is_not(self) -> None:
        values = np.ma.MaskedArray(np.ones((2, 3)), mask=False)
        assert np.array_equal(check_array("x", values, (2, 3)), np.ones((2, 3)))
        values[1, 2] = np.ma.masked
        with pytest.raises(ValueError, match=r"`x` must have a value in every cell, but was masked at index \(1, 2\)"):
            check_array("x", values, (2, 3))

    @pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
    def test_short_floats_keep_their_values(self, dtype: Any) -> None:
        for array in (np.array([0.5, -1.5, 3.0], dtype), jnp.array([0.5, -1.5, 3.0], dtype)):
            taken = check_array("x", array, ("N",))
            assert taken.dtype == np.float64
            assert taken.tolist() == [0.5, -1.5, 3.0]
            assert check_shape("x", array, ("N",)).dtype == np.float32

    def test_a_reservoir_takes_them_too(self) -> None:
        K, b = jnp.ones((2, 3), jnp.bfloat16), jnp.zeros(2, jnp.bfloat16)
        short = tm.Reservoir(np.zeros((2, 2)), K, b)  # type: ignore[arg-type]
        assert short.K.tolist() == [[1.0] * 3] * 2
