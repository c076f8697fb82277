"""Two models side by side: which tensors belong together, and how far they are from each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.results.displayed import Displayed

PART = "model_comparison"
"""Its name in `Trace.parts`."""


@dataclass(frozen=True, kw_only=True)
class ComparedModel:
    """One of the two models."""

    name: str
    format: str
    nodes: int
    judge: str
    """The program that computed its tensors."""
    inputs: str
    """Where its inputs come from."""


@dataclass(frozen=True, kw_only=True)
class TensorMatch:
    """Two tensors that belong together, in the order of the first model."""

    tensor_a: str
    tensor_b: str
    node_a: str
    node_b: str
    operator_a: str
    operator_b: str
    how: str
    """What it rests on: equal `values`, equal places in the graphs (`structure`), or the `name`."""
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    axes: tuple[int, ...]
    """The axes of the second tensor in the order of the first one's; axes of size 1 count."""
    max_relative: float
    """The largest difference in parts of the first tensor's largest number."""
    sqnr_db: float
    """Signal to noise in dB, the first tensor being the signal; infinity where they are equal."""
    error: float
    """Root of the mean squared difference, in parts of that of the first tensor."""
    expected: float
    """The error that rounding and the errors of the node's inputs explain."""
    explained: float = math.inf
    """The error that the roundings before it explain, each of its own: it grows by their number,
    and not by what a layer makes of the errors of its inputs."""
    roundings: int = 0
    """How many quantized tensors and layers with rounded weights lie on the way to it."""
    clipped: float = 0.0
    """Share of elements beyond the range of a quantized tensor, 0 to 1. With random inputs they do
    not count in the errors."""

    @property
    def differs(self) -> bool:
        """Whether the error is larger than what rounding and the inputs explain."""
        return not self.error <= self.expected

    @property
    def has_grown(self) -> bool:
        """Whether its layer adds no more than rounding explains, and its inputs' errors, amplified
        from layer to layer, are more than that."""
        return self.roundings > 0 and not self.differs and not self.error <= self.explained


@dataclass(frozen=True, kw_only=True)
class UnmatchedNode:
    """A node of one model that no node of the other corresponds to."""

    node: str
    operator: str
    tensors: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelComparison(Displayed):
    """What `explorer.compare_models` returns; it shows itself as a table."""

    a: ComparedModel
    b: ComparedModel
    matched: tuple[TensorMatch, ...]
    """In the order of the nodes of the first model."""
    unmatched_a: tuple[UnmatchedNode, ...]
    unmatched_b: tuple[UnmatchedNode, ...]
    first_difference: TensorMatch | None
    """The first match that differs and of which no input differs; None where none does."""
    outputs: tuple[tuple[str, str], ...]
    """The outputs of the models that were compared, as pairs of names."""

    @property
    def agrees(self) -> bool:
        """Whether the outputs were compared, and no tensor differs."""
        return bool(self.outputs) and self.first_difference is None

    @property
    def first_grown(self) -> TensorMatch | None:
        """The first match at which errors are larger than the roundings before it explain."""
        return next((match for match in self.matched if match.has_grown), None)

    @property
    def differing(self) -> int:
        return sum(match.differs for match in self.matched)
