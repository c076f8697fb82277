"""Meanings of types for storage: computed in their arithmetic type, rounded once per operation.

    bf16, bf16  ->  f32, f32  ->  add  ->  f32  ->  bf16

Generated code does the same (`explorer.ir.compute`), so that both agree to the last bit where the
arithmetic is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from explorer.ir.types import element_type_of, numpy_dtype, widened

# Any: the operation's own class, which `wraps` cannot say.
Evaluate = Callable[..., tuple[np.ndarray, ...]]


def in_arithmetic_types(evaluate: Evaluate) -> Evaluate:
    """An `evaluate` that gets wide operands; its results are rounded to the declared types."""

    @wraps(evaluate)
    def wrapped(self: Any, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        results = evaluate(self, *[widened(o) for o in operands])
        with np.errstate(all="ignore"):
            return tuple(
                np.asarray(array).astype(numpy_dtype(element_type_of(result)), copy=False)
                for array, result in zip(results, self.results, strict=True)
            )

    return wrapped
