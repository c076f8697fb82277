"""Who is right about programs of torch.export: PyTorch's kernels, node by node, on one thread.

TorchReference().tensors(model, {"x": image}, ["conv2d", "linear"])
    -> [("conv2d", array), ("linear", array)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from explorer.importers.model import SourceModel
from explorer.references.interface import OpenedModel, Reference
from explorer.references.parts import NoPart, Part
from explorer.references.torch_graph import (
    NAME,
    open_alone,
    open_graph,
    shared_process,
    torch_version,
)
from explorer.references.torch_parts import torch_parts


class TorchReference(Reference):
    name = NAME

    def __init__(self) -> None:
        self.title = " ".join(filter(None, (NAME, torch_version()))) + ", node by node"

    def start(self) -> None:
        if torch_version():
            shared_process().start()

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        with open_graph(model) as opened:
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
        del is_exact, sizes  # nothing makes it faster and less exact, or needs sizes
        return open_alone(model, threads=threads)

    def parts(
        self, model: SourceModel, values: Mapping[str, np.ndarray]
    ) -> Iterator[Part | NoPart]:
        return torch_parts(model, values)
