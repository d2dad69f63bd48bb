"""The noise contract: known answers, Box-Muller against float64, tests of randomness with controls they must catch.

Every statistical test has a false-alarm rate of 1e-6 and fixed seeds.
"""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from thermoment._engines import jax_noise
from thermoment.noise import box_muller, counters, normals, philox, round_keys

Array = NDArray[np.float64]
FALSE_ALARM = 1e-6

# Random123's kat_vectors: counter (4 words), key (2 words), result (4 words).
KNOWN_ANSWERS = {
    10: [
        "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
        "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
    ],
    7: [
        "00000000 00000000 00000000 00000000 00000000 00000000 5f6fb709 0d893f64 4f121f81 4f730a48",
        "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 5207ddc2 45165e59 4d8ee751 8c52f662",
        "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 4dfccaba 190a87f0 c47362ba b6b5242a",
    ],
}


def pack(high: int, low: int) -> NDArray[np.uint64]:
    return np.array([high << 32 | low], np.uint64)


@pytest.mark.parametrize("rounds", [10, 7])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_philox_known_answers(rounds: int, row: int) -> None:
    a, b, c, d, seed, stream, *answer = (int(word, 16) for word in KNOWN_ANSWERS[rounds][row].split())
    ab, cd = philox(pack(a, b), pack(c, d), round_keys(seed, stream, rounds))
    assert (int(ab[0]), int(cd[0])) == (answer[0] << 32 | answer[1], answer[2] << 32 | answer[3])


def test_philox_in_jax_is_the_same() -> None:
    words = np.random.default_rng(0).integers(0, 2**64, (2, 1000), dtype=np.uint64)
    keys = round_keys(20260609, 3)
    with jax.enable_x64(True):
        found = [np.asarray(word) for word in philox(jnp.asarray(words[0]), jnp.asarray(words[1]), jnp.asarray(keys))]
    assert np.array_equal(found, philox(words[0], words[1], keys))


def test_the_counter_is_the_contracts() -> None:
    ab, cd = counters(np.uint64(5), np.uint64(7), np.uint64(9), np.uint64(0x0123456789ABCDEF))
    assert (int(ab) >> 32, int(ab) & 0xFFFFFFFF) == (5, 7 * 4096 + 9)
    assert (int(cd) >> 32, int(cd) & 0xFFFFFFFF) == (0x89ABCDEF, 0x01234567)


