"""Large arrays that are made in the background while the compiler goes on.

    later = Deferred(ArrayForm((64, 3, 7, 7), np.dtype("float32")), make, recipe=("scaled", "w"))
    background.start(later)
    later.array()                made by now, or made here

Passes that change weights know their shapes at once and their numbers only when somebody looks.
NumPy computes without Python's lock, so that folding and packing cost the passes no time where
there is a second processor.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

IDLE_SECONDS = 0.5
"""After that long without work the thread ends; the next array starts another one."""


@dataclass(frozen=True)
class ArrayForm:
    """What is known of an array before it is made."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Deferred:
    """An array of a known form, made once: in the background, or by whoever needs it first."""

    def __init__(
        self, form: ArrayForm, make: Callable[[], np.ndarray], recipe: Hashable = None
    ) -> None:
        """`recipe` says what `make` does and with what: equal recipes make equal arrays."""
        self.form = form
        self.recipe = recipe
        self._make: Callable[[], np.ndarray] | None = make
        self._array: np.ndarray | None = None
        self._lock = threading.Lock()

    def array(self) -> np.ndarray:
        """The read-only array; what making it raises, this raises each time."""
        if self._array is None:
            with self._lock:
                if self._make is not None:
                    self._array = self._made(self._make())
                    self._make = None  # what it was made from may go
        assert self._array is not None
        return self._array

    def _made(self, array: np.ndarray) -> np.ndarray:
        if (array.shape, array.dtype) != (self.form.shape, self.form.dtype):
            raise ValueError(f"{array.shape} {array.dtype} was made instead of {self.form}")
        return read_only(array)


class Background:
    """Makes deferred arrays one after the other, in a thread that lives while there is work."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Deferred] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_working = False

    def start(self, deferred: Deferred) -> None:
        """Puts an array behind those that wait."""
        with self._lock:
            self._waiting.put(deferred)
            if self._is_working:
                return
            self._is_working = True
        # A daemon: an interpreter that ends does not wait for numbers that nobody wants.
        threading.Thread(target=self._work, name="explorer-weights", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                deferred = self._waiting.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._is_working = False
                        return
                continue
            try:
                deferred.array()
            except Exception:  # whoever asks for the array meets it again, where it can be told
                continue
            finally:
                del deferred


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, or a view of it that nobody can write through."""
    frozen = np.asarray(array)
    if frozen.flags.writeable:
        frozen = frozen.view()
        frozen.flags.writeable = False
    return frozen
