"""Scaling of inputs and filling up of training sets: exact."""

import numpy as np
import pytest

from thermoment.machines.estimators.inputs import InputScaling, fit_scaling, padded
from thermoment.machines.estimators.row_noise import distinct, row_ids

ROWS = np.array([[0.0, 5.0, -10.0], [1.0, 5.0, 10.0], [4.0, 5.0, 30.0]])
EVEN = np.ones(3)


def test_range_takes_the_training_set_to_the_whole_range_and_cuts_what_lies_beyond() -> None:
    scaling = fit_scaling("range", ROWS, EVEN)
    np.testing.assert_array_equal(scaling.apply(ROWS), [[-1, 0, -1], [-0.5, 0, 0], [1, 0, 1]])
    np.testing.assert_array_equal(scaling.apply(np.array([[9.0, 7.0, -1e300]])), [[1, 1, -1]])


def test_standard_has_mean_zero_and_deviation_one_by_weight() -> None:
    weights = np.array([1.0, 2.0, 1.0])
    found = fit_scaling("standard", ROWS, weights).apply(ROWS)
    repeated = ROWS[[0, 1, 1, 2]]
    np.testing.assert_allclose(found[:, ::2], ((ROWS - repeated.mean(0)) / (repeated.std(0) + 1e-300))[:, ::2])
    np.testing.assert_array_equal(found[:, 1], 0)
    outlier = fit_scaling("standard", ROWS, weights).apply(np.array([[50.0, 5.0, -500.0]]))
    np.testing.assert_array_equal(outlier, [[3, 0, -3]])


def test_a_constant_column_whose_mean_is_rounded_is_still_constant() -> None:
    rows = np.full((7, 1), 0.1)
    assert np.abs(fit_scaling("standard", rows, np.ones(7)).apply(rows)).max() < 1e-12


def test_without_scaling_inputs_stay_as_they_are() -> None:
    np.testing.assert_array_equal(fit_scaling(None, ROWS, EVEN).apply(1e6 * ROWS), 1e6 * ROWS)


def test_zero_has_one_sign_and_so_one_noise() -> None:
    scaling = InputScaling(np.zeros(1), np.ones(1), 1.0)
    minus, plus = scaling.apply(np.array([[-0.0]])), scaling.apply(np.array([[0.0]]))
    assert row_ids(minus) == row_ids(plus)


def test_ids_follow_the_numbers_of_a_row_alone() -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    ids = row_ids(rows)
    assert len(set(ids.tolist())) == 1000
    np.testing.assert_array_equal(row_ids(rows[[5, 7, 5]]), ids[[5, 7, 5]])
    np.testing.assert_array_equal(row_ids(np.asfortranarray(rows)), ids)
    assert ids.dtype == np.uint64
    assert ids.max() > 2**63  # all 64 bits are used


def test_distinct_rows_do_not_depend_on_order_and_weights_add_up() -> None:
    rng = np.random.default_rng(1)
    rows, targets = rng.integers(0, 2, (40, 2)).astype(float), rng.integers(0, 2, (40, 1))
    weights = rng.integers(0, 3, 40).astype(float)
    found = distinct(rows, targets, weights)
    order, times = rng.permutation(40), weights.astype(int)
    for again in (
        distinct(rows[order], targets[order], weights[order]),
        distinct(np.repeat(rows, times, 0), np.repeat(targets, times, 0), np.ones(times.sum())),
    ):
        for a, b in zip(found, again, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(found.rows) == len(
        {(*r, *t) for r, t, w in zip(rows.tolist(), targets.tolist(), weights, strict=True) if w}
    )
    for row, target, weight in zip(*found, strict=True):
        same = (rows == row).all(1) & (targets == target).all(1)
        assert weight == weights[same].sum() > 0


def test_weights_that_are_no_integers_add_up_to_the_same_bits_in_any_order() -> None:
    weights = np.array([0.1, 0.2, 0.3])
    assert (0.1 + 0.2) + 0.3 != (0.3 + 0.2) + 0.1
    one, other = (distinct(np.ones((3, 2)), np.ones((3, 1)), w).weights for w in (weights, weights[::-1]))
    assert one == other


@pytest.mark.parametrize(
    ("shape", "batch", "filled"),
    [
        ((1, 1), 4, (4, 32)),
        ((5, 32), 4, (8, 32)),
        ((17, 33), 4, (24, 64)),
        ((25, 64), 4, (32, 64)),
        ((12, 784), 4, (12, 800)),
    ],
)
def test_training_sets_are_filled_up_to_few_shapes(shape: tuple[int, int], batch: int, filled: tuple[int, int]) -> None:
    inputs = np.ones(shape)
    found = padded(inputs, np.ones((shape[0], 2)), np.ones(shape[0]), batch)
    assert found.inputs.shape == filled
    assert found.targets.shape == (filled[0], 2)
    assert found.inputs.sum() == inputs.size
    np.testing.assert_array_equal(found.weights, [1] * shape[0] + [0] * (filled[0] - shape[0]))
