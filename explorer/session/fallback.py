"""Answers without a compiled program: through who is right about the model's format, or through the
IR's NumPy meaning.

fallback = Fallback(model)
fallback.run({"image": x})      {"scores": array}
fallback.name                   "onnxruntime"; "interpreter" where it cannot load the model, or
                                died of it (it runs in a child process)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from explorer.errors import InputError, ModelError

if TYPE_CHECKING:
    from explorer.importers import SourceModel
    from explorer.references.interface import OpenedModel

REFERENCE = "reference"
INTERPRETER = "interpreter"
KINDS = (REFERENCE, "onnxruntime", INTERPRETER)
"""What may be asked for; `reference` is onnxruntime for ONNX models."""


class Fallback:
    """Prepared with the first call, which is when `model` is asked for where it is a function.

    `threads`: of the reference. Safe for threads; close it, which ends its child.
    """

    def __init__(
        self,
        model: SourceModel | Callable[[], SourceModel],
        wanted: str = REFERENCE,
        threads: int = 1,
    ) -> None:
        if wanted not in KINDS:
            raise InputError(f"unknown fallback {wanted!r}", hint=f"one of {', '.join(KINDS)}")
        self._given = model
        self._threads = threads
        self._lock = threading.Lock()  # of the child, which answers one call after another
        self._opened: OpenedModel | None = None
        self.name = wanted
        """Who answers; since the first call by name."""
        self.reason = ""
        """Why it is not the one that was wanted."""

    @property
    def _model(self) -> SourceModel:
        if callable(self._given):
            self._given = self._given()
        return self._given

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name. ModelError where nothing can run the model."""
        with self._lock:
            if self.name != INTERPRETER:
                try:
                    return self._open().run(inputs)
                except ModelError as error:
                    # It does not load the model, or died of it, and would do so again.
                    if self._opened is not None and self._opened.is_alive:
                        raise
                    self.name, self.reason = INTERPRETER, str(error)
        return self._interpret(inputs)

    def close(self) -> None:
        """Ends the child, where one was started."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _open(self) -> OpenedModel:
        from explorer.references.interface import reference_of

        if self._opened is None:
            judge = reference_of(self._model)
            if self.name not in (REFERENCE, judge.name):
                raise ModelError(f"{self.name} runs no {self._model.format} models")
            self._opened = judge.open(self._model, threads=self._threads, is_exact=True)
            self.name = judge.name
        return self._opened

    def _interpret(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from explorer.importers import to_top
        from explorer.ir.evaluation import outputs_by_name
        from explorer.ir.program import Snapshot

        module, weights = to_top(replace(self._model, assumed=dict(inputs)))
        snapshot = Snapshot(module, weights)
        return outputs_by_name(snapshot.program, snapshot.run(inputs))
