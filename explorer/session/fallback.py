"""Answers without a compiled program: through onnxruntime, or through the IR's NumPy meaning.

fallback = Fallback(model)
fallback.run({"image": x})      {"scores": array}
fallback.name                   "onnxruntime"; "interpreter" where it cannot load the model
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.errors import InputError, ModelError

if TYPE_CHECKING:
    from explorer.importers import SourceModel

KINDS = ("onnxruntime", "interpreter")


class Fallback:
    """Prepared with the first call, which is when `model` is asked for where it is a function.

    `threads`: of onnxruntime.
    """

    def __init__(
        self,
        model: SourceModel | Callable[[], SourceModel],
        wanted: str = KINDS[0],
        threads: int = 1,
    ) -> None:
        if wanted not in KINDS:
            raise InputError(f"unknown fallback {wanted!r}", hint=f"one of {', '.join(KINDS)}")
        self._given = model
        self._threads = threads
        self._runtime: Any = None  # onnxruntime's session
        self.name = wanted
        self.reason = ""
        """Why it is not the one that was wanted."""

    @property
    def _model(self) -> SourceModel:
        if callable(self._given):
            self._given = self._given()
        return self._given

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name. ModelError where nothing can run the model."""
        if self.name == "onnxruntime" and self._runtime is None:
            try:
                self._runtime = self._load()
            except ModelError as error:
                self.name, self.reason = "interpreter", str(error)
        if self._runtime is None:
            return self._interpret(inputs)
        from explorer.accuracy.oracle import runtime_errors

        names = [output.name for output in self._runtime.get_outputs()]
        try:
            return dict(zip(names, self._runtime.run(names, dict(inputs)), strict=True))
        except runtime_errors() as error:
            raise ModelError(f"onnxruntime cannot run the model: {error}") from error

    def _load(self) -> Any:
        import onnxruntime
        from onnx import ModelProto

        from explorer.accuracy.exact_bytes import EXACT_BYTES
        from explorer.accuracy.oracle import NEWEST_FORMAT, runtime_errors
        from explorer.importers.onnx.reading import OnnxContent

        content = self._model.content
        if not isinstance(content, OnnxContent):
            raise ModelError(f"onnxruntime reads no {self._model.format}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.log_severity_level = 4
        options.add_session_config_entry(*EXACT_BYTES)
        path, proto = self._model.path, content.proto
        if path is None or proto.ir_version > NEWEST_FORMAT:
            older = ModelProto()
            older.CopyFrom(proto)
            older.ir_version = min(proto.ir_version, NEWEST_FORMAT)
            file: str | bytes = older.SerializeToString()
        else:
            file = str(path)
        try:
            return onnxruntime.InferenceSession(
                file,
                options,
                providers=["CPUExecutionProvider"],
            )
        except runtime_errors() as error:
            raise ModelError(
                f"onnxruntime cannot load the model: {str(error).splitlines()[0]}"
            ) from error

    def _interpret(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from explorer.importers import to_top
        from explorer.ir.evaluation import outputs_by_name
        from explorer.ir.program import Snapshot

        module, weights = to_top(replace(self._model, assumed=dict(inputs)))
        snapshot = Snapshot(module, weights)
        return outputs_by_name(snapshot.program, snapshot.run(inputs))
