"""Which classifiers an experiment compares, and what each is called: in keys, in files, in tables, in figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, get_args

from thermoment._support.checks import invalid
from thermoment.protocol import check_orders
from thermoment.reads import check_reads

Fusion = Literal["feature", "logit", "weighted", "calibrated", "stacked"]
"""One readout of joined features; or one for each reservoir, whose logits are averaged, summed with weights, divided
by temperatures and averaged, or read by another readout."""
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
Read = int | str
"""What a readout reads of every node: the order of a raw moment, or a word of reads.py."""
Fit = Literal["sgd", "converged", "trained", "predicted"]
"""How a readout came about: by the paper's SGD, by the minimum of the same loss, or together with the reservoirs, read
from the sampled moments ("trained") or from those without sampling ("predicted")."""
FITS: tuple[Fit, ...] = get_args(Fit)
REFITTED: tuple[Fit, ...] = ("sgd", "converged")
"""Readouts that are fitted to the features of finished reservoirs."""


@dataclass(frozen=True)
class ModelKey:
    """One classifier: a readout of joined features, or the joined logits of one readout per reservoir."""

    reservoirs: tuple[str, ...]
    orders: tuple[Read, ...]
    fusion: Fusion = "feature"
    readout: Fit = "sgd"

    @property
    def name(self) -> str:
        """The reservoirs: "K1+K2+K3"."""
        return "+".join(self.reservoirs)

    @property
    def key(self) -> str:
        """The whole key in one line, as in predictions.npz: "K1+K2+K3|feature|1,2,4|sgd"."""
        return "|".join((self.name, self.fusion, ",".join(map(str, self.orders)), self.readout))

    @property
    def any_readout(self) -> "ModelKey":
        """The same reservoirs, orders and fusion with the readout "sgd", which stands for any readout in a table."""
        return replace(self, readout="sgd")

    @property
    def columns(self) -> dict[str, Any]:
        """The key as the first columns of a row of results.json."""
        return {"model": self.name, "fusion": self.fusion, "orders": list(self.orders), "readout": self.readout}

    @classmethod
    def parse(cls, key: str) -> "ModelKey":
        """The model whose `key` this is."""
        parts = key.split("|")
        if len(parts) != 4:
            raise invalid("key", "have the form reservoirs|fusion|orders|readout", repr(key))
        return cls.of_columns(dict(zip(("model", "fusion", "orders", "readout"), parts, strict=True)))

    @classmethod
    def of_columns(cls, row: Mapping[str, Any]) -> "ModelKey":
        """The model whose `columns` a row has; its orders may be one word, "1,2,4"."""
        name, fusion, orders, readout = (row[column] for column in ("model", "fusion", "orders", "readout"))
        if fusion not in FUSIONS or readout not in FITS or not isinstance(name, str):
            must = f"have a fusion of {', '.join(FUSIONS)} and a readout of {', '.join(FITS)}"
            raise invalid("model", must, f"{name!r} with {fusion!r} and {readout!r}")
        if isinstance(orders, str):
            orders = [int(p) if p.isdecimal() else p for p in orders.split(",")]
        words = isinstance(orders, Sequence) and any(isinstance(p, str) for p in orders)
        read: tuple[Read, ...] = check_reads("orders", orders) if words else check_orders("orders", orders)
        return cls(tuple(name.split("+")), read, fusion, readout)


def paper_models(
    reservoirs: Sequence[str],
    orders: Sequence[Read],
    readout: Fit = "sgd",
    fusions: Sequence[Fusion] = ("logit",),
    subsets: bool = True,
    lower: bool = True,
) -> tuple[ModelKey, ...]:
    """The paper's comparisons: every set of reservoirs, joined logits, and lower orders of all of them joined.

    Without `subsets`: of the sets only all of them and, where there are `fusions`, single ones. Without `lower`: no
    lower orders.
    """
    names, orders = tuple(reservoirs), tuple(orders)
    sizes = range(1, len(names) + 1) if subsets else sorted({len(names), *([1] if fusions else [])})
    joined = [ModelKey(chosen, orders, "feature", readout) for size in sizes for chosen in combinations(names, size)]
    averaged = [ModelKey(names, orders, fusion, readout) for fusion in fusions] if len(names) > 1 else []
    fewer = range(1, len(orders)) if lower else ()
    return (*joined, *averaged, *(ModelKey(names, orders[:count], "feature", readout) for count in fewer))


def all_orders(models: Iterable[ModelKey]) -> tuple[Read, ...]:
    """The longest list of moments that any of them reads."""
    return max((model.orders for model in models), key=lambda orders: (len(orders), *map(str, orders)))


def word(read: Read) -> str:
    """What is read of a node, in short: "m2", "mu2"."""
    return read if isinstance(read, str) else f"m{read}"


def label(model: ModelKey, full: tuple[Read, ...]) -> str:
    """The model's name, and in brackets what tells it apart: "K1+K2+K3 (logit)", "K1+K2+K3 (m1,m2)"."""
    marks: list[str] = [] if model.fusion == "feature" else [model.fusion]
    if model.orders != full:
        marks.append(",".join(map(word, model.orders)))
    return f"{model.name} ({', '.join(marks)})" if marks else model.name


def plain_name(model: ModelKey) -> str:
    """The reservoirs, and how their readouts are joined: "K1+K2+K3, averaged"."""
    how = {"feature": "", "logit": ", averaged"}.get(model.fusion, f", {model.fusion}")
    return f"{model.name}{how}"


def moments(model: ModelKey) -> str:
    """The moments that a model reads: "m1, m2, m4"."""
    return ", ".join(map(word, model.orders))


def readout_file(model: ModelKey) -> str:
    """The name of a readout's file: "K1+K2.m1-m2-m4.sgd.safetensors"."""
    how = "" if model.fusion in ("feature", "logit") else f".{model.fusion}"
    return f"{model.name}.{'-'.join(map(word, model.orders))}{how}.{model.readout}.safetensors"
