"""Whether a program gives the integers of the program that it was lowered from, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.accuracy.execution import TappedProgram
from explorer.ir.program import Snapshot
from explorer.runtime.executable import Executable


def is_bit_exact(
    top: Snapshot, executable: Executable, inputs: Mapping[str, np.ndarray]
) -> bool | None:
    """Of all quantized values that both have; None where there are none.

    top: the last program of that level, whose meaning in NumPy is what is right.
    """
    expected = top.run(inputs)
    found = TappedProgram(executable).values(inputs, {})
    names = [name for name in top.quantized if name in found]
    if not names:
        return None
    return all(np.array_equal(found[name], expected[name]) for name in names)
