"""A program whose states have a capacity, called with as much of them as is valid.

    GrowingProgram(executable).run({"ids": ids, "past": (1, 4, 3, 16)})
        -> {"logits": ..., "present": (1, 4, 4, 16)}            inside: (1, 4, 256, 16)

Whoever gives whole arrays and the valid length gets whole arrays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.closing import Closing
from explorer.ir.padding import cut, valid_rows
from explorer.results.program import ValidLength
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.executable import Arrays, Executable, TapKey, Taps


def with_length(executable: Executable) -> Executable:
    """The program as one for all valid lengths; as it is where it has none."""
    length = executable.program.length
    return executable if length is None else GrowingProgram(executable, length)


class GrowingProgram(Closing):
    """An `Executable`; it closes the one that it is made of."""

    def __init__(self, executable: Executable, length: ValidLength) -> None:
        self.program = executable.program
        self._executable = executable
        self._length = length

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        rows = valid_rows(self._length, inputs)
        return self._cut(self._executable.run(inputs), rows)

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        rows = valid_rows(self._length, inputs)
        outputs, taps = self._executable.run_with_taps(inputs, fed)
        return self._cut(outputs, rows), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        return self._executable.profile(inputs, repeats)

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        return self._executable.time(inputs, repeats)

    def close(self) -> None:
        self._executable.close()

    def _cut(self, outputs: Arrays, rows: int | None) -> Arrays:
        return outputs if rows is None else cut(self._length, outputs, rows)
