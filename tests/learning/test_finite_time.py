"""Training through the finite-time moments: what it learns, what it changes, checkpoints, and where it stops.

Compiling is what takes time here. Nearly all trainings share shapes and choices and differ in numbers only, so that
four programs of an epoch are compiled.
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import thermoment as tm
from thermoment._engines.meanfield.tables import node_tables
from thermoment.learning.batches import batches
from thermoment.learning.finite_time import lookup
from thermoment.learning.finite_time import loss as objective
from thermoment.learning.finite_time import train as training
from thermoment.learning.finite_time.lookup import training_curves
from thermoment.learning.finite_time.train import Epoch, TrainedReservoirs, train
from thermoment.learning.options import Distortion, FiniteTime
from thermoment.physics import LARGEST_DRIVE

RNG = np.random.default_rng(5)
X = RNG.random((300, 16))
Y = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0.5)
RESERVOIRS = [tm.Reservoir.draw(6, 16, seed=1, stream=0), tm.Reservoir.draw(4, 16, s_W=0.3, seed=2, stream=1)]
PROTOCOL = tm.Protocol(dt=0.02, n_replicas=64)
QUICK = FiniteTime(epochs=4, batch_size=64, learning_rate=0.02, validation=50)
FULL = replace(QUICK, W=True, distortion=Distortion(rotation=0.2, shift=0.5, elastic=0.3, smoothness=1.5))
SYMMETRIC = replace(QUICK, b=False, W=True, symmetric=True, optimiser="sgd", schedule="cosine")


def trained(options: FiniteTime = QUICK, reservoirs: Any = RESERVOIRS, **more: Any) -> TrainedReservoirs:
    return train(reservoirs, X, Y, PROTOCOL, options, image_shape=(4, 4), **more)


@pytest.fixture(scope="module")
def quick() -> TrainedReservoirs:
    return trained()


@pytest.fixture(scope="module")
def full() -> TrainedReservoirs:
    return trained(FULL)


LONG = replace(QUICK, epochs=40)
LONG_ENOUGH = replace(QUICK, validation=0)


@pytest.fixture(scope="module", params=[math.inf, 64.0])
def long(request: pytest.FixtureRequest) -> TrainedReservoirs:
    """Both reservoirs under one head, without and with shot noise."""
    return trained(replace(LONG, n_replicas=request.param))


def numbers(found: TrainedReservoirs) -> list[np.ndarray]:
    arrays = [array for r in found.reservoirs for array in (r.K, r.b, r.W)]
    readout = found.readout
    return [*arrays, readout.weights, readout.bias, readout.scaling.mean, readout.scaling.scale]


def same(a: TrainedReservoirs, b: TrainedReservoirs) -> bool:
    pairs = zip(numbers(a), numbers(b), strict=True)
    return a.history == b.history and all(np.array_equal(x, y) for x, y in pairs)


def test_the_loss_starts_as_written() -> None:
    """Under a head of zeros, that hardly moves, the cross-entropy is log(classes), and the penalty is what is left."""
    still = replace(LONG, n_replicas=64.0, learning_rate=1e-9, drive_limit=0.1, drive_penalty=0.7)
    h = np.concatenate([r.drive(X) for r in RESERVOIRS], axis=1)
    of_image = 0.7 * (np.maximum(np.abs(h) - 0.1, 0) ** 2).mean(1)
    rows = next(batches(250, 64, 1, np.random.default_rng([still.seed, 0])))
    penalty = np.mean([of_image[batch[batch >= 0]].mean() for batch in rows])
    assert penalty > 0.05
    assert trained(still).history[0].loss == pytest.approx(math.log(3) + penalty, rel=1e-5)


def test_it_learns_and_its_drives_are_told(long: TrainedReservoirs) -> None:
    assert long.history[-1].loss < long.history[0].loss - 0.4
    assert long.history[-1].validation is not None
    assert long.history[-1].validation > 0.7  # chance is 0.5
    reached = max(np.abs(r.drive(X)).max() for r in long.reservoirs)
    assert long.history[-1].strongest == pytest.approx(reached, rel=0.2)


def test_the_readout_reads_simulated_moments_as_training_did(long: TrainedReservoirs) -> None:
    protocol = replace(PROTOCOL, n_replicas=math.inf)
    moments = [tm.simulate(r, X[-50:], protocol, engine="meanfield").features() for r in long.reservoirs]
    features = np.concatenate(moments, 1)
    share = float((long.readout.predict(features) == Y[-50:]).mean())
    assert share == pytest.approx(long.history[-1].validation, abs=0.1)
    standardised = long.readout.scaling.apply(features)
    assert np.abs(standardised.mean(0)).max() < 1
    assert 0.3 < standardised.std(0).min() < standardised.std(0).max() < 2


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        (QUICK, {"K", "b"}),
        pytest.param(FULL, {"K", "b", "W"}, marks=pytest.mark.slow),
        pytest.param(SYMMETRIC, {"K", "W"}, marks=pytest.mark.slow),
    ],
)
def test_what_is_trained_changes_and_the_rest_does_not(options: FiniteTime, moved: set[str]) -> None:
    for before, after in zip(RESERVOIRS, trained(options).reservoirs, strict=True):
        for name in ("K", "b", "W"):
            assert np.any(getattr(after, name) != getattr(before, name)) == (name in moved), name
        np.testing.assert_array_equal(np.diag(after.W), 0)
        assert np.array_equal(after.W, after.W.T) == options.symmetric
        assert after.stream == before.stream


@pytest.mark.parametrize("W", [False, True])
def test_a_symmetric_reservoir_keeps_its_coupling_strength(W: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether W is trained or not: an epoch that changes nothing shows what it starts from."""
    monkeypatch.setattr(training, "epoch", lambda _, __, state, *___: (state, 0.0, 0.0))
    found = trained(replace(QUICK, epochs=1, validation=0, symmetric=True, W=W)).reservoirs
    for before, after in zip(RESERVOIRS, found, strict=True):
        np.testing.assert_allclose(after.W, (before.W + before.W.T) / math.sqrt(2), atol=1e-7)


