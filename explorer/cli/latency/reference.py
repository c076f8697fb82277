"""Who is right about a model's format as a side of a measurement, in a process of its own.

    with ReferenceSide(model, inputs, threads=2) as runtime:
        runtime.time(least=5, budget_seconds=0.02)      [0.0011, 0.0010, ...]
        runtime.run()                                   {"scores": array}

Inferences are timed in that process: no figure contains what arrays take on their way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.cli.latency import EXACT
from explorer.closing import Closing
from explorer.errors import ModelError
from explorer.importers import SourceModel
from explorer.importers.model import sizes_of_inputs
from explorer.importers.onnx.file.reading import OnnxContent
from explorer.references.interface import reference_of


class ReferenceSide(Closing):
    """As its users run it, its sizes fixed to those of the inputs: onnxruntime, LiteRT, OpenCV.
    Close it, or use it in a `with` statement."""

    def __init__(
        self,
        model: SourceModel,
        inputs: Mapping[str, np.ndarray],
        threads: int,
        is_exact: bool = False,
    ) -> None:
        """ModelError where it does not load the model, or dies of it.

        is_exact: its products of bytes are right on every processor, which is not its default.
        """
        reference = reference_of(model)
        self.name = EXACT if is_exact else reference.name
        self._inputs = dict(inputs)
        states = {state.output for state in model.states if state.initial is not None}
        self._shown = [v.name for v in model.outputs if v.name not in states]
        sizes = sizes_of_inputs(model, inputs)
        try:
            self._opened = reference.open(model, threads=threads, is_exact=is_exact, sizes=sizes)
        except ModelError as error:
            if isinstance(model.content, OnnxContent):
                error.hint = "measure against another one, --against openvino"
            raise

    def time(self, least: int, budget_seconds: float) -> list[float]:
        return self._opened.time(self._inputs, least, budget_seconds)

    def run(self) -> dict[str, np.ndarray]:
        """Outputs by name, without states. ModelError where it fails."""
        return self._opened.run(self._inputs, self._shown)

    def close(self) -> None:
        self._opened.close()


def onnx_content(model: SourceModel) -> OnnxContent:
    """What OpenVINO reads. ModelError for a model of another format."""
    if not isinstance(model.content, OnnxContent):
        raise ModelError(f"other runtimes read no {model.format} models")
    return model.content
