"""What training through the finite-time moments leaves to choose."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from thermoment.distortion import Distortion
from thermoment.finite_time.machine import DRIVES
from thermoment.validation import check_integer, check_not_negative, check_positive, invalid

Optimiser = Literal["adamw", "sgd"]
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
    optimiser: Optimiser = "adamw"
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
        for name, choices in (("optimiser", Optimiser), ("schedule", Schedule)):
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
        if self.drive_limit > DRIVES:
            raise invalid("drive_limit", f"be at most {DRIVES:g}, as far as the tables go", self.drive_limit)
