"""Time series by moments of few replicas, beside an echo-state network of equal size.

    pip install reservoirpy
    python studies/signals.py narma10 mackey-glass noise memory

Each part is kept in studies/results/signals.json beside the others. Both kinds of machine have 100 nodes, four settings
and the same signal, scaled to a standard deviation of 1. Each kind is read in two ways: means alone, or means and
squares. For each kind and way of reading, the best of 40 random settings on validation rows is kept, and 5 machines
drawn at it are judged on test rows. The echo-state network, which is cheap, has 60 tries and one more: what a search
in narrower ranges had found. Then the temperature and the number of replicas are varied.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thermoment as tm
from thermoment._support.files import write_json
from thermoment._support.host import environment
from thermoment.machines.signals.follower import moments_along, ridge_weights

Array = NDArray[np.float64]
Machine = Callable[[dict[str, float], int, Array], Array]
"""Settings, a seed and a signal (T,): features (T, F), of which the first is 1."""

RESULT = Path(__file__).parent / "results" / "signals.json"
NODES, WASHOUT, TRAIN, VALIDATION, TEST = 100, 200, 2000, 1000, 1000
TRIES, SEEDS = {"langevin": 40, "echo-state": 60}, 5
RIDGES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
AHEAD = 84
"""Rows by which Mackey-Glass is predicted."""
REPLICAS, DT, COLD = 4, 0.025, 1e-8
RANGES = {
    "langevin": {"J2": (0.01, 0.5), "s_W": (0.2, 2.0), "s_K": (0.02, 1.0), "s_b": (0.02, 1.0)},
    "echo-state": {"sr": (0.3, 1.3), "lr": (0.1, 1.0), "input_scaling": (0.02, 2.0), "bias": (0.02, 2.0)},
}
"""Lowest and highest of every setting, the same for both tasks. J4 = 0.1 only sets the unit of x."""
FOUND_BEFORE = {
    "narma10": {"sr": 0.6916, "lr": 0.8381, "input_scaling": 0.02847, "bias": 0.1763},
    "mackey-glass": {"sr": 0.9154, "lr": 0.3709, "input_scaling": 0.9872, "bias": 0.9155},
}
"""Settings of the echo-state network that were the best of 12 in narrower ranges."""
READS = {"means": 1 + NODES, "means and squares": 1 + 2 * NODES}
"""Columns of the features that each way of reading takes."""


def task(name: str) -> tuple[Array, Array]:
    """The signal, scaled, and its target: (T,) each."""
    rows = WASHOUT + TRAIN + VALIDATION + TEST
    if name == "narma10":
        u, y = tm.signals.narma10(rows, seed=1)
    else:
        x = tm.signals.mackey_glass(rows + AHEAD, seed=1)
        u, y = x[:-AHEAD], x[AHEAD:]
    return (u - u.mean()) / u.std(), y


def langevin(settings: dict[str, float], seed: int, signal: Array, replicas: int = REPLICAS, dt: float = DT) -> Array:
    """1, m1 and m2 of a turning reservoir; a row is held for a unit of time."""
    wells = tm.Dynamics(J2=settings["J2"], J4=0.1, kT=settings.get("kT", COLD))
    scales: Any = {key: settings[key] for key in ("s_W", "s_K", "s_b")}
    reservoir = tm.signals.turning(NODES, seed=seed, dynamics=wells, **scales)
    protocol = tm.Protocol(dt=dt, n_replicas=replicas, orders=(1, 2))
    return moments_along(reservoir, signal, protocol, hold=1.0)[0]


def echo_state(settings: dict[str, float], seed: int, signal: Array) -> Array:
    """1, x and x^2 of reservoirpy's network."""
    from reservoirpy.nodes import Reservoir

    known = {"sr": settings["sr"], "lr": settings["lr"], "input_scaling": settings["input_scaling"]}
    network = Reservoir(NODES, **known, bias=_bias(settings["bias"], seed), seed=seed)
    x = np.asarray(network.run(signal[:, None]))
    return np.concatenate([np.ones((len(x), 1)), x, x**2], axis=1)


def _bias(scale: float, seed: int) -> Array:
    return np.random.default_rng([seed, 7]).uniform(-scale, scale, (NODES, 1))[:, 0]


def drawn(kind: str, rng: np.random.Generator) -> dict[str, float]:
    """Random settings of a kind of machine, each with an even logarithm between its bounds."""
    return {name: float(np.exp(rng.uniform(*np.log(bounds)))) for name, bounds in RANGES[kind].items()}


def errors(features: Array, y: Array, ridge: float) -> tuple[float, float, Array]:
    """Errors on validation and test rows of a readout fitted to the training rows, and the prediction of the latter."""
    train, test = WASHOUT + TRAIN, WASHOUT + TRAIN + VALIDATION
    weights = ridge_weights(features[WASHOUT:train], y[WASHOUT:train, None], ridge)
    found = (features @ weights)[:, 0]
    return tm.signals.nrmse(found[train:test], y[train:test]), tm.signals.nrmse(found[test:], y[test:]), found[test:]


def best(features: Array, y: Array) -> tuple[float, float, float, Array]:
    """Ridge, validation error, test error and prediction, at the ridge that is best on validation rows."""
    found = [(ridge, *errors(features, y, ridge)) for ridge in RIDGES]
    return min(found, key=lambda one: one[1])


