"""What segments cost: single runs beside an earlier version, and runs cut into more and more segments.

    python benchmarks/segments.py [--engine cuda | native] [--before SRC] [--rounds 5]
                                  [--out benchmarks/results/segments-NAME.json]

`--before` is the folder `src` of an earlier checkout. Each version has a process of its own, and they run in turn. Of
every single run the bits of both are compared too.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import thermoment as tm
from thermoment._support.files import write_json
from thermoment._support.host import describe

HERE = Path(__file__).parent
N_INPUTS = 10
STEPS = 1000
FEWER = {"cuda": 1, "native": 330}
"""By how much samples are fewer."""
# Name: nodes, samples, clip.
SINGLE = {
    "N = 256": (256, 21120, np.inf),
    "N = 1024": (1024, 1024, np.inf),
    "N = 256, clipped": (256, 264, 0.7),
    "N = 600, clipped": (600, 32, 0.7),
}
# Name: nodes, samples, segments, of which all are read or only the last.
CUT = {
    **{f"N = 256, {count} segments": (256, 1320, count, True) for count in (1, 10, 100)},
    "N = 256, 100 segments, one reading": (256, 1320, 100, False),
    "N = 256, 1000 segments, one reading": (256, 132, 1000, False),
    "N = 256, 1000 segments": (256, 132, 1000, True),
    **{f"N = 1024, {count} segments": (1024, 256, count, True) for count in (1, 10, 100)},
    "N = 1024, 100 segments, one reading": (1024, 256, 100, False),
    "N = 50, one signal, 1000 segments": (50, 1, 1000, True),
}


@cache
def network(N: int) -> tm.Reservoir:
    """The paper's network at any size."""
    return tm.Reservoir.draw(N, N_INPUTS, s_W=0.1, s_K=4.0, seed=3)


def inputs(S: int) -> Any:
    """(S, N_INPUTS)"""
    return np.random.default_rng(1).random((S, N_INPUTS))


def samples(S: int, engine: str) -> int:
    """As many of S as an engine is given."""
    return math.ceil(S / FEWER[engine])


def single(name: str, engine: str) -> tuple[float, str]:
    """Seconds of one run from x = 0, and the SHA-256 of its moments."""
    N, S, clip = SINGLE[name]
    protocol, reservoir, given = tm.Protocol(dt=1.0 / STEPS, clip=clip), network(N), inputs(samples(S, engine))
    begin = time.perf_counter()
    moments = tm.simulate(reservoir, given, protocol, engine=engine)
    seconds = time.perf_counter() - begin
    return seconds, hashlib.sha256(moments.raw.tobytes() + str(moments.info.clip_count).encode()).hexdigest()


def cut(name: str, engine: str) -> float:
    """Seconds of a run of `STEPS` steps in some segments, from x = 0 as a state that was handed over."""
    N, S, count, all_read = CUT[name]
    protocol, reservoir = tm.Protocol(dt=1.0 / STEPS, t_final=1.0 / count), network(N)
    signal = np.repeat(inputs(samples(S, engine))[:, None], count, axis=1)
    begin = time.perf_counter()
    tm.course(reservoir, signal, protocol, times=None if all_read else (1.0,), x0=np.zeros(N), engine=engine)
    return time.perf_counter() - begin


def answer(engine: str) -> None:
    """Does what it is asked for on stdin, line by line."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(single(line.strip(), engine)), flush=True)


class Version:
    """A process with the package of one version."""

    def __init__(self, src: str, engine: str) -> None:
        path = os.pathsep.join([src, os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, __file__, "--answer", "--engine", engine]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=os.environ | {"PYTHONPATH": path}
        )

    def single(self, name: str) -> tuple[float, str]:
        """As the function of that name, in that version."""
        assert self._process.stdin
        assert self._process.stdout
        print(name, file=self._process.stdin, flush=True)
        seconds, digest = json.loads(self._process.stdout.readline())
        return seconds, digest

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def rate(N: int, S: int, seconds: float) -> float:
    """Node-steps per second."""
    return N * S * tm.Protocol().n_replicas * STEPS / seconds


def compare(before: str, rounds: int, engine: str) -> dict[str, Any]:
    """Single runs of both versions in turn."""
    versions = {"before": Version(before, engine), "now": Version(str(Path(tm.__file__).parents[1]), engine)}
    found: dict[str, Any] = {}
    for name, (N, many, _) in SINGLE.items():
        S = samples(many, engine)
        digests = {version: one.single(name)[1] for version, one in versions.items()}  # and both are warm
        seconds: dict[str, list[float]] = {version: [] for version in versions}
        for k in range(rounds if "clipped" not in name else 1):
            for version in list(versions)[:: 1 if k % 2 else -1]:
                seconds[version].append(versions[version].single(name)[0])
        found[name] = {
            "same_bits": digests["before"] == digests["now"],
            "seconds": seconds,
            "node_steps_per_second": {version: rate(N, S, median(own)) for version, own in seconds.items()},
            "now_takes": median(n / b for n, b in zip(seconds["now"], seconds["before"], strict=True)),
        }
        print(
            f"{name}: the same bits: {found[name]['same_bits']}, now takes {found[name]['now_takes']:.4f}", flush=True
        )
    for one in versions.values():
        one.close()
    return found


def main() -> None:
    """Compares versions if there are two, then measures runs cut into segments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--engine", choices=list(FEWER), default="cuda")
    parser.add_argument("--before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commit", help="of the code, where the folder is no checkout")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer(options.engine)
        return
    engine = options.engine
    machine = describe(*(["cupy-cuda13x"] if engine == "cuda" else []), checkout=HERE)
    if options.commit:
        machine["commit"] = options.commit
    result: dict[str, Any] = {"machine": machine, "steps": STEPS, "replicas": tm.Protocol().n_replicas}
    if options.before:
        result["single_runs"] = compare(options.before, options.rounds, engine)
    result["cut"] = {}
    for name, (N, S, count, all_read) in CUT.items():
        S = samples(S, engine)
        seconds = [cut(name, engine) for _ in range(3)]
        result["cut"][name] = {
            "samples": S,
            "segments": count,
            "readings": count if all_read else 1,
            "seconds": seconds,
            "node_steps_per_second": rate(N, S, min(seconds)),
        }
        print(f"{name}: {min(seconds):.4f} s, {rate(N, S, min(seconds)):.3g} node-steps per second", flush=True)
    if options.out:
        write_json(options.out, result)


if __name__ == "__main__":
    main()
