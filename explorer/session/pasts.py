"""A past that grows from call to call: one program with a capacity instead of one for each length.

    call with 12 rows of past, 1 new      -> compiled with a capacity of 256, right for 0 to 255
    call with 13 rows ...                 -> hit
    call with 256 rows, 1 new             -> compiled with a capacity of 1024

Where the compiler cannot keep the past so (`keep-past` says why), each length has its own program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from explorer.errors import InputError, UnsupportedError
from explorer.ir.padding import is_full
from explorer.session.inputs import Range
from explorer.session.signatures import Signature, Size

if TYPE_CHECKING:
    from explorer.compilation.settings.capacity import KnownPast
    from explorer.compilation.settings.options import CompileOptions
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
        self.opened = ""
        """What was opened instead, in words."""
        self._known: KnownPast | None = None

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

    def fitting(
        self, model: SourceModel, given: Mapping[str, np.ndarray], capacity: int
    ) -> int | None:
        """The capacity as far as tables of the model reach; None where masks do not grow so, or
        sequences have different lengths."""
        from explorer.compilation.settings.capacity import capacity_for
        from explorer.importers.model import sizes_of_inputs

        if self._uneven(model, given):
            return None
        try:
            return capacity_for(model, sizes_of_inputs(model, given), capacity)
        except (InputError, UnsupportedError):
            return capacity  # the compiler refuses it with a reason

    def options(
        self,
        model: SourceModel,
        given: Mapping[str, np.ndarray],
        options: CompileOptions,
        capacity: int | None,
    ) -> CompileOptions:
        """With the capacity. Without one there are no rows that are stored: decisions about them
        are for the other programs. One of the caller is for masks of ones, where it is for some."""
        from explorer.passes.states.narrow_past import NarrowPast, check_types

        decisions = options.get("decisions") or {}
        if options.get("capacity") is not None and self._uneven(model, given):
            options = {**options, "capacity": None}
        own = {a for a in decisions if a.split("/")[0] == NarrowPast.name}
        check_types(decisions)
        if capacity is not None:
            return {**options, "capacity": capacity}
        if own and options.get("capacity") is None:
            return {**options, "decisions": {a: decisions[a] for a in decisions if a not in own}}
        return options

    def sizes(
        self, model: SourceModel, dimensions: Mapping[str, int | Range]
    ) -> dict[str, int | Range]:
        """The sizes without those that a capacity says."""
        return {n: size for n, size in dimensions.items() if n not in self.dimensions(model)}

    def dimensions(self, model: SourceModel) -> frozenset[str]:
        """The names of the sizes that grow with the past."""
        return self._of(model).dimensions

    def why(self, given: Mapping[str, np.ndarray]) -> Iterator[str]:
        """Why a call has no program with a capacity, or another one, in words."""
        uneven = self._known is not None and self._uneven_masks(self._known, given)
        if uneven:
            yield f"{uneven} does not consist of ones: each length has a program of its own"
        yield from filter(None, (self.refused, self.opened))

    def _uneven(self, model: SourceModel, given: Mapping[str, np.ndarray]) -> str:
        """Masks that count rows and do not consist of ones; empty where there are none."""
        return self._uneven_masks(self._of(model), given)

    def _uneven_masks(self, known: KnownPast, given: Mapping[str, np.ndarray]) -> str:
        return " and ".join(name for name in known.full_masks if not is_full(given[name]))

    def _of(self, model: SourceModel) -> KnownPast:
        from explorer.compilation.settings.capacity import KnownPast, growing_states, known_past

        if self._known is None:
            try:
                self._known = known_past(model) if growing_states(model) else KnownPast()
            except UnsupportedError:  # it cannot be imported without sizes
                self._known = KnownPast()
        return self._known

    def kept(self, model: SourceModel) -> frozenset[str]:
        """Those that a capacity says."""
        return frozenset() if self.refused else self.dimensions(model)


@dataclass(frozen=True)
class GrownForm:
    """Types and shapes of the inputs of a program with a capacity, as `Session` has them by heart:
    an element type and a shape for each input, in their order."""

    places: tuple[tuple[np.dtype, tuple[Size, ...]], ...]
    text: str
    """Of the signature, for the log."""

    @classmethod
    def of(cls, signature: Signature, names: Sequence[str]) -> GrownForm:
        forms = {form.name: form for form in signature.forms}
        places = ((np.dtype(forms[n].element_type), forms[n].shape) for n in names)
        return cls(tuple(places), str(signature))

    def fits(self, form: tuple[object, ...]) -> bool:
        """Whether a call differs by the valid length only, and all inputs by the same."""
        rows = None
        for place, (kind, sizes) in enumerate(self.places):
            shape = form[2 * place + 1]
            assert isinstance(shape, tuple)
            if form[2 * place] != kind or len(shape) != len(sizes):
                return False
            for size, wanted in zip(shape, sizes, strict=True):
                if isinstance(wanted, int):
                    if size != wanted:
                        return False
                    continue
                own = size - wanted[0]
                if not wanted[0] <= size <= wanted[1] or own != (own if rows is None else rows):
                    return False
                rows = own
        return True


def ranges_of(length: ValidLength | None) -> dict[tuple[str, int], Range]:
    """The sizes of inputs that a program is right for, by input and axis."""
    if length is None:
        return {}
    most = length.capacity - length.rows
    return {(value.name, value.axis): (value.more, most + value.more) for value in length.inputs}
