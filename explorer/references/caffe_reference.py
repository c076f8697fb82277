"""Who is right about Caffe nets: OpenCV 4, layer by layer, on one thread.

CaffeReference().tensors(model, {"data": image}, ["conv1", "prob"])
    -> [("conv1", array), ("prob", array)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from explorer.importers.model import SourceModel, bind_dimensions, with_sizes
from explorer.references.caffe_parts import caffe_parts
from explorer.references.interface import OpenedModel, Reference
from explorer.references.open_cv import (
    NAME,
    content_of,
    open_alone,
    open_cv_version,
    open_net,
    shared_process,
)
from explorer.references.parts import NoPart, Part


class CaffeReference(Reference):
    name = NAME

    def __init__(self) -> None:
        self.title = " ".join(filter(None, (NAME, open_cv_version()))) + ", layers not fused"

    def start(self) -> None:
        if open_cv_version():
            shared_process().start()

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        sizes = {name: array.shape for name, array in inputs.items()}
        with open_net(model, sizes, is_exact=True) as opened:
            found = opened.run(inputs, names)
        detected = _detected(model)
        return [(n, _as_caffe(found[n]) if n in detected else found[n]) for n in names]

    def open(
        self,
        model: SourceModel,
        *,
        threads: int = 1,
        is_exact: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> OpenedModel:
        known = bind_dimensions(model, sizes or {})
        shapes = {
            value.name: tuple(int(size) for size in with_sizes(value.shape or (), known))
            for value in model.inputs
        }
        return open_alone(model, shapes, threads=threads, is_exact=is_exact)

    def parts(
        self, model: SourceModel, values: Mapping[str, np.ndarray]
    ) -> Iterator[Part | NoPart]:
        return caffe_parts(model, values)


def _detected(model: SourceModel) -> set[str]:
    """What layers give whose results have as many rows as something was found."""
    flows = [flow for flow in content_of(model).flows if flow.layer.kind == "DetectionOutput"]
    return {name for flow in flows for name in flow.outputs}


def _as_caffe(rows: np.ndarray) -> np.ndarray:
    """Detections (1, 1, R, 7) as Caffe gives them: by image, class and score, without the zeros
    behind them; a row of -1 where there are none (for one image). OpenCV has room for as many as
    there may be, and sorts those of all classes by their scores."""
    flat = rows.reshape(-1, 7)
    flat = flat[flat.any(1)]
    order = np.lexsort((-flat[:, 2], flat[:, 1], flat[:, 0]))
    found = flat[order] if len(flat) else np.array([[0, *[-1] * 6]], rows.dtype)
    return found[np.newaxis, np.newaxis]
