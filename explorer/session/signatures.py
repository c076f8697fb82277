"""What a program was made for: element types and shapes of all inputs, and contents of some.

    made_for = Signature.of({"x": x, "axes": axes}, contents=("axes",))
    made_for.fits({"x": y, "axes": axes})          True, where y has x's shape and type
    made_for.differences({"x": longer, "axes": axes})
        ("axis 0 of x is 4, not 1",)

Contents belong to it where they decide a shape (`specialized_inputs` of an entry function). A
dimension that a program was compiled for a range of fits every size of the range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from explorer.ir.padding import is_full
from explorer.runtime.cache.requests import preview_of

Size = int | tuple[int, int]
"""One size, or the least and the largest of a range."""


@lru_cache(maxsize=64)
def type_name(dtype: np.dtype) -> str:
    """`float32`; NumPy makes the text anew each time."""
    return dtype.name


@dataclass(frozen=True)
class Form:
    """Element type and shape of one input."""

    name: str
    element_type: str
    shape: tuple[Size, ...]

    def differences(self, array: np.ndarray) -> list[str]:
        """How an array does not fit, in words."""
        found = []
        if type_name(array.dtype) != self.element_type:
            found.append(f"{self.name} is {type_name(array.dtype)}, not {self.element_type}")
        if array.ndim != len(self.shape):
            return [*found, f"{self.name} has {array.ndim} axes, not {len(self.shape)}"]
        for axis, (size, expected) in enumerate(zip(array.shape, self.shape, strict=True)):
            if isinstance(expected, tuple):
                if not expected[0] <= size <= expected[1]:
                    words = f"within {expected[0]}..{expected[1]}"
                    found.append(f"axis {axis} of {self.name} is {size}, not {words}")
            elif size != expected:
                found.append(f"axis {axis} of {self.name} is {size}, not {expected}")
        return found

    def __str__(self) -> str:
        sizes = (f"{s[0]}..{s[1]}" if isinstance(s, tuple) else str(s) for s in self.shape)
        return f"{self.name}: {self.element_type} {'×'.join(sizes) or 'scalar'}"


@dataclass(frozen=True)
class Signature:
    """Equal signatures have equal programs."""

    forms: tuple[Form, ...]
    contents: tuple[tuple[str, bytes, str], ...] = ()
    """Name, bytes, and how they read."""
    full_masks: tuple[str, ...] = ()
    """Inputs that consist of ones."""

    @staticmethod
    def of(
        inputs: Mapping[str, np.ndarray],
        contents: Sequence[str] = (),
        ranges: Mapping[tuple[str, int], tuple[int, int]] | None = None,
        full_masks: tuple[str, ...] = (),
    ) -> Signature:
        """contents: inputs of which elements count. ranges: by input and axis, instead of a size.
        full_masks: inputs that are right with ones only."""
        ranges = ranges or {}
        forms = tuple(
            Form(
                name,
                type_name(array.dtype),
                tuple(ranges.get((name, axis)) or size for axis, size in enumerate(array.shape)),
            )
            for name, array in inputs.items()
        )
        return Signature(
            forms,
            tuple((n, inputs[n].tobytes(), preview_of(inputs[n])) for n in contents),
            full_masks,
        )

    def has_full_masks(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether masks that must consist of ones do."""
        return all(is_full(inputs[name]) for name in self.full_masks)

    def fits(self, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether a program of this signature is right for these inputs."""
        return not self.differences(inputs)

    def differences(self, inputs: Mapping[str, np.ndarray]) -> tuple[str, ...]:
        """How these inputs differ from what the program was made for; nothing where they fit."""
        own = [form.name for form in self.forms]
        if own != list(inputs):
            return (f"the inputs are {', '.join(inputs)}, not {', '.join(own)}",)
        found = [words for form in self.forms for words in form.differences(inputs[form.name])]
        for name, stored, preview in self.contents:
            if inputs[name].tobytes() != stored:
                now = preview_of(inputs[name])
                found.append(f"{name}, which decides a shape, holds {now}, not {preview}")
        if not self.has_full_masks(inputs):
            found.append(f"{' and '.join(self.full_masks)} has other numbers than 1")
        return tuple(found)

    def __str__(self) -> str:
        contents = (f"{name} = {preview}" for name, _, preview in self.contents)
        return ", ".join([*map(str, self.forms), *contents])
