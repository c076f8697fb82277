"""The data on which numbers were measured, in words that stand next to the numbers.

str(DataRecord(name="eval.npz", examples=64))                    eval.npz, 64 examples
str(DataRecord(drawn=(("image", CALIBRATED),)))                  seeded noise, within calibrated ranges
str(DataRecord(drawn=(("image", NORMAL),)))                      seeded noise
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.displayed import Displayed

NORMAL = "normal"
"""Floats with mean 0 and deviation 1: nothing is known of the input."""
CALIBRATED = "calibrated range"
"""Uniform in the range that a table of thresholds represents."""
OBSERVED = "observed histogram"
"""As often as calibration saw the values."""
QUANTIZED = "quantized range"
"""Uniform in the range that the first quantization of the model represents."""
WHOLE = "integers"
"""Integers in the range of their type, or of the table that they index."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DataRecord(Displayed):
    """Where the inputs came from."""

    name: str = ""
    """Of the data that a person attached; empty where all inputs were drawn."""
    examples: int = 0
    """Of the attached data that were run."""
    left_out: int = 0
    """Examples that fill no batch."""
    has_labels: bool = False
    drawn: tuple[tuple[str, str], ...] = ()
    """(input, how it was drawn) of all inputs without attached data."""
    seed: int = 0
    notes: tuple[str, ...] = ()
    """How files became arrays: `images resized to 8x8`."""

    @property
    def is_drawn(self) -> bool:
        return not self.name

    @property
    def is_noise(self) -> bool:
        """Whether an input was drawn with nothing known of its values."""
        return any(how == NORMAL for _, how in self.drawn)

    def __str__(self) -> str:
        if self.name:
            count = f"{self.examples:,} example" + ("" if self.examples == 1 else "s")
            rest = f"; {', '.join(name for name, _ in self.drawn)} drawn" if self.drawn else ""
            return f"{self.name}, {count}{rest}"
        known = dict.fromkeys(how for _, how in self.drawn if how in _WITHIN)
        if not known:
            return "seeded noise"
        mixed = ", other inputs from a normal distribution" if self.is_noise else ""
        return f"seeded noise, {' and '.join(_WITHIN[how] for how in known)}{mixed}"


_WITHIN = {
    CALIBRATED: "within calibrated ranges",
    OBSERVED: "as calibration observed",
    QUANTIZED: "within quantized ranges",
}


@dataclass(frozen=True, kw_only=True)
class OutputError:
    """An output of the program against the float source model, over all examples."""

    tensor: str
    sqnr_db: float
    """10 log10(sum b^2 / sum (a - b)^2) over all elements of all examples; infinity when equal."""
    max_relative: float
    """max|a - b| / max(max|b|, 1e-6) over all of them."""
