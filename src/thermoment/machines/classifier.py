"""A classifier: reservoirs, the protocol by which they are read, and linear readouts of their moments."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine
from thermoment._support.checks import check_shape, invalid
from thermoment._support.files import read_tensors, write_tensors
from thermoment._support.identity import stated
from thermoment.learning.readout import Readout, Scaling, average_logits, classes, probabilities
from thermoment.moments import Moments
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reads import MEANS, PAIR, blocks, check_reads, needed, needs_drive, pairs_of, partners
from thermoment.reservoir import Reservoir
from thermoment.simulation import simulate

_ARRAYS = ("W", "K", "b")
_NUMBERS = ("weights", "bias", "mean", "scale")


@dataclass(frozen=True, eq=False)
class Classifier:
    """Images in, classes out.

    Every reservoir is driven by the image and read by `protocol`. One readout sees the moments of all reservoirs
    joined; or there is one readout for each reservoir, and their logits are averaged.

    Args:
        reservoirs: by name, in the order in which the readout sees them; all with the same number of inputs D.
        protocol: how each is driven and read. Its orders are those that the readouts see.
        readouts: one of F features, F = len(orders) * (nodes of all reservoirs), or one for each reservoir.
        engine: what simulates where nothing else is asked for.
        facts: where it comes from, as JSON can hold it: its experiment, its results, the commit that made it.
        reads: what the readouts see of every node in place of the raw moments, in the words of `thermoment.reads`.
    """

    reservoirs: Mapping[str, Reservoir]
    protocol: Protocol
    readouts: tuple[Readout, ...]
    engine: str | Engine = "auto"
    facts: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if missing := set(needed(check_reads("reads", self.reads))) - set(self.protocol.orders):
            raise invalid("protocol", f"have the orders {sorted(missing)}, which `reads` needs", self.protocol.orders)
        if not self.reservoirs or len({one.n_inputs for one in self.reservoirs.values()}) > 1:
            shapes = {name: one.K.shape for name, one in self.reservoirs.items()}
            raise invalid("reservoirs", "hold at least one, all with the same number of inputs", shapes)
        wanted = [self.n_features] if len(self.readouts) == 1 else self._block_sizes()
        found = [readout.weights.shape[1] for readout in self.readouts]
        if found != wanted:
            raise invalid("readouts", f"read {' and '.join(map(str, wanted))} features", found)

    def __repr__(self) -> str:
        nodes = "+".join(str(one.n_nodes) for one in self.reservoirs.values())
        read = f"{len(self.readouts)} readout{'s' if len(self.readouts) > 1 else ''} of {self.n_classes} classes"
        return f"Classifier({'+'.join(self.reservoirs)}: {nodes} nodes, {self.n_inputs} inputs, {read})"

    @property
    def n_classes(self) -> int:
        """C"""
        return len(self.readouts[0].bias)

    @property
    def n_inputs(self) -> int:
        """D"""
        return next(iter(self.reservoirs.values())).n_inputs

    @property
    def n_features(self) -> int:
        """F, over all reservoirs."""
        return sum(self._block_sizes())

    def features(
        self, inputs: ArrayLike, *, engine: str | Engine | None = None, sample_ids: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """[m1 | m2 | ...] of one reservoir after the other, (S, F), for inputs (S, D).

        `sample_ids` (S,) choose each input's noise, as in `simulate`. Rounded to float32, as runs keep them.
        """
        chosen = self.engine if engine is None else engine
        found = []
        for one in self.reservoirs.values():
            pairs = pairs_of(self.reads, one.W)
            moments = simulate(one, inputs, self.protocol, engine=chosen, sample_ids=sample_ids, pairs=pairs)
            raw = with_pairs(moments).astype(np.float32)
            found.append(read_words(self.reads, raw, self.protocol.orders, one, inputs) if self.reads else _flat(raw))
        return np.concatenate(found, axis=1)

    def logits_of(self, features: ArrayLike) -> NDArray[np.float64]:
        """Logits (S, C) of features (S, F), in the order in which `features` gives them."""
        phi = check_shape("features", features, ("S", self.n_features))
        if len(self.readouts) == 1:
            return self.readouts[0].logits(phi)
        blocks = np.split(phi, np.cumsum(self._block_sizes())[:-1], axis=1)
        return average_logits(self.readouts, blocks)

    def logits(self, inputs: ArrayLike, **simulated: Any) -> NDArray[np.float64]:
        """Logits (S, C) of inputs (S, D); `engine` and `sample_ids` as in `features`."""
        return self.logits_of(self.features(inputs, **simulated))

    def predict(self, inputs: ArrayLike, **simulated: Any) -> NDArray[np.int64]:
        """The class with the largest logit, (S,), of inputs (S, D); `engine` and `sample_ids` as in `features`."""
        return classes(self.logits(inputs, **simulated))

    def predict_proba(self, inputs: ArrayLike, **simulated: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, the softmax of the logits: (S, C)."""
        return probabilities(self.logits(inputs, **simulated))

    def save(self, path: str | PathLike[str], *, dtype: str = "float64") -> None:
        """Writes one safetensors file, whole or not at all. `load` gives back the same bits, if `dtype` is float64."""
        tensors: dict[str, NDArray[Any]] = {}
        for name, one in self.reservoirs.items():
            tensors |= {f"reservoirs.{name}.{key}": getattr(one, key) for key in _ARRAYS}
        for number, readout in enumerate(self.readouts):
            parts = (readout.weights, readout.bias, readout.scaling.mean, readout.scaling.scale)
            tensors |= {f"readouts.{number}.{key}": part for key, part in zip(_NUMBERS, parts, strict=True)}
        protocol = {key: None if value == math.inf else value for key, value in stated(self.protocol).items()}
        facts = {
            "protocol": protocol,
            "reservoirs": {
                name: {"dynamics": one.dynamics.facts(), "stream": one.stream} for name, one in self.reservoirs.items()
            },
            "readouts": len(self.readouts),
            "facts": self.facts,
            **({"reads": self.reads} if self.reads else {}),
        }
        rounded = {name: _rounded(name, array, dtype) for name, array in tensors.items()}
        write_tensors(path, "classifier", rounded, json.dumps(facts))

    @classmethod
    def load(cls, path: str | PathLike[str], *, engine: str | Engine = "auto") -> "Classifier":
        """Reads what `save` wrote, with every check of a new classifier."""
        read, text = read_tensors(path, "classifier", None)
        tensors = {name: array.astype(np.float64) for name, array in read.items()}
        try:
            facts = json.loads(text)
            reservoirs = {
                name: Reservoir(
                    **{key: tensors[f"reservoirs.{name}.{key}"] for key in _ARRAYS},
                    dynamics=Dynamics(**one["dynamics"]),
                    stream=one["stream"],
                )
                for name, one in facts["reservoirs"].items()
            }
            parts = [[tensors[f"readouts.{k}.{key}"] for key in _NUMBERS] for k in range(facts["readouts"])]
            protocol: dict[str, Any] = {
                key: math.inf if value is None else value for key, value in facts["protocol"].items()
            }
            readouts = tuple(Readout(weights, bias, Scaling(mean, scale)) for weights, bias, mean, scale in parts)
            reads = tuple(facts.get("reads", ()))
            return cls(reservoirs, Protocol(**protocol), readouts, engine, facts["facts"], reads)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a whole classifier: {error}.") from None

    def _block_sizes(self) -> list[int]:
        return [len(self.reads or self.protocol.orders) * one.n_nodes for one in self.reservoirs.values()]


