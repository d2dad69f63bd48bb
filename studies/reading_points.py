"""The answer of the study time-and-temperature: its map, K trained there, one factor at a time. For answers.py."""

from collections.abc import Iterable, Sequence

from judged import Answer, Comparison, Family, Pair, Point, Study, Values, gain, judge, more_than, percent

PAPER = (0.1, 1.0)
"""kT and t of the paper."""
KT, TIME, REPLICAS, J2 = "dynamics.kT", "protocol.t_final", "protocol.n_replicas", "dynamics.J2"
COUPLING, SYMMETRIC = "reservoirs.*.s_W", "reservoirs.*.symmetric"
UNCOUPLED = "s_W = 0"


def place(point: Point) -> tuple[float, float]:
    """kT and t of a point of the map."""
    return point.settings.get(KT, PAPER[0]), point.settings.get(TIME, PAPER[1])


def the_map(study: Study) -> dict[tuple[float, float], Point]:
    """The points with K as in the paper, by kT and t; where one was done twice, the one with more seeds, of `cold`."""
    every = (point for group in ("time", "map", "cold") for point in study.group(group))
    return dict(sorted({place(point): point for point in every}.items()))


def trained(study: Study) -> dict[tuple[float, float], Point]:
    """The points with K trained there, by kT and t."""
    return dict(sorted((place(point), point) for point in study.group("trained")))


def trained_values(study: Study, point: Point) -> Values:
    """Accuracies by the head that was trained with K."""
    return study.values(point.variant, readout="trained")


def coupled(study: Study) -> list[Point]:
    """The points of other couplings, weak ones first."""
    found = [*study.group("coupling"), *study.group("strong")]
    return sorted(found, key=lambda one: (one.settings[SYMMETRIC], one.settings[COUPLING]))


def wells(study: Study) -> list[Point]:
    """The points of other wells, double wells first."""
    return sorted([*study.group("double-wells"), *study.group("wells")], key=lambda one: float(one.settings[J2]))


def answer(study: Study) -> Answer:
    """Where the machine is best read, and what else changes that."""
    points, there = the_map(study), trained(study)
    home = study.values(points[PAPER].variant)
    families = [
        Family(
            "Other times and temperatures, K as in the paper",
            judge([Pair(_at(at), _at(PAPER), study.values(one.variant), home)
                   for at, one in points.items() if at != PAPER]),
        ),
        Family(
            "K trained for the time and temperature at which the machine is read",
            judge([Pair(f"K trained there, {_at(at)}", "K as in the paper", trained_values(study, one),
                        study.values(points[at].variant)) for at, one in there.items() if at in points]),
        ),
        Family("One factor at a time around the paper's point", judge(_factors(study, home))),
        Family("Sampled, and without sampling", judge(_sampled(study, points))),
    ]  # fmt: skip
    tables = [
        ("K as in the paper: accuracy in per cent, and in brackets the distance to equilibrium", _grid(study, points)),
        ("K trained there", _grid(study, there)),
        ("One factor at a time", _factor_rows(study, points[PAPER])),
    ]
    shown = [(title, rows) for title, rows in tables if len(rows) > 1]
    held = [one for one in families if one.comparisons]
    return Answer(_short(points, families), _sentence(study, points, families), held, shown)


def _short(points: dict[tuple[float, float], Point], families: Sequence[Family]) -> str:
    """What later and colder readings bring, training for them, and coupling."""
    others, learnt, factors, _ = (family.comparisons for family in families)
    late = PAPER[0], max(t for kT, t in points if kT == PAPER[0])
    cold = min(kT for kT, t in points if t == PAPER[1]), PAPER[1]
    found = [
        f"Read at t = {late[1]:g}, {_far(points[late])} from equilibrium, the machine gets "
        f"{more_than(_of(others, _at(late)), f'at t = {PAPER[1]:g}, {_far(points[PAPER])} from it')}",
        f"at kT = {cold[0]:g} it gets {more_than(_of(others, _at(cold)), f'at kT = {PAPER[0]:g}')}",
    ]
    here = [one for one in learnt if one.a == f"K trained there, {_at(PAPER)}"]
    found += [f"with K trained for just this time and temperature {more_than(one, 'with that of the paper')}"
              for one in here]  # fmt: skip
    found += [f"with nodes that do not push each other at all {more_than(one, f'with {one.b}')}"
              for one in factors if one.a == UNCOUPLED]  # fmt: skip
    unsampled = "; all without sampling" * (points[PAPER].engine == "meanfield")
    return f"{'; '.join(found)}{unsampled}."


