"""A past that grows from call to call: one program with a capacity instead of one for each length.

    call with 12 rows of past, 1 new      -> compiled with a capacity of 256, right for 0 to 255
    call with 13 rows ...                 -> hit
    call with 256 rows, 1 new             -> compiled with a capacity of 1024

Where the compiler cannot keep the past so (`keep-past` says why), each length has its own program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from explorer.session.inputs import Range

if TYPE_CHECKING:
    from explorer.importers import SourceModel
    from explorer.results.program import ValidLength

MIN_CAPACITY = 256
GROWTH = 2
"""Times what is needed now that a capacity holds at least."""


class GrowingPast:
    """What a session knows of the states of its model that grow."""

    def __init__(self) -> None:
        self.refused = ""
        """Why each length has a program of its own."""
        self._dimensions: frozenset[str] | None = None

    def capacity(self, model: SourceModel, given: Mapping[str, np.ndarray]) -> int | None:
        """Rows for a call; None where it has no past, or none that grows."""
        grown = [state for state in model.states if state.axis is not None]
        if not grown or self.refused:
            return None
        rows = {given[state.input].shape[state.axis or 0] for state in grown}
        if len(rows) != 1 or 0 in rows:
            return None
        needed, capacity = GROWTH * max(rows), MIN_CAPACITY
        while capacity < needed:
            capacity *= 2
        return capacity

    def sizes(
        self, model: SourceModel, dimensions: Mapping[str, int | Range]
    ) -> dict[str, int | Range]:
        """The sizes without those that a capacity says."""
        from explorer.compilation.settings.capacity import growing_dimensions, growing_states

        if self._dimensions is None:
            self._dimensions = growing_dimensions(model, growing_states(model))
        return {name: size for name, size in dimensions.items() if name not in self._dimensions}


def ranges_of(length: ValidLength | None) -> dict[tuple[str, int], Range]:
    """The sizes of inputs that a program is right for, by input and axis."""
    if length is None:
        return {}
    most = length.capacity - length.rows
    return {(value.name, value.axis): (value.more, most + value.more) for value in length.inputs}
