"""How sensitive outputs are to the quantization of each tensor; points of mixed precision.

A tensor stands for its layer: quantized with it are the weights that it is multiplied with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.results.displayed import Displayed


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How near outputs are to those of the float model, over all examples."""

    sqnr_db: float
    """Signal to quantization noise of the outputs (of several the mean ratio); inf if equal."""
    differ: int
    """Examples whose largest output is another one than the float model's."""
    accuracy: float | None = None
    """Per cent of examples whose largest output is the label's; None without labels."""


@dataclass(frozen=True, kw_only=True)
class TensorSensitivity:
    """What one tensor costs, as INT8 and beside it."""

    tensor: str
    macs: int
    """Multiply-adds of the products that read it; 0 of sums and functions."""
    alone: Quality
    """Only this one is INT8, all others stay float."""
    without: Quality
    """Only this one stays float, all others are INT8."""
    wide: Quality
    """Only this one is INT16, all others are INT8."""


@dataclass(frozen=True, kw_only=True)
class MixedPoint:
    """One way of choosing modes, of those that the search has seen."""

    modes: Mapping[str, str]
    """By tensor, where it is not INT8."""
    cost: float
    """Multiply-adds times bits of the numbers that are multiplied, over those of INT8."""
    quality: Quality
    """Simulated; of the program itself where `is_measured`."""
    is_measured: bool = False
    milliseconds: float | None = None
    """Of one inference, where it was timed."""
    is_best: bool = False
    """Whether no other point is both cheaper and better: the Pareto front."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MixedPrecision(Displayed):
    """The sensitivity of all tensors, points between INT8 and float, and the chosen one."""

    model: str
    wanted: str
    """In words: `accuracy 92.1`, `SQNR 35 dB`."""
    examples: int
    exact: Quality
    """Of the float model: its accuracy, where there are labels."""
    tensors: tuple[TensorSensitivity, ...]
    """In the program's order."""
    points: tuple[MixedPoint, ...]
    """By cost."""
    chosen: int
    """Index of a point."""
    seconds: float
