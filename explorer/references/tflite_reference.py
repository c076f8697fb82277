"""Who is right about TFLite models: LiteRT with its reference kernels, on one thread.

    TfliteReference().tensors(model, {"image": image}, ["conv1_out", "logits"])
        -> [("conv1_out", array), ("logits", array)]

Quantized tensors come as they are stored, so that integers are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.importers.model import SourceModel
from explorer.references.interface import OpenedModel, Reference
from explorer.references.lite_rt import (
    NAME,
    installed_version,
    open_alone,
    open_model,
    shared_process,
)


class TfliteReference(Reference):
    name = NAME

    @property
    def title(self) -> str:
        return " ".join(filter(None, (NAME, installed_version()))) + ", reference kernels"

    def start(self) -> None:
        if installed_version():
            shared_process().start()

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        """Computed tensors; those that are no arrays (resources, strings) are left out."""
        with open_model(model, is_reference=True) as opened:
            shown = [name for name in names if name in opened.outputs]
            found = opened.run(inputs, shown)
        return [(name, found[name]) for name in shown]

    def open(
        self,
        model: SourceModel,
        *,
        threads: int = 1,
        is_exact: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> OpenedModel:
        del is_exact, sizes
        return open_alone(model, threads=threads)
