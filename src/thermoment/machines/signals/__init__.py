"""Time series: a reservoir that follows a signal, a ridge readout of its moments, and tasks to judge it by.

    u, y = tm.signals.narma10(3000, seed=1)
    follower = tm.signals.fit(reservoir, u[:2000], y[:2000], protocol, hold=0.5)
    error = tm.signals.nrmse(follower.follow(u[2000:], follower.end).prediction, y[2000:])

`reservoir` is any Reservoir of one input, such as `tm.signals.turning(100, seed=1)`.
"""

from thermoment.machines.signals.follower import Followed, Follower, fit
from thermoment.machines.signals.memory import Memory, memory_capacity
from thermoment.machines.signals.tasks import mackey_glass, narma10, nrmse
from thermoment.machines.signals.turning import turning

__all__ = ["Followed", "Follower", "Memory", "fit", "mackey_glass", "memory_capacity", "narma10", "nrmse", "turning"]
