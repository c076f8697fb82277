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
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self._names = [i.name for i in model.graph.input]
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = self._session.get_inputs()
        names = self._names if len(inputs) == len(self._names) else [i.name for i in given]
        # NumPy's scalars are no arrays to onnxruntime.
        arrays = [np.asarray(i) if isinstance(i, np.generic) else i for i in inputs]
        return tuple(self._session.run(None, dict(zip(names, arrays, strict=False))))


class OracleBackend(Backend):
    """onnxruntime behind onnx's backend interface."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> OracleRepresentation:
        return OracleRepresentation(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"
