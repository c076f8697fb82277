"""Weights live beside the IR: named, read-only arrays that snapshots share.

`top.weight` refers to a weight by name. A pass that changes one adds a new one; names are never
reused for other contents, so that every earlier snapshot stays executable. Large ones may be made
later (`deferred.py`): their form is known at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

import numpy as np

from explorer.ir.deferred import ArrayForm, Background, Deferred, read_only

MIN_DEFERRED_BYTES = 1 << 16
"""Smaller arrays are made at once: that takes no longer than to hand them over."""


class Weights(Mapping[str, np.ndarray]):
    """An append-only store of read-only arrays."""

    def __init__(self, arrays: Mapping[str, np.ndarray] | None = None):
        self._arrays: dict[str, np.ndarray | Deferred] = {}
        self._background = Background()
        for name, array in (arrays or {}).items():
            self.add(name, array)

    def add(self, name: str, array: np.ndarray) -> str:
        """Stores the array under `name`, or `name.2`, `name.3` ... if taken; returns the name.

        An equal name with the very same contents is shared instead of stored again.
        """
        frozen = read_only(array)
        chosen, attempt = name, 1
        while chosen in self._arrays:
            present = self[chosen]
            if present is frozen or _same(present, frozen):
                return chosen
            attempt += 1
            chosen = f"{name}.{attempt}"
        self._arrays[chosen] = frozen
        return chosen

    def add_later(
        self, name: str, form: ArrayForm, make: Callable[[], np.ndarray], recipe: Hashable
    ) -> str:
        """As `add` of what `make` returns, which is called in the background if it is large.

        `recipe`: what `make` does, with the names of the weights that it reads; an equal name
        with an equal recipe is shared without looking at the contents.
        """
        present = self._arrays.get(name)
        if isinstance(present, Deferred) and present.recipe == recipe:
            return name
        if present is not None or form.size_bytes < MIN_DEFERRED_BYTES:
            return self.add(name, make())
        self._arrays[name] = self.later(form, make, recipe)
        return name

    def later(
        self, form: ArrayForm, make: Callable[[], np.ndarray], recipe: Hashable = None
    ) -> Deferred:
        """An array beside the store; a large one is made in the background, after those here."""
        deferred = Deferred(form, make, recipe)
        if form.size_bytes >= MIN_DEFERRED_BYTES:
            self._background.start(deferred)
        return deferred

    def form(self, name: str) -> ArrayForm:
        """Shape and element type, without waiting for the array."""
        stored = self._arrays[name]
        if isinstance(stored, Deferred):
            return stored.form
        return ArrayForm(stored.shape, stored.dtype)

    def copy(self) -> Weights:
        """A store that can grow on its own; the arrays are shared."""
        other = Weights()
        other._arrays = dict(self._arrays)
        return other

    def __getitem__(self, name: str) -> np.ndarray:
        stored = self._arrays[name]
        return stored.array() if isinstance(stored, Deferred) else stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        size = sum(self.form(name).size_bytes for name in self)
        return f"Weights({len(self)} arrays, {size} bytes)"


def is_splat(array: np.ndarray) -> bool:
    """Is it one number everywhere, by its strides alone?"""
    return array.size > 0 and all(
        n == 1 or s == 0 for n, s in zip(array.shape, array.strides, strict=True)
    )


def splat(array: np.ndarray) -> np.ndarray:
    """A splat that holds its number once, and nothing else."""
    number = np.array(array.reshape(-1)[0])
    return np.broadcast_to(number, array.shape)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit by bit: a NaN is equal to itself, and -0.0 is not 0.0."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    left, right = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
    return np.array_equal(left, right)
