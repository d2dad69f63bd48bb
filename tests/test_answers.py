"""docs/studies.md follows from the numbers; a made-up effect is found, a made-up accident is not, none is invented."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
N_TEST = 10_000


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "studies")
    return importlib.import_module("answers")


def row(variant: str, correct: Any, model: str = "K1+K2+K3", **more: Any) -> dict[str, Any]:
    columns = {"fusion": "feature", "orders": [1, 2, 4], "readout": "sgd", **more}
    return {"variant": variant, "settings": {}, "model": model, **columns, "total": N_TEST, "correct": list(correct)}


def write(folder: Path, name: str, rows: list[dict[str, Any]], where: str = "mnist") -> Path:
    dataset = {"name": where, "n_train": 60_000, "n_test": N_TEST, "n_inputs": 784, "n_classes": 10}
    path = folder / f"{name}{'' if where == 'mnist' else f'-{where}'}.json"
    path.write_text(
        json.dumps({"experiment": name, "dataset": dataset, "engine": "cuda", "n_nodes": [256] * 3, "rows": rows}),
        "utf-8",
    )
    return path


def noisy(seed: int) -> Callable[[float], list[int]]:
    """Right answers of ten seeds: the seeds differ by 20, machines by a shift and a noise of 3."""
    rng = np.random.default_rng(seed)
    seeds = np.random.default_rng(1).normal(9000, 20, 10)
    return lambda shift: [int(x) for x in seeds + shift + rng.normal(0, 3, 10)]


def times(correct: Callable[[float], list[int]]) -> list[dict[str, Any]]:
    """Rows of time-and-temperature: early is bad, hot and late good; training helps early; double wells are bad."""
    every = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)

    def point(group: str, shift: float, n: int = 3, engine: str = "meanfield", **settings: Any) -> dict[str, Any]:
        name = f"{group}-{list(settings.values())}"
        known = {"dynamics.kT": "kT", "protocol.t_final": "t", "protocol.n_replicas": "M", "dynamics.J2": "J2"}
        known |= {"reservoirs.*.s_W": "s", "reservoirs.*.symmetric": "sym"}
        where = {key: settings[short] for key, short in known.items() if short in settings}
        more = {"group": group, "engine": engine, "distance": float(np.exp(-settings.get("t", 1.0)))}
        how = "trained" if group == "trained" else "sgd"
        return row(name, correct(shift)[:n], readout=how) | {"settings": where} | more

    def at(kT: float, t: float) -> float:
        return -300 * (t < 0.05) + 100 * (kT == 3 and t == 10)

    rows = [point("paper", 0, 10, "cuda") | {"variant": "paper"}]
    rows += [point("time", at(0.1, t), 10, t=t) for t in every]
    rows += [point("map", at(kT, t), kT=kT, t=t) for kT in (0.01, 1.0, 3.0) for t in every]
    rows += [point("sampled", at(1.0, 1.0), engine="cuda", kT=1.0, t=1.0)]
    rows += [point("trained", 0, kT=kT, t=t) for kT in (0.1, 1.0) for t in (0.01, 1.0)]
    rows += [point("replicas", -400 if M == 1 else 0, M=M) for M in (1, 1024)]
    rows += [point("coupling", 0, s=s, sym=sym) for s, sym in ((0.0, False), (0.1, False), (0.1, True))]
    rows += [point("strong", 200 * sym, engine="cuda", s=2.0, sym=sym) for sym in (False, True)]
    rows += [point("wells", 0, J2=2.0), point("double-wells", -500, engine="cuda", J2=-1.0)]
    return [*rows, point("cold", 20, 10, kT=0.01, t=1.0)]


def moments(correct: Callable[[float], list[int]]) -> list[dict[str, Any]]:
    """Rows of what-the-moments-carry: what is read more of is better, and so are pairs of infinitely many replicas."""
    return (
        [
            row(f"reads-{k}", correct(30 * len(words)), orders=list(words))
            for k, sets in enumerate(("m1 m2 m4", "m1 mu2 mu4", "m1 m1^2 m1^4", "x x^2 x^4", "mu2", "mu4"))
            for count in range(1, len(sets.split()) + 1)
            if (words := sets.split()[:count])
        ]
        + [row("reads-8", correct(90), orders=[f"m{p}" for p in range(1, 9)])]
        + [
            row(f"{group}-{k}", correct(shift)[:n], "K1", orders=["m1", "m2", "m4", *more]) | {"group": group}
            for group, n, gained in (("pairs", 3, 0), ("pairs-limit", 10, 40))
            for k, (more, shift) in enumerate(
                (([], -200), (["means"], -100), (["pair"], -100 + gained), (["means", "pair"], -100 + gained))
            )
        ]
    )


def others(correct: Callable[[float], list[int]]) -> list[dict[str, Any]]:
    """Rows of beside-others: K by Adam beats the paper's machine, training through the moments beats both."""
    baselines = (("raw pixels", -300), ("768 random features", -50), ("2304 random features", 20))
    perceptron = "MLP, 256 hidden units, distorted images"
    every = [
        row("paper", correct(0)) | {"cost": 123456.0},
        row("adam", correct(100)),
        row("trained", correct(200)[:3], readout="trained"),
        *(row("paper", correct(shift), name) for name, shift in baselines),
        row("trained", correct(100)[:3], perceptron, readout="trained"),
    ]
    of_machines = ("fusion", "orders")
    return [
        one if one["model"] == "K1+K2+K3" else {key: value for key, value in one.items() if key not in of_machines}
        for one in every
    ]


