"""Passes over `top`, one per file, and the order in which they run.

`TOP_PIPELINE` is that order as plain data; `top_pipeline` makes the passes of one compilation.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.passes import Pass
from explorer.passes.bind_dimensions import BindDimensions
from explorer.passes.eliminate_common_subexpressions import EliminateCommonSubexpressions
from explorer.passes.eliminate_dead_code import EliminateDeadCode
from explorer.passes.fold_batch_norm import FoldBatchNorm
from explorer.passes.fold_constants import FoldConstants
from explorer.passes.fuse_activation import FuseActivation
from explorer.passes.fuse_bias import FuseBias
from explorer.passes.fuse_residual import FuseResidual
from explorer.passes.infer_shapes import InferShapes
from explorer.passes.legalize import Legalize
from explorer.passes.push_transposes import PushTransposes
from explorer.passes.recognize_activations import RecognizeActivations
from explorer.passes.remove_no_ops import RemoveNoOps

TOP_PIPELINE: tuple[type[Pass], ...] = (
    BindDimensions,
    InferShapes,
    FoldConstants,
    RemoveNoOps,
    EliminateCommonSubexpressions,
    FoldBatchNorm,
    RecognizeActivations,
    PushTransposes,
    FuseBias,
    FuseResidual,
    FuseActivation,
    Legalize,
    EliminateDeadCode,
)


def top_pipeline(sizes: Mapping[str, int], default: int | None = 1) -> list[Pass]:
    """The passes over `top` in order.

    sizes: of symbolic dimensions, by name; default: of inputs' first dimensions that have none
    (None makes that an error).
    """
    return [
        BindDimensions(sizes, default) if kind is BindDimensions else kind()
        for kind in TOP_PIPELINE
    ]


__all__ = ["TOP_PIPELINE", "top_pipeline"]
