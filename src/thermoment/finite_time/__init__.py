"""Training of the machine itself: gradients through the finite-time moments of coupled nodes, shot noise included."""

from thermoment.finite_time.options import FiniteTime
from thermoment.finite_time.training import Epoch, Trained, train

__all__ = ["Epoch", "FiniteTime", "Trained", "train"]
