"""A program of full arrays, called with as much of them as a call has.

    with_length(executable).run({"ids": ids, "past": (1, 4, 3, 16)})
        -> {"logits": ..., "present": (1, 4, 4, 16)}            inside: (1, 4, 256, 16)

That is states with a capacity and a valid length, or dimensions with open sizes. Whoever gives
whole arrays and the numbers gets whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from explorer.closing import Closing
from explorer.ir.padding import cut, valid_rows, with_order_of
from explorer.ir.sizes.calls import Calls
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.executable import Arrays, Executable, TapKey, Taps
from explorer.runtime.native.program import NativeProgram

Cut = Callable[[Arrays], Arrays]


def with_length(executable: Executable) -> Executable:
    """The program as one for all valid lengths and sizes; as it is where it has none."""
    length, sizes = executable.program.length, executable.program.sizes
    if length is not None:

        def with_rows(inputs: Arrays) -> tuple[Arrays, Cut | None]:
            rows = valid_rows(length, inputs)
            if rows is None:
                return inputs, partial(with_order_of, length, inputs)
            return inputs, lambda outputs: cut(length, outputs, rows)

        return PartialProgram(executable, with_rows)
    if sizes is not None:
        calls = Calls(sizes)

        def with_sizes(inputs: Arrays) -> tuple[Arrays, Cut | None]:
            whole, call = calls.whole(inputs)
            if call is None:
                return whole, None
            return whole, lambda outputs: calls.cut(outputs, call)

        return PartialProgram(executable, with_sizes)
    return executable


class PartialProgram(Closing):
    """An `Executable`; it closes the one that it is made of.

    prepare: the inputs as the program takes them, and what takes from the outputs what a call with
    these inputs does not have.
    """

    def __init__(
        self, executable: Executable, prepare: Callable[[Arrays], tuple[Arrays, Cut | None]]
    ) -> None:
        self.program = executable.program
        self._executable = executable
        self._prepare = prepare
        self._takes_parts = isinstance(executable, NativeProgram) and executable.takes_parts

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        length = self.program.length
        if self._takes_parts and (length is None or length.name not in inputs):
            return self._executable.run(inputs)
        whole, own = self._prepare(dict(inputs))
        outputs = self._executable.run(whole)
        return outputs if own is None else own(outputs)

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        whole, own = self._prepare(dict(inputs))
        outputs, taps = self._executable.run_with_taps(whole, fed)
        return (outputs if own is None else own(outputs)), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        return self._executable.profile(self._prepare(dict(inputs))[0], repeats)

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        return self._executable.time(self._prepare(dict(inputs))[0], repeats)

    def close(self) -> None:
        self._executable.close()