def read_words(
    words: Sequence[str], raw: NDArray[np.float32], orders: Sequence[int], reservoir: Reservoir, inputs: ArrayLike
) -> NDArray[np.float32]:
    """What readouts see of a reservoir by `words`, (S, len(words) * N), from its raw moments (S, len(orders), N).

    Where its pairs are read E[x_i x_j] follows these moments, as by `with_pairs`.
    """
    drive = reservoir.drive(inputs) if needs_drive(words) else None
    partner = partners(reservoir.W) if {PAIR, MEANS} & {*words} else None
    return blocks(words, raw, orders, drive, reservoir.dynamics, partner)


def with_pairs(moments: Moments) -> NDArray[np.float64]:
    """Raw moments, and E[x_i x_j] of every node with its partner where that was read: (S, len(orders) or 1 more, N)."""
    return np.concatenate([moments.raw, moments.joint[:, None]], axis=1) if moments.pairs else moments.raw


def _flat(raw: NDArray[np.float32]) -> NDArray[np.float32]:
    """[m_p | m_q | ...] of moments (S, orders, N)."""
    return raw.reshape(len(raw), -1)


def _rounded(name: str, array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The array in the type asked for, refused where a number is too large for it."""
    found = array.astype(dtype)
    if not np.isfinite(found).all():
        raise invalid("dtype", f"hold every number of {name}", dtype)
    return found
