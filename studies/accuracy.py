"""The error of the deterministic engine, against sampling, beside the engine's own estimate of it.

The scan is over coupling, temperature, time and well (scan.py).

    python studies/accuracy.py SAMPLES.npz [--out studies/results/accuracy.json]

sample_scan.py writes SAMPLES.npz, and accuracy_pages.py writes the pages. The first call takes minutes: it builds the
tables of 36 dynamics.
"""

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scan import EYE, KINDS, ORDERS, S_W, Array, Point, points

import thermoment as tm
from thermoment._engines.meanfield.engine import MeanField
from thermoment._support.host import describe

HERE = Path(__file__).parent

ENGINE = MeanField("float64")


def compare(point: Point, samples: dict[str, Array]) -> dict[str, Any]:
    """One row of results: for each order the rms over images and nodes.

    `samples` is what sample_scan.py keeps of the point.
    """
    row: dict[str, Any] = {"kind": point.kind, "J2": point.J2, "kT": point.kT, "t_final": point.t_final}
    row["s_W"] = point.s_W
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = tm.simulate(point.reservoir(), EYE, point.protocol(math.inf), engine=ENGINE)
        except RuntimeError:
            return row | {"refused": True}
    coupled, alone = samples["coupled"], samples["alone"]
    own, both, other = samples["scatter"].mean(axis=1)
    plain = mean_square(found.raw - coupled)
    if point.s_W:
        known = tm.simulate(point.nodes(samples["drive"]), EYE, point.protocol(math.inf), engine=ENGINE).raw
        # The uncoupled nodes are a control variate: the error of their samples is known, and beta times it is removed.
        beta = both / other
        square = mean_square(found.raw - coupled + beta[:, None] * (alone - known))
        noise = own - both * beta
    else:
        square, noise = plain, own
    assert found.info.error is not None
    columns = {
        "error": np.sqrt(np.maximum(square - noise, 0.0)),
        "estimate": [found.info.error[p] for p in ORDERS],
        "standard_error": np.sqrt(own),
        "resolution": np.sqrt(noise),
        "distance": np.sqrt(plain / own),
    }
    return row | {name: rounded(values) for name, values in columns.items()} | {"warned": bool(warned)}


def mean_square(difference: Array) -> Array:
    """Mean over images and nodes of the squares, for each order: (len(ORDERS),)."""
    return np.asarray((difference**2).mean(axis=(0, 2)))


def rounded(values: Any) -> list[float]:
    """Rounded to three digits; the noise leaves fewer."""
    return [float(f"{value:.2e}") for value in values]


def dump(result: dict[str, Any]) -> str:
    """JSON with a line for each row."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in result["rows"])
    head = json.dumps({name: value for name, value in result.items() if name != "rows"}, indent=1)
    return head.rstrip("}\n") + f',\n "rows": [\n{rows}\n ]\n}}\n'


def main() -> None:
    """Compares all points that were sampled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    samples = dict(np.load(options.samples))
    rows = []
    for point in points():
        names = {name: f"{point.key}/{name}" for name in ("coupled", "alone", "scatter", "drive")}
        if names["drive"] in samples:
            rows.append(compare(point, {name: samples[key] for name, key in names.items()}))
            if point.s_W == S_W[-1] and point.kind == KINDS[-1]:
                print(rows[-1], flush=True)
    text = dump({"machine": describe(checkout=HERE), "replicas": int(samples["replicas"]), "rows": rows})
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
