"""Layered thermodynamic neurons: a cosine learnt by gradients and by a genetic algorithm, the clock, and MNIST.

    python studies/neurons.py gradient clock activation             a cosine; a minute
    python studies/neurons.py genetic genetic genetic               three of ten rounds of the genetic algorithm
    python studies/neurons.py mnist --data-dir FOLDER               digits; minutes

Each part is kept in studies/results/neurons.json beside the others, and the machines of the first two in the folder
--machines. The task of the cosine is that of Whitelam and Casert, arXiv:2412.17183: y = cos(2 pi z) at 250 even points
of [0, 1], 8x4 neurons with J2 = J4 = 1, kT = 0.1, read at t = 1.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import thermoment as tm
from thermoment._support.files import write_json
from thermoment._support.host import environment
from thermoment.data import load as load_data

Part = Callable[[Path, dict[str, Any]], dict[str, Any]]
"""Where machines are kept and what the part found before: what it finds."""
RESULT = Path(__file__).parent / "results" / "neurons.json"
WIDTHS = (8, 8, 8, 8)
DT = 2e-3
Z = np.linspace(0, 1, 250)[:, None]
COSINE = np.cos(2 * np.pi * Z[:, 0])
SEEN = Z[4::10]
"""25 of the points: what the genetic algorithm sees."""
MNIST_WIDTHS, MNIST_SEEDS, HELD_OUT = (64, 32), (1, 2, 3), 5000

ROUNDS = (
    (False, 1500, 0.1, 10**4, 0.04),
    (True, 250, 0.05, 200, 0.025),
    (True, 250, 0.03, 200, 0.025),
    (True, 250, 0.04, 50, 0.025),
    (True, 250, 0.03, 50, 0.025),
    (True, 250, 0.03, 500, 0.025),
    (True, 250, 0.02, 5000, 0.025),
    (True, 250, 0.015, 5000, 0.025),
    (True, 150, 0.015, 5000, 0.005),
    (True, 150, 0.008, 5000, 0.005),
)
"""Of the genetic algorithm: whether with noise, generations, spread of mutations, replicas of a reading, time step.

