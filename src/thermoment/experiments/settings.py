"""The parts of an experiment as frozen and checked dataclasses: data, reservoirs, readouts, features, baselines."""

import re
from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

from thermoment._support.checks import check_choice, check_fields, check_integer, check_not_negative, invalid
from thermoment._support.identity import LATER
from thermoment.data.table import Split
from thermoment.learning.options import Distortion, Sgd, Stage
from thermoment.reads import check_reads

LONGEST_NAME = 64
LateFusion = Literal["logit", "weighted", "calibrated", "stacked"]
_BASELINE = re.compile("(pca|random)-([1-9][0-9]{0,4})|mlp-([1-9][0-9]{0,4})(-distorted)?")
_SPLIT = {"test_share": "test_share", "split_seed": "seed", "scaling": "scaling", "leave_out": "leave_out"}
"""Settings of the data that are about a CSV file, and what each is in a Split."""


@dataclass(frozen=True)
class Data:
    """Which data set, and how much of it from its start; all of it unless said.

    Of a CSV file, `label` names the column with the classes. The other settings are those of `Split`, and have its
    defaults where they are left out.
    """

    name: str = "digits"
    n_train: int | None = None
    n_test: int | None = None
    label: str | None = None
    test_share: float | None = None
    split_seed: int | None = None
    scaling: str | None = None
    leave_out: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("n_train", "n_test"):
            if (value := getattr(self, name)) is not None:
                check_integer(name, value, 2, 2**40)
        given = {name: value for name in _SPLIT if (value := getattr(self, name)) is not None}
        if self.label is None and given:
            raise invalid("label", f"name the column with the classes, as {next(iter(given))} is set", "left out")
        if split := self.split:
            for name, theirs in _SPLIT.items():
                object.__setattr__(self, name, getattr(split, theirs))

    @property
    def split(self) -> Split | None:
        """How a CSV file becomes a data set; None where the data are no CSV file."""
        if self.label is None:
            return None
        given = {theirs: value for name, theirs in _SPLIT.items() if (value := getattr(self, name)) is not None}
        return Split(self.label, **given)


@dataclass(frozen=True)
class ReservoirSettings:
    """A reservoir before it exists: its draw and the stages that train its K."""

    name: str
    seed: int
    n_nodes: int = 256
    s_W: float = 0.1
    s_K: float = 1.2
    s_b: float = 0.02
    start: str | None = None
    """another reservoir, whose W, K and b as drawn it starts from"""
    stages: tuple[Stage, ...] = ()
    symmetric: bool = field(default=False, metadata=LATER)
    """whether W is drawn as (W + W^T) / sqrt(2)"""
    batch_seed: int | None = field(default=None, metadata=LATER)
    """of the training: the order of its batches, and its head; None for `seed`"""

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_integer("seed", self.seed, 0, 2**62)
        check_integer("n_nodes", self.n_nodes, 1, 2**14)
        for name in ("s_W", "s_K", "s_b"):
            object.__setattr__(self, name, check_not_negative(name, getattr(self, name)))
        if self.batch_seed is not None:
            check_integer("batch_seed", self.batch_seed, 0, 2**62)

    @property
    def training_seed(self) -> int:
        """The seed of the order of its batches."""
        return self.seed if self.batch_seed is None else self.batch_seed

    def reseeded(self, draw: int, batches: int) -> "ReservoirSettings":
        """The same with seeds moved by so much."""
        seed, training = self.seed + draw, self.training_seed + batches
        return replace(self, seed=seed, batch_seed=None if training == seed else training)


@dataclass(frozen=True)
class ReadoutSettings(Sgd):
    """The paper's SGD, whether the same loss is also minimised to convergence, what is read and how it is joined."""

    converged: bool = True
    """where it is, SGD may have no epochs: then no model has a readout by SGD"""
    reads: tuple[str, ...] = field(default=(), metadata=LATER)
    """what is read of every node, in the words of reads.py; the protocol's raw moments where empty"""
    fusions: tuple[LateFusion, ...] = field(default=("logit",), metadata=LATER)
    """how the outputs of one readout for each reservoir are joined: averaged, with weights or temperatures that are
    fitted to images held out, or by a readout of the outputs that is"""
    subsets: bool = field(default=True, metadata=LATER)
    """whether every set of reservoirs is read; else all of them and, where there are fusions, single ones"""
    held_out: int = field(default=0, metadata=LATER)
    """how many training images, from the end, such fits are made on"""
    lower: bool = field(default=True, metadata=LATER)
    """whether the first of the moments, the first two and so on are read too"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.epochs or self.converged):
            raise invalid("epochs", "be positive where no readout is fitted to convergence", self.epochs)
        object.__setattr__(self, "reads", check_reads("reads", self.reads))
        for fusion in self.fusions:
            check_choice("fusions", fusion, get_args(LateFusion))
        if len(set(self.fusions)) < len(self.fusions):
            raise invalid("fusions", "name each once", list(self.fusions))
        check_integer("held_out", self.held_out, 0, 2**40)
        if bool(self.held_out) != any(fusion != "logit" for fusion in self.fusions):
            must = "be positive where fusions are fitted to images held out, and only there"
            raise invalid("held_out", must, f"{self.held_out} with {', '.join(self.fusions) or 'none'}")

    @property
    def n_fits(self) -> int:
        """How many readouts a model has: by SGD, to convergence, or both."""
        return bool(self.epochs) + self.converged

    @property
    def sgd(self) -> Sgd:
        return Sgd(**{f.name: getattr(self, f.name) for f in fields(Sgd)})


@dataclass(frozen=True)
class FeatureSettings:
    """How features are kept: samples in a chunk, and whether they stay on disk after the readouts are fitted."""

    chunk: int = 2000
    keep: bool = True
    """in the run's folder and in the store"""
    share: bool = field(default=False, metadata=LATER)
    """where they are not kept: they stay in the store, for other experiments on it, until somebody removes them"""

    def __post_init__(self) -> None:
        check_integer("chunk", self.chunk, 1, 10**6)


@dataclass(frozen=True)
class BaselineSettings:
    """Classifiers without reservoirs that a run has beside its own, and how its perceptrons are trained."""

    names: tuple[str, ...] = ()
    """pca-64: 64 principal components and their squares; random-768: so many random features, tanh(A I + a);
    mlp-256: a perceptron with 256 hidden units; mlp-256-distorted: one that is trained on distorted images"""
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 1e-3
    distortion: Distortion = field(default_factory=Distortion)
    seed: int = 20260625
    """of random features, of a perceptron's start, batches and distortions"""
    raw: bool = field(default=True, metadata=LATER)
    """whether the raw inputs are read too"""

    def __post_init__(self) -> None:
        check_fields(
            self,
            positive=["learning_rate"],
            integers={"epochs": (1, 10**6), "batch_size": (1, 10**6), "seed": (0, 2**62)},
        )
        if not all(map(_BASELINE.fullmatch, self.names)) or len(set(self.names)) < len(self.names):
            must = "be names such as pca-64, random-768, mlp-256 or mlp-256-distorted, each once"
            raise invalid("names", must, list(self.names))
        if not self.distortion.strength and any(name.endswith("distorted") for name in self.names):
            raise invalid("distortion", "have a strength, as distorted images are asked for", "nothing")


def check_name(argument: str, name: str) -> None:
    """Refuses what cannot be the name of a file."""
    if not re.fullmatch(f"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}", name):
        raise invalid(argument, f"be a name of at most {LONGEST_NAME} letters, digits, - and _", repr(name))
