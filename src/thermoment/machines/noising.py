"""Noising: nodes by themselves, held by the fields of an image that fade away, forget the image.

    dx_i = mu (-V'(x_i) + c(t) field s_i) dt + sqrt(2 mu kT) dB_i        c falls from 1 to 0 along a line, then stays 0

s_i in [-1, 1] says what node i has to forget: a pixel, or a bit of a code. Given the image the nodes are independent,
so the law of a node depends on s_i and t alone, and is computed here for a few levels of s on a grid in x. Backwards in
time the node at x' moves, on average, as if besides its well a field acted on it (mu = 1 here; p_t is its density):

    g(x', t) = 2 V'(x') - c field s + 2 kT d ln p_t(x')/dx

That is what a machine has to learn that goes from noise back to images (`generative.py`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import check_fields, check_integer, invalid, quoted
from thermoment.machines.couplings import held
from thermoment.noise import MAX_STEPS
from thermoment.physics import Dynamics, force
from thermoment.protocol import whole_steps

Array = NDArray[np.float64]

# The grid in x reaches this many kT up the well above the deepest start, with this many points in the width of a step.
_TAIL_KT, _POINTS = 25.0, 1.5


@dataclass(frozen=True)
class Noising:
    """How images are forgotten.

    Args:
        field: on a node with s = 1, in the beginning.
        duration: of the whole; dt must divide it.
        fade: the share of it after which no field is left.
        dt: Euler step.
        levels: s is rounded to this many values from -1 to 1, an odd number.
    """

    field: float = 2.0
    duration: float = 2.5
    fade: float = 0.75
    dt: float = 0.01
    levels: int = 17

    def __post_init__(self) -> None:
        check_fields(self, positive=("field", "duration", "fade", "dt"), integers={"levels": (3, 1001)})
        if self.fade > 1:
            raise invalid("fade", "be at most 1", self.fade)
        if self.levels % 2 == 0:
            raise invalid("levels", "be odd, so that zero is one of them", self.levels)
        if self.duration / self.dt > MAX_STEPS or whole_steps(self.duration, self.dt) is None:
            raise invalid("dt", f"divide the duration of {self.duration} into whole steps", self.dt)

    @property
    def n_steps(self) -> int:
        return round(self.duration / self.dt)

    def strength(self) -> Array:
        """c at the start of every step: (T,)."""
        return np.maximum(0.0, 1 - np.arange(self.n_steps) / (self.fade * self.n_steps))

    def rounded(self, s: ArrayLike) -> NDArray[np.intp]:
        """The number of the level next to each s (S, N), from 0 to `levels` - 1."""
        s = held("s", s, ("S", "N"))
        if np.abs(s).max() > 1:
            raise invalid("s", "lie between -1 and 1", f"up to {np.abs(s).max():g}")
        return np.rint((s + 1) / 2 * (self.levels - 1)).astype(np.intp)


class NodeLaw(NamedTuple):
    """The law of one node after every step of the noising, for every level of s."""

    mean: Array
    """E[x']: (T, L)"""
    square: Array
    """E[x'^2]: (T, L)"""
    field: Array
    """E[g], the mean field that takes the node back: (T, L)"""
    x: Array
    """grid: (X,)"""
    density: Array
    """p_t on the grid: (T, L, X)"""

    def reverse_field(self, noising: Noising, dynamics: Dynamics, n: int) -> Array:
        """g(x', t) on the grid after step n, from the score d ln p/dx: (L, X)."""
        s = np.linspace(-1, 1, noising.levels)[:, None]
        score = np.gradient(np.log(np.maximum(self.density[n], 1e-300)), self.x, axis=1)
        g = -2 * dynamics.force(self.x) - noising.strength()[n] * noising.field * s + 2 * dynamics.kT * score
        return np.asarray(g)


def node_law(noising: Noising, dynamics: Dynamics) -> NodeLaw:
    """The law of a node that starts in equilibrium under the full field, step by step of the Euler rule, by quadrature.

    Cost: T * L * X^2 / 2; a second or two with the defaults.
    """
    check_parts(noising, dynamics)
    dt, kT, mu = noising.dt, dynamics.kT, dynamics.mu
    spread = np.sqrt(2 * mu * kT * dt)
    far = float(dynamics.stationary_point(noising.field))
    ceiling = dynamics.potential(far, noising.field) + _TAIL_KT * kT
    while dynamics.potential(far, noising.field) < ceiling:
        far += spread
    x = np.linspace(-far, far, 2 * int(np.ceil(_POINTS * far / spread)) + 1)
    s = np.linspace(0, 1, noising.levels // 2 + 1)  # the law of -s is that of s in a mirror
    energy = dynamics.potential(x, noising.field * s[:, None]) / kT
    p = np.exp(energy.min(axis=1, keepdims=True) - energy)
    p /= p.sum(axis=1, keepdims=True)
    slope, means, squares, fields, laws = -dynamics.force(x), [], [], [], []
    for c in noising.strength():
        before = p @ x
        for number, field in enumerate(c * noising.field * s):
            kernel = np.exp(-((x[:, None] - x - mu * dt * dynamics.force(x, field)) ** 2) / (2 * spread**2))
            p[number] = kernel / kernel.sum(axis=0) @ p[number]
        means.append(p @ x)
        squares.append(p @ x**2)
        fields.append(p @ slope - (means[-1] - before) / (mu * dt))
        laws.append(p / (x[1] - x[0]))
    density = np.array(laws)
    return NodeLaw(
        _mirrored(means, -1.0),
        _mirrored(squares, 1.0),
        _mirrored(fields, -1.0),
        x,
        np.concatenate([density[:, :0:-1, ::-1], density], axis=1),
    )


def noised_paths(s: ArrayLike, noising: Noising, dynamics: Dynamics, *, seed: int = 0) -> Array:
    """Sampled paths of the noising, each from the equilibrium under the full field: (S, T + 1, N) for s (S, N)."""
    check_parts(noising, dynamics)
    rows = noising.rounded(s)
    rng = np.random.default_rng(check_integer("seed", seed, 0, 2**128))
    fields = noising.field * np.linspace(-1, 1, noising.levels)[rows]
    spread = np.sqrt(2 * dynamics.mu * dynamics.kT * noising.dt)
    x = dynamics.stationary_point(fields)
    paths = np.empty((len(x), noising.n_steps + 1, x.shape[1]))
    strengths = np.concatenate([np.ones(noising.n_steps), noising.strength()])  # first it comes to equilibrium
    for n, c in enumerate(strengths):
        if n >= noising.n_steps:
            paths[:, n - noising.n_steps] = x
        x = x + dynamics.mu * noising.dt * force(x, c * fields, dynamics) + spread * rng.normal(size=x.shape)
    paths[:, -1] = x
    return paths


def check_parts(noising: Noising, dynamics: Dynamics) -> None:
    """Refuses what is no noising, no dynamics, or has no noise, or a step that is not stable."""
    if not isinstance(noising, Noising):
        raise invalid("noising", "be a thermoment.Noising", quoted(noising))
    if not isinstance(dynamics, Dynamics):
        raise invalid("dynamics", "be a thermoment.Dynamics", quoted(dynamics))
    if dynamics.kT == 0 or dynamics.J2 <= 0:
        raise invalid("dynamics", "have kT > 0 and a single well, J2 > 0", dynamics)
    if noising.dt > (stable := dynamics.largest_stable_step(noising.field) / 4):
        raise invalid("dt", f"be at most {stable:.3g}, a quarter of the largest stable step", noising.dt)


def _mirrored(of_steps: list[Array], sign: float) -> Array:
    """Numbers for s from 0 to 1, step by step, as (T, L) for s from -1 to 1; those of -s have this sign beside s."""
    half = np.array(of_steps)
    return np.concatenate([sign * half[:, :0:-1], half], axis=1)
