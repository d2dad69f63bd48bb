"""How numbers are written for people: per cents, intervals, differences, probabilities."""

from collections.abc import Mapping, Sequence

from thermoment.results.naming import Fit

FIT_NAMES: Mapping[Fit, str] = {
    "sgd": "paper's readout",
    "converged": "fully fitted readout",
    "trained": "trained with the machine",
    "predicted": "without sampling noise",
}
"""What the readouts are called."""
FIT_MEANINGS: Mapping[Fit, str] = {
    "sgd": "linear, fitted to the moments by SGD with the paper's steps",
    "converged": "linear, the same loss minimised to its end",
    "trained": "linear, trained together with the reservoirs",
    "predicted": "the readout trained with the machine, on moments computed without sampling",
}
_NUMBERS = {2: "Both", 3: "All three", 4: "All four", 5: "All five", 6: "All six"}
_FEW = 1000
"""Test samples below which a second decimal of a per cent says nothing."""
MINUS = "\N{MINUS SIGN}"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def percent(share: float) -> str:
    """0.9695 as "96.95 %"."""
    return f"{100 * share:.2f}\N{NO-BREAK SPACE}%"


def rounded(share: float, total: int) -> str:
    """0.94 of 500 as "94.0 %", of 10000 as "94.00 %": no more decimals than `total` samples can tell."""
    return f"{100 * share:.{1 if total <= _FEW else 2}f}\N{NO-BREAK SPACE}%"


def all_of(names: Sequence[str]) -> str:
    """("K1", "K2", "K3") as "All three reservoirs"; one name as "Reservoir K1"."""
    if len(names) == 1:
        return f"Reservoir {names[0]}"
    return f"{_NUMBERS.get(len(names), f'All {len(names)}')} reservoirs"


def energy(value: float) -> str:
    """161234.5 as "161,000 kT", 3.14159 as "3.14 kT": three digits."""
    digits = float(f"{value:.3g}")
    return f"{digits:,.0f}\N{NO-BREAK SPACE}kT" if abs(digits) >= 100 else f"{digits:g}\N{NO-BREAK SPACE}kT"


def percents(interval: Sequence[float]) -> str:
    """(0.9659, 0.9727) as "96.59 to 97.27"."""
    return " to ".join(f"{100 * end:.2f}" for end in interval)


def points(difference: float) -> str:
    """0.0013 as "+0.13": percentage points, with their sign."""
    return signed(f"{100 * difference:+.2f}")


def points_interval(interval: Sequence[float]) -> str:
    """(-0.0009, 0.0035) as "-0.09 to +0.35" with a true minus."""
    return " to ".join(points(end) for end in interval)


def more(difference: float) -> str:
    """0.016 as "1.60 points more than", -0.016 as "1.60 points less than", 0 as "as much as"."""
    if not signed(f"{100 * difference:+.2f}").strip("0."):
        return "as much as"
    return f"{100 * abs(difference):.2f} points {'more' if difference > 0 else 'less'} than"


def probability(p: float) -> str:
    """0.2792 as it is; below a thousandth as "1.3 × 10⁻⁹"."""
    if p >= 0.001:
        return f"{p:.4f}"
    if p < 1e-300:
        return "below 10" + "-300".translate(_SUPERSCRIPTS)
    return scientific(p)


def scientific(value: float) -> str:
    """0.00044 as "4.4 × 10⁻⁴"."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa} \N{MULTIPLICATION SIGN} 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def signed(number: str) -> str:
    """A number's text with a true minus sign; a zero has none."""
    if not number.strip("+-0."):
        return number.lstrip("+-")
    return number.replace("-", MINUS)


def listing(words: Sequence[str], last: str = "and") -> str:
    """("a", "b", "c") as "a, b and c"."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def duration(seconds: float) -> str:
    """A time in the unit that suits it: "12 s", "3.1 minutes"."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
