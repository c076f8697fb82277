"""onnxruntime on the same cases: what the oracle rejects or computes differently is not our fault.

A case that fails here and there is listed apart in the report: either onnx's expected numbers are
wrong, or the case is beyond what there is to compare with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep

ORACLE = "ONNXRUNTIME"
"""Stands where a device's name does."""


class OracleRepresentation(BackendRep):
    """A session of onnxruntime without optimizations."""

    def __init__(self, model: ModelProto) -> None:
        self._names = [i.name for i in model.graph.input]
        self._session = _session(model)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = self._session.get_inputs()
        names = self._names if len(inputs) == len(self._names) else [i.name for i in given]
        # NumPy's scalars are no arrays to onnxruntime.
        arrays = [np.asarray(i) if isinstance(i, np.generic) else i for i in inputs]
        return tuple(self._session.run(None, dict(zip(names, arrays, strict=False))))


_REFUSALS = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")
"""onnxruntime's exceptions when a session is made; compiled code, which declares none of them."""


def accepts(model: ModelProto) -> bool:
    """Whether onnxruntime takes a model: it knows the operators, and has them for these types."""
    import onnxruntime.capi.onnxruntime_pybind11_state as states

    refusals = tuple(getattr(states, name) for name in _REFUSALS)
    try:
        _session(model)
    except refusals:
        return False
    return True


def _session(model: ModelProto) -> Any:  # onnxruntime has no types
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


class OracleBackend(Backend):
    """onnxruntime behind onnx's backend interface."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> OracleRepresentation:
        return OracleRepresentation(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"
