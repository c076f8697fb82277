"""onnxruntime as a side of a measurement, in a process of its own.

    with OnnxRuntime(model, inputs, threads=2) as runtime:
        runtime.time(least=5, budget_seconds=0.02)      [0.0011, 0.0010, ...]
        runtime.run()                                   {"scores": array}

Inferences are timed in that process: no figure contains what arrays take on their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from explorer.cli.latency import ONNXRUNTIME, ONNXRUNTIME_EXACT
from explorer.errors import ModelError
from explorer.importers import SourceModel
from explorer.importers.model import symbolic_dimensions
from explorer.importers.onnx.reading import OnnxContent
from explorer.references.onnx_runtime import open_model, own_process


class OnnxRuntime:
    """A session as it is by default, its sizes fixed to those of the inputs. Close it, or use it
    in a `with` statement."""

    def __init__(
        self,
        model: SourceModel,
        inputs: Mapping[str, np.ndarray],
        threads: int,
        is_exact: bool = False,
    ) -> None:
        """ModelError where onnxruntime does not load the model, or dies of it.

        is_exact: its products of bytes are right on every processor, which is not its default.
        """
        self.name = ONNXRUNTIME_EXACT if is_exact else ONNXRUNTIME
        self._inputs = dict(inputs)
        self._process = own_process()
        try:
            sizes = sizes_of(model, inputs)
            self._opened = open_model(
                model, is_exact=is_exact, threads=threads, sizes=sizes, process=self._process
            )
        except BaseException as error:
            self._process.close()
            if isinstance(error, ModelError):
                error.hint = "measure against another one, --against openvino"
            raise

    def time(self, least: int, budget_seconds: float) -> list[float]:
        return self._opened.time(self._inputs, least, budget_seconds)

    def run(self) -> dict[str, np.ndarray]:
        """Outputs by name. ModelError where it fails."""
        return self._opened.run(self._inputs)

    def close(self) -> None:
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()


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
