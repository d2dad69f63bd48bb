"""The machines that ship with the package: whole, as stated, and they read what a person draws."""

import math
from dataclasses import replace

import numpy as np
import pytest

import thermoment as tm
from support.digits_by_hand import DIGITS
from thermoment.data.drawing import draw
from thermoment.machines.classifier import Classifier
from thermoment.machines.pretrained import pretrained

IMAGES = np.array([draw(DIGITS[digit]).ravel() for digit in range(10)])


def mnist() -> Classifier:
    found = pretrained("mnist")
    assert isinstance(found, Classifier)
    return found


def test_they_are_listed() -> None:
    assert pretrained() == ("mnist", "mnist-frugal", "mnist-one")
    with pytest.raises(ValueError, match=r"`name` must be one of mnist, mnist-frugal, mnist-one, but was 'minst'"):
        pretrained("minst")


def test_the_mnist_machine_says_what_it_is_and_what_it_gets_right() -> None:
    machine = mnist()
    assert [one.K.shape for one in machine.reservoirs.values()] == [(256, 784)] * 3
    assert [one.stream for one in machine.reservoirs.values()] == [0, 1, 2]
    assert (machine.protocol.n_replicas, machine.protocol.clip) == (128, 4.0)
    facts = machine.facts
    assert facts["experiment"]["finite_time"]["epochs"] == 600
    test = facts["test"]
    assert test["total"] - len(test["wrong"]) == test["correct"]["half"] >= 9930
    assert (test["correct"]["single"], test["changed by rounding"]) == (test["correct"]["half"], 0)
    assert len(facts["commit"]) == 12


def test_it_reads_digits_that_were_drawn_by_hand() -> None:
    machine = mnist()
    limit = replace(machine, protocol=replace(machine.protocol, n_replicas=math.inf), engine="meanfield")
    found = limit.predict_proba(IMAGES)
    np.testing.assert_array_equal(found.argmax(axis=1), range(10))
    assert found.max(axis=1).min() > 0.9


def test_from_few_replicas_and_few_steps_too() -> None:
    machine = mnist()
    few = replace(machine, protocol=replace(machine.protocol, dt=1e-2, n_replicas=16), engine="xla")
    np.testing.assert_array_equal(few.predict(IMAGES), range(10))


@pytest.mark.parametrize(("name", "least"), [("mnist-one", 9925), ("mnist-frugal", 9820)])
def test_two_of_them_answer_from_one_trajectory_that_starts_at_rest(name: str, least: int) -> None:
    machine = pretrained(name)
    protocol = machine.protocol
    assert (protocol.start, protocol.n_replicas) == ("rest", 1)
    test = machine.facts["test"]
    assert test["total"] - len(test["wrong"]) == test["correct"]["half"] >= least
    for reservoir in machine.reservoirs.values():  # so that W does no work along the way
        np.testing.assert_array_equal(reservoir.W, reservoir.W.T)
    quick = replace(machine, protocol=replace(protocol, dt=1e-2), engine="xla")
    rows = np.repeat(np.arange(10), 8)  # eight trajectories of every digit, each read by itself
    assert (quick.predict(IMAGES[rows], sample_ids=np.arange(len(rows))) == rows).mean() > 0.9


@pytest.mark.slow
def test_the_frugal_one_takes_a_fraction_of_the_work() -> None:
    def work(name: str) -> float:
        return float(tm.energetics(pretrained(name), IMAGES, engine="meanfield").cost.mean())

    assert work("mnist-frugal") < work("mnist-one") / 15 < 1100


def test_other_weights_read_nothing() -> None:
    machine = mnist()
    mixed = {name: replace(one, K=one.K[:, ::-1].copy()) for name, one in machine.reservoirs.items()}
    limit = replace(
        machine, reservoirs=mixed, protocol=replace(machine.protocol, n_replicas=math.inf), engine="meanfield"
    )
    assert (limit.predict(IMAGES) == np.arange(10)).sum() <= 5


def test_a_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def hexdigest(self) -> str:
            return "0" * 64

    monkeypatch.setattr("thermoment.machines.pretrained.hashlib.sha256", lambda _: Other())
    with pytest.raises(ValueError, match=r"mnist\.safetensors is damaged"):
        pretrained("mnist")