def test_normals_by_the_letter_of_the_contract() -> None:
    """Node 4g + q of replica m, worked out in Python integers and math alone."""
    n, m, s, seed, stream = 17, 3, 2**40 + 5, 20260609, 2
    found = normals(n, np.array([m]), 11, s, seed, stream)[0]
    for i in range(11):
        counter = [n, m * 4096 + i // 4, s & 0xFFFFFFFF, s >> 32]
        key = [seed, stream]
        for _ in range(10):
            low, high = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [
                (high >> 32) ^ counter[1] ^ key[0],
                high & 0xFFFFFFFF,
                (low >> 32) ^ counter[3] ^ key[1],
                low & 0xFFFFFFFF,
            ]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        w0, w1 = counter[:2] if i % 4 < 2 else counter[2:]
        radius = np.sqrt(-2 * np.log((w0 + 0.5) / 2**32))
        angle = 2 * np.pi * w1 / 2**32
        expected = radius * (np.cos(angle) if i % 2 == 0 else np.sin(angle))
        assert found[i] == pytest.approx(expected, rel=1e-12)


class TestBoxMuller:
    CORNERS = np.array(
        [
            (a << 32) | b
            for a in (0, 1, 2**31, 2**32 - 1)
            for b in (0, 1, 2**29 - 1, 2**29, 2**30, 3 * 2**29, 2**31, 2**32 - 1)
        ],
        np.uint64,
    )
    PAIRS = np.concatenate([CORNERS, np.random.default_rng(1).integers(0, 2**64, 10**6, dtype=np.uint64)])

    @pytest.mark.parametrize(("dtype", "allowed"), [("float64", 1e-13), ("float32", 3e-6)])
    def test_against_float64(self, dtype: str, allowed: float) -> None:
        expected = box_muller(self.PAIRS)
        with jax.enable_x64(True):
            found = np.asarray(jax.jit(jax_noise.box_muller, static_argnums=1)(self.PAIRS, np.dtype(dtype)))
        # Near r = 0 the float32 radius knows only sqrt(2^-23): weigh by r there.
        weight = np.minimum(np.hypot(*expected), 1)
        error = np.maximum(np.abs(found.real - expected[0]), np.abs(found.imag - expected[1]))
        assert np.isfinite(found).all()
        assert (error * weight).max() < allowed

    def test_largest_and_smallest_radius(self) -> None:
        smallest, largest = (np.hypot(*box_muller(pack(word, 0)))[0] for word in (2**32 - 1, 0))
        assert largest == pytest.approx(np.sqrt(2 * 33 * np.log(2)))
        assert smallest == pytest.approx(np.sqrt(2.0**-32), rel=1e-6)


# Randomness. One block of noise, indexed by the five indices of the contract.
INDICES = ("stream", "sample", "step", "replica", "node")
SIZES = (2, 8, 16, 32, 64)


@cache
def block(blur: str | None = None) -> Array:
    """Noise over all five indices. With `blur` the lowest bit of that index is lost: a broken contract."""
    lists = [
        np.arange(size) // 2 * 2 if name == blur else np.arange(size) for name, size in zip(INDICES, SIZES, strict=True)
    ]
    streams, samples, steps, replicas, nodes = lists
    return np.array(
        [
            [[normals(int(n), replicas, SIZES[-1], int(s), 20260609, int(r))[:, nodes] for n in steps] for s in samples]
            for r in streams
        ]
    )


def correlation_p(xi: Array, axis: int, f: Callable[[Array], Array]) -> float:
    """Two-sided p-value of the correlation of neighbours along an axis, after f of mean 0 and variance 1."""
    first, second = np.split(np.moveaxis(f(xi), axis, 0).reshape(-1, 2, xi.size // xi.shape[axis]), 2, axis=1)
    z = (first * second).sum() / np.sqrt(first.size)
    return float(2 * stats.norm.sf(abs(z)))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "x": lambda x: x,
    "x^2": lambda x: (x**2 - 1) / np.sqrt(2),
    "sign": np.sign,
}


@pytest.mark.parametrize("index", INDICES)
def test_independence_across(index: str) -> None:
    axis = INDICES.index(index)
    for f in FUNCTIONS.values():
        assert correlation_p(block(), axis, f) > FALSE_ALARM / len(FUNCTIONS)
        assert correlation_p(block(blur=index), axis, f) < FALSE_ALARM, "a lost index must be caught"


def test_the_two_normals_of_a_pair_are_independent() -> None:
    xi = block().reshape(-1, 2)
    for f in FUNCTIONS.values():
        assert correlation_p(xi, 1, f) > FALSE_ALARM / len(FUNCTIONS)
    angle_lost = np.repeat(xi[:, :1], 2, axis=1)
    assert correlation_p(angle_lost, 1, FUNCTIONS["x"]) < FALSE_ALARM


def sums_of_uniforms(n: int) -> Array:
    """A shortcut to nearly normal numbers that the tests must tell from normal ones."""
    uniform = np.random.default_rng(2).random((n, 6))
    return np.asarray((uniform.sum(axis=1) - 3) * np.sqrt(2))


def test_normality() -> None:
    xi = block().ravel()
    assert stats.kstest(xi, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(sums_of_uniforms(xi.size), "norm").pvalue < FALSE_ALARM


def test_the_tails() -> None:
    """As many beyond 3 and 4 as there should be (exact binomial), and none beyond what 33 bits allow."""
    xi = block().ravel()
    for threshold in (3, 4):
        expected = 2 * stats.norm.sf(threshold)
        good, bad = (
            stats.binomtest(int(np.count_nonzero(np.abs(x) > threshold)), x.size, expected).pvalue
            for x in (xi, sums_of_uniforms(xi.size))
        )
        assert good > FALSE_ALARM / 2
        assert bad < FALSE_ALARM
    assert np.abs(xi).max() < np.sqrt(2 * 33 * np.log(2))


@pytest.mark.parametrize("shift", [0, 8, 16, 24, 32, 40, 48, 56])
def test_uniformity_of_every_byte(shift: int) -> None:
    ab, cd = counters(np.arange(2**18, dtype=np.uint64), np.uint64(1), np.uint64(2), np.uint64(3))
    for words in philox(ab, np.broadcast_to(cd, ab.shape), round_keys(20260609, 0)):
        octets = ((words >> np.uint64(shift)) & np.uint64(255)).astype(np.int64)
        assert stats.chisquare(np.bincount(octets, minlength=256)).pvalue > FALSE_ALARM / 16
        stuck = octets & ~(octets == 77)
        assert stats.chisquare(np.bincount(stuck, minlength=256)).pvalue < FALSE_ALARM
