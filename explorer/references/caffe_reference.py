"""Who is right about Caffe nets: OpenCV 4, layer by layer, on one thread.

CaffeReference().tensors(model, {"data": image}, ["conv1", "prob"])
    -> [("conv1", array), ("prob", array)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.importers.model import SourceModel, bind_dimensions, with_sizes
from explorer.references.interface import OpenedModel, Reference
from explorer.references.open_cv import (
    NAME,
    open_alone,
    open_cv_version,
    open_net,
    shared_process,
)


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
        return [(name, found[name]) for name in names]

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