def told(answers: ModuleType, folder: Path) -> str:
    """Both pages."""
    return f"{answers.page(folder)}{answers.numbers(folder)}"


def test_the_pages_follow_from_the_numbers(answers: ModuleType) -> None:
    assert answers.PAGE.read_text("utf-8") == answers.page()
    assert answers.NUMBERS.read_text("utf-8") == answers.numbers()


@pytest.mark.parametrize("where", ["", "-fashion-mnist"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("seeds", "everything"), ("fusion", "optimiser-sgd_head-uniform")),
        (("fusion", "optimiser-adam_head-normal"), ("beside-others", "adam")),
        (("equal-resources", "different"), ("time-and-temperature", "paper")),
    ],
)
def test_what_two_committed_studies_both_ran_has_the_same_counts(
    one: tuple[str, str], other: tuple[str, str], where: str, answers: ModuleType
) -> None:
    """Studies that were run apart each trained, sampled and read this machine: done again, it gives the same."""
    paths = [answers.RESULTS / f"{study}{where}.json" for study, _ in (one, other)]
    if missing := [path.stem for path in paths if not path.is_file()]:
        pytest.skip(f"{' and '.join(missing)} not yet run")
    found = [answers.load(path).values(point) for path, (_, point) in zip(paths, (one, other), strict=True)]
    assert found[0].tolist() == found[1].tolist()


def test_every_committed_study_has_its_figure(answers: ModuleType) -> None:
    drawn = {name for one in answers.QUESTIONS for name in answers.figures(one.study, answers.files(one.study))}
    assert {path.stem for path in answers.FIGURES.glob("*.svg")} == drawn


def test_data_sets_share_a_figure_but_for_the_map(answers: ModuleType) -> None:
    for study, names in (("fusion", ["fusion"]), (answers.MAP, [answers.MAP, f"{answers.MAP}-digits"])):
        assert answers.figures(study, [Path(f"{study}.json"), Path(f"{study}-digits.json")]) == names
        assert answers.figures(study, []) == []


def test_a_map_stands_below_the_answer_of_its_data_set(answers: ModuleType, tmp_path: Path) -> None:
    for where in ("mnist", "fashion-mnist"):
        write(tmp_path, "time-and-temperature", times(noisy(4)), where)
        write(tmp_path, "fusion", [
            row("optimiser-sgd", noisy(4)(0), fusion=fusion) | {"settings": {"training.optimiser": "sgd"}}
            for fusion in ("feature", "logit", "weighted", "calibrated", "stacked")
        ], where)  # fmt: skip
    drawn = [line[line.index("(figures/") :] for line in answers.page(tmp_path).splitlines() if line.startswith("![")]
    assert drawn == [f"(figures/studies/{name}.svg)" for name in
                     ("time-and-temperature", "time-and-temperature-fashion-mnist", "fusion")]  # fmt: skip
    of_the_map = answers.page(tmp_path).split("## ")[4].split("![")
    assert "**MNIST**" in of_the_map[0]
    assert "**Fashion-MNIST**" in of_the_map[1]


def test_a_study_that_was_not_run_is_said_to_be_so(answers: ModuleType, tmp_path: Path) -> None:
    page = answers.page(tmp_path)
    assert page.count("Not yet run (`thermoment run") == len(answers.QUESTIONS)
    assert "| fusion | `thermoment run fusion` |" in page
    assert "points more" not in page


