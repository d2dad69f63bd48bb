"""Tasks: how many, in which order, which are the same; shares of them; what they cost."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from support.runs import TINY, experiment
from thermoment import data
from thermoment.cli import main
from thermoment.experiments.experiment import Experiment, read
from thermoment.learning.options import FiniteTime
from thermoment.runs.price import parse_rates, price
from thermoment.runs.tasks import KINDS, Job, Task, tasks

MODELS = [("K1", "1,2,4"), ("K2", "1,2,4"), ("K1+K2", "1,2,4"), ("K1+K2", "1"), ("K1+K2", "1,2")]


def of(one: Experiment, accelerated: bool = False) -> list[Task]:
    return tasks(Job(one, "", "", None, "", accelerated=accelerated), 120, 60)


def count(every: list[Task]) -> dict[str, int]:
    return {kind: n for kind in KINDS if (n := sum(t.kind == kind for t in every))}


def test_a_task_comes_after_what_it_needs(tmp_path: Path) -> None:
    one = replace(experiment(TINY, tmp_path), repeats=3, finite_time=FiniteTime(epochs=1))
    for options in (one, replace(one, finite_time=FiniteTime(epochs=1, joint=False, beside=True))):
        seen: set[str] = set()
        for task in of(options):
            assert set(task.needs) <= seen
            seen.add(task.key)
        assert len(seen) == len(of(options))


def test_what_variants_have_in_common_is_one_task(tmp_path: Path) -> None:
    one = replace(experiment(TINY, tmp_path), repeats=2)
    fits = {"baseline": 2, "sgd": 2, "converged": 2 * 5, "readouts": 2}
    assert count(of(one)) == {"static": 4, "features": 16, **fits}
    study = replace(
        one,
        variants={
            "asis": {},
            "readout": {"readout": {"epochs": 4}},
            "longer": {"protocol": {"t_final": 0.4}},
            "hotter": {"dynamics": {"kT": 0.2}},
        },
    )
    found = of(study)
    four = {kind: 4 * n for kind, n in fits.items()}
    assert count(found) == {"static": 8, "features": 3 * 16, **four}
    for kind in ("features", "readouts"):
        shared = [task.shares for task in found if task.kind == kind and task.variant == "asis"]
        assert set(shared) == {(("asis", 0), ("readout", 0)), (("asis", 1), ("readout", 1))}
    assert len({task.key for task in found}) == len(found)


def test_a_gpu_trains_repeats_side_by_side(tmp_path: Path) -> None:
    one = replace(experiment(TINY, tmp_path), repeats=3)
    found = of(one, accelerated=True)
    assert count(found) == {"static": 2, "features": 24, "baseline": 3, "sgd": 3, "converged": 15, "readouts": 3}
    assert [task.repeats for task in found if task.kind == "static"] == 2 * [(0, 1, 2)]


def test_heads_of_their_own_and_copies_beside(tmp_path: Path) -> None:
    one = experiment(TINY, tmp_path)
    fits = {"baseline": 1, "sgd": 1, "converged": 5, "readouts": 1}
    joint = of(replace(one, finite_time=FiniteTime(epochs=1)))
    assert count(joint) == {"static": 2, "finite-time": 1, "features": 8, **fits}
    apart = of(replace(one, finite_time=FiniteTime(epochs=1, joint=False)))
    assert count(apart)["finite-time"] == 2
    beside = of(replace(one, finite_time=FiniteTime(epochs=1, beside=True)))
    assert count(beside) == {"static": 2, "finite-time": 1, "features": 8 + 4, **fits}
    assert {task.name for task in beside if task.kind == "features"} == {"K1", "K2", "K1-trained", "K2-trained"}


def test_the_paper_a_hundred_times_is_so_many_tasks() -> None:
    paper = replace(read("paper"), repeats=100)
    assert len(tasks(Job(paper, "", "", None, ""), 60_000, 10_000)) == 100 * (3 + 3 * 35 + 1 + 1 + 9 + 1)


def test_fits_need_the_training_images_which_come_first(tmp_path: Path) -> None:
    """120 training images and 60 test images in chunks of 50: the third chunk has both, the fourth none to fit."""
    found = of(replace(experiment(TINY, tmp_path), finite_time=FiniteTime(epochs=1, beside=True)))
    chunks = {(task.name, task.number): task for task in found if task.kind == "features"}
    sgd, *converged = (task for task in found if task.kind in ("sgd", "converged"))
    assert set(sgd.needs) == {chunks[name, number].key for name in ("K1", "K2") for number in range(3)}
    assert {task.needs for task in converged} == {(sgd.key,)}
    assert [task.name for task in converged] == [f"{name}|feature|{p}|sgd" for name, p in MODELS]
    (readouts,) = (task for task in found if task.kind == "readouts")
    assert set(readouts.needs) == {task.key for task in found} - {readouts.key}
    first = {task.priority for task in found if task.kind != "features"}
    second = {chunks[name, number].priority for name in ("K1", "K2") for number in range(3)}
    last = {task.priority for task in chunks.values() if task.number == 3 or task.name.endswith("-trained")}
    assert min(first) > min(second) == max(second) > max(last)


def test_given_rates_are_multiplied_and_bytes_counted(tmp_path: Path) -> None:
    one = replace(experiment(TINY, tmp_path), repeats=2)
    dataset = data.load("digits").first(120, 60)
    rates = {"static": 36.0, "finite-time": 1.0, "features": 9.0, "readouts": 72.0}
    rates |= {"baseline": 3.0, "sgd": 20.0, "converged": 10.0}
    found = price(one, dataset, {"reference": 10.0}, rates)
    assert found.tasks == {
        "static": 4,
        "finite-time": 0,
        "features": 16,
        "baseline": 2,
        "sgd": 2,
        "converged": 10,
        "readouts": 2,
    }
    assert found.seconds == {kind: n * rates[kind] for kind, n in found.tasks.items()}
    work = 144 + 144 + 6 + 40 + 100 + 144
    assert found.core_hours == pytest.approx(work * found.cores / 3600)
    assert found.gpu_hours == 0
    assert found.hours[1000] * 3600 == pytest.approx(36 + 9 + 20 + 10 + 72 + found.together_seconds)
    assert found.hours[1] * 3600 == pytest.approx(work + found.together_seconds)
    moments = 2 * 4 * 180 * (6 + 4) * 3
    reservoirs = 2 * 8 * (6 * (6 + 64 + 1) + 4 * (4 + 64 + 1))
    readouts = 2 * 8 * 10 * 2 * (18 + 12 + 30 + 10 + 20)
    assert found.written_bytes == moments + reservoirs + readouts
    by_sgd, by_models, tested = 120 * 10, 120 * (6 + 4 + 3 * 10), 60 * 10
    assert found.read_bytes == 2 * 4 * 3 * (by_sgd + by_models + tested) + reservoirs


def test_the_price_follows_what_it_is_proportional_to(tmp_path: Path) -> None:
    """A trial is noisy, its scaling is exact: twice the epochs, four times the replicas, half the images."""
    one, dataset = experiment(TINY, tmp_path), data.load("digits").first(120, 60)
    rates = dict.fromkeys(("static", "baseline", "sgd", "converged"), 1.0)
    whole = price(one, dataset, {"reference": 100.0}, rates)
    assert whole.seconds["features"] == pytest.approx(180 / 100)
    study = replace(one, variants={"asis": {}, "more": {"protocol": {"n_replicas": 24}}})
    assert price(study, dataset, {"reference": 100.0}, rates).seconds["features"] == pytest.approx((1 + 4) * 1.8)


@pytest.mark.parametrize("text", ["features", "features=fast", "features=-1", "nothing=1", "=1", "features=nan"])
def test_a_rate_is_the_seconds_of_a_kind_of_task(text: str) -> None:
    with pytest.raises(ValueError, match="`rate` must be KIND=SECONDS with a kind of static, finite-time, features"):
        parse_rates((text,))
    assert parse_rates(("features=0.5", "readouts=2")) == {"features": 0.5, "readouts": 2.0}
    done = CliRunner().invoke(main, ["run", "digits", "--dry-run", "--rate", text])
    assert done.exit_code == 2


def test_features_that_vanish_are_not_taken_for_numbers(tmp_path: Path) -> None:
    from thermoment.runs.feature_store import FeatureStore

    features = FeatureStore(tmp_path / "f", 20, (1,), 4, 10)
    features.prepare()
    for number in range(2):
        features.write(number, np.ones((10, 1, 4)), 0, None)
    assert features.features().shape == (20, 4)
    (tmp_path / "f/moments/c/1/0/0").unlink()
    with pytest.raises(RuntimeError, match=r"Features vanished from .* while they were read"):
        features.features()
