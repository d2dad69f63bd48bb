"""What can be chosen about learning: frozen and checked, without anything that computes."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from thermoment._support.checks import check_integer, check_not_negative, check_positive, invalid
from thermoment.physics import LARGEST_DRIVE

Surrogate = Literal["mean", "polynomial"]
Optimiser = Literal["sgd", "momentum", "adam"]
HeadStart = Literal["zero", "normal", "uniform"]
Standardise = Literal["none", "once", "batch"]


@dataclass(frozen=True)
class Stage:
    """Epochs through one surrogate, with a head of their own."""

    surrogate: Surrogate
    epochs: int
    learning_rate: float

    def __post_init__(self) -> None:
        _check_choice("surrogate", self.surrogate, Surrogate)
        check_integer("epochs", self.epochs, 1, 10**6)
        object.__setattr__(self, "learning_rate", check_positive("learning_rate", self.learning_rate))


@dataclass(frozen=True)
class Training:
    """How K is trained, beside the stages: the first three fields are what the paper leaves open."""

    optimiser: Optimiser = "sgd"
    head: HeadStart = "uniform"
    """where the head starts"""
    standardise: Standardise = "none"
    """surrogate features: as they are, by the training set's statistics at the start of a stage, or by each batch's"""
    batch_size: int = 128
    l2: float = 1e-5

    def __post_init__(self) -> None:
        _check_choice("optimiser", self.optimiser, Optimiser)
        _check_choice("head", self.head, HeadStart)
        _check_choice("standardise", self.standardise, Standardise)
        check_integer("batch_size", self.batch_size, 1, 10**6)
        object.__setattr__(self, "l2", check_not_negative("l2", self.l2))


def _check_choice(argument: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise invalid(argument, f"be one of {', '.join(get_args(choices))}", repr(value))


@dataclass(frozen=True)
class Sgd:
    """Plain stochastic gradient descent from zero, as in the paper."""

    epochs: int = 150
    batch_size: int = 128
    learning_rate: float = 0.05
    l2: float = 1e-3
    seed: int = 20260621

    def __post_init__(self) -> None:
        check_integer("epochs", self.epochs, 1, 10**6)
        check_integer("batch_size", self.batch_size, 1, 10**6)
        object.__setattr__(self, "learning_rate", check_positive("learning_rate", self.learning_rate))
        object.__setattr__(self, "l2", check_not_negative("l2", self.l2))
        check_integer("seed", self.seed, 0, 2**63)


@dataclass(frozen=True)
class Distortion:
    """How strong. Rotation, scale, shear and shift are uniform from - to + their value; 0 leaves a part out."""

    rotation: float = 0.0
    """in radians"""
    scale: float = 0.0
    """of either axis by its own factor, 1 - scale to 1 + scale"""
    shear: float = 0.0
    """x by y"""
    shift: float = 0.0
    """of either axis, in pixels"""
    elastic: float = 0.0
    """standard deviation of either component of u, in pixels"""
    smoothness: float = 4.0
    """of the elastic field, in pixels"""

    def __post_init__(self) -> None:
        for name in ("rotation", "scale", "shear", "shift", "elastic"):
            object.__setattr__(self, name, check_not_negative(name, getattr(self, name)))
        if self.scale >= 1:
            raise invalid("scale", "be below 1", self.scale)
        object.__setattr__(self, "smoothness", check_positive("smoothness", self.smoothness))

    @property
    def strength(self) -> float:
        """Zero where images stay as they are."""
        return max(self.rotation, self.scale, self.shear, self.shift, self.elastic)


FiniteTimeOptimiser = Literal["adamw", "sgd"]
Schedule = Literal["one-cycle", "cosine", "constant"]


@dataclass(frozen=True)
class FiniteTime:
    """Training of K, and if asked b and W, together with a linear head, through the moments of the real machine."""

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 2e-3
    """the largest of the schedule"""
    schedule: Schedule = "one-cycle"
    """one-cycle: up over three tenths of the steps, then down to nothing; cosine: down from the start"""
    optimiser: FiniteTimeOptimiser = "adamw"
    """sgd has momentum 0.9"""
    weight_decay: float = 1e-4
    """of K, W and the head, in units of the learning rate"""
    label_smoothing: float = 0.02
    joint: bool = True
    """all reservoirs under one head; else each for itself, with a head of its own"""
    b: bool = True
    """whether b is trained"""
    W: bool = False
    """whether W is trained; its diagonal stays zero"""
    symmetric: bool = False
    """W starts as (W + W^T) / sqrt(2) and stays symmetric"""
    W_rate: float = 0.05
    """learning rate of W in units of that of K: its elements are smaller"""
    drive_limit: float = 20.0
    """drive |h| that the hardware can do: beyond, the loss rises"""
    drive_penalty: float = 1.0
    """times the mean of (|h| - drive_limit)^2 over all nodes beyond the limit"""
    validation: int = 0
    """images from the end of the training set that are held out, to choose by"""
    n_replicas: float | None = None
    """whose shot noise the loss has, inf for none; the protocol's unless given"""
    kT: float | None = None
    """temperature trained for; the experiment's unless given"""
    t_final: float | None = None
    """time trained for; the protocol's unless given"""
    seed: int = 20260623
    distortion: Distortion = field(default_factory=Distortion)

    def __post_init__(self) -> None:
        check_integer("epochs", self.epochs, 1, 10**6)
        check_integer("batch_size", self.batch_size, 1, 10**6)
        check_integer("validation", self.validation, 0, 2**40)
        check_integer("seed", self.seed, 0, 2**62)
        for name, choices in (("optimiser", FiniteTimeOptimiser), ("schedule", Schedule)):
            if getattr(self, name) not in get_args(choices):
                raise invalid(name, f"be one of {', '.join(get_args(choices))}", repr(getattr(self, name)))
        for name in ("learning_rate", "W_rate", "drive_limit"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))
        for name in ("weight_decay", "label_smoothing", "drive_penalty"):
            object.__setattr__(self, name, check_not_negative(name, getattr(self, name)))
        for name in ("kT", "t_final", "n_replicas"):
            value = getattr(self, name)
            if value is not None and not (name == "n_replicas" and value == math.inf):
                object.__setattr__(self, name, check_positive(name, value))
        if self.label_smoothing >= 1:
            raise invalid("label_smoothing", "be below 1", self.label_smoothing)
        if self.drive_limit > LARGEST_DRIVE:
            raise invalid("drive_limit", f"be at most {LARGEST_DRIVE:g}, as far as the tables go", self.drive_limit)
