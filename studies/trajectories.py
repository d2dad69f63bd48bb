"""How well 74 nodes that are trained on trajectories read MNIST, from one trajectory for each image.

    python studies/trajectories.py --data-dir DIR [--out FILE.json] [--fit 10000] [--paths 20000]

64 hidden and 10 output nodes at kT = 1, read after t = 0.2 (200 steps): the network of arXiv:2509.15324. A teacher is
trained on all training images but the last 5000. Those say how strong the fields on output nodes should be, for a
student fitted to the first 2000 images. Then a student is fitted to the first 10000, and trained further by gradients
through sampled paths of the first 20000, each image moved by up to one pixel. Each of the two students is shown the
test images once, when it is finished.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thermoment as tm
from thermoment import data
from thermoment._support.files import write_json
from thermoment._support.host import describe

HERE = Path(__file__).parent
DYNAMICS = tm.Dynamics(J2=1.0, J4=1.0, mu=1.0, kT=1.0)
PROTOCOL = tm.Protocol(dt=1e-3, t_final=0.2, n_replicas=1, orders=(1,))
OUTPUT = (30.0, 90.0)
"""Fields on output nodes that are tried, beside 200 on hidden ones."""
HELD_OUT, FEW, HEATED = 5000, 2000, 500
MEASURED = (*((1, seed) for seed in (1, 2, 3)), (10, 1))
"""Replicas and seeds on the test images."""


def shifted(x: NDArray[Any], seed: int) -> NDArray[Any]:
    """Every image moved by up to one pixel in both directions, at random."""
    moves = np.random.default_rng(seed).integers(-1, 2, (len(x), 2))
    found = x.reshape(-1, 28, 28).copy()
    for move in {tuple(one) for one in moves.tolist()}:
        chosen = (moves == move).all(axis=1)
        found[chosen] = np.roll(found[chosen], move, axis=(1, 2))
    return found.reshape(x.shape)


def right(student: tm.Reservoir, x: NDArray[Any], y: NDArray[Any], replicas: int, seed: int) -> dict[str, Any]:
    """How many images the student reads right, from the mean of its output nodes over replicas at t_final."""
    protocol = tm.Protocol(dt=1e-3, t_final=0.2, n_replicas=replicas, seed=seed, orders=(1,))
    order = np.argsort(-tm.simulate(student, x, protocol).order(1)[:, -10:], axis=1)
    first, second = (order[:, k] == y for k in (0, 1))
    both = int((first | second).sum())
    return {"replicas": replicas, "seed": seed, "correct": int(first.sum()), "top2": both, "total": len(y)}


def heat(student: tm.Reservoir, x: NDArray[Any]) -> dict[str, float]:
    """Heat of one inference in kT, mean over images, and its standard error."""
    found = tm.simulate(student, x, PROTOCOL, engine="xla", observables=[tm.Heat()]).observed["heat"].mean
    found = found / DYNAMICS.kT
    return {"mean": float(found.mean()), "standard_error": float(found.std(ddof=1) / np.sqrt(len(found)))}


def main() -> None:
    """Trains, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=HERE / "results/trajectories.json")
    parser.add_argument("--images", type=int, default=60000, help="training images; the last 5000 are held out")
    parser.add_argument("--fit", type=int, default=10000, help="images that the student is fitted to")
    parser.add_argument("--paths", type=int, default=20000, help="images for the training through sampled paths")
    asked = parser.parse_args()
    mnist = data.load("mnist", asked.data_dir).first(asked.images)
    n = mnist.n_train - HELD_OUT
    x, y, x_held, y_held = mnist.x_train[:n], mnist.y_train[:n], mnist.x_train[n:], mnist.y_train[n:]
    begin = time.perf_counter()

    def done(what: str, result: Any) -> Any:
        print(f"{time.perf_counter() - begin:6.0f} s  {what}: {result}", flush=True)
        return result

    teacher = tm.train_teacher(x, y, DYNAMICS)
    result: dict[str, Any] = {
        "machine": describe(checkout=HERE),
        "nodes": {"hidden": 64, "output": 10},
        "images": n,
        "fit": asked.fit,
        "paths": asked.paths,
        "teacher": {"held_out": int((teacher.predict(x_held) == y_held).sum()), "total": HELD_OUT},
        "tried": [],
    }
    for output in OUTPUT:
        asks = replace(teacher, teaching=replace(teacher.teaching, output=output))
        few = tm.learn_paths(x[:FEW], asks.fields(x[:FEW]), DYNAMICS, PROTOCOL)
        row = {"hidden": asks.teaching.hidden, "output": output, **right(few, x_held, y_held, 1, 0)}
        result["tried"].append(done("tried", row))
    best = max(result["tried"], key=lambda row: row["correct"])
    asks = replace(teacher, teaching=replace(teacher.teaching, output=best["output"]))

    def judged(name: str, student: tm.Reservoir) -> None:
        result[name] = {
            "held_out": done(name, right(student, x_held, y_held, 1, 0)),
            "test": [right(student, mnist.x_test, mnist.y_test, M, seed) for M, seed in MEASURED],
            "heat_kT": heat(student, mnist.x_test[:HEATED]),
            "seconds": round(time.perf_counter() - begin),
        }
        done(name, result[name])
        write_json(asked.out, result)

    student = tm.learn_paths(x[: asked.fit], asks.fields(x[: asked.fit]), DYNAMICS, PROTOCOL)
    judged("trajectory rule", student)
    moved = shifted(x[: asked.paths], 0)
    judged("sampled paths", tm.learn_pathwise(student, moved, y[: asked.paths], PROTOCOL, tm.Pathwise(epochs=1)))


if __name__ == "__main__":
    main()
