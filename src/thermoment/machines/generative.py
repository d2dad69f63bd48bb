"""Generation of images from thermal noise, by a network that learnt how noising runs backwards (arXiv:2506.15121).

The likelihood that a network goes along a noising path backwards in time is `path_likelihood` of the reversed path.
It is quadratic in W and b. Its mean over all noising paths of all images needs no sampled path: given the image the
nodes are independent, so means, squares and mean reverse fields of single nodes (`noising.py`) are enough, and the best
network is the solution of one linear equation (`couplings.py`). Images are on the visible nodes. Hidden nodes have a
random code of +1 and -1 for each group of images; visible nodes are coupled to hidden ones and hidden ones to each
other. A *prompt* is a field on the hidden nodes along the codes of a class.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._engines.task import Engine
from thermoment._support.checks import (
    check_integer,
    check_labels,
    check_not_negative,
    check_positive,
    invalid,
    quoted,
)
from thermoment._support.memory import check_fits
from thermoment.machines.couplings import held, symmetric_fit
from thermoment.machines.noising import Noising, check_parts, node_law, noised_paths
from thermoment.machines.trajectories import path_likelihood
from thermoment.noise import MAX_STEPS
from thermoment.phases import Phase, course
from thermoment.physics import Dynamics
from thermoment.protocol import Protocol
from thermoment.reservoir import Reservoir

Array = NDArray[np.float64]

_EVERY = 10
"""Steps of the noising from one that enters the sums to the next: laws change little in between."""
_TOLERANCE = 1e-4


class Generated(NamedTuple):
    """Images that emerged from noise, and what they cost."""

    times: tuple[float, ...]
    """since the coupling was switched on, from 0 to the end"""
    x: Array
    """all nodes at these times: (len(times), n, N)"""
    images: Array
    """the visible nodes at these times as pixels from 0 to 1: (len(times), n, n_visible)"""
    heat: Array
    """heat given off in each of the n samples since the coupling was switched on, in units of kT: (n,)"""

    @property
    def mean_heat(self) -> tuple[float, float]:
        """Mean heat of a sample in kT, and its standard error."""
        n = len(self.heat)
        return float(self.heat.mean()), float(self.heat.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class Generator:
    """A network that makes images out of thermal noise.

    Args:
        reservoir: visible nodes first, then hidden ones; W symmetric; one input for each class that can be asked for.
        n_visible: the number of visible nodes.
        noising: what it learnt to run backwards.
    """

    reservoir: Reservoir
    n_visible: int
    noising: Noising = field(default_factory=Noising)

    def __post_init__(self) -> None:
        check_integer("n_visible", self.n_visible, 1, self.reservoir.n_nodes)

    def pixels(self, x: ArrayLike, contrast: float = 1.0) -> Array:
        """Positions (..., N) as pixels from 0 to 1: 0.5 + contrast * x / (2 x*), cut off below 0 and above 1.

        x* is where a node rests under the full field of the noising. A contrast above 1 cuts off thermal noise in black
        and in white.
        """
        rest = float(self.reservoir.dynamics.stationary_point(self.noising.field))
        visible = np.asarray(x, np.float64)[..., : self.n_visible]
        return np.clip(0.5 + check_positive("contrast", contrast) * visible / (2 * rest), 0.0, 1.0)

    def generate(
        self,
        n: int,
        *,
        prompts: ArrayLike | None = None,
        duration: float | None = None,
        rest: float = 2.0,
        readings: int = 1,
        contrast: float = 1.0,
        seed: int = 0,
        engine: str | Engine = "auto",
    ) -> Generated:
        """Images from thermal noise: the nodes rest by themselves, then are coupled for a time.

        Args:
            n: how many.
            prompts: (n,), the class asked for in each, from 0; none unless given.
            duration: how long the nodes are coupled; as long as the noising took unless given.
            rest: how long they are by themselves before, from x = 0.
            readings: how often they are read while they are coupled, at even distances; once, at the end, unless given.
            contrast: of the pixels.
            seed: of the noise.
            engine: as for `thermoment.simulate`.

        The heat is the energy that the coupled network loses, V(x(0)) - V(x(duration)): no work is done on it then.
        """
        n, readings = check_integer("n", n, 1, 2**31), check_integer("readings", readings, 1, 10**4)
        contrast = check_positive("contrast", contrast)
        network, dt = self.reservoir, self.noising.dt
        lasts = self.noising.duration if duration is None else check_positive("duration", duration)
        rest = check_positive("rest", rest)
        for name, time in (("duration", lasts), ("rest", rest)):
            if time / dt > MAX_STEPS:
                raise invalid(name, f"be at most 2^32 steps of {dt:g}", time)
        check_fits("n", (n, readings + 1, network.n_nodes))
        inputs = np.zeros((n, network.n_inputs))
        if prompts is not None:
            inputs[np.arange(n), check_labels("prompts", prompts, n, network.n_inputs)] = 1.0
        each = max(1, round(lasts / readings / dt)) * dt
        rest = max(1, round(rest / dt)) * dt
        phases = [Phase(rest, None, np.zeros_like(network.W)), *[Phase(each, inputs)] * readings]
        protocol = Protocol(dt=dt, t_final=each, n_replicas=1, seed=seed, orders=(1,))
        x = course(network, phases, protocol, engine=engine).raw[:, :, 0]
        energy = [network.dynamics.global_potential(one, network.drive(inputs), network.W) for one in (x[0], x[-1])]
        times = tuple(float(f"{k * each:.12g}") for k in range(readings + 1))
        heat = (energy[0] - energy[1]) / network.dynamics.kT
        return Generated(times, x, self.pixels(x, contrast), heat)


def train_generator(
    images: ArrayLike,
    dynamics: Dynamics,
    noising: Noising | None = None,
    *,
    groups: ArrayLike | None = None,
    n_hidden: int = 0,
    classes: ArrayLike | None = None,
    prompt: float = 0.0,
    ridge: float = 0.0,
    seed: int = 0,
) -> Generator:
    """The network with the largest mean likelihood of the noising backwards, by one linear solve.

    Args:
        images: (S, n_visible), pixels from 0 to 1.
        dynamics: of the nodes, J2 > 0.
        noising: how images are forgotten; `Noising()` unless given.
        groups: (S,), the group of each image, from 0; images of a group have one code on the hidden nodes. Each image
            is a group of its own unless given.
        n_hidden: hidden nodes. With none the visible nodes are coupled to each other.
        classes: (S,), the class of each image, from 0; one class unless given.
        prompt: the field on a hidden node when a class is asked for, times the mean code of the class's groups.
        ridge: added to the variance of every node in the fit, as a share of the mean variance: it keeps W small where
            cold nodes would let it grow.
        seed: of the codes.

    Cost: T/10 * S * N^2 operations for the sums, then `symmetric_fit`.
    """
    noising = Noising() if noising is None else noising
    check_parts(noising, dynamics)
    ridge = check_not_negative("ridge", ridge)
    pixels = held("images", images, ("S", "D"))
    if pixels.min() < 0 or pixels.max() > 1:
        raise invalid("images", "lie between 0 and 1", f"from {pixels.min():g} to {pixels.max():g}")
    n_visible = pixels.shape[1]
    n_hidden, prompt = check_integer("n_hidden", n_hidden, 0, 16384 - n_visible), check_not_negative("prompt", prompt)
    kinds = check_labels("groups", np.arange(len(pixels)) if groups is None else groups, len(pixels))
    of_class = check_labels("classes", np.zeros(len(pixels), int) if classes is None else classes, len(pixels))
    book = np.random.default_rng(check_integer("seed", seed, 0, 2**128)).choice(
        [-1.0, 1.0], (int(kinds.max()) + 1, n_hidden)
    )
    codes = book[kinds]
    N = n_visible + n_hidden
    bonds = np.ones((N, N), bool)
    if n_hidden:
        bonds[:n_visible, :n_visible] = False
    W, b = reverse_fit(np.concatenate([2 * pixels - 1, codes], axis=1), noising, dynamics, bonds, ridge)
    K = np.zeros((N, int(of_class.max()) + 1))
    for c in range(K.shape[1]):
        mine = np.unique(kinds[of_class == c])
        if prompt and len(mine):
            K[n_visible:, c] = prompt * book[mine].mean(axis=0)
    return Generator(Reservoir(W, K, b, dynamics), n_visible, noising)


def reverse_fit(
    s: Array, noising: Noising, dynamics: Dynamics, bonds: NDArray[np.bool_], ridge: float = 0.0
) -> tuple[Array, Array]:
    """W and b with the least mean of |g - b - W x'|^2 over images, noise and times: what `path_likelihood` comes to.

    Args:
        s: what the nodes forget, (S, N).
        noising: how.
        dynamics: of the nodes.
        bonds: which pairs may be coupled: (N, N).
        ridge: as in `train_generator`.
    """
    law, rows = node_law(noising, dynamics), noising.rounded(s)
    N, count = rows.shape[1], 0
    sums = {name: np.zeros(N) for name in ("x", "g", "spread")}
    xx, xg = np.zeros((N, N)), np.zeros((N, N))
    for n in range(_EVERY - 1, noising.n_steps, _EVERY):
        x, g = law.mean[n][rows].astype(np.float32), law.field[n][rows].astype(np.float32)
        xx += x.T @ x
        xg += x.T @ g
        sums["x"] += x.sum(axis=0)
        sums["g"] += g.sum(axis=0)
        sums["spread"] += (law.square[n] - law.mean[n] ** 2)[rows].sum(axis=0)
        count += len(rows)
    if not count:
        raise invalid("noising", f"have at least {_EVERY} steps", quoted(noising))
    mean, wanted = sums["x"] / count, sums["g"] / count
    C = (xx + np.diag(sums["spread"])) / count - np.outer(mean, mean)
    C += ridge * float(np.diagonal(C).mean()) * np.eye(N)
    W = symmetric_fit(C, xg / count - np.outer(mean, wanted), _TOLERANCE, bonds=bonds)
    return W, wanted - W @ mean


def descend_generator(
    generator: Generator, images: ArrayLike, codes: ArrayLike | None = None, *, rate: float, steps: int, seed: int = 0
) -> Generator:
    """The generator after `steps` steps of gradient descent, each along one sampled noising path of one image.

    Args:
        generator: where it starts.
        images: (S, n_visible), pixels from 0 to 1, taken in turn.
        codes: (S, n_hidden), what the hidden nodes have to forget; none unless given.
        rate: of the descent on -ln P / (number of steps in a path).
        steps: how many.
        seed: of the paths.
    """
    pixels = held("images", images, ("S", generator.n_visible))
    rate, steps = check_positive("rate", rate), check_integer("steps", steps, 1, 10**9)
    hidden = generator.reservoir.n_nodes - generator.n_visible
    extra = held("codes", codes, (len(pixels), hidden)) if codes is not None else np.zeros((len(pixels), 0))
    s = np.concatenate([2 * pixels - 1, extra], axis=1)
    network, noising = generator.reservoir, generator.noising
    protocol = Protocol(dt=noising.dt, t_final=noising.duration)
    bonds = network.W != 0 if network.W.any() else np.ones(network.W.shape)
    nothing = np.zeros((1, network.n_inputs))
    for k in range(steps):
        path = noised_paths(s[k % len(s)][None], noising, network.dynamics, seed=seed * 2**32 + k)
        slope = path_likelihood(network, nothing, path[:, ::-1], protocol)
        W = network.W - rate / noising.n_steps * slope.W * bonds
        b = network.b - rate / noising.n_steps * slope.b
        network = Reservoir(W, network.K, b, network.dynamics, network.stream)
    return Generator(network, generator.n_visible, noising)
