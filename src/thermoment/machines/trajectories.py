"""Training on trajectories: a network learns the fields that move guided nodes (Whitelam, arXiv:2509.15324).

A teacher says which field g_i should act on every node of a student for every input. A *guide* is the path of a node
by itself under that field, without noise. The student's parameters are those under which its noisy, coupled dynamics
goes along the guides with the largest probability. With the force F = -V' + h + W x at the start of each step,

    r_i = dx_i/(mu dt) - F_i                    -ln P = (mu dt / 4 kT) sum r_i^2 + const    (Onsager and Machlup)
    d(-ln P)/db_i  = -(mu dt / 2 kT) sum r_i    d/dK_ip = -(mu dt / 2 kT) sum r_i I_p
    d(-ln P)/dW_ij = -(mu dt / 2 kT) sum (r_i x_j + r_j x_i)        W symmetric: one parameter for each bond

On a guide dx_i/(mu dt) + V'(x_i) is g_i, so the well drops out: r = g - h - W x, and the best student is a linear fit
of g by (1, I, x) with a symmetric W. `PathSums` gathers what the fit needs; `learn_paths` does all of it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_integer, check_not_negative, invalid, quoted
from thermoment._support.memory import check_fits
from thermoment.machines.couplings import held, symmetric_fit
from thermoment.noise import MAX_NODES
from thermoment.physics import Dynamics, force
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir
from thermoment.simulation import check_system, sample_paths

Array = NDArray[np.float64]

_BATCH = 100
"""Samples whose paths are in memory at once: few enough for a processor's cache."""
_LARGEST = 1e15
"""Drives, fields and inputs beyond this are none: their squares would leave float32."""
_ANY = Protocol()


class PathLikelihood(NamedTuple):
    """-ln P of given paths, without the constant, and its derivatives."""

    loss: float
    W: Array
    """(N, N), symmetric: entry ij is the derivative by W_ij = W_ji; zero on the diagonal"""
    K: Array
    """(N, D)"""
    b: Array
    """(N,)"""


def path_likelihood(
    reservoir: Reservoir, inputs: ArrayLike, paths: ArrayLike, protocol: Protocol | None = None
) -> PathLikelihood:
    """-ln P that the reservoir goes along given paths, and its derivatives by W, K and b.

    Args:
        reservoir: the network, of N nodes and D inputs, at kT > 0.
        inputs: (S, D), one sample a row.
        paths: x at t = 0, dt, 2 dt, ...: (S, T + 1, N).
        protocol: its dt is the time from one row of a path to the next; `Protocol()` unless given.
    """
    protocol = check_system(reservoir, protocol)
    dynamics, dt = reservoir.dynamics, protocol.dt
    if dynamics.kT == 0:
        raise invalid("kT", "be positive: without noise every path but one has probability zero", 0.0)
    X = held("inputs", inputs, ("S", reservoir.n_inputs))
    x = held("paths", paths, (len(X), "T", reservoir.n_nodes))
    if x.shape[1] < 2:
        raise invalid("paths", "have at least two points in time", f"of shape {x.shape}")
    before, change = x[:, :-1], np.diff(x, axis=1)
    h = reservoir.drive(X)[:, None]
    if (strongest := float(np.abs(h).max())) > _LARGEST:
        raise invalid("inputs", f"drive nodes by at most {_LARGEST:g}", f"up to {strongest:.3g}")
    r = change / (dynamics.mu * dt) - force(before, h, dynamics) - before @ reservoir.W.T
    unit = dynamics.mu * dt / dynamics.kT
    by_W = np.einsum("sti,stj->ij", r, before, optimize=True)
    np.fill_diagonal(by_W, 0.0)
    by_drive = -unit / 2 * r.sum(axis=1)
    return PathLikelihood(
        unit / 4 * float((r * r).sum()), -unit / 2 * (by_W + by_W.T), by_drive.T @ X, by_drive.sum(axis=0)
    )


def guided_paths(fields: ArrayLike, dynamics: Dynamics, protocol: Protocol) -> Array:
    """Guides: paths of nodes by themselves under constant fields, from x = 0, without noise, by Euler's rule.

    Args:
        fields: g (S, N).
        dynamics: the well and the mobility.
        protocol: dt and t_final.

    Returns:
        (S, T + 1, N), x at t = 0, dt, ..., t_final = T dt.
    """
    _check_kinds(dynamics, protocol)
    g = held("fields", fields, ("S", "N"))
    strongest = float(np.abs(g).max())
    stable = dynamics.largest_stable_step(strongest)
    if protocol.dt > stable:
        must = f"be at most {stable:.3g}, the largest stable step for fields up to {strongest:.3g}"
        raise invalid("dt", must, protocol.dt)
    check_fits("fields", (len(g), protocol.n_steps + 1, g.shape[1]))
    paths = np.zeros((len(g), protocol.n_steps + 1, g.shape[1]))
    for n in range(protocol.n_steps):
        paths[:, n + 1] = paths[:, n] + dynamics.mu * protocol.dt * force(paths[:, n], g, dynamics)
    return paths


