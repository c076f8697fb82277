"""Weights live beside the IR: named, read-only arrays that snapshots share.

`top.weight` refers to a weight by name. A pass that changes one adds a new one; names are never
reused for other contents, so that every earlier snapshot stays executable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np


class Weights(Mapping[str, np.ndarray]):
    """An append-only store of read-only arrays."""

    def __init__(self, arrays: Mapping[str, np.ndarray] | None = None):
        self._arrays: dict[str, np.ndarray] = {}
        for name, array in (arrays or {}).items():
            self.add(name, array)

    def add(self, name: str, array: np.ndarray) -> str:
        """Stores the array under `name`, or `name.2`, `name.3` ... if taken; returns the name.

        An equal name with the very same contents is shared instead of stored again.
        """
        frozen = np.asarray(array)
        if frozen.flags.writeable:
            frozen = frozen.view()
            frozen.flags.writeable = False
        chosen, attempt = name, 1
        while chosen in self._arrays:
            present = self._arrays[chosen]
            if present is frozen or _same(present, frozen):
                return chosen
            attempt += 1
            chosen = f"{name}.{attempt}"
        self._arrays[chosen] = frozen
        return chosen

    def copy(self) -> Weights:
        """A store that can grow on its own; the arrays are shared."""
        other = Weights()
        other._arrays = dict(self._arrays)
        return other

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        size = sum(a.nbytes for a in self._arrays.values())
        return f"Weights({len(self)} arrays, {size} bytes)"


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit by bit: a NaN is equal to itself, and -0.0 is not 0.0."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    left, right = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    return np.array_equal(left, right)