def test_points_that_are_missing_are_named(answers: ModuleType, tmp_path: Path) -> None:
    correct = noisy(4)
    done = ("different", "one-recipe", "three-noises", "more-replicas")
    write(tmp_path, "equal-resources", [row(name, correct(0)) for name in done])
    assert "Still to be run of its 5 points: `more-nodes`." in answers.numbers(tmp_path)
    assert "More points are still to be run.\n" in answers.page(tmp_path)
    write(tmp_path, "equal-resources", [row(name, correct(0)) for name in (*done, "more-nodes")])
    assert "till to be run" not in told(answers, tmp_path)


def test_variances_of_independent_kinds_of_seeds_are_added(answers: ModuleType, tmp_path: Path) -> None:
    """Four kinds of ten seeds with the same variance, each of 9 degrees of freedom: four times that, of 36."""
    alike = [9000 + 9 * (-1) ** k for k in range(10)]  # variance 81 * 10 / 9 = 90
    rows = [row(kind, alike) for kind in ("everything", "draw", "batches", "noise", "fit")]
    write(tmp_path, "seeds", rows)
    page, sd = answers.numbers(tmp_path), np.sqrt(4 * 90) / N_TEST * 100
    low, high = sd * np.sqrt(36 / 54.437), sd * np.sqrt(36 / 21.336)  # quantiles of chi-square with 36 degrees
    assert f"their variances added make {sd:.2f} (95 % interval {low:.2f} to {high:.2f})" in page
    assert page.count("| 25% |") == 4


def test_small_differences_of_few_seeds_are_not_called_not_established(answers: ModuleType, tmp_path: Path) -> None:
    correct = noisy(4)
    kinds = [row(kind, correct(0)[:3]) for kind in ("everything", "draw", "batches", "noise", "fit")]
    rows = [
        row("everything", correct(-100)[:3], "K1"),
        row("everything", correct(-200)[:3], "K2"),
        row("everything", correct(-150)[:3], "K3"),
        row("everything", correct(-5)[:3], orders=[1, 2]),
        row("everything", correct(-4)[:3], fusion="logit"),
    ]
    write(tmp_path, "seeds", [*kinds, *rows])
    few = "too few seeds: (m1, m2, m4) over (m1, m2) and joined features over averaged outputs."
    assert few in answers.page(tmp_path)


def test_a_difference_that_is_the_other_way_round_is_said_to_be_so(answers: ModuleType, tmp_path: Path) -> None:
    correct = noisy(4)
    rows = [row(kind, correct(0)) for kind in ("everything", "draw", "batches", "noise", "fit")]
    rows += [row("everything", correct(shift), name) for name, shift in (("K1", -50), ("K2", -100), ("K3", -150))]
    rows += [row("everything", correct(-50), orders=[1, 2]), row("everything", correct(75), fusion="logit")]
    write(tmp_path, "seeds", rows)
    assert (
        "established: (m1, m2, m4) over (m1, m2) and all three joined over the best of them (K1); established the "
        "other way round: K2 over K1 and joined features over averaged outputs; not established: none."
    ) in answers.page(tmp_path)


def test_how_far_joined_and_averaged_readouts_scatter_is_told(answers: ModuleType, tmp_path: Path) -> None:
    scatter = {"feature": 90, "logit": 9, "weighted": 0, "calibrated": 0, "stacked": 0}
    rows = [
        row("sgd", [9000 + size * (-1) ** k for k in range(10)], fusion=fusion)
        | {"settings": {"training.optimiser": "sgd"}}
        for fusion, size in scatter.items()
    ]
    write(tmp_path, "fusion", rows, "fashion-mnist")
    # 0.90 and 0.09, times the root of 10 / 9
    assert "in points: joined features, K trained by SGD, 0.95; averaged readouts, 0.09." in answers.numbers(tmp_path)


@pytest.mark.parametrize(("engine", "told"), [("meanfield", True), ("cuda", False)])
def test_moments_that_were_not_sampled_are_said_to_be_so(
    engine: str, told: bool, answers: ModuleType, tmp_path: Path
) -> None:
    rows = [
        {**one, "engine": {"pairs": "xla", "pairs-limit": "meanfield"}.get(one.get("group", ""), engine)}
        for one in moments(noisy(4))
    ]
    write(tmp_path, "what-the-moments-carry", rows)
    assert ("; all without sampling." in answers.page(tmp_path)) is told


