"""What can be chosen about learning, as frozen and checked dataclasses. Nothing here computes or imports JAX."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from thermoment._support.checks import check_fields, invalid
from thermoment.physics import LARGEST_DRIVE

Surrogate = Literal["mean", "polynomial"]
SurrogateOptimiser = Literal["sgd", "momentum", "adam"]
HeadStart = Literal["zero", "normal", "uniform"]
Standardise = Literal["none", "once", "batch"]
FiniteTimeOptimiser = Literal["adamw", "sgd"]
Schedule = Literal["one-cycle", "cosine", "constant"]

_COUNT = (1, 10**6)


@dataclass(frozen=True)
class Stage:
    """A number of epochs that train K through one surrogate, under a head that is drawn for this stage."""

    surrogate: Surrogate
    epochs: int
    learning_rate: float

    def __post_init__(self) -> None:
        check_fields(
            self,
            positive=["learning_rate"],
            integers={"epochs": _COUNT},
            choices={"surrogate": get_args(Surrogate)},
        )


@dataclass(frozen=True)
class Training:
    """How every stage trains K. The paper leaves the first three fields open."""

    optimiser: SurrogateOptimiser = "sgd"
    head: HeadStart = "uniform"
    """how the head is drawn at the start of a stage"""
    standardise: Standardise = "none"
    """how surrogate features are standardised: not at all, by their mean and deviation over the training set at the
    start of a stage, or by those of each batch"""
    batch_size: int = 128
    l2: float = 1e-5
    """the loss has l2/2 |K|^2 added"""

    def __post_init__(self) -> None:
        check_fields(
            self,
            not_negative=["l2"],
            integers={"batch_size": _COUNT},
            choices={
                "optimiser": get_args(SurrogateOptimiser),
                "head": get_args(HeadStart),
                "standardise": get_args(Standardise),
            },
        )


@dataclass(frozen=True)
class Sgd:
    """Fit of a readout by plain stochastic gradient descent from zero, as in the paper."""

    epochs: int = 150
    """none leaves the readout at zero: a start for the fit to convergence"""
    batch_size: int = 128
    learning_rate: float = 0.05
    l2: float = 1e-3
    """the loss has l2/2 |weights|^2 added"""
    seed: int = 20260621
    """of the order of the batches"""

    def __post_init__(self) -> None:
        check_fields(
            self,
            positive=["learning_rate"],
            not_negative=["l2"],
            integers={"epochs": (0, _COUNT[1]), "batch_size": _COUNT, "seed": (0, 2**63)},
        )


@dataclass(frozen=True)
class Distortion:
    """How strongly training images are distorted; a strength of 0 leaves that part out.

    Rotation, scale, shear and shift are drawn uniformly between minus and plus their strength.
    """

    rotation: float = 0.0
    """largest angle, in radians"""
    scale: float = 0.0
    """each axis is scaled by its own factor from 1 - scale to 1 + scale"""
    shear: float = 0.0
    """largest shear of x by y"""
    shift: float = 0.0
    """largest shift along each axis, in pixels"""
    elastic: float = 0.0
    """standard deviation of each component of the elastic field, in pixels"""
    smoothness: float = 4.0
    """correlation length of the elastic field, in pixels"""

    def __post_init__(self) -> None:
        check_fields(self, positive=["smoothness"], not_negative=["rotation", "scale", "shear", "shift", "elastic"])
        if self.scale >= 1:
            raise invalid("scale", "be below 1", self.scale)

    @property
    def strength(self) -> float:
        """The largest strength: zero where images stay as they are."""
        return max(self.rotation, self.scale, self.shear, self.shift, self.elastic)


@dataclass(frozen=True)
class FiniteTime:
    """Training of K, and if asked of b and W, with a linear head, through the moments at t_final."""

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 2e-3
    """the largest value of the schedule"""
    schedule: Schedule = "one-cycle"
    """one-cycle rises over the first three tenths of the steps, then falls to almost nothing; cosine falls to zero
    from the start"""
    optimiser: FiniteTimeOptimiser = "adamw"
    """sgd has momentum 0.9"""
    weight_decay: float = 1e-4
    """of K, W and the head; a step shrinks them by weight_decay times the learning rate"""
    label_smoothing: float = 0.02
    """part of a label's weight that is spread evenly over all classes"""
    beside: bool = False
    """True trains copies of the reservoirs as drawn, and leaves the others as their stages made them"""
    joint: bool = True
    """True trains all reservoirs under one head, False each under a head of its own"""
    b: bool = True
    """whether b is trained"""
    W: bool = False
    """whether W is trained; its diagonal stays zero"""
    symmetric: bool = False
    """W starts as (W + W^T) / sqrt(2) and stays symmetric"""
    W_rate: float = 0.05
    """learning rate of W in units of that of K; elements of W are smaller than those of K"""
    drive_limit: float = 20.0
    """largest drive |h| of the hardware; the loss rises beyond it"""
    drive_penalty: float = 1.0
    """the loss has drive_penalty times the mean over nodes of max(0, |h| - drive_limit)^2 added"""
    work_penalty: float | None = None
    """the loss has work_penalty times the cost of an answer in kT added: M sum_i h_i <x_i> / kT, what switching the
    drive off takes with M replicas; needs order 1 and finitely many replicas"""
    validation: int = 0
    """how many images from the end of the training set are held out, to choose options by"""
    n_replicas: float | None = None
    """number of replicas whose shot noise the features in the loss have, inf for no noise; None: the protocol's"""
    kT: float | None = None
    """temperature that is trained for; None: that of the reservoirs"""
    t_final: float | None = None
    """time that is trained for; None: the protocol's"""
    seed: int = 20260623
    """of the order of the batches, of the noise and of the distortion"""
    distortion: Distortion = field(default_factory=Distortion)

    def __post_init__(self) -> None:
        check_fields(
            self,
            positive=["learning_rate", "W_rate", "drive_limit", "kT", "t_final", "n_replicas", "work_penalty"],
            not_negative=["weight_decay", "label_smoothing", "drive_penalty"],
            integers={"epochs": _COUNT, "batch_size": _COUNT, "validation": (0, 2**40), "seed": (0, 2**62)},
            choices={"optimiser": get_args(FiniteTimeOptimiser), "schedule": get_args(Schedule)},
            infinite=["n_replicas"],
        )
        if self.n_replicas is not None and self.n_replicas < 1:
            raise invalid("n_replicas", "be at least 1", self.n_replicas)
        if self.label_smoothing >= 1:
            raise invalid("label_smoothing", "be below 1", self.label_smoothing)
        if self.drive_limit > LARGEST_DRIVE:
            raise invalid("drive_limit", f"be at most {LARGEST_DRIVE:g}, as far as the tables go", self.drive_limit)


def trained_name(name: str, options: FiniteTime | None) -> str:
    """What the files of a reservoir trained through its finite-time moments are called."""
    return f"{name}-trained" if options is not None and options.beside else name
