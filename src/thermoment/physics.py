"""The physics of one node in a quartic well: potential, force, stationary point, equilibrium, stable step.

    U(x; h) = J2 x^2 + J3 x^3 + J4 x^4 - h x            F = -dU/dx
    dx = mu F dt + sqrt(2 mu kT) dB

x is the position, h the drive (the force of the input), mu the mobility, kT the thermal energy, B a Brownian motion. In
a network the force W x of the other nodes is added. It derives from a potential only where W is symmetric.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoment._support.checks import (
    check_array,
    check_each,
    check_integer,
    check_integers,
    check_not_negative,
    check_numbers,
    check_positive,
    check_real,
    invalid,
    refuse_where,
)
from thermoment._support.identity import LATER, stated
from thermoment._support.memory import check_fits
from thermoment.wells import (
    boltzmann_quadrature,
    centred,
    curvature,
    potential,
    quadrature_points,
    reach,
    stiffest,
)
from thermoment.wells import force as force
from thermoment.wells import stationary_point as stationary_point

Array = NDArray[np.float64]

LARGEST_DRIVE = 100.0
"""|h| up to which the meanfield engine tabulates a node."""

# Quadrature points held in memory at once (8 bytes each, a few arrays).
_QUADRATURE_BLOCK = 2_000_000


# No coefficient is larger than _LARGEST, and J2, J3 and J4 are not smaller than _SMALLEST unless they are zero: so
# their powers and quotients stay within the range of a float. J3 / J4 is a length, at most _LONGEST.
_SMALLEST, _LARGEST, _LONGEST = 1e-100, 1e30, 1e6
# The norm of a matrix with larger elements is that of the matrix divided by its largest, times that.
_SQUARES_OVERFLOW = 1e70
# For the slowest relaxation: cells on each side of x = 0, and how far they reach above the minimum of U.
_GAP_CELLS, _GAP_TAIL_KT = 400, 30.0


class Integrability(NamedTuple):
    """Whether the force W x derives from a potential, and how far it is from that."""

    integrable: bool
    asymmetry: float
    """|(W - W^T)/2| / |W| in the Frobenius norm: 0 symmetric, 1 antisymmetric, about 0.71 for independent entries."""


def integrability(W: ArrayLike) -> Integrability:
    """Whether the force W x derives from a potential: dF_i/dx_j = dF_j/dx_i, that is W = W^T exactly.

    Args:
        W: coupling, (N, N).

    Returns:
        `integrable`, and `asymmetry`, 0 for a symmetric and 1 for an antisymmetric W.
    """
    W = check_array("W", W, ("N", "N"))
    if (largest := float(np.abs(W).max())) > _SQUARES_OVERFLOW:
        return integrability(W / largest)
    size = float(np.linalg.norm(W))
    asymmetry = float(np.linalg.norm(W - W.T)) / (2 * size) if size else 0.0
    return Integrability(bool(np.array_equal(W, W.T)), asymmetry)


def coupling_norm(W: Array, iterations: int = 30) -> float:
    """Largest singular value of W to a few per cent, by power iteration from a fixed start; O(N^2) an iteration."""
    if (largest := float(np.abs(W).max())) > _SQUARES_OVERFLOW:
        return largest * coupling_norm(W / largest, iterations)
    vector: Array = np.random.default_rng(0).normal(size=(W.shape[1],))
    norm = 0.0
    for _ in range(iterations):
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            return 0.0
        image = W @ (vector / length)
        norm = float(np.linalg.norm(image))
        vector = W.T @ image
    return norm


@dataclass(frozen=True, eq=False, repr=False)
class Dynamics:
    """The well, the mobility and the temperature of the nodes of a reservoir: five numbers that all of them share.

    Each of the five may instead be an array (N,), a number for every node. Two `Dynamics` of the same numbers are equal
    and have the same hash.

    Args:
        J2: quadratic coefficient of the well. J2 < 0 with J4 > 0 is a double well.
        J4: quartic coefficient of the well, zero or positive. J4 = 0 needs J2 > 0: nothing else confines the node.
        mu: mobility, positive.
        kT: thermal energy, zero or positive.
        J3: cubic coefficient of the well, which makes it lean to one side; zero where J4 = 0, and at most 1e6 J4.
    """

    J2: float = 1.0
    J4: float = 1.0
    mu: float = 1.0
    kT: float = 0.1
    J3: float = field(default=0.0, metadata=LATER)

    if TYPE_CHECKING:  # most code is of nodes that are alike, and reads numbers; arrays are given all the same

        def __init__(
            self,
            J2: ArrayLike = 1.0,
            J4: ArrayLike = 1.0,
            mu: ArrayLike = 1.0,
            kT: ArrayLike = 0.1,
            J3: ArrayLike = 0.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, check in (
            ("J2", check_real),
            ("J4", check_not_negative),
            ("mu", check_positive),
            ("kT", check_not_negative),
            ("J3", check_real),
        ):
            value = check_each(name, getattr(self, name), check)
            refuse_where(np.abs(value) > _LARGEST, name, f"be at most {_LARGEST:g} in magnitude", value)
            if name in ("J2", "J3", "J4"):
                tiny = (np.abs(value) > 0) & (np.abs(value) < _SMALLEST)
                refuse_where(tiny, name, f"be zero, or at least {_SMALLEST:g} in magnitude", value)
            object.__setattr__(self, name, value)
        for name, value in self._arrays().items():
            if len(value) != self.n_nodes:
                raise ValueError(f"Argument `{name}` must have shape ({self.n_nodes},), but has shape {value.shape}.")
        loose = (self.J4 == 0) & (self.J2 <= 0)
        refuse_where(loose, "J2", "be positive where J4 = 0, since nothing else confines x", self.J2)
        far = np.abs(self.J3) > _LONGEST * self.J4
        refuse_where(far, "J3", f"be at most {_LONGEST:g} J4 in magnitude, so that J4 confines x", self.J3)

    def __repr__(self) -> str:
        each = {name: f"of {len(value)} nodes" for name, value in self._arrays().items()}
        return f"Dynamics({', '.join(f'{name}={each.get(name, value)}' for name, value in stated(self).items())})"

    def _key(self) -> tuple[Any, ...]:
        return tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in self._all().values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dynamics) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _all(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def _arrays(self) -> dict[str, Array]:
        return {name: value for name, value in self._all().items() if np.ndim(value)}

    @property
    def n_nodes(self) -> int | None:
        """N where something differs between nodes; None where they are all alike."""
        return next((len(value) for value in self._arrays().values()), None)

    def node(self, i: int) -> "Dynamics":
        """The dynamics of node i by itself."""
        if self.n_nodes is None:
            return self
        i = check_integer("i", i, 0, self.n_nodes - 1)
        return Dynamics(**{name: float(value[i]) if np.ndim(value) else value for name, value in self._all().items()})

    def facts(self) -> dict[str, Any]:
        """The numbers as JSON can hold them. `Dynamics(**facts)` is the same."""
        return {name: value.tolist() if np.ndim(value) else value for name, value in stated(self).items()}

    def _distinct(self) -> list["Dynamics"]:
        """One of each kind of node."""
        if self.n_nodes is None:
            return [self]
        columns = [np.broadcast_to(value, (self.n_nodes,)) for value in self._all().values()]
        return [self.node(int(i)) for i in np.unique(np.stack(columns), axis=1, return_index=True)[1]]

    def check_single(self, what: str) -> None:
        """Raises where the nodes differ and a function is of one node."""
        if self.n_nodes is not None:
            must = f"be of a single node for {what}, as Dynamics.node(i) is"
            raise invalid("dynamics", must, f"of {self.n_nodes} nodes that differ")

    def _fit(self, argument: str, *shapes: tuple[int, ...]) -> None:
        """Raises where the last axis of an argument is not that of the nodes."""
        if self.n_nodes is not None and any(shape and shape[-1] not in (1, self.n_nodes) for shape in shapes):
            raise ValueError(f"Argument `{argument}` must have shape (..., {self.n_nodes}), but has shape {shapes[0]}.")

    def potential(self, x: ArrayLike, h: ArrayLike = 0.0) -> Array:
        """U(x; h) = J2 x^2 + J3 x^3 + J4 x^4 - h x, broadcast over x and h."""
        x, h = _together(x, h)
        self._fit("x", x.shape, h.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(potential(x, h, self))

    def force(self, x: ArrayLike, h: ArrayLike = 0.0) -> Array:
        """F = -dU/dx = -2 J2 x - 3 J3 x^2 - 4 J4 x^3 + h, broadcast over x and h."""
        x, h = _together(x, h)
        self._fit("x", x.shape, h.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(force(x, h, self))

    def curvature(self, x: ArrayLike) -> Array:
        """U'' = 2 J2 + 6 J3 x + 12 J4 x^2."""
        x = _numbers("x", x)
        self._fit("x", x.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(curvature(x, self))

    def stationary_point(self, h: ArrayLike) -> Array:
        """x*(h), the global minimum of U(x; h): a root of 2 J2 x + 3 J3 x^2 + 4 J4 x^3 = h, in closed form.

        Without J3 it has the sign of h. Of the two equal minima of a double well the one at larger x is returned.
        """
        h = _numbers("h", h)
        self._fit("h", h.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(stationary_point(h, self))

    def stationary_slope(self, h: ArrayLike) -> Array:
        """dx*/dh = 1 / U''(x*(h)); infinite only for the purely quartic well at h = 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / self.curvature(self.stationary_point(h)))

    def relaxation_time(self, h: ArrayLike = 0.0) -> Array:
        """1 / (mu U''(x*)), the time in which x returns to x*. Hopping between two wells takes longer."""
        return self.stationary_slope(h) / self.mu

    def slowest_rate(self) -> float:
        """The rate at which an undriven node forgets in the end where it was, hops between two wells included.

        Without J3 a driven node is faster. It is the gap of the Fokker-Planck operator, discretised as hops between
        neighbouring cells that obey detailed balance. Scaled by the square root of the equilibrium law this operator is
        a symmetric tridiagonal matrix. Zero where the node does not forget: at kT = 0 unless x = 0 is the only minimum.
        Of nodes that differ it is the slowest.
        """
        if self.n_nodes is not None:
            return min(one.slowest_rate() for one in self._distinct())
        if self.kT == 0:
            alone = 9 * self.J3 * self.J3 <= 32 * self.J2 * self.J4 if self.J3 else True
            return 2 * self.mu * max(self.J2, 0.0) if alone else 0.0
        from scipy.linalg import eigh_tridiagonal  # takes longer to import than the rest of the package

        x = self._gap_cells()
        rise = np.diff(self.potential(x)) / self.kT
        hop = self.mu * self.kT / (x[1] - x[0]) ** 2
        out = np.zeros_like(x)
        # No hop is faster than exp(300) or slower than exp(-300) of the others: what is, is never and at once.
        out[:-1] += hop * np.exp(np.clip(-rise / 2, -300, 300))
        out[1:] += hop * np.exp(np.clip(rise / 2, -300, 300))
        second = (len(x) - 2, len(x) - 2)
        return -float(eigh_tridiagonal(-out, np.full(len(rise), hop), True, select="i", select_range=second)[0])

    def _gap_cells(self) -> Array:
        """Places that cover where an undriven node is, but for exp(-30) of the time."""
        if self.J3:
            low, high = reach(np.zeros(1), self, self.kT)
            return np.linspace(low[0], high[0], 2 * _GAP_CELLS + 1)
        lowest = float(self.stationary_point(0.0))
        end = 2 * lowest + math.sqrt(self.kT)
        while self.potential(end) < self.potential(lowest) + _GAP_TAIL_KT * self.kT:
            end *= 1.2
        return np.linspace(-end, end, 2 * _GAP_CELLS + 1)

    def largest_stable_step(self, h: float = 0.0, W_norm: float = 0.0) -> float:
        """The dt above which an Euler step ends farther from x* than it began, for drives up to |h|.

        It is 2 / (mu (U''(x) + |W|)). x is where the network's softest mode can push a node: the stationary point of a
        well whose J2 is lowered by |W| / 2; with J3, the stiffer of both sides. Accuracy wants a step well below.
        """
        h, norm = check_real("h", h), check_not_negative("W_norm", W_norm)
        if norm > _LARGEST:  # beside it the well is nothing
            return float(2 / (np.max(self.mu) * norm))
        with np.errstate(over="ignore", invalid="ignore"):
            stiffness = stiffest(h, norm, self)
        rate = float(np.max(np.where(stiffness + norm > 0, self.mu * (np.maximum(stiffness, 0.0) + norm), 0.0)))
        return 2 / rate if rate else np.inf

    def boltzmann_density(self, x: ArrayLike, h: float = 0.0) -> Array:
        """exp(-U(x; h) / kT) / Z for one drive h, normalised by quadrature. Needs kT > 0, and a single node."""
        self.check_single("a density")
        if self.kT == 0:
            raise invalid("kT", "be positive for a density", self.kT)
        drive = np.array([check_real("h", h)])
        points = quadrature_points(drive, self, self.kT)
        grid, weight, _ = boltzmann_quadrature(drive, self, self.kT, points)
        minimum = self.potential(self.stationary_point(h), h)
        Z = weight.sum() * (grid[0, 1] - grid[0, 0])
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.exp(-(self.potential(x, h) - minimum) / self.kT) / Z)

    def boltzmann_moments(self, h: ArrayLike, orders: Sequence[int] = (1, 2, 4)) -> Array:
        """E[x^p] of one node in equilibrium, by quadrature to about 1e-12.

        Args:
            h: drives, of any shape.
            orders: the p that are wanted.

        Returns:
            (len(orders), *h.shape). Where nodes differ, the last axis of h is theirs.

        At kT = 0 the node rests at the minimum (in a double well at h = 0, in either with probability 1/2).
        Memory is bounded; time is about a microsecond per drive and thousand quadrature points.
        """
        h = _numbers("h", h)
        powers = check_integers("orders", orders, 0, 2**10)
        if self.n_nodes is not None:
            self._fit("h", h.shape)
            columns = np.moveaxis(np.broadcast_to(h, np.broadcast_shapes(h.shape, (self.n_nodes,))), -1, 0)
            return np.stack([self.node(i).boltzmann_moments(one, powers) for i, one in enumerate(columns)], axis=-1)
        drives = check_array("h", h.reshape(-1), ("S",))
        moments = np.empty((len(powers), drives.size))
        if self.kT == 0:
            minimum = self.stationary_point(drives)
            s, even, drive = centred(drives, self)
            other = np.where((even.J2 < 0) & (drive == 0), 2 * s - minimum, minimum)
            for row, p in zip(moments, powers, strict=True):
                row[:] = (minimum**p + other**p) / 2
            return moments.reshape(-1, *h.shape)
        points = quadrature_points(drives, self, self.kT)
        block = max(1, _QUADRATURE_BLOCK // points)
        for start in range(0, drives.size, block):
            part = slice(start, start + block)
            grid, weight, norm = boltzmann_quadrature(drives[part], self, self.kT, points)
            for row, p in zip(moments, powers, strict=True):
                row[part] = np.einsum("ij,ij->i", grid**p, weight) / norm
        return moments.reshape(-1, *h.shape)

    def global_potential(self, x: ArrayLike, h: ArrayLike, W: ArrayLike) -> Array:
        """U(x) = sum_i U(x_i; h_i) - x^T W x / 2 for x, h: (..., N). Exists for symmetric W only."""
        W = check_array("W", W, ("N", "N"))
        symmetric, asymmetry = integrability(W)
        if not symmetric:
            raise invalid(
                "W",
                "be symmetric to have a global potential",
                f"asymmetric: |W - W^T| / 2|W| = {asymmetry:.3g}",
            )
        x, h = _together(x, h)
        if x.ndim == 0 or x.shape[-1] != len(W):
            raise ValueError(f"Argument `x` must have shape (..., {len(W)}), but has shape {x.shape}.")
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.potential(x, h).sum(axis=-1) - 0.5 * np.einsum("...i,ij,...j", x, W, x))


def _numbers(argument: str, value: ArrayLike) -> Array:
    """`value` as float64, of any shape."""
    array = check_numbers(argument, value)
    check_fits(argument, array.shape)
    return np.asarray(array, np.float64)


def _together(x: ArrayLike, h: ArrayLike) -> tuple[Array, Array]:
    """x and h as float64, of shapes that broadcast."""
    points, drives = _numbers("x", x), _numbers("h", h)
    try:
        shape = np.broadcast_shapes(points.shape, drives.shape)
    except ValueError:
        raise ValueError(
            f"Argument `h` must broadcast with x of shape {points.shape}, but has shape {drives.shape}."
        ) from None
    check_fits("h", shape)
    return points, drives
