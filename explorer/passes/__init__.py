"""Passes over `top`, one per file, and the order in which they run.

Five phases follow one another: decomposition, simplification, recognition, quantization, fusion.
`TOP_PIPELINE` is that order as plain data; `top_pipeline` makes the passes of one compilation.
Rules that passes share stand in folders by what they are about: `arithmetic`, `movement`, `linear`,
`quantized`, `recognition`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.ir.requantization import AS_ONNXRUNTIME, Requantization
from explorer.ir.rewriting.passes import Pass
from explorer.passes.fuse.fuse_activation import FuseActivation
from explorer.passes.fuse.fuse_bias import FuseBias
from explorer.passes.fuse.fuse_residual import FuseResidual
from explorer.passes.lower.legalize import Legalize
from explorer.passes.lower.split_attention import SplitAttentions
from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.passes.quantize.compute_without_floats import ComputeWithoutFloats, without_floats
from explorer.passes.quantize.fuse_quantization import FuseQuantization
from explorer.passes.quantize.widen_floats import WidenFloats
from explorer.passes.recognize.recognize_activations import RecognizeActivations
from explorer.passes.recognize.recognize_attention import RecognizeAttentions
from explorer.passes.recognize.recognize_normalization import RecognizeNormalization
from explorer.passes.simplify.eliminate_common_subexpressions import EliminateCommonSubexpressions
from explorer.passes.simplify.eliminate_dead_code import EliminateDeadCode
from explorer.passes.simplify.fold_batch_norm import FoldBatchNorm
from explorer.passes.simplify.fold_constants import FoldConstants
from explorer.passes.simplify.narrow_transposes import NarrowTransposes
from explorer.passes.simplify.push_transposes import PushTransposes
from explorer.passes.simplify.remove_no_ops import RemoveNoOps
from explorer.passes.simplify.simplify_arithmetic import SimplifyArithmetic
from explorer.passes.simplify.simplify_movement import SimplifyMovement
from explorer.passes.sizes.bind_dimensions import BindDimensions
from explorer.passes.sizes.infer_shapes import InferShapes
from explorer.targets.capabilities import ORDINARY, Capabilities

DECOMPOSITION: tuple[type[Pass], ...] = (BindDimensions, InferShapes, FoldConstants)
"""What was left open is settled: sizes, types, computed shapes and bounds."""

SIMPLIFICATION: tuple[type[Pass], ...] = (
    RemoveNoOps,
    SimplifyArithmetic,
    SimplifyMovement,
    EliminateCommonSubexpressions,
)
"""The same with fewer and cheaper operations, in one form of the many that models have."""

RECOGNITION: tuple[type[Pass], ...] = (
    RecognizeNormalization,
    RecognizeActivations,
    RecognizeAttentions,
)
"""Operations that a model spells out, found in that form."""

QUANTIZATION: tuple[type[Pass], ...] = (ComputeInIntegers, ComputeWithoutFloats)
"""What a quantized model stands for: products and sums of integers. The second pass is for targets
without floats only."""

FUSION: tuple[type[Pass], ...] = (
    SplitAttentions,
    PushTransposes,
    FoldBatchNorm,
    NarrowTransposes,
    FuseBias,
    FuseResidual,
    FuseActivation,
    FuseQuantization,
    Legalize,
    EliminateDeadCode,
)
"""Work goes into the convolutions and matmuls that stand beside it; the rest gets kernels."""

TOP_PIPELINE: tuple[type[Pass], ...] = (
    *DECOMPOSITION,
    *SIMPLIFICATION,
    *RECOGNITION,
    *QUANTIZATION,
    *FUSION,
)

BEFORE_QUANTIZING: tuple[type[Pass], ...] = (FoldBatchNorm, FuseBias)
"""Passes of the fusion that change weights: they come first where weights become integers."""


def before_quantizing(integers_only: bool = False) -> list[Pass]:
    """All is of single precision then. Without floats attention is taken apart, too: what is
    inside it gets quantized types."""
    split = [SplitAttentions(fuses=False)] if integers_only else []
    return [WidenFloats(), *split, *(kind() for kind in BEFORE_QUANTIZING)]


def top_pipeline(
    sizes: Mapping[str, int],
    default: int | None = 1,
    requantization: Requantization = AS_ONNXRUNTIME,
    capabilities: Capabilities = ORDINARY,
    quantizing: Sequence[Pass] = (),
    rounding: Sequence[Pass] = (),
    integers_only: bool = False,
) -> list[Pass]:
    """The passes over `top` in order.

    sizes: of symbolic dimensions, by name; default: of inputs' first dimensions that have none
    (None makes that an error); requantization: the scheme of the target; capabilities:
    what its programs can do;
    quantizing: passes that quantize a float program. `before_quantizing` stands before them then:
    integers are made of the weights that are multiplied with; rounding: passes that change the
    scales of a program that arrives quantized; integers_only: whether quantized
    programs compute without floats.
    """
    if integers_only:
        requantization = without_floats(requantization)
    made: dict[type[Pass], Pass] = {
        BindDimensions: BindDimensions(sizes, default),
        ComputeInIntegers: ComputeInIntegers(requantization, capabilities),
        ComputeWithoutFloats: ComputeWithoutFloats(requantization),
        FuseQuantization: FuseQuantization(capabilities),
        Legalize: Legalize(capabilities),
        SplitAttentions: SplitAttentions(capabilities.fuses_attention),
    }
    first = (*DECOMPOSITION, *SIMPLIFICATION, *RECOGNITION)
    behind = TOP_PIPELINE[len(first) :]
    if not integers_only:
        behind = tuple(kind for kind in behind if kind is not ComputeWithoutFloats)
    ahead = before_quantizing(integers_only) if quantizing else []
    behind = tuple(kind for kind in behind if kind not in {type(pass_) for pass_ in ahead})
    return [
        *(made.get(kind) or kind() for kind in first),
        *ahead,
        *quantizing,
        *rounding,
        *(made.get(kind) or kind() for kind in behind),
    ]


__all__ = [
    "BEFORE_QUANTIZING",
    "DECOMPOSITION",
    "FUSION",
    "QUANTIZATION",
    "RECOGNITION",
    "SIMPLIFICATION",
    "TOP_PIPELINE",
    "before_quantizing",
    "top_pipeline",
]