CHANGES: dict[str, Any] = {
    "learning_rate": 0.01,
    "weight_decay": 0.1,
    "label_smoothing": 0.0,
    "drive_limit": 0.3,
    "n_replicas": 7.0,
    "W_rate": 0.3,
    "epochs": 3,
    "seed": 3,
    "distortion": Distortion(rotation=0.1, scale=0.2, shear=0.1, shift=0.3, elastic=0.1, smoothness=1.5),
}


def programs() -> list[int]:
    """How many programs of an epoch, of a count and of the first features have been compiled."""
    compiled: list[Any] = [objective.epoch, objective.count_correct, training._features]
    return [function._cache_size() for function in compiled]


def test_options_that_are_numbers_change_the_result_and_compile_nothing(full: TrainedReservoirs) -> None:
    before = programs()
    assert min(before) > 0
    for name, value in CHANGES.items():
        assert not same(trained(replace(FULL, **{name: value})), full), name
    strict = replace(FULL, drive_limit=0.3)
    assert not same(trained(replace(strict, drive_penalty=2.0)), trained(strict))
    assert programs() == before


def test_distorted_images_train_another_reservoir(full: TrainedReservoirs) -> None:
    """The control has a distortion so weak that every image stays as it is: it runs the same program."""
    weak = Distortion(rotation=1e-30, elastic=1e-30, smoothness=1.5)
    control = trained(replace(FULL, distortion=weak))
    assert np.abs(full.reservoirs[0].K - control.reservoirs[0].K).max() > 1e-3
    assert full.history[-1].loss > control.history[-1].loss


