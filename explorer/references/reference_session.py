"""A model that is open in a child process: what the references of all formats do with it.

    with ReferenceSession(process, {"do": "open", ...}, content, "net", "net.onnx") as opened:
        opened.run({"image": image}, ["logits"])

The child answers {"do": "open" | "run" | "time" | "close"} (`serving.py`); to "open" with the names
of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.closing import Closing
from explorer.errors import ModelError
from explorer.references.process import ReferenceProcess


class ReferenceSession(Closing):
    """A model in a child, which nobody else asks until it is closed (`interface.OpenedModel`)."""

    def __init__(self, process: ReferenceProcess, request: dict[str, Any], model: bytes,
                 label: str, file: str) -> None:  # fmt: skip
        """`label`: the model's name in messages; `file`: its path, empty where it has none."""
        self.name = process.name
        self._process = process
        self._label, self._file = label, file
        self._sent: Mapping[str, np.ndarray] | None = None
        self._end: ModelError | None = None
        process.claim()
        try:
            process.forget_ended()
            process.exchange.clear()
            opened = self._ask({**request, "model": process.exchange.put(model)}, "load")
        except BaseException:
            process.release()
            raise
        self.inputs: tuple[str, ...] = tuple(opened["inputs"])
        self.outputs: dict[str, str] = dict(opened["outputs"])
        """The program's types of the outputs by name: `tensor(float)`."""
        self._is_open = True
        self.owns_process = False
        """Whether the child ends with the model."""

    @property
    def is_alive(self) -> bool:
        return self._end is None

    def run(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Outputs by name: arrays, or what else the format has. ModelError where that fails."""
        names = list(self.outputs if outputs is None else outputs)
        exchange = self._process.exchange
        request = {"do": "run", "inputs": self._put(inputs), "outputs": names}
        values = self._ask(request, "run")["values"]
        try:
            return {name: exchange.take(v) for name, v in zip(names, values, strict=True)}
        finally:
            exchange.clear()

    def time(
        self, inputs: Mapping[str, np.ndarray], least: int, budget_seconds: float
    ) -> list[float]:
        request = {"do": "time", "least": least, "budget_seconds": budget_seconds}
        return self._ask({**request, "inputs": self._put(inputs)}, "run")["seconds"]

    def close(self) -> None:
        """The child forgets the model, and may be asked by others."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._process.leave()
        finally:
            self._process.release()
            if self.owns_process:
                self._process.close()

    def _put(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """None where the child has them already."""
        if inputs is self._sent:
            return None
        self._process.exchange.clear()
        described = self._process.put_all(inputs)
        self._sent = inputs
        return described

    def _ask(self, request: dict[str, Any], doing: str) -> Any:
        if self._end is not None:  # the next child has never seen the model
            raise self._end
        try:
            return self._process.ask(request, doing, self._label, self._file)
        except ModelError as error:
            if not self._process.is_running:
                self._end = error
            self._sent = None
            raise
