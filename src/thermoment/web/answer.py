"""The answer to a question: probabilities with their sampling uncertainty, and who spoke for the answer."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoment.machines.classifier import Classifier
from thermoment.protocol import MAX_ORDER, Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import compute, prepare
from thermoment.thermodynamics.account import switching_work
from thermoment.web.question import Question, RefusedError

RECORDS = 50
"""Times at which paths are recorded; a reading time that is not the machine's own has a multiple of as many steps."""
_ENOUGH = 32
"""Replicas from which the spread of the moments is estimated, at least."""
_DRAWS = 400
"""Repeats of the readout from which the interval of a probability is found."""
_TAIL = 5.0
"""Percent below and above the interval."""
_MOST_UPDATES = {"reference": 2e8, "xla": 2e9}
"""Updates of a node that a question may ask for; a few seconds on two cores."""
_MOST = 4e9

Array = NDArray[np.float64]


class Readout(NamedTuple):
    """All readouts of a machine as one: z = bias + gain (phi - mean)."""

    gain: Array
    """(C, F)"""
    mean: Array
    """(F,)"""
    bias: Array
    """(C,)"""


def joined(machine: Classifier) -> Readout:
    """The one readout, or the mean of the readouts of the single reservoirs."""
    parts = machine.readouts
    return Readout(
        np.concatenate([part.weights / part.scaling.scale for part in parts], axis=1) / len(parts),
        np.concatenate([part.scaling.mean for part in parts]),
        np.mean([part.bias for part in parts], axis=0),
    )


def at_temperature(reservoir: Reservoir, kT: float) -> Reservoir:
    """The reservoir, all else equal, at another temperature."""
    if kT == reservoir.dynamics.kT:
        return reservoir
    return replace(reservoir, dynamics=replace(reservoir.dynamics, kT=kT))


def protocol_of(machine: Classifier, question: Question, **changed: Any) -> Protocol:
    """The machine's protocol with the question's time, and `changed` settings.

    Another reading time than the machine's own is cut into a multiple of `RECORDS` steps, none longer than the
    machine's.
    """
    own = machine.protocol
    if question.t_final != own.t_final:
        steps = RECORDS * max(1, math.ceil(question.t_final / own.dt / RECORDS - 1e-9))
        changed |= {"t_final": question.t_final, "dt": question.t_final / steps}
    return replace(own, **changed)


def answer(machine: Classifier, question: Question) -> dict[str, Any]:
    """What `POST /api/predict` gives, but for what the server adds.

    With `meanfield` the probabilities are those of infinitely many replicas, and the intervals those within which
    `n_replicas` replicas would put them.
    """
    start = time.perf_counter()
    orders, readout = machine.protocol.orders, joined(machine)
    limit = question.engine == "meanfield"
    M = question.n_replicas
    _check_updates(machine, question, max(M, 0 if limit else _ENOUGH))
    wide = _with_squares(orders)
    reservoirs = {name: at_temperature(one, question.kT) for name, one in machine.reservoirs.items()}
    moments, spread = [], []
    for one in reservoirs.values():
        raw = _moments(one, machine, question, math.inf if limit else M, wide)
        moments.append(raw)
        few = not limit and M < _ENOUGH
        spread.append(_moments(one, machine, question, _ENOUGH, wide) if few else raw)
    phi = np.concatenate([raw[[wide.index(p) for p in orders]].ravel() for raw in moments]).astype(np.float32)
    sizes = [one.n_nodes for one in reservoirs.values()]
    on = _mask(question, machine, sizes)
    spoken = readout.gain * (phi - readout.mean) * on
    z = readout.bias + spoken.sum(axis=1)
    covariance = _covariance(spread, wide, orders, readout.gain * on, sizes)
    if not limit:
        covariance *= max(M, _ENOUGH) / (max(M, _ENOUGH) - 1)
    low, high, same = _interval(z, covariance / M, question.sample_id)
    label = int(z.argmax())
    blocks = _blocks(spoken - spoken.mean(axis=0), sizes, len(orders))
    first = wide.index(1) if 1 in wide else None
    work = None
    if first is not None and question.kT > 0:
        drives = [one.drive(question.image[None])[0] for one in reservoirs.values()]
        each = [switching_work(h, raw[first], question.kT) for h, raw in zip(drives, moments, strict=True)]
        work = float(sum(each))
    return {
        "label": label,
        "probabilities": rounded(_softmax(z), 6),
        "low": rounded(low, 6),
        "high": rounded(high, 6),
        "repeatable": round(same, 4),
        "logits": rounded(z, 4),
        "shares": {
            name: {str(p): rounded(block[:, k].sum(axis=1), 4) for k, p in enumerate(orders)}
            for name, block in zip(reservoirs, blocks, strict=True)
        },
        "nodes": {
            name: {str(p): rounded(block[label, k], 4) for k, p in enumerate(orders)}
            for name, block in zip(reservoirs, blocks, strict=True)
        },
        "image": rounded(question.image, 4),
        "engine": question.engine,
        "n_replicas": M,
        "kT": question.kT,
        "t_final": question.t_final,
        "cost": {"work_kT": None if work is None else round(work * M, 2), "updates": _updates(machine, question, M)},
        "seconds": round(time.perf_counter() - start, 4),
    }


