"""onnxruntime on the same cases: what the oracle rejects or computes differently is not our fault.

A case that fails here and there is listed apart in the report: either onnx's expected numbers are
wrong, or the case is beyond what there is to compare with.
"""

from __future__ import annotations

from typing import Any

from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

from explorer.errors import ModelError
from explorer.references.onnx_runtime import open_proto
from explorer.references.reference_session import ReferenceSession

ORACLE = "ONNXRUNTIME"
"""Stands where a device's name does."""


class OracleRepresentation(BackendRep):
    """A model in onnxruntime without optimizations; it is loaded for every run, in a child process
    that all of them share."""

    def __init__(self, model: ModelProto) -> None:
        """ModelError where onnxruntime does not take the model."""
        self._model = model
        self._names = [i.name for i in model.graph.input]
        with _opened(model) as opened:
            self._inputs = opened.inputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        names = self._names if len(inputs) == len(self._names) else self._inputs
        with _opened(self._model) as opened:
            return tuple(opened.run(dict(zip(names, inputs, strict=False))).values())


def accepts(model: ModelProto) -> bool:
    """Whether onnxruntime takes a model: it knows the operators, and has them for these types."""
    try:
        _opened(model).close()
    except ModelError:
        return False
    return True


def _opened(model: ModelProto) -> ReferenceSession:
    return open_proto(model, model.graph.name, is_optimized=False)


class OracleBackend(Backend):
    """onnxruntime behind onnx's backend interface."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> OracleRepresentation:
        return OracleRepresentation(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"