class PathSums:
    """Sums over samples and steps from which the best student follows; any number of samples, batch by batch.

    Args:
        n_nodes: N.
        n_inputs: D.
    """

    def __init__(self, n_nodes: int, n_inputs: int) -> None:
        N, Z = check_integer("n_nodes", n_nodes, 1, MAX_NODES), check_integer("n_inputs", n_inputs, 1, 2**31) + 1
        check_fits("n_inputs", (Z, Z), (Z, N), (N, N))
        self._zz, self._zx, self._zg = np.zeros((Z, Z)), np.zeros((Z, N)), np.zeros((Z, N))
        self._xx, self._xg = np.zeros((N, N)), np.zeros((N, N))

    def add(self, inputs: ArrayLike, fields: ArrayLike, paths: ArrayLike) -> None:
        """Adds samples: inputs (S, D), the fields wanted (S, N), and where the nodes are meanwhile (S, T, N).

        The products are taken in float32 and added up in float64.
        """
        Z, N = self._zx.shape
        X = held("inputs", inputs, ("S", Z - 1))
        g = held("fields", fields, (len(X), N))
        x = held("paths", paths, (len(X), "T", N))
        for name, part in (("inputs", X), ("fields", g), ("paths", x)):
            if (largest := float(np.abs(part).max())) > _LARGEST:
                raise invalid(name, f"be at most {_LARGEST:g} in magnitude", f"up to {largest:.3g}")
        g, x = g.astype(np.float32), x.astype(np.float32)
        z = np.concatenate([np.ones((len(X), 1)), X], axis=1).astype(np.float32)
        T, in_time, flat = x.shape[1], x.sum(axis=1), x.reshape(-1, N)
        self._zz += T * (z.T @ z)
        self._zx += z.T @ in_time
        self._zg += T * (z.T @ g)
        self._xx += flat.T @ flat
        self._xg += in_time.T @ g

    def student(self, dynamics: Dynamics, ridge: float = 1e-4) -> Reservoir:
        """The student with the least sum of |g - b - K I - W x|^2, W symmetric.

        Args:
            dynamics: of the student.
            ridge: added to the squares of K, as a share of the mean square of an input: inputs that never change leave
                the fit open.
        """
        _check_kinds(dynamics)
        share = check_not_negative("ridge", ridge)
        if not self._zz.any():
            raise ValueError("Nothing was added to these sums: call `add` first.")
        A = self._zz.copy()
        inner = np.arange(1, len(A))
        A[inner, inner] += share * float(np.diagonal(A)[1:].mean())
        try:
            solved = np.linalg.solve(A, np.concatenate([self._zx, self._zg], axis=1))
        except np.linalg.LinAlgError:
            must = "be larger where inputs never change or follow from each other"
            raise invalid("ridge", must, share) from None
        by_x, by_g = np.split(solved, 2, axis=1)
        W = symmetric_fit(self._xx - self._zx.T @ by_x, self._xg - self._zx.T @ by_g)
        linear = by_g - by_x @ W
        return Reservoir(W, linear[1:].T, linear[0], dynamics)


def learn_paths(
    inputs: ArrayLike,
    fields: ArrayLike,
    dynamics: Dynamics,
    protocol: Protocol,
    *,
    rounds: int = 0,
    ridge: float = 1e-4,
) -> Reservoir:
    """A student that has the teacher's fields: the fit along guides, then along paths of its own.

    Args:
        inputs: (S, D), one sample a row.
        fields: g (S, N), the field that the teacher wants on every node for every sample.
        dynamics: of the student.
        protocol: dt and t_final of guides and students, and the seed of the students' noise.
        rounds: how often the fit is repeated along paths that the last student takes by itself, one for each sample.
            The guides know neither noise nor coupling; these paths do.
        ridge: as in `PathSums.student`.

    Returns:
        The student, with symmetric W. Its nodes are those of `fields`.

    Cost: S * T * N^2 floating-point operations a round, and the simulation of one replica.
    """
    _check_kinds(dynamics, protocol)
    X = held("inputs", inputs, ("S", "D"))
    g = held("fields", fields, (len(X), "N"))
    rounds, ridge = check_integer("rounds", rounds, 0, 1000), check_not_negative("ridge", ridge)
    one = replace(protocol, n_replicas=1)
    student: Reservoir | None = None
    for _ in range(rounds + 1):
        sums = PathSums(g.shape[1], X.shape[1])
        for first in range(0, len(X), _BATCH):
            part = slice(first, first + _BATCH)
            sums.add(X[part], g[part], _paths(student, X[part], g[part], dynamics, one, first)[:, :-1])
        student = sums.student(dynamics, ridge)
    assert student is not None
    return student


def _check_kinds(dynamics: Any, protocol: Any = _ANY) -> None:
    if not isinstance(dynamics, Dynamics):
        raise invalid("dynamics", "be a thermoment.Dynamics", quoted(dynamics))
    if not isinstance(protocol, Protocol):
        raise invalid("protocol", "be a thermoment.Protocol", quoted(protocol))
    if protocol.start != "zero":
        raise invalid("protocol", "start at zero, as guides do", protocol)


def _paths(student: Reservoir | None, X: Array, g: Array, dynamics: Dynamics, protocol: Protocol, first: int) -> Array:
    """Guides (S, T + 1, N), or the paths of a student."""
    if student is None:
        return guided_paths(g, dynamics, protocol)
    ids = first + np.arange(len(X))
    return sample_paths(student, X, protocol, nodes=range(student.n_nodes), sample_ids=ids)[1][:, 0]
