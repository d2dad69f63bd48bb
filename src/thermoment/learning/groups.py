"""SGD of many linear readouts on a processor: two groups of them, each a program that a core of its own can run.

Products of one batch are too small to be shared between cores with profit, but two programs share nothing. A group
multiplies only what its readouts read: columns of x that the same readouts read are a block, and one product serves all
readers of a block. How readouts are grouped depends on their columns alone, so the bits do not depend on the machine.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from thermoment._support.compilation import ONE_CORE, REPRODUCIBLE
from thermoment._support.threads import at_the_same_time, cores
from thermoment.learning.batches import batches
from thermoment.learning.descent import LossReport, shares
from thermoment.learning.options import Sgd

Weights = tuple[list[jax.Array], jax.Array]
"""For every block (readers * C, columns), and the bias (R, C, 1)."""

_GROUPS = 2
"""More of them would copy the batch more often, which is a quarter of the work of a group."""
_NARROWEST = 64
"""Columns of a product that is worth its start. Narrower blocks are joined, and a mask says who reads which column."""


class Block(NamedTuple):
    """Neighbouring columns of x that one product multiplies."""

    first: int
    last: int
    """the column after the block"""
    readers: tuple[int, ...]
    """places of the readouts in their group"""
    masked: bool
    """whether one of the readers reads only some of the columns"""


def grouped(reads: NDArray[np.bool_]) -> list[list[int]]:
    """The readouts of every group, where reads (R, F) says which columns a readout reads.

    The largest readout comes first, and each goes where it leaves the larger group smaller. The cost of a column is
    that of its products, one for each reader, and of its copy into the batch, which takes about as long as one of them.
    """
    found: list[list[int]] = [[] for _ in range(min(_GROUPS, len(reads)))]
    for readout in sorted(range(len(reads)), key=lambda number: -int(reads[number].sum())):

        def cost(group: list[int], readout: int = readout) -> int:
            readers = reads[[*group, readout]].sum(0)
            return int(readers.sum() + (readers > 0).sum())

        min(found, key=cost).append(readout)
    return [sorted(group) for group in found if group]


def blocks_of(reads: NDArray[np.bool_]) -> tuple[Block, ...]:
    """The blocks of a group, from left to right, where reads (R, F) says which columns a readout of it reads."""
    changes = np.flatnonzero((reads[:, 1:] != reads[:, :-1]).any(0)) + 1
    found: list[Block] = []
    for first, last in zip([0, *changes], [*changes, reads.shape[1]], strict=True):
        part = reads[:, first:last]
        if not part.any():
            continue
        before = found[-1] if found else None
        if before and before.last == first and min(before.last - before.first, last - first) < _NARROWEST:
            found.pop()
            first, part = before.first, reads[:, before.first : last]
        readers = np.flatnonzero(part.any(1))
        found.append(Block(int(first), int(last), tuple(readers.tolist()), not bool(part[readers].all())))
    return tuple(found)


def descend_in_groups(
    x: jax.Array, labels: NDArray[np.int64], reads: NDArray[np.bool_], settings: Sgd, report: LossReport
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights (R, C, F) and bias (R, C) after all epochs, from zero; a weight that a readout does not read is zero.

    x: (S, F), standardised
    labels: (S,), class numbers from 0
    reads: (R, F), which columns of x a readout reads
    report: called after every epoch, with the mean loss of a readout
    """
    n_classes, groups = int(labels.max()) + 1, grouped(reads)
    y = jnp.asarray(labels, jnp.int32)
    scalars = np.float32(settings.learning_rate), np.float32(settings.l2)
    weights = np.zeros((len(reads), n_classes, reads.shape[1]), np.float32)
    bias = np.zeros((len(reads), n_classes), np.float32)
    tell = _tell_of_all(len(groups), lambda done, loss: report(done, loss / len(reads)))
    epoch = _epoch_on_one_core if cores() < 2 * len(groups) else _epoch

    def fit(group: list[int], stop: Callable[[], None]) -> None:
        own = reads[group]
        blocks = blocks_of(own)
        masks = [
            np.repeat(own[block.readers, block.first : block.last], n_classes, 0).astype(np.float32)
            if block.masked
            else None
            for block in blocks
        ]
        shapes = [(len(block.readers) * n_classes, block.last - block.first) for block in blocks]
        start = [jnp.zeros(shape, jnp.float32) for shape in shapes]
        moving: Weights = start, jnp.zeros((len(group), n_classes, 1), jnp.float32)
        rng = np.random.default_rng(settings.seed)
        for number, rows in enumerate(batches(len(x), settings.batch_size, settings.epochs, rng), 1):
            stop()
            moving, loss = epoch(blocks, scalars, moving, masks, x, y, rows)
            tell(number, float(loss))
        for block, found in zip(blocks, moving[0], strict=True):
            places = np.array(group)[list(block.readers)]
            weights[places, :, block.first : block.last] = np.asarray(found).reshape(len(places), n_classes, -1)
        bias[group] = np.asarray(moving[1])[..., 0]

    at_the_same_time(fit, groups, len(groups))
    return weights, bias


