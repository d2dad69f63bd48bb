"""Training through the finite-time moments: the loss, what changes, checkpoints, and where it stops."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import thermoment as tm
from thermoment.learning.finite_time import loss as objective
from thermoment.learning.finite_time import train as training
from thermoment.learning.finite_time.loss import Outcome, Plan, Reading, learning_rate
from thermoment.learning.finite_time.train import Epoch, Trained, train
from thermoment.learning.options import Distortion, FiniteTime

RNG = np.random.default_rng(5)
X = RNG.random((300, 16))
Y = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0.5)
RESERVOIRS = [tm.Reservoir.draw(6, 16, seed=1, stream=0), tm.Reservoir.draw(4, 16, s_W=0.3, seed=2, stream=1)]
PROTOCOL = tm.Protocol(dt=0.02, n_replicas=64)
QUICK = FiniteTime(epochs=4, batch_size=64, learning_rate=0.02, validation=50)


def trained(options: FiniteTime = QUICK, reservoirs: Any = RESERVOIRS[:1], **more: Any) -> Trained:
    return train(reservoirs, X, Y, PROTOCOL, options, image_shape=(4, 4), **more)


def test_the_loss_starts_as_written() -> None:
    """Under a head of zeros the cross-entropy is log(classes), and the penalty is what is left."""
    one = FiniteTime(epochs=1, batch_size=300, label_smoothing=0.1, drive_limit=0.1, drive_penalty=0.7)
    h = np.concatenate([r.drive(X) for r in RESERVOIRS], axis=1)
    penalty = 0.7 * (np.maximum(np.abs(h) - 0.1, 0) ** 2).mean()
    assert penalty > 0.05
    assert trained(one, RESERVOIRS).history[0].loss == pytest.approx(math.log(3) + penalty, rel=1e-5)


@pytest.fixture(scope="module", params=[math.inf, 64.0])
def long(request: pytest.FixtureRequest) -> Trained:
    """Both reservoirs under one head, without and with shot noise."""
    return trained(replace(QUICK, epochs=40, n_replicas=request.param, validation=100), RESERVOIRS)


def test_it_learns_and_its_drives_are_told(long: Trained) -> None:
    assert long.history[-1].loss < long.history[0].loss - 0.4
    assert long.history[-1].validation is not None
    assert long.history[-1].validation > 0.7  # chance is 0.5
    reached = max(np.abs(r.drive(X)).max() for r in long.reservoirs)
    assert long.history[-1].strongest == pytest.approx(reached, rel=0.2)


def test_the_readout_reads_the_simulated_machine_as_training_did(long: Trained) -> None:
    protocol = replace(PROTOCOL, n_replicas=math.inf)
    moments = [tm.simulate(r, X[-100:], protocol, engine="meanfield").features() for r in long.reservoirs]
    features = np.concatenate(moments, 1)
    share = float((long.readout.predict(features) == Y[-100:]).mean())
    assert share == pytest.approx(long.history[-1].validation, abs=0.06)
    standardised = long.readout.scaling.apply(features)
    assert np.abs(standardised.mean(0)).max() < 1
    assert 0.3 < standardised.std(0).min() < standardised.std(0).max() < 2


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        (replace(QUICK, b=False), {"K"}),
        (QUICK, {"K", "b"}),
        (replace(QUICK, W=True), {"K", "b", "W"}),
        (replace(QUICK, b=False, W=True, symmetric=True), {"K", "W"}),
        (replace(QUICK, optimiser="sgd", schedule="cosine"), {"K", "b"}),
        (replace(QUICK, schedule="constant"), {"K", "b"}),
    ],
)
def test_what_is_trained_changes_and_the_rest_does_not(options: FiniteTime, moved: set[str]) -> None:
    for before, after in zip(RESERVOIRS[:1], trained(options).reservoirs, strict=True):
        for name in ("K", "b", "W"):
            assert np.any(getattr(after, name) != getattr(before, name)) == (name in moved), name
        np.testing.assert_array_equal(np.diag(after.W), 0)
        assert np.array_equal(after.W, after.W.T) == options.symmetric
        assert after.stream == before.stream


def test_a_symmetric_machine_keeps_its_coupling_strength() -> None:
    start = [tm.Reservoir.draw(60, 16, s_W=0.3, seed=3)]
    found = train(start, X, Y, PROTOCOL, replace(QUICK, epochs=1, symmetric=True)).reservoirs[0].W
    np.testing.assert_allclose(found, (start[0].W + start[0].W.T) / math.sqrt(2), atol=1e-7)


def numbers(found: Trained) -> list[np.ndarray]:
    arrays = [array for r in found.reservoirs for array in (r.K, r.b, r.W)]
    readout = found.readout
    return [*arrays, readout.weights, readout.bias, readout.scaling.mean, readout.scaling.scale]


def same(a: Trained, b: Trained) -> bool:
    pairs = zip(numbers(a), numbers(b), strict=True)
    return a.history == b.history and all(np.array_equal(x, y) for x, y in pairs)


FULL = replace(
    QUICK, W=True, distortion=Distortion(rotation=0.2, shift=0.5, elastic=0.3, smoothness=1.5), schedule="one-cycle"
)


def test_the_seed_decides_everything() -> None:
    assert same(trained(FULL), trained(FULL))
    assert not same(trained(FULL), trained(replace(FULL, seed=FULL.seed + 2**40)))


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_stopped_training_goes_on_bit_for_bit(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    path = tmp_path / "checkpoint.safetensors"
    seen: list[int] = []

    def halt(done: int, _: Epoch) -> None:
        seen.append(done)
        if len(seen) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(FULL, checkpoint=path, report=halt)
    resumed = trained(FULL, checkpoint=path, report=halt)
    assert seen == [1, 2, 3, 4]
    assert same(resumed, trained(FULL))
    assert same(trained(FULL, checkpoint=path), resumed)  # from a finished one, without another epoch


def test_checkpoints_are_not_written_all_the_time(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    there: list[bool] = []
    trained(checkpoint=path, report=lambda *_: there.append(path.exists()))
    assert there == [False, False, False, True]


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    trained(checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of another training"):
        trained(replace(QUICK, learning_rate=0.03), checkpoint=path)
    with pytest.raises(ValueError, match="is a checkpoint of another training"):
        train(RESERVOIRS[:1], X + 0.01, Y, PROTOCOL, QUICK, checkpoint=path, image_shape=(4, 4))
    assert path.read_bytes() == before
    data = bytearray(before)
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        trained(checkpoint=path)
    path.write_bytes(before[:-40])
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        trained(checkpoint=path)


def test_a_diverging_loss_names_epoch_rate_and_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FloatingPointError, match=r"diverged in epoch 1 at learning rate 4e\+28 \(at most 1e\+30\)"):
        trained(replace(QUICK, learning_rate=1e30))
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    real, calls = objective.epoch, [0]

    def broken(*arguments: Any) -> Any:
        calls[0] += 1
        state, outcome = real(*arguments)
        return state, Outcome(jnp.full((), jnp.nan), outcome.strongest) if calls[0] == 3 else outcome

    monkeypatch.setattr(training, "epoch", broken)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(FloatingPointError, match=rf"in epoch 3 at .* last good checkpoint, {path}, has 2 epochs"):
        trained(checkpoint=path)
    monkeypatch.setattr(training, "epoch", real)
    assert same(trained(checkpoint=path), trained())


def test_drives_beyond_the_tables_are_an_error() -> None:
    wild = replace(QUICK, learning_rate=3.0, schedule="constant", drive_penalty=0.0)
    with pytest.raises(FloatingPointError, match=r"drove a node to [\d.e+]+ in epoch \d .* beyond the 100 that"):
        trained(wild)


def test_the_penalty_keeps_drives_within_the_hardware() -> None:
    strong = replace(QUICK, epochs=30, learning_rate=0.1, validation=0)
    free = trained(replace(strong, drive_penalty=0.0))
    bound = trained(replace(strong, drive_limit=1.0, drive_penalty=10.0))
    assert free.history[-1].strongest > 2.5
    assert bound.history[-1].strongest < 1.6


def test_schedules() -> None:
    plan = Plan(replace(QUICK, learning_rate=1.0), Reading(64, False, 50.0, 0.0), (4, 4), 100)
    one_cycle, cosine, constant = (
        [float(learning_rate(plan._replace(options=replace(plan.options, schedule=s)))(k)) for k in (0, 30, 100)]
        for s in ("one-cycle", "cosine", "constant")
    )
    assert one_cycle[0] == pytest.approx(0.04)
    assert one_cycle[1] == pytest.approx(1.0)
    assert one_cycle[2] < 1e-3
    assert cosine == pytest.approx([1.0, 0.794, 0.0], abs=1e-3)
    assert constant == [1.0, 1.0, 1.0]


def test_trained_for_another_temperature_time_and_noise() -> None:
    base = trained()
    for change in ({"kT": 0.3}, {"t_final": 0.2}, {"n_replicas": 2.0}, {"n_replicas": math.inf}):
        other = trained(replace(QUICK, **change))  # type: ignore[arg-type]
        assert not same(base, other)
        assert other.reservoirs[0].dynamics == RESERVOIRS[0].dynamics


def test_history_is_plain_numbers() -> None:
    assert json.loads(json.dumps([epoch._asdict() for epoch in trained().history]))[0].keys() == {
        "loss",
        "validation",
        "strongest",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "`epochs` must be an integer from 1"),
        ({"optimiser": "adam"}, "`optimiser` must be one of adamw, sgd"),
        ({"schedule": "step"}, "`schedule` must be one of one-cycle, cosine, constant"),
        ({"learning_rate": 0}, "`learning_rate` must be positive"),
        ({"label_smoothing": 1.0}, "`label_smoothing` must be below 1"),
        ({"drive_limit": 101.0}, "`drive_limit` must be at most 100"),
        ({"n_replicas": -1.0}, "`n_replicas` must be positive"),
        ({"kT": math.inf}, "`kT` must be finite"),
    ],
)
def test_bad_options_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FiniteTime(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": replace(QUICK, validation=300)}, "`validation` must leave some of the 300 images"),
        ({"options": FULL, "image_shape": (16,)}, "`image_shape` must be the height and width of images of 16 pixels"),
        ({"image_shape": (4, 5)}, "`image_shape` must be"),
        ({"labels": Y[:-1]}, "`labels` must have shape"),
        ({"inputs": X[:, :-1]}, "`inputs` must have shape"),
        ({"reservoirs": []}, "`reservoirs` must hold at least one"),
        ({"reservoirs": [*RESERVOIRS, tm.Reservoir.draw(4, 15, seed=1)]}, "`reservoirs` must have the same inputs"),
        ({"protocol": replace(PROTOCOL, orders=(1, 5))}, "`orders` must be at most 4"),
        ({"protocol": replace(PROTOCOL, clip=1.0)}, "`clip` must be at least"),
        ({"options": replace(QUICK, kT=1e-4)}, "`kT` must be at least"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "reservoirs": RESERVOIRS,
        "inputs": X,
        "labels": Y,
        "protocol": PROTOCOL,
        "options": QUICK,
    } | change
    shape = given.pop("image_shape", (4, 4))
    with pytest.raises(ValueError, match=message):
        train(**given, image_shape=shape)