def compared(name: str, kinds: Iterable[str]) -> dict[str, Any]:
    """A task: for each kind and way of reading the best settings on validation rows, and test errors over seeds."""
    u, y = task(name)
    machines: dict[str, Machine] = {"langevin": langevin, "echo-state": echo_state}
    result: dict[str, Any] = {"rows": {"washout": WASHOUT, "train": TRAIN, "validation": VALIDATION, "test": TEST}}
    result |= {"nodes": NODES, "tries": TRIES, "seeds": SEEDS, "replicas": REPLICAS, "kT": COLD}
    for kind in kinds:
        machine, rng = machines[kind], np.random.default_rng(0)
        settings = [drawn(kind, rng) for _ in range(TRIES[kind])]
        settings += [FOUND_BEFORE[name]] if kind == "echo-state" else []
        tried = [machine(one, 100, u) for one in settings]
        result[kind] = {}
        for label, columns in READS.items():
            valid = [best(features[:, :columns], y)[1] for features in tried]
            chosen = settings[int(np.argmin(valid))]
            each = [best(machine(chosen, seed, u)[:, :columns], y) for seed in range(SEEDS)]
            result[kind][label] = {
                "settings": chosen,
                "validation error": min(valid),
                **over_seeds([one[2] for one in each]),
                "validation errors of all tries": np.round(np.sort(valid), 4).tolist(),
                "prediction": np.round(each[0][3][:200], 5).tolist(),
            }
        if kind == "langevin":
            cold = chosen | {"kT": 0.0}
            variants = {"kT = 0": DT, "kT = 0, dt / 4": DT / 4}
            for label, dt in variants.items():
                quiet = [best(langevin(cold, seed, u, 1, dt), y)[2] for seed in range(SEEDS)]
                result[kind][f"means and squares, {label}"] = over_seeds(quiet)
        print(name, kind, json.dumps({key: one["test error"] for key, one in result[kind].items()}), flush=True)
    result["target"] = np.round(y[-TEST:][:200], 5).tolist()
    return result


def over_seeds(errors: list[float]) -> dict[str, float]:
    """Mean and standard deviation over machines drawn at one setting."""
    return {"test error": float(np.mean(errors)), "spread over seeds": float(np.std(errors, ddof=1))}


def noise(name: str, settings: dict[str, float]) -> list[dict[str, float]]:
    """The test error over temperature and replicas, with all else as in `settings`."""
    u, y = task(name)
    rows = []
    for kT in (0.0, 1e-8, 1e-6, 1e-4, 1e-2):
        for M in (1, 4, 16) if kT else (1,):
            found = best(langevin(settings | {"kT": kT}, 0, u, M), y)
            rows.append({"kT": kT, "replicas": M, "test error": found[2], "ridge": found[0]})
    return rows


def memory() -> dict[str, Any]:
    """Memory capacity of three kinds of coupling at N = 100: turning, independent numbers, none; and over kT."""
    found: dict[str, Any] = {"longest": 60}
    protocol = tm.Protocol(dt=DT, n_replicas=REPLICAS, orders=(1,))
    options: Any = {"hold": 1.0, "longest": 60, "length": 4000, "ridge": 1e-8}
    for kT in (1e-8, 1e-6, 1e-4, 1e-2):
        wells = tm.Dynamics(J2=0.03, J4=0.1, kT=kT)
        turning = tm.signals.turning(NODES, seed=1, s_W=1.3, s_K=0.1, s_b=0.05, dynamics=wells)
        found[f"turning, kT = {kT:g}"] = tm.signals.memory_capacity(turning, protocol, **options).by_delay.tolist()
    wells = tm.Dynamics(J2=1.0, J4=0.1, kT=1e-8)
    directed = tm.Reservoir.draw(NODES, 1, s_W=1.9, s_K=0.1, s_b=0.05, seed=1, dynamics=wells)
    short = options | {"hold": 0.5}
    found["independent numbers, kT = 1e-08"] = tm.signals.memory_capacity(directed, protocol, **short).by_delay.tolist()
    return found | {"totals": {key: float(np.sum(value)) for key, value in found.items() if key != "longest"}}


def main() -> None:
    """Does the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=["narma10", "mackey-glass", "noise", "memory"])
    parser.add_argument("--kinds", nargs="+", choices=TRIES, default=list(TRIES), help="of machine; both unless given")
    asked = parser.parse_args()
    for name in asked.parts:
        found: dict[str, Any] = {}
        if name == "noise":
            for one in ("narma10", "mackey-glass"):
                settings = kept()[one]["langevin"]["means and squares"]["settings"]
                found[one] = {"noise": noise(one, settings), "settings of the noise": settings}
                print(one, json.dumps(found[one]["noise"]), flush=True)
        elif name == "memory":
            found[name] = memory()
            print(name, json.dumps(found[name]["totals"]), flush=True)
        else:
            found[name] = compared(name, asked.kinds)
        result = kept() | {"environment": environment("auto")}
        result |= {one: result.get(one, {}) | extra for one, extra in found.items()}
        write_json(RESULT, result)


def kept() -> dict[str, Any]:
    """What was found so far."""
    found: dict[str, Any] = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    return found


if __name__ == "__main__":
    main()
