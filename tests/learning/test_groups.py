"""Readouts fitted in groups on a processor: who is in which, what is multiplied, and the same bits on any machine."""

import threading

import numpy as np
import pytest

from thermoment.learning import groups as module
from thermoment.learning.fit import Standardised, _descend_on_accelerator, fit_sgd
from thermoment.learning.groups import Block, blocks_of, descend_in_groups, grouped
from thermoment.learning.options import Sgd

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 480)).astype(np.float32)
LABELS = np.concatenate([np.arange(4), RNG.integers(0, 4, 296)])
PAPER = [[0, 1], [2, 3], [4, 5], [0, 1, 2, 3], [0, 1, 4, 5], [2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 2, 4]]
"""Which parts of 80 columns a readout reads: two powers of three reservoirs, as the paper joins them."""


def reading(parts: list[list[int]], width: int = 80) -> np.ndarray:
    reads = np.zeros((len(parts), 6, width), bool)
    for number, chosen in enumerate(parts):
        reads[number, chosen] = True
    return reads.reshape(len(parts), -1)


@pytest.mark.parametrize("reads", [reading(PAPER), reading(PAPER[:1]), RNG.random((7, 90)) < 0.3])
def test_every_readout_is_in_one_group_and_every_column_that_it_reads_in_one_block(reads: np.ndarray) -> None:
    groups = grouped(reads)
    assert sorted(number for group in groups for number in group) == list(range(len(reads)))
    assert len(groups) == min(2, len(reads))
    for group in groups:
        own, covered = reads[group], np.zeros((len(group), reads.shape[1]), int)
        for block in blocks_of(own):
            covered[list(block.readers), block.first : block.last] += 1
            assert block.masked == (not own[list(block.readers), block.first : block.last].all())
        assert (covered[own] == 1).all()
        assert covered.max() == 1


def test_the_groups_have_about_the_same_to_do() -> None:
    one, two = (reading(PAPER)[group].sum() for group in grouped(reading(PAPER)))
    assert max(one, two) < 1.2 * min(one, two)


def test_only_narrow_blocks_are_joined() -> None:
    first, second = [[0, 1, 2], [1, 2]], [(0, 1, (0,)), (1, 3, (0, 1))]
    wide = tuple(Block(80 * first, 80 * last, readers, False) for first, last, readers in second)
    assert blocks_of(reading(first)) == wide
    assert blocks_of(reading(first, width=20)) == (Block(0, 60, (0, 1), True),)
    assert blocks_of(reading([[0], [2]], width=20)) == (Block(0, 20, (0,), False), Block(40, 60, (1,), False))


def fitted(reads: np.ndarray, **others: object) -> tuple[np.ndarray, np.ndarray]:
    return descend_in_groups(Standardised.of(X).x, LABELS, reads, Sgd(epochs=2, l2=0.05), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("narrowest", [1, 100], ids=["without masks", "with masks"])
def test_a_readout_is_what_it_is_without_the_others(narrowest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NARROWEST", narrowest)
    weights, bias = fitted(reading(PAPER), report=lambda *_: None)
    for number in (0, 4, 7):
        reads = reading(PAPER)[number]
        (alone,) = fit_sgd(X[:, reads], LABELS, [np.arange(reads.sum())], Sgd(epochs=2, l2=0.05))
        np.testing.assert_allclose(weights[number][:, reads], alone.weights, atol=1e-6)
        np.testing.assert_allclose(bias[number], alone.bias, atol=1e-6)
        assert not weights[number][:, ~reads].any()


def test_the_bits_are_the_same_however_many_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for n_cores in (1, 2, 16):
        monkeypatch.setattr(module, "cores", lambda n_cores=n_cores: n_cores)
        found.append(np.concatenate([part.ravel() for part in fitted(reading(PAPER), report=lambda *_: None)]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_an_epoch_is_reported_once_all_groups_have_done_it_with_the_loss_of_a_readout() -> None:
    heard: list[tuple[int, float]] = []
    reading_them = reading([[0], [4, 5], [0, 2, 4]])
    fitted(reading_them, report=lambda *said: heard.append(said))
    alone: list[list[tuple[int, float]]] = [[] for _ in reading_them]
    for reads, told in zip(reading_them, alone, strict=True):
        fitted(reads[None], report=lambda *said, told=told: told.append(said))
    assert [done for done, _ in heard] == [1, 2]
    np.testing.assert_allclose([loss for _, loss in heard], np.mean(alone, axis=0)[:, 1], rtol=1e-5)


def test_an_error_of_the_listener_ends_the_fit_and_is_told() -> None:
    def report(done: int, _: float) -> None:
        raise KeyboardInterrupt(f"after epoch {done}")

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt, match="after epoch 1"):
        fitted(reading(PAPER), report=report)
    assert threading.active_count() == before


@pytest.mark.parametrize("epochs", [0, 2])
def test_the_program_for_a_gpu_gives_the_same_readouts(epochs: int) -> None:
    settings, reads, heard = Sgd(epochs=epochs, l2=0.05), reading(PAPER), []
    x = Standardised.of(X).x
    found = _descend_on_accelerator(x, LABELS, reads, settings, lambda done, _: heard.append(done))
    here = descend_in_groups(x, LABELS, reads, settings, lambda *_: None)
    for part, other in zip(found, here, strict=True):
        np.testing.assert_allclose(part, other, atol=2e-6)  # two epochs of six steps in float32, weights below 0.2
        assert part.any() == bool(epochs)
    assert heard == list(range(1, epochs + 1))
