"""Every engine draws the same normal numbers xi, a function of six indices: the noise contract, version 1.

    words = Philox4x32-10(counter = (n, m * 4096 + g, s & 0xffffffff, s >> 32), key = (seed, stream))
    n step, m replica, g = i // 4 group of four nodes, s 64-bit sample id, stream the number of the reservoir
    (xi_4g,   xi_4g+1) = r (cos t, sin t),   r = sqrt(-2 ln((w0 + 1/2) / 2^32)),   t = 2 pi w1 / 2^32
    (xi_4g+2, xi_4g+3)   likewise from (w2, w3)

Philox is the counter-based generator of Salmon, Moraes, Dror and Shaw (SC11). It has no state: the noise of any node at
any step is computed where it is needed, from seed, stream, sample, replica, node and step alone. So the noise does not
depend on the order of the work, on the batch size or on the device.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

MAX_NODES = 16384
"""4096 groups of four nodes."""
MAX_REPLICAS = 2**20
"""m * 4096 + g is a 32-bit word."""
MAX_STEPS = 2**32
ROUNDS = 10

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_HALF = np.uint64(32)
_LOW_WORD = np.uint64(0xFFFFFFFF)

Pairs = TypeVar("Pairs", bound=Any)
"""An array of uint64 that computes with the usual operators: NumPy's or JAX's."""


def round_keys(seed: int, stream: int, rounds: int = ROUNDS) -> NDArray[np.uint64]:
    """The key of each round, (rounds, 2), each shifted to the upper half where `philox` needs it."""
    keys = [
        [((word + n * step) & 0xFFFFFFFF) << 32 for word, step in zip((seed, stream), _KEY_STEPS, strict=True)]
        for n in range(rounds)
    ]
    return np.array(keys, np.uint64)


def philox(ab: Pairs, cd: Pairs, keys: Any) -> tuple[Pairs, Pairs]:
    """Philox4x32 on counters packed two words to a uint64: ab = a << 32 | b, cd = c << 32 | d.

    A round maps (a, b, c, d) to (hi(M1 c) ^ b ^ k0, lo(M1 c), hi(M0 a) ^ d ^ k1, lo(M0 a)). Packed in pairs the
    product already has its high and low half where they belong, so a round is two multiplications and four xors.
    """
    M0, M1 = _MULTIPLIERS
    for k0, k1 in keys:
        ab, cd = (cd >> _HALF) * M1 ^ (ab << _HALF) ^ k0, (ab >> _HALF) * M0 ^ (cd << _HALF) ^ k1
    return ab, cd


def counters(step: Any, replica: Any, group: Any, sample_id: Any) -> tuple[Any, Any]:
    """The packed counter of uint64 indices: (n << 32 | m * 4096 + g, low half of s << 32 | high half of s)."""
    ab = (step << _HALF) | (replica * np.uint64(4096) + group)
    cd = (sample_id << _HALF) | (sample_id >> _HALF)
    return ab, cd


def box_muller(pair: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two independent standard normals from each pair of words, in float64."""
    radius = np.sqrt(-2 * np.log(((pair >> _HALF).astype(np.float64) + 0.5) * 2.0**-32))
    angle = (pair & _LOW_WORD).astype(np.float64) * (2 * np.pi * 2.0**-32)
    return radius * np.cos(angle), radius * np.sin(angle)


def normals(
    step: int,
    replicas: NDArray[np.integer[Any]],
    n_nodes: int,
    sample_id: int,
    seed: int,
    stream: int = 0,
) -> NDArray[np.float64]:
    """xi of all nodes at one step of one sample: (len(replicas), n_nodes)."""
    groups = np.arange((n_nodes + 3) // 4, dtype=np.uint64)
    m = np.asarray(replicas, np.uint64)[:, None]
    ab, cd = counters(np.uint64(step), m, groups, np.uint64(sample_id))
    ab, cd = philox(ab, np.broadcast_to(cd, ab.shape), round_keys(seed, stream))
    xi = np.stack(box_muller(ab) + box_muller(cd), axis=-1)
    return xi.reshape(len(m), -1)[:, :n_nodes]
