"""Errors of every tensor after every pass against the source model's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorError:
    """`max_relative = max|a-b| / max(max|b|, 1e-6)`; integers and booleans must be equal.

    NaN and infinities must stand at equal positions, else `max_relative` is infinity.
    """

    tensor: str
    """Name in the source model."""
    operation: str
    """Identity of the operation that makes it in this snapshot."""
    max_absolute: float
    max_relative: float
    cosine: float
    sqnr_db: float
    """Signal to quantization noise ratio; infinity when equal."""
    worst_index: tuple[int, ...] = ()
    worst_value: float = 0.0
    expected_value: float = 0.0


@dataclass(frozen=True)
class PassAccuracy:
    """All tensors with an origin after one pass, in program order."""

    name: str
    mode: str
    """accumulated (errors travel) or isolated (every operation fed the reference's inputs)."""
    tensors: tuple[TensorError, ...]
    ties: tuple[str, ...] = ()
    """Operations whose index output (argmax, top-k) was a near-tie; what follows is isolated."""

    @property
    def worst(self) -> TensorError | None:
        return max(self.tensors, key=lambda t: t.max_relative, default=None)


@dataclass(frozen=True)
class AccuracyReport:
    target: str
    oracle: str
    """onnxruntime, golden outputs, or the imported program."""
    tolerance: float
    passes: tuple[PassAccuracy, ...]
    isolated: tuple[PassAccuracy, ...]
    outputs: tuple[TensorError, ...]
    passed: bool
