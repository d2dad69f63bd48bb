"""What a machine says of inputs, as a table: class, probability, and what noise does to both."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from thermoment.report.terminal import table


def items(told: dict[str, Any]) -> Iterator[RenderableType]:
    """A table of what `Answers.plain` tells, and what its columns mean."""
    rows, readings = told["answers"], told["readings"]
    judged = "is" in rows[0]
    head = ["row", "class", "probability", "noise", "same class", "next", *(["is"] if judged else [])]
    body = []
    for number, row in enumerate(rows, 1):
        others = {name: chance for name, chance in row["probabilities"].items() if name != row["class"]}
        second = max(others, key=lambda name: others[name])
        body.append(
            [
                str(number),
                row["class"],
                f"{100 * row['probability']:.1f} %",
                f"± {100 * row['spread']:.1f}" if readings > 1 else "",
                f"{row['agreement']} of {readings}",
                f"{second} {100 * others[second]:.1f} %",
                *([row["is"] + ("" if row["is"] == row["class"] else " (wrong)")] if judged else []),
            ]
        )
    yield table("", head, body)
    if judged:
        right = sum(row["is"] == row["class"] for row in rows)
        yield Text(f"{right} of {len(rows)} are right.")
    yield Text(
        f"Each input was read {readings} times with independent noise. noise: standard deviation of the probability "
        "over the readings, in per cent points. same class: readings that give the class shown, that of the first."
        if readings > 1
        else "Each input was read once; --readings 8 would tell what noise does to the answer."
    )
