"""What the page tells of the machine: its parts, its settings and their limits, its results as tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import thermoment
from thermoment._engines.choice import choose, engines
from thermoment._support.identity import stated
from thermoment.machines.classifier import Classifier
from thermoment.web.answer import joined
from thermoment.web.images import side
from thermoment.web.question import Limits, own_temperature

_FIELDS = 8
"""Nodes of each reservoir whose input weights are shown: those that the readout listens to most."""


class Offer:
    """The engines that can run here, and the one that answers where none is named. To import them takes a second."""

    def __init__(self) -> None:
        found = engines()
        self.notes = {name: status.note for name, status in found.items()}
        self.names = tuple(name for name, status in found.items() if status.can_run)
        self.default = choose("auto")[0].name


def describe(machine: Classifier, offer: Offer, run: Path | None) -> dict[str, Any]:
    """What `GET /api/machine` gives."""
    limits, protocol = Limits.of(machine), machine.protocol
    first = next(iter(machine.reservoirs.values()))
    return {
        "name": _name(machine, run),
        "version": thermoment.__version__,
        "n_inputs": machine.n_inputs,
        "side": side(machine.n_inputs),
        "n_classes": machine.n_classes,
        "reservoirs": [{"name": name, "n_nodes": one.n_nodes} for name, one in machine.reservoirs.items()],
        "orders": list(protocol.orders),
        "dt": protocol.dt,
        "t_final": protocol.t_final,
        "n_replicas": min(protocol.n_replicas, limits.n_replicas[1]),
        "kT": own_temperature(machine),
        "well": {"J2": first.dynamics.J2, "J4": first.dynamics.J4, "mu": first.dynamics.mu},
        "limits": {name: list(getattr(limits, name)) for name in ("kT", "t_final", "n_replicas")},
        "engines": [{"name": name, "can_run": name in offer.names, "note": note} for name, note in offer.notes.items()],
        "engine": offer.default,
    }


def results(machine: Classifier, run: Path | None) -> dict[str, Any]:
    """What `GET /api/results` gives: tables, what some nodes look for, and whether there is a report."""
    return {
        "name": _name(machine, run),
        "tables": [*_accuracy(machine.facts), _settings(machine), *_training(machine.facts)],
        "fields": _input_weights(machine),
        "report": run is not None and (run / "report.html").is_file(),
    }


def _name(machine: Classifier, run: Path | None) -> str:
    if run is not None:
        return run.resolve().name
    dataset = machine.facts.get("dataset")
    return str(dataset["name"]) if isinstance(dataset, Mapping) and "name" in dataset else "machine"


def _table(title: str, head: list[str], rows: list[list[str]], note: str = "") -> dict[str, Any]:
    return {"title": title, "head": head, "rows": rows, "note": note}


def _percent(correct: int, total: int) -> list[str]:
    from thermoment.results.statistics import wilson  # SciPy, for which the start of the server does not wait

    low, high = wilson(correct, total)
    return [f"{correct} of {total}", f"{correct / total:.2%}", f"{low:.2%} to {high:.2%}"]


def _accuracy(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    head = ["", "right", "share", "95 % interval"]
    note = "On test images that the machine was not trained on. The interval is Wilson's."
    if isinstance(test := facts.get("test"), Mapping):  # a machine that ships with the package
        row = [f"all reservoirs, sampled by {test['engine']}", *_percent(test["correct"]["half"], test["total"])]
        return [_table("What it reads right", head, [row], note)]
    if isinstance(found := facts.get("results"), Mapping):
        rows = [
            [
                f"{row['model']}, {row['fusion']}, moments {', '.join(map(str, row['orders']))}, {row['readout']}",
                *_percent(row["correct"], row["total"]),
            ]
            for row in found.get("accuracy", ())
        ]
        return [_table("What it reads right", head, rows, note)] if rows else []
    return []


def _settings(machine: Classifier) -> dict[str, Any]:
    protocol, first = machine.protocol, next(iter(machine.reservoirs.values()))
    sizes = " + ".join(str(one.n_nodes) for one in machine.reservoirs.values())
    well = stated(first.dynamics)
    rows = [
        ["reservoirs", ", ".join(machine.reservoirs)],
        ["nodes", sizes],
        ["inputs, classes", f"{machine.n_inputs}, {machine.n_classes}"],
        ["well", ", ".join(f"{name} = {value:g}" for name, value in sorted(well.items()) if name.startswith("J"))],
        ["mobility, temperature", f"mu = {first.dynamics.mu:g}, kT = {first.dynamics.kT:g}"],
        ["read at", f"t_final = {protocol.t_final:g}, in steps of dt = {protocol.dt:g}"],
        ["replicas", f"{protocol.n_replicas:g}"],
        ["moments read", ", ".join(f"m{p}" for p in protocol.orders)],
    ]
    return _table("The machine", ["", ""], rows)


def _training(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    experiment = facts.get("experiment")
    options = experiment.get("finite_time") if isinstance(experiment, Mapping) else None
    if not isinstance(experiment, Mapping) or not isinstance(options, Mapping):
        return []
    shown = ("epochs", "batch_size", "learning_rate", "schedule", "optimiser", "label_smoothing")
    rows = [[name.replace("_", " "), str(options[name])] for name in shown if name in options]
    return [_table("How it was trained", ["", ""], rows, str(experiment.get("description", "")))]


def _input_weights(machine: Classifier) -> list[dict[str, Any]]:
    """Rows of K as bytes from -127 to 127, for nodes with the largest readout weights."""
    readout, start, found = joined(machine), 0, []
    for name, one in machine.reservoirs.items():
        stop = start + len(machine.protocol.orders) * one.n_nodes
        scale = machine.readouts[0].scaling.scale if len(machine.readouts) == 1 else None
        gain = readout.gain[:, start:stop] * (1.0 if scale is None else scale[start:stop])
        loud = np.square(gain).sum(axis=0).reshape(-1, one.n_nodes).sum(axis=0)
        for node in np.argsort(-loud)[:_FIELDS]:
            row = one.K[node]
            scaled = np.round(127 * row / max(float(np.abs(row).max()), 1e-300)).astype(int)
            found.append({"reservoir": name, "node": int(node), "weights": scaled.tolist()})
        start = stop
    return found