def test_moments_are_compared_before_all_eight_were_read(answers: ModuleType, tmp_path: Path) -> None:
    eight = [f"m{p}" for p in range(1, 9)]
    rows = moments(noisy(4))
    for given, compared in ((rows, True), ([one for one in rows if one["orders"] != eight], False)):
        write(tmp_path, "what-the-moments-carry", given)
        assert (f"| m1 m2 m4 | {' '.join(eight)} |" in answers.numbers(tmp_path)) is compared
        assert "| m1 m2 m4 | mu4 |" in answers.numbers(tmp_path)


@pytest.mark.parametrize(
    "engines", [{"paper": "meanfield"}, {}, dict.fromkeys(("paper", "adam", "trained"), "meanfield")]
)
def test_a_machine_that_alone_was_not_sampled_is_said_to_be_so(
    engines: dict[str, str], answers: ModuleType, tmp_path: Path
) -> None:
    rows = [{**one, "engine": engines.get(one["variant"], "cuda")} for one in others(noisy(4))]
    write(tmp_path, "beside-others", rows)
    assert told(answers, tmp_path).count("; the paper's machine without sampling.") == 2 * (len(engines) == 1)


def test_how_long_the_studies_took_is_told_by_machine(answers: ModuleType, tmp_path: Path) -> None:
    gpu = {"processor": "Xeon", "cores": 16, "accelerator": "H200", "parts": 70, "minutes": 25.4}
    asked = {"data": "mnist", "engine": "cuda", "repeats": None, "parts": 77, "machines": [gpu]}
    assert "## How long it takes" not in answers.page(tmp_path)
    (tmp_path / "times-mnist-cuda.json").write_text(json.dumps(asked), "utf-8")
    assert "| MNIST | cuda | all | H200, 16 cores of Xeon | 70 of 77 | 25 |" in answers.page(tmp_path)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_only_what_the_seeds_can_tell_is_established(n: int) -> None:
    """Five comparisons: one of 0.5 points, one of 0.2 points, three of nothing; each scatters by 0.05 points."""
    judged = importlib.import_module("judged")
    rng = np.random.default_rng(8)
    base = 0.96 + 0.002 * rng.normal(size=n)
    pairs = [
        judged.Pair("a", str(k), base + shift + 0.0005 * rng.normal(size=n), base)
        for k, shift in enumerate((0.005, 0.002, 0, 0, 0))
    ]
    verdicts = [one.verdict for one in judged.judge(pairs)]
    large = {2: "not established", 5: "established", 10: "established"}[n]
    small, none = ("established", "not established") if n == 10 else ("too few seeds", "too few seeds")
    assert verdicts == [large, small, *[none] * 3]


def test_a_difference_is_said_with_its_sign_and_interval() -> None:
    judged = importlib.import_module("judged")
    a, b = np.array([0.5, 0.51, 0.52, 0.53]), np.array([0.6, 0.6, 0.62, 0.62])
    (found,) = judged.judge([judged.Pair("this", "that", a, b)])
    t, sd = 3.1824463, np.std(a - b, ddof=1)
    assert found.mean == pytest.approx(-0.095)
    assert found.ci95 == pytest.approx((-0.095 - t * sd / 2, -0.095 + t * sd / 2))
    assert judged.gain(found).startswith("\N{MINUS SIGN}9.50 points (95 % interval \N{MINUS SIGN}10.")


def test_the_deviation_of_normal_numbers_lies_in_its_interval_nineteen_times_of_twenty() -> None:
    judged = importlib.import_module("judged")
    draws = np.random.default_rng(2).normal(size=(4000, 8)).std(axis=1, ddof=1)
    inside = np.mean([low < 1 < high for low, high in (judged.sd_interval(sd, 7) for sd in draws)])
    assert inside == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 4000))


