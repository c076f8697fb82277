"""Whether a program gives the integers of the program that it was lowered from, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from explorer.accuracy.execution import TappedProgram
from explorer.ir.program import Snapshot

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled


def is_bit_exact(compiled: Compiled, inputs: Mapping[str, np.ndarray]) -> bool | None:
    """Of all quantized values that both have; None where there are none.

    What is right is NumPy's meaning of the last program of level top.
    """
    top: Snapshot = next(r.after for r in reversed(compiled.passes) if r.after.level == "top")
    expected = top.run(inputs)
    found = TappedProgram(compiled.executable).values(inputs, {})
    names = [name for name in top.quantized if name in found]
    if not names:
        return None
    return all(np.array_equal(found[name], expected[name]) for name in names)
