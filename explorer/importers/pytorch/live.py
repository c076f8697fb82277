"""What PyTorch has in memory, as types: nothing here loads it, and it need not be installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Module(Protocol):
    """A `torch.nn.Module`."""

    training: bool

    # What torch declares differs from release to release.
    forward: Callable[..., Any]

    def named_modules(self, *arguments: Any, **named: Any) -> Any: ...


class ExportedProgram(Protocol):
    """A `torch.export.ExportedProgram`."""

    @property
    def graph_signature(self) -> Any: ...

    def module(self, *arguments: Any, **named: Any) -> Any: ...


TorchModel = Module | ExportedProgram
