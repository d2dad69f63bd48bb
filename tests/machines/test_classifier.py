"""A classifier: features of its reservoirs, logits of its readouts, and a file that gives it back."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thermoment as tm
from thermoment.learning.readout import Readout, Scaling
from thermoment.machines.classifier import Classifier

RNG = np.random.default_rng(3)
PROTOCOL = tm.Protocol(dt=0.02, t_final=0.2, n_replicas=6, orders=(1, 2))
RESERVOIRS = {"K1": tm.Reservoir.draw(5, 3, seed=1), "K2": tm.Reservoir.draw(4, 3, seed=2, stream=1)}
IMAGES = RNG.random((7, 3))


def readout(n_features: int) -> Readout:
    weights, bias = RNG.normal(size=(3, n_features)), RNG.normal(size=3)
    return Readout(weights, bias, Scaling(RNG.normal(size=n_features), RNG.random(n_features) + 0.5))


JOINED = Classifier(RESERVOIRS, PROTOCOL, (readout(18),), engine="reference")
AVERAGED = Classifier(RESERVOIRS, PROTOCOL, (readout(10), readout(8)), engine="reference")


def test_features_are_the_moments_of_one_reservoir_after_the_other() -> None:
    ids = np.arange(20, 27)
    found = JOINED.features(IMAGES, sample_ids=ids)
    blocks = [
        tm.simulate(one, IMAGES, PROTOCOL, engine="reference", sample_ids=ids).features() for one in RESERVOIRS.values()
    ]
    np.testing.assert_array_equal(found, np.concatenate(blocks, axis=1).astype(np.float32))
    assert not np.array_equal(found, JOINED.features(IMAGES))  # other ids, other noise
    assert JOINED.n_inputs == 3
    assert JOINED.n_features == 18
    assert repr(JOINED) == "Classifier(K1+K2: 5+4 nodes, 3 inputs, 1 readout of 3 classes)"


def test_one_readout_sees_all_features() -> None:
    phi, head = JOINED.features(IMAGES), JOINED.readouts[0]
    expected = (phi - head.scaling.mean) / head.scaling.scale @ head.weights.T + head.bias
    np.testing.assert_allclose(JOINED.logits(IMAGES), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(JOINED.predict(IMAGES), expected.argmax(axis=1))


def test_a_readout_each_sees_its_own_and_logits_are_averaged() -> None:
    phi = AVERAGED.features(IMAGES)
    parts = [AVERAGED.readouts[0].logits(phi[:, :10]), AVERAGED.readouts[1].logits(phi[:, 10:])]
    np.testing.assert_array_equal(AVERAGED.logits_of(phi), np.mean(parts, axis=0))


def test_probabilities_are_the_softmax_of_the_logits() -> None:
    z, p = JOINED.logits(IMAGES), JOINED.predict_proba(IMAGES)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), z[:, 1] - z[:, 0], rtol=1e-9, atol=1e-9)


def test_another_engine_may_be_asked_for() -> None:
    np.testing.assert_allclose(JOINED.features(IMAGES, engine="xla"), JOINED.features(IMAGES), atol=2e-5)


@pytest.mark.parametrize("one", [JOINED, AVERAGED], ids=["joined", "averaged"])
def test_a_file_gives_it_back_to_the_last_bit(one: Classifier, tmp_path: Path) -> None:
    one.save(tmp_path / "a.safetensors")
    back = Classifier.load(tmp_path / "a.safetensors", engine="reference")
    assert list(back.reservoirs) == ["K1", "K2"]
    assert back.protocol == one.protocol
    assert [r.stream for r in back.reservoirs.values()] == [0, 1]
    np.testing.assert_array_equal(back.logits(IMAGES), one.logits(IMAGES))


def test_infinity_survives_the_file(tmp_path: Path) -> None:
    limit = Classifier(RESERVOIRS, tm.Protocol(n_replicas=math.inf, clip=math.inf, orders=(1, 2)), JOINED.readouts)
    limit.save(tmp_path / "a.safetensors")
    assert Classifier.load(tmp_path / "a.safetensors").protocol == limit.protocol


def test_a_rest_survives_the_file(tmp_path: Path) -> None:
    rested = Classifier(RESERVOIRS, replace(PROTOCOL, start="rest", t_rest=2.0), JOINED.readouts)
    for one in (rested, JOINED):
        one.save(tmp_path / "a.safetensors")
        assert Classifier.load(tmp_path / "a.safetensors").protocol == one.protocol
        assert (b"t_rest" in (tmp_path / "a.safetensors").read_bytes()) == (one is rested)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`readouts` must read 18 features, but was \[17\]"):
        Classifier(RESERVOIRS, PROTOCOL, (readout(17),))
    with pytest.raises(ValueError, match=r"`readouts` must read 10 and 8 features"):
        Classifier(RESERVOIRS, PROTOCOL, (readout(8), readout(10)))
    with pytest.raises(ValueError, match="`reservoirs` must hold at least one"):
        Classifier({}, PROTOCOL, (readout(1),))
    with pytest.raises(ValueError, match=r"`features` must have shape \(S, 18\)"):
        JOINED.logits_of(np.zeros((2, 17)))
    RESERVOIRS["K1"].save(tmp_path / "r.safetensors")
    with pytest.raises(ValueError, match=r"must hold a thermoment\.classifier"):
        Classifier.load(tmp_path / "r.safetensors")