def _tell_of_all(n_groups: int, report: LossReport) -> Callable[[int, float], None]:
    """What a group calls with the number of an epoch and its loss: `report` hears the sum once all have done it."""
    lock = Lock()
    heard: defaultdict[int, list[float]] = defaultdict(list)

    def tell(epoch: int, loss: float) -> None:
        with lock:
            heard[epoch].append(loss)
            if len(heard[epoch]) == n_groups:
                report(epoch, sum(heard.pop(epoch)))

    return tell


def _pass(
    blocks: tuple[Block, ...],
    scalars: Any,
    moving: Weights,
    masks: list[jax.Array | None],
    x: jax.Array,
    y: jax.Array,
    rows: jax.Array,
) -> tuple[Weights, jax.Array]:
    """One pass over all batches for the readouts of a group; with the sum of their losses.

    scalars: learning rate and l2
    masks: for every block (readers * C, columns), one for the weights that are fitted, or None where all are
    rows: (n_batches, batch_size)

    Classes come before samples in all products: so XLA multiplies on a processor up to five times as fast.
    """
    rate, l2 = scalars
    n_readouts, n_classes = moving[1].shape[:2]

    def step(moving: Weights, rows: jax.Array) -> tuple[Weights, jax.Array]:
        weights, bias = moving
        parts = [_columns(x, rows, block) for block in blocks]
        logits = [bias[place] for place in range(n_readouts)]
        for block, part, w in zip(blocks, parts, weights, strict=True):
            product = jnp.einsum("cf,bf->cb", w, part, precision="highest").reshape(-1, n_classes, len(rows))
            for place, readout in enumerate(block.readers):
                logits[readout] += product[place]
        share, hot = shares(rows), y[rows] == jnp.arange(n_classes)[:, None]
        log_p = jax.nn.log_softmax(jnp.stack(logits), axis=1)
        error = share * (jnp.exp(log_p) - hot)
        moved = []
        for block, part, w, mask in zip(blocks, parts, weights, masks, strict=True):
            own = jnp.concatenate([error[readout] for readout in block.readers])
            slope = jnp.einsum("cb,bf->cf", own, part, precision="highest")
            moved.append(w - rate * ((slope if mask is None else mask * slope) + l2 * w))
        return (moved, bias - rate * error.sum(2, keepdims=True)), -(share * jnp.where(hot, log_p, 0)).sum()

    moving, entropies = jax.lax.scan(step, moving, rows)
    return moving, entropies.mean() + l2 / 2 * sum(jnp.sum(w**2) for w in moving[0])


def _columns(x: jax.Array, rows: jax.Array, block: Block) -> jax.Array:
    """The columns of a block of some rows of x: (batch_size, columns). A row of -1 is any."""
    size = (1, block.last - block.first)
    return jax.vmap(lambda row: jax.lax.dynamic_slice(x, (row, block.first), size)[0])(rows)


_compiled = partial(jax.jit, _pass, static_argnums=0, donate_argnums=2)
_epoch = _compiled(compiler_options=REPRODUCIBLE)
_epoch_on_one_core = _compiled(compiler_options=REPRODUCIBLE | ONE_CORE)
