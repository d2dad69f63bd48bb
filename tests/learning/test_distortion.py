"""Distortion of images: what stays, what moves where, how much, and by which chance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from thermoment.learning import distortion as module
from thermoment.learning.distortion import elastic_field, strengths, warp
from thermoment.learning.options import Distortion

SHAPE = (12, 10)
IMAGES = jnp.asarray(np.random.default_rng(1).random((7, 120)), jnp.float32)
ALL = Distortion(rotation=0.3, scale=0.2, shear=0.2, shift=1.5, elastic=0.8, smoothness=2.0)
KEY = jax.random.key(3)


def distort(key: jax.Array, images: jax.Array, shape: tuple[int, int], distortion: Distortion) -> jax.Array:
    smoothness = distortion.smoothness if distortion.elastic else None
    return module.distort(key, images, shape, strengths(distortion), smoothness)


def unit(count: int) -> jax.Array:
    return jnp.broadcast_to(jnp.eye(2), (count, 2, 2))


def test_no_strength_is_the_identity() -> None:
    np.testing.assert_array_equal(distort(KEY, IMAGES, SHAPE, Distortion(smoothness=3.0)), IMAGES)
    still = warp(IMAGES, SHAPE, unit(7), jnp.zeros((7, 2)), jnp.zeros((7, 2, *SHAPE)))
    np.testing.assert_array_equal(still, IMAGES)


@pytest.mark.parametrize(("down", "right"), [(2, 0), (0, -3), (-1, 4), (12, 0), (0, 99)])
def test_a_shift_by_whole_pixels_is_exact_and_zeros_come_in(down: int, right: int) -> None:
    moved = warp(IMAGES, SHAPE, unit(7), jnp.broadcast_to(jnp.array([down, right], jnp.float32), (7, 2)))
    expected = np.zeros((7, *SHAPE), np.float32)
    for y in range(SHAPE[0]):
        for x in range(SHAPE[1]):
            if 0 <= y + down < SHAPE[0] and 0 <= x + right < SHAPE[1]:
                expected[:, y, x] = np.asarray(IMAGES).reshape(7, *SHAPE)[:, y + down, x + right]
    np.testing.assert_array_equal(moved, expected.reshape(7, -1))


def test_a_quarter_turn_is_exact_and_turns_a_known_pattern() -> None:
    square = np.random.default_rng(2).random((1, 9, 9)).astype(np.float32)
    quarter = jnp.array([[[0.0, -1.0], [1.0, 0.0]]])
    turned = warp(jnp.asarray(square.reshape(1, -1)), (9, 9), quarter, jnp.zeros((1, 2)))
    np.testing.assert_array_equal(turned.reshape(9, 9), np.rot90(square[0], -1))


def test_between_pixels_it_is_the_mean_of_neighbours() -> None:
    image = jnp.asarray(np.arange(16.0).reshape(1, 16), jnp.float32)
    half = warp(image, (4, 4), unit(1), jnp.array([[0.5, 0.25]]))
    grid = np.arange(16.0).reshape(4, 4)
    np.testing.assert_allclose(half.reshape(4, 4)[:3, :3], grid[:3, :3] + 0.5 * 4 + 0.25, rtol=1e-6)


def test_rotation_of_a_line_has_the_angle_drawn() -> None:
    bar = np.zeros((41, 41), np.float32)
    bar[5:36, 20] = 1.0
    count = 200
    turned = distort(KEY, jnp.asarray(np.tile(bar.reshape(1, -1), (count, 1))), (41, 41), Distortion(rotation=0.5))
    y, x = np.indices((41, 41)) - 20
    mass = np.asarray(turned, np.float64).reshape(count, 41, 41)
    angles = 0.5 * np.arctan2(2 * (mass * x * y).sum((1, 2)), (mass * (y * y - x * x)).sum((1, 2)))
    draws = jax.random.uniform(jax.random.split(KEY)[0], (6, count), jnp.float32, -1.0, 1.0)[0]
    np.testing.assert_allclose(angles, -0.5 * draws, atol=0.01)  # places turn one way, what is seen there the other
    assert np.abs(angles).max() > 0.45


def blob() -> jax.Array:
    y, x = np.indices((28, 28)) - 13.5
    return jnp.asarray(np.exp(-(x**2 + y**2) / 18).reshape(1, -1), jnp.float32)


@pytest.mark.slow
def test_mass_is_roughly_kept() -> None:
    images = jnp.tile(blob(), (500, 1))
    out = distort(KEY, images, (28, 28), Distortion(0.2, 0.12, 0.2, 2.0, 1.0))
    ratio = np.asarray(out.sum(1) / images.sum(1))
    assert abs(ratio.mean() - 1) < 0.03  # E[1 / (scale_y scale_x)] is 1.01
    assert 0.5 < ratio.min() < ratio.max() < 2
    pure = distort(KEY, images, (28, 28), Distortion(rotation=1.0, shear=0.3))
    np.testing.assert_allclose(pure.sum(1), images.sum(1), rtol=0.01)


def test_the_elastic_field_has_unit_variance_everywhere_and_its_correlation() -> None:
    count, smoothness = 4000, 2.0
    field = np.asarray(elastic_field(KEY, count, SHAPE, smoothness, jnp.dtype("float32")), np.float64)
    assert field.shape == (count, 2, *SHAPE)
    error = np.sqrt(2 / count)  # of a variance; 240 places and some correlations: 5 deviations
    np.testing.assert_allclose((field**2).mean(0), 1, atol=5 * error)
    for d in (1, 3, 6):
        wanted = np.exp(-(d**2) / (4 * smoothness**2))
        assert (field[:, :, 3, 2] * field[:, :, 3, 2 + d]).mean() == pytest.approx(wanted, abs=5 * error)
        assert (field[:, :, 2, 5] * field[:, :, 2 + d, 5]).mean() == pytest.approx(wanted, abs=5 * error)
    assert (field[:, 0, 3, 3] * field[:, 1, 3, 3]).mean() == pytest.approx(0, abs=5 * error)


@pytest.mark.slow
def test_every_image_has_its_own_chance_and_the_key_decides() -> None:
    same = jnp.tile(IMAGES[:1], (5, 1))
    first, again, other = (distort(key, same, SHAPE, ALL) for key in (KEY, KEY, jax.random.key(4)))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first) != np.asarray(other))
    assert len(np.unique(np.asarray(first), axis=0)) == 5
    compiled = jax.jit(lambda key, x: distort(key, x, SHAPE, ALL))(KEY, same)
    np.testing.assert_allclose(compiled, first, atol=1e-5)


@pytest.mark.parametrize("part", ["rotation", "scale", "shear", "shift", "elastic"])
def test_every_part_does_something(part: str) -> None:
    moved = distort(KEY, IMAGES, SHAPE, Distortion(**{part: 0.3}))
    assert np.abs(np.asarray(moved - IMAGES)).max() > 0.01
