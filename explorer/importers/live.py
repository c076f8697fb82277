"""Models of all kinds that a call takes: files, what was loaded, modules of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.importers import SourceModel, load
from explorer.importers.pytorch.exporting import is_live, read_live

if TYPE_CHECKING:
    from explorer.files import ModelPath
    from explorer.importers import InputValue
    from explorer.importers.pytorch.live import TorchModel


def load_any(
    model: SourceModel | ModelPath | TorchModel,
    inputs: Mapping[str, InputValue] | None = None,
    weights: str | Path | None = None,
    *,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
) -> SourceModel:
    """What `explorer.load` returns for it; a loaded model is itself."""
    if isinstance(model, SourceModel):
        return model
    if is_live(model):
        return read_live(model, args, kwargs, dynamic_shapes)
    return load(model, inputs, weights)  # pyright: ignore[reportArgumentType]  or refused