The last rounds have a short time step: a machine that evolves at a long one learns the error of this step as well.
"""


def judged(machine: tm.neurons.Layered, n_replicas: int = 4096, dt: float = DT) -> dict[str, Any]:
    """Mean squared error at all 250 points: sampled, and without its sampling noise.

    Two independent runs have independent errors, so the mean product of their errors is that of infinitely many
    replicas, but for a rest whose standard error is given.
    """
    runs = [
        machine.answers(Z, tm.Protocol(dt=dt, n_replicas=n_replicas // 2, seed=seed))[:, 0] - COSINE
        for seed in (11, 12)
    ]
    a, b = runs
    product = a * b
    variance = float(np.mean((a - b) ** 2)) / 2 * (n_replicas // 2)
    return {
        "replicas": n_replicas,
        "mean squared error": float(np.mean(((a + b) / 2) ** 2)),
        "of infinitely many replicas": float(product.mean()),
        "standard error of that": float(product.std() / math.sqrt(len(product))),
        "variance of one replica's answer": variance,
        "mean squared error by replicas": {
            str(M): float(product.mean()) + variance / M for M in (10, 100, 1000, 10000)
        },
        "norm of W": float(np.linalg.norm(machine.reservoir.W, 2)),
        "meanfield": _meanfield(machine),
    }


def _meanfield(machine: tm.neurons.Layered) -> str:
    """What the engine that does not sample makes of the machine."""
    try:
        found = machine.answers(Z, tm.Protocol(n_replicas=math.inf), engine="meanfield")[:, 0]
    except RuntimeError as error:
        return str(error)
    return f"a mean squared error of {np.mean((found - COSINE) ** 2):.2g}"


def finished(machine: tm.neurons.Layered) -> tm.neurons.Layered:
    """The machine with the readout that is best at the time step at which it is judged."""
    return machine.with_readout_for(Z, COSINE, tm.Protocol(dt=DT, n_replicas=512, seed=5), ridge=1e-4)


def gradient(machines: Path, _: dict[str, Any], seed: int = 2) -> dict[str, Any]:
    """Gradients: a warm-up without noise, then noise of kT = 0.1; at last the readout by least squares."""
    start = tm.neurons.Layered.draw(WIDTHS, 1, seed=seed)
    protocol = tm.Protocol(dt=0.02, n_replicas=10**4)
    options: Any = {"warm_up": 600, "steps": 2400, "n_replicas": 8, "batch_size": 25, "learning_rate": 0.02}
    began, spent = time.perf_counter(), time.process_time()
    trained = tm.neurons.learn(start, Z, COSINE, protocol, **options)
    machine = finished(trained.machine)
    times = {"seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - spent}
    machine.save(machines / "gradient.safetensors")
    losses = trained.losses.reshape(-1, 20).mean(axis=1)
    return {**times, "seed": seed, **options, "losses by 20 steps": losses.tolist(), **judged(machine)}


def genetic(machines: Path, before: dict[str, Any], seed: int = 1) -> dict[str, Any]:
    """A round of the genetic algorithm: without noise first, from weights of standard deviation 0.1; then with noise.

    Each call goes on where the last one ended.
    """
    path = machines / "genetic.safetensors"
    rounds = before.get("rounds", 0) if path.exists() else 0
    if rounds == 0:
        before = {}
        start = tm.neurons.Layered.draw(WIDTHS, 1, s_W=0.1 * math.sqrt(8), s_K=0.1, s_b=0.1, s_readout=0.1, seed=seed)
    else:
        start = tm.neurons.Layered.load(path)
    noisy, count, spread, read, dt = ROUNDS[min(rounds, len(ROUNDS) - 1)]
    lengths: Any = {"warm_up": 0, "generations": count} if noisy else {"warm_up": count, "generations": 0}
    spent = time.process_time()
    protocol, target = tm.Protocol(dt=dt, n_replicas=read), np.cos(2 * np.pi * SEEN)
    evolved = tm.neurons.evolve(
        start, SEEN, target, protocol, **lengths, spread=spread, n_replicas=8, seed=seed + rounds
    )
    spent = time.process_time() - spent
    evolved.machine.save(path)
    losses = before.get("losses by 10 generations", []) + evolved.losses.reshape(-1, 10).mean(axis=1).tolist()
    judgement = judged(evolved.machine)
    by_round = [*before.get("error after each round", []), judgement["of infinitely many replicas"]]
    done: dict[str, Any] = {
        "error after each round": by_round,
        "rounds": rounds + 1,
        "CPU seconds": before.get("CPU seconds", 0.0) + spent,
        "losses by 10 generations": losses,
    }
    again = judged(finished(evolved.machine), 1024)["of infinitely many replicas"]
    more = {"with the readout by least squares": again, "at the time step of training": judged(evolved.machine, dt=dt)}
    return done | judgement | more


def clock(machines: Path, before: dict[str, Any]) -> dict[str, Any]:
    """The error when a machine that was trained for t = 1 is read at other times, for the machines that are kept."""
    times = [
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.85,
        0.9,
        0.95,
        1.0,
        1.05,
        1.1,
        1.15,
        1.2,
        1.3,
        1.4,
        1.5,
        1.75,
        2.0,
    ]
    found: dict[str, Any] = before | {"times": times}
    for name in ("gradient", "genetic"):
        if not (machines / f"{name}.safetensors").exists():
            continue
        machine = tm.neurons.Layered.load(machines / f"{name}.safetensors")
        a, b = (
            machine.answers_at(Z, times, tm.Protocol(dt=DT, n_replicas=512, seed=seed))[:, :, 0] - COSINE
            for seed in (21, 22)
        )
        found[name] = (a * b).mean(axis=1).tolist()
        if name == "gradient":
            y = ((a + b) / 2 + COSINE)[[times.index(t) for t in (0.5, 1.0, 2.0)], ::5]
            found["answers at 0.5, 1 and 2"] = np.round(y, 4).tolist()
    return found


def activation(_: Path, __: dict[str, Any]) -> dict[str, Any]:
    """Activations of three neurons at kT = 1, in equilibrium and at two times."""
    drives = np.linspace(-10, 10, 41)
    found: dict[str, Any] = {"kT": 1.0, "drives": drives.tolist()}
    for J2, J4 in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        neuron = tm.Dynamics(J2=J2, J4=J4, kT=1.0)
        curves = {"equilibrium": tm.neurons.activation(neuron, drives).tolist()}
        for t in (0.05, 0.2):
            protocol = tm.Protocol(dt=1e-3, t_final=t, n_replicas=math.inf)
            curves[f"t = {t}"] = tm.neurons.activation(neuron, drives, protocol).tolist()
        found[f"J2 = {J2:g}, J4 = {J4:g}"] = curves
    return found


def mnist(machines: Path, where: dict[str, Any]) -> dict[str, Any]:
    """Digits by two layers of 64 and 32 neurons, trained from three seeds on 55000 images.

    The other 5000 training images judged the options below. Each machine sees the test images when it is finished.
    """
    digits = load_data("mnist", where["data"])
    mean = digits.x_train.mean()
    images, test = digits.x_train - mean, digits.x_test - mean
    options: Any = {"warm_up": 860, "steps": 1720, "batch_size": 128, "n_replicas": 2, "learning_rate": 0.004}
    found: list[dict[str, Any]] = []
    for seed in MNIST_SEEDS:
        start = tm.neurons.Layered.draw(MNIST_WIDTHS, 784, n_outputs=10, s_W=1.0, s_K=3.0, s_b=0.1, seed=seed)
        began = time.perf_counter()
        fit, protocol = slice(0, -HELD_OUT), tm.Protocol(dt=0.02)
        trained = tm.neurons.learn_classes(start, images[fit], digits.y_train[fit], protocol, **options, seed=seed)
        one: dict[str, Any] = {"seed": seed, "seconds": time.perf_counter() - began}
        trained.machine.save(machines / f"mnist-{seed}.safetensors")
        one["loss of the last 100 steps"] = float(trained.losses[-100:].mean())
        held = right(trained.machine, images[-HELD_OUT:], digits.y_train[-HELD_OUT:], 10)
        one["right of the images held out, 10 replicas"] = held
        one["right of the test images"] = {str(M): right(trained.machine, test, digits.y_test, M) for M in (1, 10, 100)}
        one["with other noise, 10 replicas"] = [
            right(trained.machine, test, digits.y_test, 10, seed=noise) for noise in (1, 2)
        ]
        one["at dt = 0.002, 10 replicas"] = right(trained.machine, test, digits.y_test, 10, DT)
        one["norm of W"] = float(np.linalg.norm(trained.machine.reservoir.W, 2))
        found.append(one)
        print(one, flush=True)
    return {"widths": list(MNIST_WIDTHS), "images held out": HELD_OUT, **options, "machines": found}


def right(
    machine: tm.neurons.Layered, images: Any, labels: Any, n_replicas: int, dt: float = 0.01, seed: int = 0
) -> float:
    """The share of images whose class has the largest answer, by sampling with the noise of `simulate`."""
    answers = machine.answers(images, tm.Protocol(dt=dt, n_replicas=n_replicas, seed=seed))
    return float(np.mean(answers.argmax(axis=1) == labels))


def kept(path: Path) -> dict[str, Any]:
    """What was found so far."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def main() -> None:
    """Does the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts: dict[str, Part] = {
        "gradient": gradient,
        "genetic": genetic,
        "clock": clock,
        "activation": activation,
        "mnist": mnist,
    }
    parser.add_argument("parts", nargs="+", choices=parts)
    parser.add_argument("--machines", type=Path, default=Path("runs/neurons"), help="where trained machines are kept")
    parser.add_argument("--data-dir", help="where MNIST is")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    chosen.machines.mkdir(parents=True, exist_ok=True)
    for name in chosen.parts:
        before = {"data": chosen.data_dir} if name == "mnist" else kept(chosen.out).get(name, {})
        found = parts[name](chosen.machines, before)
        result = kept(chosen.out) | {name: found | {"environment": environment("auto")}}
        write_json(chosen.out, result)
        print(name, {key: value for key, value in found.items() if not isinstance(value, list | dict)}, flush=True)


if __name__ == "__main__":
    main()
