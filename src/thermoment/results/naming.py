"""Which classifiers an experiment compares: their reservoirs and moment orders, how joined, how fitted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

from thermoment._support.checks import invalid
from thermoment.protocol import check_orders

Fusion = Literal["feature", "logit"]
Fit = Literal["sgd", "converged", "trained", "predicted"]
"""How a readout came about: by the paper's SGD, by the minimum of the same loss, or together with the reservoirs, read
from the sampled moments ("trained") or from those without sampling ("predicted")."""
FITS: tuple[Fit, ...] = get_args(Fit)


@dataclass(frozen=True)
class ModelKey:
    """One classifier: a readout of joined features, or the averaged logits of one readout per reservoir."""

    reservoirs: tuple[str, ...]
    orders: tuple[int, ...]
    fusion: Fusion = "feature"
    readout: Fit = "sgd"

    @property
    def name(self) -> str:
        """The reservoirs: "K1+K2+K3"."""
        return "+".join(self.reservoirs)

    @property
    def key(self) -> str:
        """All there is to say, in one line: "K1+K2+K3|feature|1,2,4|sgd"."""
        return "|".join((self.name, self.fusion, ",".join(map(str, self.orders)), self.readout))

    @classmethod
    def parse(cls, key: str) -> "ModelKey":
        """The model that `key` names."""
        parts = key.split("|")
        if len(parts) != 4 or parts[1] not in get_args(Fusion) or parts[3] not in FITS:
            raise invalid("key", "have the form reservoirs|fusion|orders|readout", repr(key))
        orders = check_orders("key", [int(p) for p in parts[2].split(",")])
        return cls(tuple(parts[0].split("+")), orders, parts[1], parts[3])  # type: ignore[arg-type]


def paper_models(reservoirs: Sequence[str], orders: Sequence[int], readout: Fit = "sgd") -> tuple[ModelKey, ...]:
    """The paper's comparisons: every set of reservoirs, averaged logits, and lower orders of all of them joined."""
    names, orders = tuple(reservoirs), tuple(orders)
    joined = [
        ModelKey(chosen, orders, "feature", readout)
        for size in range(1, len(names) + 1)
        for chosen in combinations(names, size)
    ]
    averaged = [ModelKey(names, orders, "logit", readout)] if len(names) > 1 else []
    lower = [ModelKey(names, orders[:count], "feature", readout) for count in range(1, len(orders))]
    return (*joined, *averaged, *lower)


def all_orders(models: Iterable[ModelKey]) -> tuple[int, ...]:
    """The longest list of moment orders that any of them reads."""
    return max((model.orders for model in models), key=lambda orders: (len(orders), orders))


def label(model: ModelKey, full: tuple[int, ...]) -> str:
    """The model's name, and in brackets what tells it apart: "K1+K2+K3 (logit)", "K1+K2+K3 (m1,m2)"."""
    marks = ["logit"] if model.fusion == "logit" else []
    if model.orders != full:
        marks.append(",".join(f"m{p}" for p in model.orders))
    return f"{model.name} ({', '.join(marks)})" if marks else model.name


def readout_file(model: ModelKey) -> str:
    """The name of a readout's file: "K1+K2.m1-m2-m4.sgd.safetensors"."""
    return f"{model.name}.{'-'.join(f'm{p}' for p in model.orders)}.{model.readout}.safetensors"
