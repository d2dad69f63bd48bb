"""Argument checks, all with one sentence form: what the argument must be, and what it was."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from inspect import signature
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LONGEST = 300
"""Characters of a value that a message shows."""


def invalid(argument: str, must: str, was: object) -> ValueError:
    """The error for a bad argument: "Argument `dt` must be positive, but was -1.0."."""
    return ValueError(f"Argument `{argument}` must {must}, but was {shown(was)}.")


def shown(value: object) -> str:
    """`value` as a message shows it: a huge integer by its size, and nothing longer than a few lines."""
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"about {'-' if value < 0 else ''}10^{int(math.log10(abs(value)))}"
    try:
        text = str(value)
    except (ValueError, RecursionError):  # a list that holds an integer of thousands of digits, or itself
        return f"a {type(value).__name__} too long to show"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def quoted(value: object) -> str:
    """`value` as a message shows it where its type matters: a word in quotation marks, an object by its own account."""
    if isinstance(value, int):
        return shown(value)
    try:
        return shown(repr(value))
    except (ValueError, RecursionError):
        return shown(value)


def check_real(argument: str, value: Any) -> float:
    """`value` as a finite float. The text of a number is no number."""
    try:
        if isinstance(value, str | bytes | bytearray) or np.ndim(value) or value is np.ma.masked:
            raise TypeError
        number = float(value)
    except OverflowError:
        raise invalid(argument, "be within the range of a float", value) from None
    except (TypeError, ValueError):
        raise invalid(argument, "be a real number", quoted(value)) from None
    if not math.isfinite(number):
        raise invalid(argument, "be finite", number)
    return number


def is_infinite(value: Any) -> bool:
    """Whether `value` is plus infinity, of whatever type of number."""
    try:
        return np.ndim(value) == 0 and bool(value == math.inf)
    except (TypeError, ValueError):
        return False


def check_positive(argument: str, value: Any) -> float:
    """`value` as a finite float above zero."""
    number = check_real(argument, value)
    if number <= 0:
        raise invalid(argument, "be positive", number)
    return number


def check_not_negative(argument: str, value: Any) -> float:
    """`value` as a finite float, zero or above."""
    number = check_real(argument, value)
    if number < 0:
        raise invalid(argument, "be zero or positive", number)
    return number


def check_integer(argument: str, value: SupportsIndex, low: int, high: int) -> int:
    """`value` as an int in [low, high]."""
    try:
        number = operator.index(value)
    except TypeError:
        raise invalid(argument, "be an integer", quoted(value)) from None
    if isinstance(value, bool) or not low <= number <= high:
        raise invalid(argument, f"be an integer from {low} to {high}", value)
    return number


def check_integers(argument: str, values: Any, low: int, high: int) -> tuple[int, ...]:
    """`values` as a tuple of ints in [low, high]."""
    try:
        return tuple(check_integer(argument, value, low, high) for value in values)
    except TypeError:
        raise invalid(argument, "be a sequence of integers", quoted(values)) from None


def check_function(argument: str, value: Any, *given: Any) -> None:
    """Raises where `value` is no function that can be called with as many arguments as are `given`."""
    try:
        signature(value).bind(*given)
    except ValueError:  # a function written in C may not say
        return
    except TypeError:
        raise invalid(argument, f"be a function of {len(given)} arguments", quoted(value)) from None


def check_array(argument: str, value: ArrayLike, shape: tuple[int | str, ...]) -> NDArray[np.float64]:
    """`value` as a finite float64 array of `shape`; it may share memory with `value`.

    A letter in `shape` stands for any length above zero, the same letter for the same length.
    """
    array = check_shape(argument, value, shape).astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise invalid(argument, "be finite", f"{array[where]} at index {where}")
    return array


def check_shape(argument: str, value: ArrayLike, shape: tuple[int | str, ...]) -> NDArray[Any]:
    """`value` as an array of real numbers of `shape`, in whatever type of NumPy they come."""
    array = check_numbers(argument, value)
    if not _fits(array.shape, shape):
        wanted = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"Argument `{argument}` must have shape {wanted}, but has shape {array.shape}.")
    return array


def check_numbers(argument: str, value: ArrayLike) -> NDArray[Any]:
    """`value` as an array of real numbers of any shape, in whatever type of NumPy they come.

    The short floats of JAX, such as bfloat16 and float8, become float32. A masked cell has no value and is refused.
    """
    if isinstance(value, np.ma.MaskedArray) and value.mask.any():
        where = tuple(int(i) for i in np.argwhere(value.mask)[0])
        raise invalid(argument, "have a value in every cell", f"masked at index {where}")
    try:
        array = np.asarray(value)
        if array.dtype.isbuiltin == 2 and np.can_cast(array.dtype, np.float32):  # 2: a type that another library added
            array = array.astype(np.float32)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise invalid(argument, "be a real array", f"of type {type(value).__name__}") from None
    return array


def _fits(shape: tuple[int, ...], wanted: tuple[int | str, ...]) -> bool:
    if len(shape) != len(wanted):
        return False
    lengths: dict[str, int] = {}
    return all(
        have > 0 and lengths.setdefault(want, have) == have if isinstance(want, str) else have == want
        for have, want in zip(shape, wanted, strict=True)
    )


def check_each(argument: str, value: Any, check: Callable[[str, Any], float]) -> Any:
    """`value` as a float that passes the check, or as a read-only array (N,) of them."""
    try:
        single = np.ndim(value) == 0
    except ValueError:  # rows of different lengths
        single = False
    if single:
        return check(argument, value)
    array = np.array(check_array(argument, value, ("N",)))
    for one in np.unique(array):
        check(argument, one)
    array.flags.writeable = False
    return array


def refuse_where(wrong: Any, argument: str, must: str, value: Any) -> None:
    """Raises where a number, or one of an array, is wrong, with the first that is."""
    if np.any(wrong):
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise invalid(argument, must, f"{value[where]} at index {where}" if np.ndim(value) else value)


def check_labels(argument: str, value: ArrayLike, n_samples: int, n_classes: int | None = None) -> NDArray[np.int64]:
    """`value` as an int64 array of class numbers from 0, below `n_classes` if given, one for each sample: (S,)."""
    labels = check_numbers(argument, value)
    if labels.shape != (n_samples,):
        raise ValueError(f"Argument `{argument}` must have shape ({n_samples},), but has shape {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise invalid(argument, "be integers", f"of dtype {labels.dtype}")
    wrong = (labels < 0) | (False if n_classes is None else labels >= n_classes)
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        known = "zero or positive" if n_classes is None else f"class numbers from 0 to {n_classes - 1}"
        raise invalid(argument, f"be {known}", f"{labels[where]} at index {where}")
    return labels.astype(np.int64)


def check_choice(argument: str, value: Any, choices: Sequence[str]) -> str:
    """`value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise invalid(argument, f"be one of {', '.join(choices)}", quoted(value))
    return str(value)


def check_fields(
    instance: Any,
    *,
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    integers: Mapping[str, tuple[int, int]] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
    infinite: Sequence[str] = (),
) -> None:
    """Checks fields of a frozen dataclass from its `__post_init__`, and stores them as plain floats, ints and strings.

    positive, not_negative: names of fields that are real numbers
    integers: for each field its lowest and highest value
    choices: for each field the strings it may be
    infinite: fields of the above that may also be math.inf

    A field whose default is None may be None.
    """
    checks: dict[str, Callable[[Any], Any]] = {name: partial(check_positive, name) for name in positive}
    checks |= {name: partial(check_not_negative, name) for name in not_negative}
    checks |= {name: partial(check_integer, name, low=low, high=high) for name, (low, high) in (integers or {}).items()}
    checks |= {name: partial(check_choice, name, choices=known) for name, known in (choices or {}).items()}
    optional = {field.name for field in fields(instance) if field.default is None}
    for name, check in checks.items():
        value = getattr(instance, name)
        if name in infinite and is_infinite(value):
            object.__setattr__(instance, name, math.inf)
        elif not (name in optional and value is None):
            object.__setattr__(instance, name, check(value))