def test_every_study_gets_an_answer_from_rows_like_those_of_a_run(answers: ModuleType, tmp_path: Path) -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    correct = noisy(4)
    rows["seeds"] = [row(name, correct(0)) for name in ("everything", "draw", "batches", "noise", "fit")]
    rows["seeds"] += [
        row("everything", correct(-100), "K1"),
        row("everything", correct(-60), "K2"),
        row("everything", correct(-80), "K3"),
        row("everything", correct(0), orders=[1, 2]),
        row("everything", correct(-25), fusion="logit"),
    ]
    correct = noisy(4)
    rows["equal-resources"] = [
        row(name, correct(shift))
        for name, shift in (
            ("different", 0),
            ("one-recipe", 0),
            ("three-noises", -60),
            ("more-replicas", -60),
            ("more-nodes", 40),
        )
    ]
    correct = noisy(4)
    rows["what-the-moments-carry"] = moments(correct)
    correct = noisy(4)
    rows["time-and-temperature"] = times(correct)
    correct = noisy(4)
    rows["fusion"] = [
        row("optimiser-sgd", correct(-20 * (fusion != "feature")), fusion=fusion)
        | {"settings": {"training.optimiser": "sgd"}}
        for fusion in ("feature", "logit", "weighted", "calibrated", "stacked")
    ]
    correct = noisy(4)
    rows["beside-others"] = others(correct)
    for name, found in rows.items():
        write(tmp_path, name, found)
        write(tmp_path, name, found, "fashion-mnist")
    page = told(answers, tmp_path)
    assert "Not yet run" not in page
    for sentence in (
        "Of the differences that the paper reports, K2 in place of K1: +0.4",
        "(m1, m2, m4) in place of (m1, m2): no difference established (",
        "all three joined in place of the best of them (K2): +0.5",
        "established: K2 over K1, all three joined over the best of them (K2) and joined features over averaged",
        "not established: (m1, m2, m4) over (m1, m2).\n\n**Fashion-MNIST**: Accuracies of runs",
        "**MNIST**: Joined features, K trained by SGD, get 0.1",
        "**MNIST**: Read at t = 10, 0.00 from equilibrium, the machine gets neither more nor less, as far as is "
        "established, than at t = 1, 0.37 from it (",
        "at kT = 0.01 it gets 0.20 points more than at kT = 0.1 (95 % interval +0.17 to +0.22)",
        "that do not push each other at all too little ",
        "m1, m2 and m4 get neither more nor less, as far as is established, than powers of the mean, in which",
        "The paper's machine gets 0.2",
        "trained through its moments gets 0.9",
        " points more than an MLP of 256 hidden units on distorted images (",
        "joined features in place of averaged outputs: +0.2",
        "of one reservoir with three times the nodes: \N{MINUS SIGN}0.4",
        "Three different reservoirs get neither more nor less, as far as is established, than three draws of one",
        " points less than one reservoir with three times the nodes (95 % interval \N{MINUS SIGN}0.4",
        "The paper's machine in place of raw pixels: +2.99 points",
        "At kT = 3, t = 10, the highest mean of the 23 other points (0.00 from equilibrium): +1.0",
        "At the paper's temperature, read at t = 10 (0.00 from equilibrium): no difference established",
        "at t = 0.01 (0.99 from equilibrium): \N{MINUS SIGN}3.00 points",
        "| kT = 0.01, t = 1 | kT = 0.1, t = 1 | +0.20 | +0.17 to +0.22 | 10 | ",
        "in place of the paper's K, at the paper's point: too small to be judged with 3 seeds (",
        "at kT = 1, t = 0.01, where the mean difference is highest: +3.01 points (",
        "the highest mean difference is that of symmetric W, s_W = 2 in place of directed W: +2.01 points",
        "Nodes that do not push each other at all (s_W = 0) in place of s_W = 0.1: too small to be judged with 3",
        "the lowest that of J2 = -1 in place of J2 = 1: \N{MINUS SIGN}5.02 points",
        "Points that were also sampled differ from those without sampling by at most 0.0",
        "| s_W = 2, symmetric | 92.09 | 3 | 0.37 | cuda |",
        "K1, E[x_i x_j] of every node with the one that pushes it most strongly: 128 replicas, sampled: +0.9",
        "and in place of the products of the means too small to be judged with 3 seeds (",
        "infinitely many replicas: +1.4",
        "| the paper's machine | 90.",
        "| 10 | 625 152 | 1.23e+05 |",
        "| MLP, 256 hidden units, distorted images | 91.",
        "| 3 | 203 264 |  |",
    ):
        assert sentence in page, sentence
    machine = "**On MNIST (60000 training and 10000 test images; 3 reservoirs of 256 nodes; "
    assert page.count(f"{machine}engine cuda; paper's readout).**") == len(answers.QUESTIONS) - 1
    assert page.count(f"{machine}engines cuda and meanfield; paper's readout).**") == 1
    assert page.count("**On Fashion-MNIST") == len(answers.QUESTIONS)
