"""Results of the right shape for figures and reports. Made up: nothing in them was measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thermoment.results.analysis import analyse, summarise
from thermoment.results.analysis import baseline as baseline_row
from thermoment.results.naming import Fit, ModelKey, paper_models
from thermoment.results.node import N_PATHS, N_REPLICAS, N_STATES, NodeSample
from thermoment.results.pictures import Curve, Misread, Pictures
from thermoment.results.results import Analysis, Baseline, DatasetFacts, Results, StudyResults, Variant

K3 = ("K1", "K2", "K3")
MNIST = {"name": "mnist", "n_train": 60_000, "n_test": 10_000, "n_inputs": 784, "n_classes": 10, "sha256": "ab" * 32}
DIGITS = {"name": "digits", "n_train": 1297, "n_test": 500, "n_inputs": 64, "n_classes": 10, "sha256": "cd" * 32}


def numbers(
    names: Sequence[str], total: int, rate: float | None, seed: int, orders: Sequence[int], *, trained: bool = False
) -> Analysis:
    """What `analyse` makes of random predictions; `rate` of wrong ones, or fewer for more reservoirs and orders.

    `trained` adds all reservoirs under the head they were trained with, sampled and predicted.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(10, size=total)
    hard, own = rng.normal(size=total), {name: rng.normal(size=total) for name in names}

    def predicted(model: ModelKey) -> np.ndarray[Any, np.dtype[np.int64]]:
        share = 0.07 - 0.005 * len(model.reservoirs) - 0.01 * len(model.orders) + 0.006 * float(rng.random())
        share = share if rate is None else rate
        score = hard + 0.3 * np.mean([own[name] for name in model.reservoirs], axis=0) + 0.05 * rng.normal(size=total)
        wrong = np.argsort(-score)[: round(share * total)]
        found = labels.copy()
        found[wrong] = (found[wrong] + 1) % 10
        return found

    fits: tuple[Fit, ...] = ("sgd", "converged")
    models = [model for fit in fits for model in paper_models(names, orders, fit)]
    heads: tuple[Fit, ...] = ("trained", "predicted") if trained else ()
    models += [ModelKey(tuple(names), tuple(orders), "feature", fit) for fit in heads]
    return analyse(labels, {model: predicted(model) for model in models}, dict.fromkeys(names, 16))


def settings(names: Sequence[str], orders: Sequence[int]) -> dict[str, Any]:
    """Settings as a run writes them, cheap to draw."""
    stage = {"surrogate": "polynomial", "epochs": 60, "learning_rate": 0.001}
    drawn = {"n_nodes": 16, "s_W": 0.1, "s_K": 1.2, "s_b": 0.02, "stages": [stage]}
    return {
        "dynamics": {"J2": 1.0, "J4": 1.0, "mu": 1.0, "kT": 0.1},
        "protocol": {
            "dt": 0.02,
            "t_final": 1.0,
            "n_replicas": 32,
            "clip": 4.0,
            "seed": 20260609,
            "orders": list(orders),
        },
        "reservoirs": [{"name": name, "seed": 20260611 + k, **drawn} for k, name in enumerate(names)],
        "training": {"optimiser": "sgd", "head": "normal", "standardise": "none", "batch_size": 128, "l2": 1e-5},
        "readout": {"epochs": 150, "learning_rate": 0.05, "seed": 20260621},
    }


def raw_pixels(readout: Fit, total: int) -> Baseline:
    """A classifier without reservoirs that gets every tenth sample wrong, by SGD every ninth."""
    labels = np.arange(total)
    step = 9 if readout == "sgd" else 10
    return baseline_row("raw pixels", readout, labels, np.where(labels % step == 0, labels + 1, labels))


def results(
    names: Sequence[str] = K3,
    dataset: dict[str, Any] = DIGITS,
    *,
    rate: float | None = None,
    orders: Sequence[int] = (1, 2, 4),
    repeats: int = 0,
    trained: bool = False,
    baseline: bool = False,
) -> dict[str, Any]:
    """A results.json, parsed: plain dicts and lists that a test may change."""
    total = dataset["n_test"]
    found = Results(
        experiment="made-up",
        description="Nothing here was measured.",
        dataset=DatasetFacts(**dataset),
        engine="xla",
        settings=settings(names, orders),
        clip_count=0,
        error=None,
        **vars(numbers(names, total, rate, 0, orders, trained=trained)),
        baseline=(raw_pixels("sgd", total), raw_pixels("converged", total)) if baseline else (),
        repeats=summarise([numbers(names, total, rate, seed, orders).accuracy for seed in range(repeats)])
        if repeats
        else (),
    )
    return found.plain()


def study(dataset: dict[str, Any] = MNIST, seeds: int = 3) -> dict[str, Any]:
    """A results.json of a study of three variants."""
    variants = [
        Variant(
            name,
            f"what {name} means",
            summarise([numbers(K3, dataset["n_test"], rate, seed, (1, 2, 4)).accuracy for seed in range(seeds)]),
        )
        for name, rate in (("plain", None), ("better", 0.02), ("worse", 0.09))
    ]
    about = ("made-up", "Nothing here was measured.", DatasetFacts(**dataset), "xla", settings(K3, (1, 2, 4)))
    return StudyResults(*about, study=tuple(variants)).plain()


def pictures() -> Pictures:
    """Everything that figures can show beside results: nothing in it was computed."""
    rng = np.random.default_rng(0)
    taken = np.array([1, 2, 0])
    misread = Misread(rng.random((3, 4, 5)), np.array([0, 1, 2]), taken, np.array([0.9, 0.8, 0.4]), np.array([7, 3, 5]))
    weights = {name: rng.normal(size=(6, 4, 5)) for name in ("K1", "K2")}
    curves = (Curve("K1", "static", (2.0, 1.5)), Curve("K1+K2", "finite-time", (1.0, 0.5), (0.8, 0.9)))
    return Pictures(node(), misread, weights, curves)


def node() -> NodeSample:
    """A node whose states are normal around half its drive: of the right shapes, but not simulated."""
    rng = np.random.default_rng(0)
    drives, times = np.array([0.0, 1.0, 3.0]), np.linspace(0, 1, 51)
    paths = times * (drives[:, None, None] / 2 + 0.2 * rng.normal(size=(3, N_REPLICAS, 51)))
    states = drives[:, None] / 2 + 0.2 * rng.normal(size=(3, N_STATES))
    extent = np.array([paths.min(), paths.max()])
    return NodeSample(drives, times, paths[:, :N_PATHS], paths.mean(axis=1), paths[:, :, -1], extent, states)
