"""Late fusion that is fitted: the logits of one readout for each reservoir, joined by what images held out say.

    weighted     z = sum_r a_r z_r                      a_r >= 0
    calibrated   z = mean over r of z_r / T_r           T_r the temperature at which readout r by itself is calibrated
    stacked      z = sum_r A_r z_r + c                  a linear readout of all logits

Each minimises the cross-entropy of the images held out. Each is linear in the logits, which are linear in the features:
so what comes out is one readout of the joined features.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from thermoment.learning.fit import fit_converged
from thermoment.learning.readout import Array, Readout, Scaling

_COLDEST, _HOTTEST = 1e-2, 1e2
"""Temperatures among which one is sought."""


def weighted(readouts: Sequence[Readout], logits: Sequence[Array], labels: NDArray[Any]) -> Readout:
    """The readouts joined with the weights that suit the images held out.

    logits: of those images by each readout, (S, C) each
    labels: (S,)
    """
    stacked = np.stack(logits)
    start = np.full(len(logits), 1 / len(logits))

    def loss(weights: Array) -> tuple[float, Array]:
        value, slope = _entropy(np.tensordot(weights, stacked, 1), labels)
        return value, np.tensordot(stacked, slope, 2)

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(logits))
    return compose(readouts, [weight * np.eye(stacked.shape[2]) for weight in found.x])


def calibrated(readouts: Sequence[Readout], logits: Sequence[Array], labels: NDArray[Any]) -> Readout:
    """The readouts averaged, each divided by its temperature; arguments as in `weighted`."""
    scales = [1 / (temperature(one, labels) * len(logits)) for one in logits]
    return compose(readouts, [scale * np.eye(logits[0].shape[1]) for scale in scales])


def stacked(readouts: Sequence[Readout], logits: Sequence[Array], labels: NDArray[Any], l2: float) -> Readout:
    """The readouts read by a readout of their logits, fitted with the penalty l2; arguments as in `weighted`."""
    top = fit_converged(np.concatenate(logits, axis=1).astype(np.float32), labels, l2)
    gain = top.weights / top.scaling.scale
    maps = np.split(gain, len(logits), axis=1)
    return compose(readouts, maps, top.bias - gain @ top.scaling.mean)


def temperature(logits: Array, labels: NDArray[Any]) -> float:
    """The T at which the softmax of logits (S, C) / T has the smallest cross-entropy, from 0.01 to 100."""
    ends = np.log([_COLDEST, _HOTTEST])
    found = minimize_scalar(lambda t: _entropy(logits / np.exp(t), labels)[0], bounds=tuple(ends), method="bounded")
    return float(np.exp(found.x))


def compose(readouts: Sequence[Readout], maps: Sequence[Array], bias: Array | None = None) -> Readout:
    """The readout z = sum_r maps_r z_r + bias of joined features; maps: (C, C) each, bias: (C,), zero unless given."""
    weights = np.concatenate([one @ readout.weights for readout, one in zip(readouts, maps, strict=True)], axis=1)
    offset = sum(one @ readout.bias for readout, one in zip(readouts, maps, strict=True))
    scaling = Scaling(*(np.concatenate([getattr(one.scaling, name) for one in readouts]) for name in ("mean", "scale")))
    return Readout(weights, np.asarray(offset if bias is None else offset + bias), scaling)


def _entropy(logits: Array, labels: NDArray[Any]) -> tuple[float, Array]:
    """Mean cross-entropy of logits (S, C), and its gradient in them."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    slope = np.exp(shifted) / total
    slope[rows, labels] -= 1
    return float(np.mean(np.log(total[:, 0]) - shifted[rows, labels])), slope / len(labels)
