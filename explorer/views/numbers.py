"""Numbers as a person reads them: short in a table, exact on hover.

    1_153_434 bytes   -> "1.1 MiB"
    0.0029 seconds    -> "2.9 ms"
    65 operations     -> "65 ops"
    1.2e-06 (error)   -> "1.2e-6"

Every function returns text without markup; a value that is no number is shown as what it is
(`∞`, `not a number`), never as an empty cell.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SECOND_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_JOULE_UNITS = ((1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ"))
_DECIMAL_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
MINUS = "\u2212"
"""The sign of a change: as wide as the plus, so that columns of changes line up."""


def format_bytes(size_bytes: float) -> str:
    """Sizes in binary units with at most three digits: `512 B`, `4 KiB`, `1.1 MiB`."""
    if not math.isfinite(size_bytes):
        return _not_finite(size_bytes)
    if size_bytes < 0:
        return MINUS + format_bytes(-size_bytes)
    size, unit = float(size_bytes), 0
    # 1023.5 and not 1024, for what would round up to "1024 KiB" is 1 MiB.
    while size >= 1023.5 and unit < len(_BINARY_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{_short(size)} {_BINARY_UNITS[unit]}"


def format_seconds(seconds: float) -> str:
    """Times in the unit that leaves one to three digits: `2.9 ms`, `340 µs`, `1.2 s`."""
    if not math.isfinite(seconds):
        return _not_finite(seconds)
    if seconds < 0:
        return MINUS + format_seconds(-seconds)
    if seconds == 0:
        return "0 s"
    for scale, unit in _SECOND_UNITS:
        if seconds >= 0.9995 * scale:
            return f"{_short(seconds / scale)} {unit}"
    return f"{_short(seconds / 1e-9)} ns"


def format_milliseconds(milliseconds: float) -> str:
    """`format_seconds` of a time in milliseconds."""
    return format_seconds(milliseconds / 1e3)


def format_nanoseconds(nanoseconds: float) -> str:
    """`format_seconds` of a time in nanoseconds."""
    return format_seconds(nanoseconds / 1e9)


def format_picojoules(picojoules: float) -> str:
    """An energy in the unit that leaves one to three digits: `0.3 pJ`, `20.7 µJ`, `1.2 mJ`."""
    if not math.isfinite(picojoules):
        return _not_finite(picojoules)
    for scale, unit in _JOULE_UNITS:
        if picojoules >= 0.9995 * scale:
            return f"{_short(picojoules / scale)} {unit}"
    return f"{_short(picojoules)} pJ"


def format_amount(amount: float) -> str:
    """A large amount in decimal units: `832`, `12.3 k`, `1.8 G`."""
    if not math.isfinite(amount):
        return _not_finite(amount)
    if amount < 0:
        return MINUS + format_amount(-amount)
    for scale, unit in _DECIMAL_UNITS:
        if amount >= 0.9995 * scale:
            return f"{_short(amount / scale)} {unit}"
    return _short(amount)


def format_exact(number: int) -> str:
    """All digits, in groups of three: `1,153,434`."""
    return f"{number:,}".replace("-", MINUS)


def format_count(count: int, noun: str = "op", plural: str = "") -> str:
    """A count with its noun: `65 ops`, `1 op`, `3 passes`."""
    word = noun if count == 1 else plural or noun + "s"
    return f"{format_exact(count)} {word}"


def format_change(before: int, after: int) -> str:
    """What a pass did to a count: `−12`, `+3`, or `=` when nothing changed."""
    change = after - before
    if change == 0:
        return "="
    return f"+{change:,}" if change > 0 else f"{MINUS}{-change:,}"


def format_error(error: float) -> str:
    """An error with two significant digits and a short exponent: `0`, `1.2e-6`, `0.015`, `∞`."""
    if not math.isfinite(error):
        return _not_finite(error)
    if error == 0:
        return "0"
    if 0.001 <= abs(error) < 1000:
        return _significant(error, 2)
    exponent = Decimal(error).adjusted()
    mantissa = _rounded(error, 1 - exponent).scaleb(-exponent)
    if abs(mantissa) >= 10:  # 9.96e-5 is 1.0e-4
        exponent, mantissa = exponent + 1, mantissa / 10
    return f"{mantissa:.1f}e{exponent}"


def format_decibels(decibels: float) -> str:
    """A ratio of signal to noise: `96 dB`; `equal` where there is no noise at all."""
    if decibels == math.inf:
        return "equal"
    if not math.isfinite(decibels):
        return _not_finite(decibels)
    return f"{_rounded(decibels, 0)} dB".replace("-", MINUS)


def format_percent(fraction: float) -> str:
    """A share of one: `38 %`, `0.4 %`."""
    if not math.isfinite(fraction):
        return _not_finite(fraction)
    return f"{_short(float(_significant(100 * fraction, 2)))} %"


def format_ratio(before: float, after: float) -> str:
    """How much smaller or larger: `3% less`, `40% more`, from twice on `2.1× less`; `=`, `≈`."""
    if before == after:
        return "="
    if before <= 0 or after <= 0:
        return f"{format_error(before)} → {format_error(after)}"
    word = "less" if after < before else "more"
    factor = max(before, after) / min(before, after)
    if factor >= 2:
        return f"{_short(factor)}× {word}"
    percent = int(_rounded(100 * abs(after - before) / before, 0))
    return f"{percent}% {word}" if percent else "≈"


def _short(number: float) -> str:
    """At most three significant digits, from 100 on all in front of the point; none idle."""
    magnitude = abs(number)
    if magnitude >= 100 or number == int(number):
        return f"{_rounded(number, 0):,}"
    return _significant(number, 2) if magnitude < 1 else _plain(_rounded(number, 1))


def _significant(number: float, digits: int) -> str:
    """So many significant digits, none idle."""
    exact = Decimal(number)
    return _plain(_rounded(number, digits - 1 - exact.adjusted())) if exact else "0"


def _rounded(number: float, decimals: int) -> Decimal:
    """As the page's JavaScript rounds: halves go up, where Python's own formats go to the even."""
    return Decimal(number).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def _plain(number: Decimal) -> str:
    return f"{number:f}".rstrip("0").rstrip(".") if "." in f"{number:f}" else f"{number:f}"


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "not a number"
    return "∞" if number > 0 else MINUS + "∞"
