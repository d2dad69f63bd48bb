"""Digits out of thermal noise: how many of them a classifier recognises, and how much heat each gives off.

    python studies/generative.py --data-dir DIR [--out FILE.json] [--figures DIR] [--only three ten free]

Three digits: 784 visible and 64 hidden nodes learn the first 0, 1 and 2 of MNIST's training images, each with a code on
the hidden nodes. Ten classes: 784 visible nodes and 256 hidden ones (512 where no class is asked for) learn the first
1000 training images; the images of each class are divided into three groups by k-means, each with a code. A class is
asked for by a weak field on the hidden nodes, or none is. Images are judged by `tm.pretrained("mnist")`, computed
without sampling (engine meanfield). It takes some of pure noise for digits too, so where no class is asked for an image
counts as recognised only if the classifier's probability is above 1/2, the nearest training image, by pixels, is of the
same class, and it is not farther away than that of 95 % of MNIST's test images. Settings were chosen by trials with 40
to 100 samples.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import thermoment as tm
from thermoment import data
from thermoment._support.files import write_json
from thermoment._support.host import describe
from thermoment.plot.style import write

HERE = Path(__file__).parent
DYNAMICS = tm.Dynamics(J2=1.0, J4=1.0, mu=1.0, kT=0.02)
NOISING = tm.Noising(field=2.0, duration=2.5, fade=0.75, dt=0.01)
CONTRAST, RIDGE, PROMPT, PER_CLASS = 1.5, 0.2, 0.3, 3
FREE_HIDDEN, FREE_RIDGE, FREE_DURATION = 512, 0.5, 40.0
"""Where no class is asked for: the codes need time to compete, and room to differ."""
SAMPLES, READINGS = 200, 5


def groups_of(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    """The images of each class in a few groups of like ones, numbered from 0: (S,)."""
    groups = np.empty(len(y), np.int64)
    for c in range(int(y.max()) + 1):
        mine = np.flatnonzero(y == c)
        groups[mine] = PER_CLASS * c + KMeans(PER_CLASS, n_init=1, random_state=0).fit(x[mine]).labels_
    return groups


class Judge:
    """A classifier that has never seen the generator, and the training images."""

    def __init__(self, x: NDArray[Any], y: NDArray[Any], real: NDArray[Any]) -> None:
        self.x, self.y = x, y
        self.classifier = tm.pretrained("mnist", engine="meanfield")
        self.far = float(np.quantile(np.sqrt(self.squares(real).min(axis=1)), 0.95))

    def squares(self, images: NDArray[Any]) -> NDArray[Any]:
        """The squared distance of every image to every training image."""
        away: NDArray[Any] = (images**2).sum(axis=1)[:, None] + (self.x**2).sum(axis=1) - 2 * images @ self.x.T
        return np.asarray(np.maximum(away, 0))

    def verdict(self, images: NDArray[Any], wanted: NDArray[Any] | None = None) -> dict[str, Any]:
        """How many images are recognised: as what was asked for, or as what the nearest training image is."""
        p = self.classifier.predict_proba(images)
        squares = self.squares(images)
        nearest, near = self.y[squares.argmin(axis=1)], np.sqrt(squares.min(axis=1)) <= self.far
        seen = p.argmax(axis=1)
        right = seen == wanted if wanted is not None else (seen == nearest) & (p.max(axis=1) > 0.5) & near
        return {
            "recognised": int(right.sum()),
            "samples": len(images),
            "of each class": np.bincount(seen[right], minlength=10).tolist(),
            "distance to the nearest training image": float(np.sqrt(squares.min(axis=1)).mean()),
            "distance between samples": spread(images, wanted),
        }


def spread(images: NDArray[Any], wanted: NDArray[Any] | None) -> float:
    """Mean distance of two samples, of the same class where one was asked for."""
    kinds = np.zeros(len(images), int) if wanted is None else wanted
    distance = np.sqrt(((images[:, None] - images) ** 2).sum(axis=2)) if len(images) <= SAMPLES else np.zeros((1, 1))
    pairs = (kinds[:, None] == kinds) & ~np.eye(len(images), dtype=bool)
    return float(distance[pairs].mean())


def measured(judge: Judge, made: tm.Generated, wanted: NDArray[Any] | None = None) -> dict[str, Any]:
    """Verdicts on images and on the noise they came from, and the heat."""
    mean, error = made.mean_heat
    heat = {"mean": mean, "standard_error": error}
    noise = judge.verdict(made.images[0], wanted)["recognised"]
    return {**judge.verdict(made.images[-1], wanted), "recognised in noise": noise, "heat_kT": heat}


def main() -> None:
    """Trains, generates, judges, draws, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=HERE / "results/generative.json")
    parser.add_argument("--figures", type=Path, default=HERE.parent / "docs/figures")
    parser.add_argument("--engine", default="xla")
    parser.add_argument("--only", nargs="+", choices=("three", "ten", "free"), default=["three", "ten", "free"])
    asked = parser.parse_args()
    mnist = data.load("mnist", asked.data_dir)
    real = mnist.x_test[:1000]
    begin = time.perf_counter()
    result = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
    result["machine"] = describe("scikit-learn", checkout=HERE)

    def keep(name: str, found: dict[str, Any]) -> None:
        print(f"{time.perf_counter() - begin:6.0f} s  {name}: {found}", flush=True)
        result[name] = found
        write_json(asked.out, result)

    if "three" in asked.only:
        first = [int(np.flatnonzero(mnist.y_train == c)[0]) for c in (0, 1, 2)]
        x, y = mnist.x_train[first], mnist.y_train[first]
        three = tm.train_generator(x, DYNAMICS, NOISING, n_hidden=64, ridge=RIDGE)
        print(f"{time.perf_counter() - begin:6.0f} s  trained", flush=True)
        made = three.generate(SAMPLES, duration=8.0, readings=READINGS, contrast=CONTRAST, engine=asked.engine)
        write(tm.plot.generation(made).figure, asked.figures / "generation-three")  # type: ignore[arg-type]
        keep("three digits", measured(Judge(x, y, real), made))
    x, y = mnist.x_train[:1000], mnist.y_train[:1000]
    options: dict[str, Any] = {"groups": groups_of(x, y), "classes": y}
    generate: dict[str, Any] = {"readings": READINGS, "contrast": CONTRAST, "engine": asked.engine}
    if "ten" in asked.only:
        ten = tm.train_generator(x, DYNAMICS, NOISING, **options, n_hidden=256, prompt=PROMPT, ridge=RIDGE)
        print(f"{time.perf_counter() - begin:6.0f} s  trained", flush=True)
        wanted = np.arange(SAMPLES) % 10
        made = ten.generate(SAMPLES, prompts=wanted, duration=5.0, **generate)
        write(tm.plot.generation(made).figure, asked.figures / "generation-ten")  # type: ignore[arg-type]
        keep("ten classes, asked for", measured(Judge(x, y, real), made, wanted))
    if "free" in asked.only:
        free = tm.train_generator(x, DYNAMICS, NOISING, **options, n_hidden=FREE_HIDDEN, ridge=FREE_RIDGE)
        print(f"{time.perf_counter() - begin:6.0f} s  trained", flush=True)
        made = free.generate(SAMPLES, duration=FREE_DURATION, **generate)
        write(tm.plot.generation(made).figure, asked.figures / "generation-free")  # type: ignore[arg-type]
        judge = Judge(x, y, real)
        course = [judge.verdict(images)["recognised"] for images in made.images]
        by_time = dict(zip(map(str, made.times), course, strict=True))
        keep("ten classes, none asked for", measured(judge, made) | {"recognised by time": by_time})


if __name__ == "__main__":
    main()