def _sentence(study: Study, points: dict[tuple[float, float], Point], families: Sequence[Family]) -> str:
    others, learnt, factors, checks = (family.comparisons for family in families)
    best, times = max(others, key=lambda one: one.mean), [t for kT, t in points if kT == PAPER[0]]
    early, late = (_of(others, _at((PAPER[0], t))) for t in (min(times), max(times)))
    seeds = len(study.values(points[PAPER].variant))
    found = [
        f"Read at kT = 0.1 and t = 1, as in the paper, the machine gets {percent(study.values('paper').mean())} "
        f"({seeds} seeds); the means of its nodes are then {_far(points[PAPER])} from equilibrium.",
        f"At {best.a}, the highest mean of the {len(others)} other points ({_far(_found(points, best.a))} from "
        f"equilibrium): {gain(best)}. At the paper's temperature, read at {_time(late)} ("
        f"{_far(_found(points, late.a))} from equilibrium): {gain(late)}; at {_time(early)} ("
        f"{_far(_found(points, early.a))} from equilibrium): {gain(early)}.",
    ]
    if learnt:
        most, here = max(learnt, key=lambda one: one.mean), _of(learnt, f"K trained there, {_at(PAPER)}")
        found.append(
            f"K trained for the very point in place of the paper's K, at the paper's point: {gain(here)}; at "
            f"{most.a.removeprefix('K trained there, ')}, where the mean difference is highest: {gain(most)}."
        )
    if factors:
        worst, most = min(factors, key=lambda one: one.mean), max(factors, key=lambda one: one.mean)
        found.append(
            f"Of the {len(factors)} changes of one factor the highest mean difference is that of {most.a} in place of "
            f"{most.b}: {gain(most)}; the lowest that of {worst.a} in place of {worst.b}: {gain(worst)}."
        )
        found += [f"Nodes that do not push each other at all ({one.a}) in place of {one.b}: {gain(one)}."
                  for one in factors if one.a == UNCOUPLED]  # fmt: skip
    if checks:
        off = max(checks, key=lambda one: abs(one.mean))
        found.append(
            f"Points that were also sampled differ from those without sampling by at most {100 * abs(off.mean):.2f} "
            f"points ({off.a})."
        )
    return " ".join(found)


def _factors(study: Study, home: Values) -> list[Pair]:
    pairs = [
        Pair(f"M = {one.settings[REPLICAS]}", "M = 128", study.values(one.variant), home)
        for one in study.group("replicas")
    ]
    couplings = {(one.settings[COUPLING], one.settings[SYMMETRIC]): study.values(one.variant) for one in coupled(study)}
    if (weak := couplings.get((0.1, False))) is not None:
        pairs += [
            Pair(f"s_W = {s:g}", "s_W = 0.1", values, weak)
            for (s, symmetric), values in couplings.items()
            if not symmetric and s != 0.1
        ]
    pairs += [
        Pair(f"symmetric W, s_W = {s:g}", "directed W", values, couplings[s, False])
        for (s, symmetric), values in couplings.items()
        if symmetric and (s, False) in couplings
    ]
    return pairs + [Pair(f"J2 = {one.settings[J2]:g}", "J2 = 1", study.values(one.variant), home)
                    for one in wells(study)]  # fmt: skip


def _sampled(study: Study, points: dict[tuple[float, float], Point]) -> list[Pair]:
    """Points that were sampled too, where the study was run by an engine that samples."""
    twice = {place(one): one for one in (*study.group("sampled"), *study.group("sampled-late"), *study.group("paper"))}
    return [
        Pair(f"{_at(at)}, sampled", "without sampling", study.values(one.variant), study.values(points[at].variant))
        for at, one in twice.items()
        if one.engine != "meanfield" and at in points
    ]


def _grid(study: Study, points: dict[tuple[float, float], Point]) -> list[tuple[str, ...]]:
    """Temperatures down, times across."""
    times = sorted({t for _, t in points})
    rows: list[tuple[str, ...]] = [("kT", *(f"t = {t:g}" for t in times))]
    for kT in sorted({kT for kT, _ in points}):
        cells = []
        for t in times:
            if (one := points.get((kT, t))) is None:
                cells.append("")
                continue
            found = trained_values(study, one) if one.variant.startswith("trained") else study.values(one.variant)
            cells.append(f"{100 * found.mean():.2f} ({_far(one)})")
        rows.append((f"{kT:g}", *cells))
    return rows


def _factor_rows(study: Study, home: Point) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("what is set", "accuracy, %", "seeds", "distance to equilibrium", "engine")]

    def add(what: str, one: Point) -> None:
        found = study.values(one.variant)
        rows.append((what, f"{100 * found.mean():.2f}", str(len(found)), _far(one), one.engine))

    add("the paper's point", home)
    for one in study.group("replicas"):
        add(f"M = {one.settings[REPLICAS]}", one)
    for one in coupled(study):
        add(f"s_W = {one.settings[COUPLING]:g}, {'symmetric' if one.settings[SYMMETRIC] else 'directed'}", one)
    for one in wells(study):
        add(f"J2 = {one.settings[J2]:g}", one)
    return rows if len(rows) > 2 else rows[:1]


def _at(at: tuple[float, float]) -> str:
    return f"kT = {at[0]:g}, t = {at[1]:g}"


def _time(one: Comparison) -> str:
    """The time of a point that is compared."""
    return one.a.split(", ")[1]


def _found(points: dict[tuple[float, float], Point], words: str) -> Point:
    return next(one for at, one in points.items() if _at(at) == words)


def _of(comparisons: Iterable[Comparison], words: str) -> Comparison:
    return next(one for one in comparisons if one.a == words)


def _far(point: Point) -> str:
    """The distance to equilibrium, in words of a table."""
    return "unknown" if point.distance is None else f"{point.distance:.2f}"
