"""What `torch.compile` makes of a graph, as a side of a measurement, in a process of its own.

with TorchCompile(model, inputs, threads=2) as compiled:
    compiled.time(least=5, budget_seconds=0.02)     [0.0011, 0.0010, ...]
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.cli.latency import TORCH_COMPILE
from explorer.closing import Closing
from explorer.importers import SourceModel
from explorer.references.torch_graph import open_alone


class TorchCompile(Closing):
    """PyTorch's own compiler (inductor). Close it, or use it in a `with` statement."""

    def __init__(self, model: SourceModel, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        """ModelError where PyTorch is not installed or does not take the graph."""
        self.name = TORCH_COMPILE
        self._inputs = dict(inputs)
        self._opened = open_alone(model, threads=threads, compiles=True)

    def time(self, least: int, budget_seconds: float) -> list[float]:
        return self._opened.time(self._inputs, least, budget_seconds)

    def close(self) -> None:
        self._opened.close()
