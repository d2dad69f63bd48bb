"""The law of a node at t_final as a quantile function: x as a function of a standard normal z.

x(z) is the point below which the node is with the probability Phi(z) that a standard normal is below z. So x(z) with z
drawn from a standard normal is a draw of the node. All functions here are tabulated at `NORMALS`.
"""

import numpy as np
import scipy  # whose parts load when they are first used
from numpy.typing import NDArray

from thermoment._engines.meanfield.grids import Grid

Array = NDArray[np.float64]

NORMALS = np.linspace(-6.0, 6.0, 193)
"""The values z at which quantile functions are tabulated: (Z,). A standard normal is beyond them once in 5e8 draws."""


def quantile_function(cells: Grid, P: Array) -> Array:
    """x(z) of the density P (n,) on the cells: (Z,).

    Each tail is summed from its own end, so that small probabilities keep their precision. Upstream of a narrow density
    the centred scheme leaves a faint oscillation from cell to cell. The density is averaged over neighbours to remove
    it; where what is left of the oscillation would matter, the tails are cut and continued as those of a Gaussian.
    """
    for _ in range(2):
        P = np.convolve(P, [0.25, 0.5, 0.25], mode="same")
    noise = 10 * max(float(-P.min()), 1e-15)
    P = np.maximum(P - noise * (noise > P), 0.0)
    below, above = np.cumsum(P)[:-1], np.cumsum(P[::-1])[::-1][1:]
    face = (cells.x[1:] + cells.x[:-1]) / 2
    z = np.where(below < 0.5, scipy.special.ndtri(np.minimum(below, 0.5)), -scipy.special.ndtri(np.minimum(above, 0.5)))
    # The outermost sums lack what was cut off. In an empty gap between two wells rounding may leave equal neighbours.
    inside = np.flatnonzero((below > 30 * noise) & (above > 30 * noise) & (np.abs(z) < 1.2 * NORMALS[-1]))
    inside = inside[np.diff(np.maximum.accumulate(z[inside]), prepend=-np.inf) > 0]
    if len(inside) < 4:
        return np.array(NORMALS)  # the cells are too coarse; `shapes` sees it by the skewness
    z, face = z[inside], face[inside]
    x = scipy.interpolate.PchipInterpolator(z, face)(np.clip(NORMALS, z[0], z[-1]))
    ends = (face[1] - face[0]) / (z[1] - z[0]), (face[-1] - face[-2]) / (z[-1] - z[-2])
    return np.asarray(x + ends[0] * np.minimum(NORMALS - z[0], 0) + ends[1] * np.maximum(NORMALS - z[-1], 0))


def shapes(quantiles: Array, moments: Array) -> Array:
    """Standardised quantile functions (H, Z) from quantile functions (H, Z) and moments E[x^p], p = 1, 2, ... (H, P).

    The cells resolve the moments of a narrow density that moves fast, but not its shape. Where the skewness of the
    quantile function differs from that of the moments, the shape is instead a Gaussian's bent to the skewness of the
    moments (the first term of Cornish and Fisher).
    """
    shape = standardised(quantiles)
    m1, m2, m3 = moments[:, :3].T
    skewness = (m3 - 3 * m1 * m2 + 2 * m1**3) / (m2 - m1**2) ** 1.5
    off = np.abs(shape_moments(shape, 3)[:, 2] - skewness) > 0.02 * (1 + np.abs(skewness))
    bent = NORMALS + skewness[:, None] / 6 * (NORMALS**2 - 1)
    return np.where(off[:, None], standardised(bent), shape)


def standardised(shape: Array) -> Array:
    """Quantile functions (H, Z), each shifted and scaled to mean 0 and variance 1."""
    for _ in range(2):  # the second round removes what rounding left in the first
        first, second = shape_moments(shape, 2).T
        shape = (shape - first[:, None]) / np.sqrt(second - first**2)[:, None]
    return shape


def shape_moments(shape: Array, top: int) -> Array:
    """Moments of order 1 to `top` of draws from quantile functions (H, Z), linear between `NORMALS`: (H, top)."""
    # Gauss-Legendre inside each interval: exact but for the normal density, which is smooth.
    nodes, weight = np.polynomial.legendre.leggauss(5)
    f = (nodes + 1) / 2
    z = NORMALS[:-1, None] + np.diff(NORMALS)[:, None] * f
    mass = weight / 2 * np.exp(-(z**2) / 2) * np.diff(NORMALS)[:, None]
    mass = mass / mass.sum()
    y = shape[:, :-1, None] * (1 - f) + shape[:, 1:, None] * f
    power, moments = mass, []
    for _ in range(top):
        power = power * y
        moments.append(power.sum(axis=(1, 2)))
    return np.stack(moments, axis=1)