def rounded(values: Array, digits: int) -> list[Any]:
    """An array as lists of JSON, rounded. A float32 number becomes the short decimal that it is."""
    found: list[Any] = np.round(np.asarray(values, np.float64), digits).tolist()
    return found


def _moments(one: Reservoir, machine: Classifier, question: Question, M: float, orders: tuple[int, ...]) -> Array:
    """Raw moments (len(orders), N) of one image."""
    protocol = protocol_of(machine, question, n_replicas=M, orders=orders)
    try:
        task = prepare(one, question.image[None], protocol, [question.sample_id])
        return np.asarray(compute(task, question.engine).raw[0])
    except (ValueError, RuntimeError) as error:  # settings in which this engine, or any, cannot simulate this machine
        raise RefusedError(422, str(error)) from None


def _with_squares(orders: tuple[int, ...]) -> tuple[int, ...]:
    """`orders` and the sums of two of them, from which the covariance of the moments follows, as far as sampled."""
    return tuple(sorted({*orders, *(p + q for p in orders for q in orders if p + q <= MAX_ORDER)}))


def _covariance(
    raw: Sequence[Array], known: tuple[int, ...], orders: tuple[int, ...], gain: Array, sizes: Sequence[int]
) -> Array:
    """Covariance (C, C) of the logits of one replica: Cov(x^p, x^q) = m_p+q - m_p m_q of every node by itself.

    That nodes push each other is left out: the coupling correlates them weakly. A pair of orders whose sum is above 8
    is left out as well.
    """
    total = np.zeros((len(gain), len(gain)))
    for moments, weights in zip(raw, _blocks(gain, sizes, len(orders)), strict=True):
        for a, p in enumerate(orders):
            for b, q in enumerate(orders):
                if p + q in known:
                    m_p, m_q, m_pq = (moments[known.index(r)] for r in (p, q, p + q))
                    total += (weights[:, a] * (m_pq - m_p * m_q)) @ weights[:, b].T
    return (total + total.T) / 2


def _interval(z: Array, covariance: Array, seed: int) -> tuple[Array, Array, float]:
    """Ends of the 90 % interval of every probability, and the share of repeats that give the same class."""
    values, vectors = np.linalg.eigh(covariance)
    noise = np.random.default_rng(seed).standard_normal((_DRAWS, len(z)))
    draws = z + (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    p = _softmax(draws)
    low, high = np.percentile(p, [_TAIL, 100 - _TAIL], axis=0)
    now = _softmax(z)
    return np.minimum(low, now), np.maximum(high, now), float((draws.argmax(axis=1) == z.argmax()).mean())


def _softmax(z: Array) -> Array:
    weight = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


def _blocks(features: Array, sizes: Sequence[int], n_orders: int) -> list[Array]:
    """Features (C, F) by reservoir: (C, P, N) each."""
    ends = np.cumsum([n_orders * size for size in sizes])[:-1]
    parts = np.split(features, ends, axis=1)
    return [part.reshape(len(features), n_orders, size) for part, size in zip(parts, sizes, strict=True)]


def _mask(question: Question, machine: Classifier, sizes: Sequence[int]) -> Array:
    """1 for a feature that feeds the readout, 0 for one in whose place the readout sees its mean: (F,)."""
    return np.concatenate(
        [
            np.full(size, float(name in question.reservoirs and p in question.orders))
            for name, size in zip(machine.reservoirs, sizes, strict=True)
            for p in machine.protocol.orders
        ]
    )


def _updates(machine: Classifier, question: Question, M: int) -> int:
    """Updates of a node in a simulation of M replicas."""
    nodes = sum(one.n_nodes for one in machine.reservoirs.values())
    return nodes * M * protocol_of(machine, question).n_steps


def _check_updates(machine: Classifier, question: Question, M: int) -> None:
    most = _MOST_UPDATES.get(question.engine, _MOST)
    wanted = _updates(machine, question, M)
    if question.engine != "meanfield" and wanted > most:
        raise RefusedError(
            422,
            f"Fields `n_replicas` and `t_final` must ask {question.engine} for at most {most:.0e} updates of a node, "
            f"but asked for {wanted:.1e}.",
        )
