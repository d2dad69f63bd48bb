"""Langevin machines as estimators of scikit-learn: a transformer, a classifier and a regressor.

    rows (S, D) -> scaled and cut (inputs.py) -> reservoirs, trained or as drawn (learn.py)
                -> moments [m1 | m2 | m4] of one reservoir after the other, (S, F) -> a linear readout

A row has the noise that its own numbers choose (row_noise.py). Fitted state is arrays and plain values alone.
"""

from thermoment.machines.estimators.classifier import LangevinClassifier as LangevinClassifier
from thermoment.machines.estimators.features import LangevinFeatures as LangevinFeatures
from thermoment.machines.estimators.regressor import LangevinRegressor as LangevinRegressor
