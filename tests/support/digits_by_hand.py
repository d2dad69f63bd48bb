"""The ten digits as strokes of a pen, drawn for these tests: x to the right and y down, from 0 to 1."""

import math

Point = tuple[float, float]
Stroke = list[Point]


def arc(x: float, y: float, width: float, height: float, start: float, stop: float, count: int = 24) -> Stroke:
    """Part of an ellipse around (x, y), from one angle to another in turns, clockwise from the top."""
    turns = [start + (stop - start) * k / count for k in range(count + 1)]
    return [(x + width * math.sin(math.tau * t), y - height * math.cos(math.tau * t)) for t in turns]


DIGITS: dict[int, list[Stroke]] = {
    0: [arc(0.5, 0.5, 0.24, 0.36, 0.0, 1.0)],
    1: [[(0.42, 0.25), (0.53, 0.14), (0.5, 0.86)]],
    2: [[*arc(0.5, 0.32, 0.2, 0.18, -0.2, 0.36), (0.32, 0.84), (0.74, 0.82)]],
    3: [[*arc(0.47, 0.32, 0.2, 0.17, -0.15, 0.5), *arc(0.47, 0.67, 0.23, 0.18, 0.0, 0.65)]],
    4: [[(0.38, 0.15), (0.28, 0.5), (0.72, 0.5)], [(0.66, 0.16), (0.6, 0.86)]],
    5: [[(0.7, 0.15), (0.38, 0.16), (0.35, 0.45), *arc(0.48, 0.65, 0.21, 0.21, -0.05, 0.65)]],
    6: [[(0.62, 0.13), (0.42, 0.36), (0.32, 0.62), *arc(0.5, 0.68, 0.17, 0.18, -0.25, -1.2)]],
    7: [[(0.27, 0.18), (0.72, 0.17), (0.58, 0.5), (0.47, 0.87)]],
    8: [[*arc(0.5, 0.31, 0.16, 0.17, 0.5, -0.5), *arc(0.5, 0.67, 0.19, 0.19, 0.0, 1.0)]],
    9: [[*arc(0.5, 0.33, 0.18, 0.18, 0.25, -0.75), (0.66, 0.6), (0.6, 0.87)]],
}
