"""A task as the kernels of the cuda engine take it: tables of its segments, and what comes back. Needs no GPU."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment._engines.cuda_layout import WIDTH, node_of_column, power_of_two
from thermoment._engines.task import Array, Task
from thermoment._support.checks import invalid
from thermoment.noise import round_keys

ROWS = 64
"""Replicas that a tile holds."""
LARGEST_STATE = 6e4
"""States are kept below this: half precision, in which W x is multiplied, ends at 65504."""
# A launch covers at most _ROUNDS tiles for each tile that the GPU works on at a time, fewer if tiles times steps would
# exceed _ROUND_STEPS. So it lasts a fraction of a second, and Ctrl-C is noticed. A tile is never split over launches. A
# step of more nodes counts as many as there are blocks of columns.
_ROUNDS, _ROUND_STEPS = 10, 40_000
_BYTES = 2**26
"""Of what goes into a launch and comes back, if that fills the GPU: while one computes the host prepares others."""

TASK = np.dtype(
    [
        *((name, np.uint64) for name in ("drive", "ids", "sums", "clipped", "unsure")),
        *((name, np.int32) for name in ("n_samples", "blocks", "n_replicas", "n_nodes")),
        *((name, np.uint32) for name in ("n_steps", "orders")),
        *((name, np.float32) for name in ("linear", "cubic", "log_scale", "clip", "unit")),
        ("limit", np.uint32),
        ("keys", np.uint32, 20),
    ],
    align=True,
)
"""`Task` of node.cuh."""
SEGMENT = np.dtype(
    [
        ("n_steps", np.uint32),
        *((name, np.int32) for name in ("drive", "coupling", "read")),
        ("unit", np.float32),
    ]
)
"""`Segment` of segments.cuh."""
COURSE = np.dtype(
    [
        *((name, np.uint64) for name in ("segments", "start", "states", "sample_stride", "replica_stride")),
        ("n_segments", np.int32),
        ("first_step", np.uint32),
    ]
)
"""`Course` of segments.cuh."""
NETWORK = np.dtype(
    [*((name, np.uint64) for name in ("W", "x", "published")), *((name, np.int32) for name in ("columns", "k_blocks"))],
    align=True,
)
"""`Network` of wide.cu."""


class Found(NamedTuple):
    """What a launch found of S samples, at each of R readings."""

    means: Array
    """(R, S, orders, N)"""
    clipped: NDArray[np.int64]
    """(R, S): clipped updates since the reading before"""
    unsure: NDArray[np.uint8]
    """(R, S): whether the clip may have been reached since the reading before"""
    states: NDArray[np.float32] | None
    """(S, M, N) at the end, where the task wants them"""


@dataclass(frozen=True, eq=False)
class Plan:
    """What all launches of a task have in common. Segments that share a drive or a W have it once."""

    task: Task
    clip: float
    couplings: tuple[Array, ...]
    powers: tuple[int, ...]
    """each W is multiplied by 2^power"""
    drives: tuple[Array, ...]
    segments: NDArray[Any]
    """a row of `SEGMENT` for each"""

    @classmethod
    def of(cls, task: Task) -> "Plan":
        mu_dt, *_ = task.step.uniform()
        clip = min(task.protocol.clip, LARGEST_STATE)
        couplings, coupling = _distinct(one.W for one in task.segments)
        drives, drive = _distinct(one.drive for one in task.segments)
        powers = tuple(power_of_two(W, mu_dt, clip) for W in couplings)
        rows = [
            (one.n_steps, h, w, one.read, 2.0 ** -powers[w])
            for one, h, w in zip(task.segments, drive, coupling, strict=True)
        ]
        return cls(task, clip, couplings, powers, drives, np.array(rows, SEGMENT))

    @property
    def plain(self) -> bool:
        """Whether the kernel without segments does it: one segment from x = 0, which is no part of a longer run."""
        return self.task.is_plain and not self.task.a_part

    @property
    def columns(self) -> int:
        """Blocks of `WIDTH` columns."""
        return math.ceil(self.task.n_nodes / WIDTH)

    @property
    def blocks(self) -> int:
        """Tiles of a sample."""
        return math.ceil(self.task.n_replicas / ROWS)

    @cached_property
    def _column(self) -> NDArray[np.intp]:
        """(N,): where each node lies among the columns."""
        return np.argsort(node_of_column(self.columns))[: self.task.n_nodes]

    def parameters(self, n_samples: int) -> NDArray[Any]:
        """`TASK` but for its arrays."""
        task, protocol = self.task, self.task.protocol
        _, linear, cubic, sigma = task.step.uniform()
        parameters = np.zeros((), TASK)
        for name, value in (
            ("n_samples", n_samples),
            ("blocks", self.blocks),
            ("n_replicas", task.n_replicas),
            ("n_nodes", task.n_nodes),
            ("n_steps", task.n_steps),
            ("orders", sum(1 << (p - 1) for p in protocol.orders)),
            ("linear", 1 + linear),
            ("cubic", cubic),
            ("log_scale", -2 * math.log(2) * sigma**2),
            ("clip", self.clip),
            ("unit", 2.0 ** -self.powers[0]),
            ("limit", int(np.float16(self.clip).view(np.uint16))),
            ("keys", (round_keys(protocol.seed, task.stream) >> np.uint64(32)).ravel()),
        ):
            parameters[name] = value
        return parameters

    def drive(self, samples: NDArray[np.intp], *, in_segments: bool) -> NDArray[np.float32]:
        """mu dt h: (drives, S, N), or (S, columns) for the kernel without segments."""
        mu_dt, *_ = self.task.step.uniform()
        if not in_segments:
            by_column = np.zeros((len(samples), self.columns * WIDTH), np.float32)
            by_column[:, self._column] = mu_dt * self.drives[0][samples]
            return by_column
        by_node = np.empty((len(self.drives), len(samples), self.task.n_nodes), np.float32)
        for own, drive in zip(by_node, self.drives, strict=True):
            own[:] = mu_dt * drive[samples]
        return by_node

    def start(self, samples: NDArray[np.intp]) -> tuple[NDArray[np.float32], int, int]:
        """x before the first step, (S or 1, M or 1, N), with the strides from a sample and a replica to the next."""
        assert self.task.start is not None
        given = self.task.start
        S, M, N = given.shape
        own = np.ascontiguousarray(given[samples] if S > 1 else given, np.float32)
        return own, M * N if S > 1 else 0, N if M > 1 else 0

    def sums_shape(self, n_samples: int, *, in_segments: bool) -> tuple[int, ...]:
        """(readings, samples, blocks, orders, nodes); without segments columns instead of nodes."""
        width = self.task.n_nodes if in_segments else self.columns * WIDTH
        return self.task.n_reads, n_samples, self.blocks, len(self.task.protocol.orders), width

    def fill_means(self, means: Array, sums: NDArray[np.float32], *, in_segments: bool) -> None:
        """(R, S, orders, N) from the sums of all tiles, added up in the same order in any batch."""
        total = means if in_segments else np.empty((*means.shape[:3], sums.shape[4]))
        np.copyto(total, sums[:, :, 0])
        for block in range(1, self.blocks):
            total += sums[:, :, block]
        total /= self.task.n_replicas
        if not in_segments:
            means[:] = total.take(self._column, axis=3)

    def chunks(self, tiles_at_once: int) -> list[slice]:
        """The samples of each launch."""
        S = self.task.n_samples
        numbers = math.prod(self.sums_shape(1, in_segments=not self.plain)) + len(self.drives) * self.task.n_nodes
        length = launch_samples(tiles_at_once, self.blocks, self.task.n_steps * self.columns, 4 * numbers)
        return [slice(s, min(s + length, S)) for s in range(0, S, length)]


def launch_samples(tiles_at_once: int, blocks: int, n_steps: int, bytes_each: int = 0) -> int:
    """Number of samples in one launch: work for a fraction of a second, with not too much to copy."""
    rounds = max(1, min(_ROUNDS, _ROUND_STEPS // n_steps))
    if bytes_each:
        rounds = max(1, min(rounds, _BYTES // bytes_each * blocks // tiles_at_once))
    return max(1, rounds * tiles_at_once // blocks)


def settle(task: Task, found: Found, again: Callable[[NDArray[np.intp]], Found]) -> NDArray[np.int64]:
    """Clipped updates of all samples up to each reading (R,). The means that were found are put right.

    Moments at a time are those of a run that ends there. Such a run does a sample again, with accurate functions, where
    the clip may have been reached; so from the first reading with such a doubt on, a sample has what `again` finds. A
    part of a longer run does not know the other parts: it has what was found.
    """
    if task.a_part or task.keep_states:
        return np.cumsum(found.clipped.sum(axis=1))
    unsure = np.logical_or.accumulate(found.unsure, axis=0)
    doubtful = np.flatnonzero(unsure[-1])
    if not doubtful.size:
        return np.zeros(task.n_reads, np.int64)
    better, unsure = again(doubtful), unsure[:, doubtful]
    found.means[:, doubtful] = np.where(unsure[..., None, None], better.means, found.means[:, doubtful])
    return np.asarray((np.cumsum(better.clipped, axis=0) * unsure).sum(axis=1))


def check_start(task: Task) -> None:
    """Refuses an x(0) that half precision does not hold."""
    if task.start is not None and (largest := float(np.abs(task.start).max())) > LARGEST_STATE:
        raise invalid(
            "x0", f"be within {LARGEST_STATE:g} for the cuda engine (reference, xla and native take any)", largest
        )


def _distinct(arrays: Iterable[Array]) -> tuple[tuple[Array, ...], list[int]]:
    """The arrays, each once, and for each that was given its number among these."""
    given = list(arrays)
    number: dict[int, int] = {}
    for array in given:
        number.setdefault(id(array), len(number))
    by_id = {id(array): array for array in given}
    return tuple(by_id[key] for key in number), [number[id(array)] for array in given]
