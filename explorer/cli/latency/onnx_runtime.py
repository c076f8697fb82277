"""onnxruntime as a side of a measurement.

runtime = OnnxRuntime.of(model, inputs, threads=2)
runtime.call()          {"scores": array}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from explorer.accuracy.exact_bytes import EXACT_BYTES
from explorer.accuracy.oracle import runtime_errors
from explorer.cli.latency import ONNXRUNTIME, ONNXRUNTIME_EXACT
from explorer.cli.latency.rounds import Calls
from explorer.errors import ModelError
from explorer.importers import SourceModel
from explorer.importers.model import symbolic_dimensions
from explorer.importers.onnx.reading import OnnxContent


@dataclass(frozen=True)
class OnnxRuntime:
    """A session as it is by default, its sizes fixed to those of the inputs."""

    session: Any  # onnxruntime has no types
    inputs: Mapping[str, np.ndarray]
    is_exact: bool = False

    @staticmethod
    def of(
        model: SourceModel,
        inputs: Mapping[str, np.ndarray],
        threads: int,
        is_exact: bool = False,
    ) -> OnnxRuntime:
        """ModelError where onnxruntime does not load it.

        is_exact: its products of bytes are right on every processor, which is not its default.
        """
        import onnxruntime

        content = onnx_content(model)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        settings.log_severity_level = 4
        if is_exact:
            settings.add_session_config_entry(*EXACT_BYTES)
        for name, size in sizes_of(model, inputs).items():
            settings.add_free_dimension_override_by_name(name, size)
        if content.folder is not None:
            key = "session.model_external_initializers_file_folder_path"
            settings.add_session_config_entry(key, str(content.folder))
        try:
            session = onnxruntime.InferenceSession(
                content.proto.SerializeToString(), settings, providers=["CPUExecutionProvider"]
            )
        except runtime_errors() as error:
            line = str(error).splitlines()[0]
            raise ModelError(f"onnxruntime cannot load the model: {line}") from error
        return OnnxRuntime(session, dict(inputs), is_exact)

    def run(self) -> dict[str, np.ndarray]:
        """Outputs by name. ModelError where it fails."""
        names = [output.name for output in self.session.get_outputs()]
        try:
            return dict(zip(names, self.session.run(None, self.inputs), strict=True))
        except runtime_errors() as error:
            line = str(error).splitlines()[0]
            raise ModelError(f"onnxruntime cannot run the model: {line}") from error

    @property
    def side(self) -> Calls:
        name = ONNXRUNTIME_EXACT if self.is_exact else ONNXRUNTIME
        return Calls(name, partial(self.session.run, None, self.inputs))


def onnx_content(model: SourceModel) -> OnnxContent:
    """What other runtimes read. ModelError for a model of another format."""
    if not isinstance(model.content, OnnxContent):
        raise ModelError(f"other runtimes read no {model.format}")
    return model.content


def sizes_of(model: SourceModel, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The sizes of symbolic dimensions that the inputs have."""
    return {
        dimension: inputs[value.name].shape[axis]
        for value in model.inputs
        for axis, dimension in enumerate(value.shape or ())
        if isinstance(dimension, str) and dimension in symbolic_dimensions(model)
    }