def test_the_seed_decides_everything(full: TrainedReservoirs) -> None:
    assert same(full, trained(FULL))
    assert not same(full, trained(replace(FULL, seed=FULL.seed + 2**40)))


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_stopped_training_goes_on_bit_for_bit(
    stop: int, full: TrainedReservoirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert same(resumed, full)
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
        train(RESERVOIRS, X + 0.01, Y, PROTOCOL, QUICK, checkpoint=path, image_shape=(4, 4))
    assert path.read_bytes() == before
    data = bytearray(before)
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        trained(checkpoint=path)
    path.write_bytes(before[:-40])
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        trained(checkpoint=path)


def test_a_diverging_loss_names_epoch_rate_and_checkpoint(
    quick: TrainedReservoirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FloatingPointError, match=r"diverged in epoch 1 at learning rate 4e\+28 \(at most 1e\+30\)"):
        trained(replace(QUICK, learning_rate=1e30))
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    real, calls = objective.epoch, [0]

    def broken(*arguments: Any) -> Any:
        calls[0] += 1
        state, loss, strongest = real(*arguments)
        return state, jnp.full((), jnp.nan) if calls[0] == 3 else loss, strongest

    monkeypatch.setattr(training, "epoch", broken)
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(FloatingPointError, match=rf"in epoch 3 at .* last good checkpoint, {path}, has 2 epochs"):
        trained(checkpoint=path)
    monkeypatch.setattr(training, "epoch", real)
    assert same(trained(checkpoint=path), quick)


def test_drives_beyond_the_tables_are_an_error() -> None:
    wild = replace(QUICK, learning_rate=10.0, drive_penalty=0.0)
    with pytest.raises(FloatingPointError, match=r"drove a node to [\d.e+]+ in epoch \d .* beyond the 100 that"):
        trained(wild)


def test_the_penalty_keeps_drives_within_the_hardware() -> None:
    strong = replace(QUICK, epochs=30, learning_rate=0.1)
    free = trained(replace(strong, drive_penalty=0.0))
    bound = trained(replace(strong, drive_limit=1.0, drive_penalty=30.0))
    assert free.history[-1].strongest > 2.5
    assert bound.history[-1].strongest < 1.6


@pytest.mark.slow
def test_trained_for_another_temperature_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curves of a node at that temperature and time are asked for, and are not those of the reservoirs' own."""
    asked: list[Any] = []

    def recorded(*arguments: Any, t_rest: float) -> Any:
        asked.append((*arguments, "float32", t_rest))
        return training_curves(tm.Dynamics(), 1.0, (1, 2, 4))

    monkeypatch.setattr(training, "training_curves", recorded)
    for change in ({}, {"kT": 0.3}, {"t_final": 0.2}):
        assert trained(replace(QUICK, **change)).reservoirs[0].dynamics == RESERVOIRS[0].dynamics  # type: ignore[arg-type]
    conditions = (tm.Dynamics(), 1.0), (tm.Dynamics(kT=0.3), 1.0), (tm.Dynamics(), 0.2)
    assert asked == [(*condition, (1, 2, 4), "float32", 0.0) for condition in conditions]
    first = [float(training_curves(*arguments).end.pieces[1, 3, 0]) for arguments in asked]
    assert len(set(first)) == 3


def test_trained_for_nodes_that_have_rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of a node after that rest are asked for; those of a node from x = 0 stand in, to save time."""
    asked: list[Any] = []

    def recorded(*arguments: Any) -> Any:
        asked.append(arguments)
        return node_tables(tm.Dynamics(), 1.0, LARGEST_DRIVE)

    monkeypatch.setattr(lookup, "node_tables", recorded)
    rested = replace(PROTOCOL, start="rest", t_rest=1.5)
    for protocol in (PROTOCOL, rested):
        train(RESERVOIRS, X, Y, protocol, QUICK)
    assert asked == [(tm.Dynamics(), 1.0, LARGEST_DRIVE, t_rest) for t_rest in (0.0, 1.5)]
    with pytest.raises(ValueError, match=r"`t_rest` must be at least 1.24, three times the slowest relaxation"):
        train(RESERVOIRS, X, Y, replace(rested, t_rest=0.4), QUICK)


def test_a_checkpoint_of_another_rest_is_refused(tmp_path: Path) -> None:
    file, rested = tmp_path / "state", replace(PROTOCOL, start="rest", t_rest=1.5)
    train(RESERVOIRS, X, Y, PROTOCOL, QUICK, checkpoint=file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "node_tables", lambda *_: node_tables(tm.Dynamics(), 1.0, LARGEST_DRIVE))
        with pytest.raises(ValueError, match="another training"):
            train(RESERVOIRS, X, Y, rested, QUICK, checkpoint=file)


def test_trained_for_as_many_replicas_as_the_protocol_has_unless_told(quick: TrainedReservoirs) -> None:
    few = replace(PROTOCOL, n_replicas=2)
    told, by_protocol = trained(replace(QUICK, n_replicas=2.0)), train(RESERVOIRS, X, Y, few, QUICK)
    assert same(told, by_protocol)
    assert not same(told, quick)


def test_history_is_plain_numbers(quick: TrainedReservoirs) -> None:
    found = json.loads(json.dumps([epoch._asdict() for epoch in quick.history]))
    assert found[0].keys() == {"loss", "validation", "strongest"}


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
        ({"loss": "absolute"}, "`loss` must be one of cross-entropy, squared"),
        ({"loss": "squared"}, r"`labels` must have shape \(300, C\)"),
        ({"loss": "squared", "labels": X}, "`validation` must be 0 for the squared error"),
        ({"weights": np.ones(300)}, "`validation` must be 0 where images have weights"),
        ({"weights": -np.ones(300), "options": LONG_ENOUGH}, "`weights` must be zero or positive"),
        ({"weights": np.zeros(300), "options": LONG_ENOUGH}, "`weights` must be zero or positive, and not all zero"),
        ({"weights": np.ones(299), "options": LONG_ENOUGH}, r"`weights` must have shape \(300,\)"),
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


@pytest.mark.slow
def test_the_squared_error_learns_numbers_by_weight() -> None:
    """Two targets in conflict on the same inputs: the machine gives the one with the larger weight."""
    targets = np.stack([X[:, 0] - X[:, 1], X[:, 2] ** 2 - 0.5], axis=1)
    inputs, both = np.concatenate([X, X]), np.concatenate([targets, -targets])
    weights = np.repeat([1.0, 0.01], 300)
    options = replace(QUICK, validation=0, epochs=30)
    found = train(RESERVOIRS, inputs, both, PROTOCOL, options, loss="squared", weights=weights)
    assert found.readout.weights.shape[0] == 2
    first, last = found.history[0].loss, found.history[-1].loss
    assert last < 0.3 * first
    protocol = replace(PROTOCOL, n_replicas=math.inf, clip=math.inf)
    features = np.concatenate([tm.simulate(r, X, protocol, engine="meanfield").features() for r in found.reservoirs], 1)
    error = np.mean((found.readout.logits(features) - targets) ** 2)
    assert error < 0.3 * targets.var()


def work(found: TrainedReservoirs) -> float:
    """M sum_i h_i <x_i> / kT, on average over the images."""
    limit = replace(PROTOCOL, n_replicas=math.inf)
    total = np.zeros(len(X))
    for one in found.reservoirs:
        total += (one.drive(X) * tm.simulate(one, X, limit, engine="meanfield").order(1)).sum(axis=1)
    return float(total.mean()) * PROTOCOL.n_replicas / one.dynamics.kT


@pytest.mark.slow
def test_work_that_costs_is_saved(quick: TrainedReservoirs) -> None:
    frugal = trained(replace(QUICK, epochs=12, work_penalty=1e-3))
    assert work(frugal) < 0.5 * work(quick)
    dear = trained(replace(QUICK, epochs=12, work_penalty=1e-6))
    assert work(dear) > 2 * work(frugal)


def test_work_is_finite_and_its_mean_is_read() -> None:
    frugal = replace(QUICK, work_penalty=1e-4)
    with pytest.raises(ValueError, match=r"`n_replicas` must be finite to be trained with work_penalty"):
        trained(replace(frugal, n_replicas=math.inf))
    with pytest.raises(ValueError, match=r"`orders` must contain 1 to be trained with work_penalty"):
        train(RESERVOIRS, X, Y, replace(PROTOCOL, orders=(2, 4)), frugal)
    with pytest.raises(ValueError, match=r"`work_penalty` must be positive"):
        replace(QUICK, work_penalty=0.0)
