"""What a linear readout may read of a node beside its raw moments: central moments, powers of means, no physics at all.

    m1 ... m8        raw moments E[x^p]
    mu2, mu3, mu4    central moments E[(x - m1)^p]; mu2 is the variance
    m1^2, m1^4       powers of the mean
    x, x^2, x^4      powers of the stationary point 2 J2 x + 4 J4 x^3 = h of the node by itself: neither noise, nor
                     time, nor coupling
    pair             E[x_i x_j] of every node i with its partner j, the node whose coupling |W_ij| to it is strongest
    means            E[x_i] E[x_j] of the same pairs: what `pair` is where two nodes fluctuate independently

A block of features is one such word for all nodes.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoment._support.checks import invalid
from thermoment.physics import Dynamics

PAIR, MEANS = "pair", "means"
_WORD = re.compile(rf"m([1-8])|mu([2-4])|m1\^([2-8])|x(?:\^([2-8]))?|{PAIR}|{MEANS}")
MEANING = "be words such as m1, m2, mu2 (variance), mu4, m1^2, x (stationary point), x^4, pair, means, each once"


def check_reads(argument: str, words: Iterable[Any]) -> tuple[str, ...]:
    """`words` as a tuple, each of them known and there once."""
    found = tuple(words)
    if not all(isinstance(word, str) and _WORD.fullmatch(word) for word in found) or len(set(found)) < len(found):
        raise invalid(argument, MEANING, list(found))
    return found


def needed(words: Iterable[str]) -> tuple[int, ...]:
    """The orders of the raw moments that blocks are made of, increasing."""
    orders: set[int] = set()
    for word in words:
        raw, central, power, _ = _parts(word)
        mean = power or word == MEANS
        orders |= {raw} if raw else set(range(1, central + 1)) if central else {1} if mean else set()
    return tuple(sorted(orders))


def blocks(
    words: Sequence[str],
    raw: NDArray[Any],
    orders: Sequence[int],
    drive: NDArray[Any] | None,
    dynamics: Dynamics,
    partner: NDArray[np.intp] | None = None,
) -> NDArray[np.float32]:
    """Features [word | word | ...] of raw moments (S, len(orders), N): (S, len(words) * N), computed in float64.

    drive: h (S, N), which only words with x need
    partner: of every node, (N,), which only `pair` and `means` need. For `pair` E[x_i x_j] follows the raw moments:
        raw is (S, len(orders) + 1, N)
    """
    at = {p: raw[:, k].astype(np.float64) for k, p in enumerate(orders)}
    found = []
    for word in words:
        if word in (PAIR, MEANS):
            assert partner is not None
            found.append(raw[:, len(orders)].astype(np.float64) if word == PAIR else at[1] * at[1][:, partner])
        else:
            found.append(_block(word, at, drive, dynamics))
    return np.concatenate(found, axis=1).astype(np.float32)


def partners(W: NDArray[Any]) -> NDArray[np.intp]:
    """Of every node i another node j: the one with the largest |W_ij|, the first of equals: (N,)."""
    strength = np.abs(W)
    np.fill_diagonal(strength, -1.0)
    return np.asarray(strength.argmax(axis=1))


def pairs_of(words: Iterable[str], W: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    """The pairs of nodes whose products the words ask for: every node with its partner, or none."""
    return tuple(enumerate(partners(W).tolist())) if PAIR in words else ()


def needs_drive(words: Iterable[str]) -> bool:
    """Whether a block is made of the drives, not of moments."""
    return any(word.startswith("x") for word in words)


def _block(word: str, at: dict[int, NDArray[np.float64]], drive: NDArray[Any] | None, dynamics: Dynamics) -> Any:
    raw, central, power, of_x = _parts(word)
    if raw:
        return at[raw]
    if power:
        return at[1] ** power
    if central:
        total = (-at[1]) ** central
        for p in range(1, central + 1):
            total = total + math.comb(central, p) * at[p] * (-at[1]) ** (central - p)
        return total
    assert drive is not None
    return dynamics.stationary_point(drive) ** of_x


def _parts(word: str) -> tuple[int, int, int, int]:
    """Of a word the raw order, the central order, the power of the mean, the power of x: one of them is not zero."""
    found = _WORD.fullmatch(word)
    assert found is not None
    raw, central, power, of_x = (int(part or 0) for part in found.groups())
    return raw, central, power, of_x or int(word == "x")
