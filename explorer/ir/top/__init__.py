"""The `top` dialect: device-independent tensor operations, few and close to ONNX in meaning."""

from xdsl.ir import Dialect

from explorer.ir.operation import TopOperation
from explorer.ir.origins import OriginAttr
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.sizes.constraints import ConstraintAttr
from explorer.ir.sizes.ranges import RangeAttr
from explorer.ir.top import (
    attention,
    casting,
    control,
    data,
    data_dependent,
    determinant,
    elementwise,
    indexing,
    interpolation,
    linear_systems,
    matrix_factors,
    pooling,
    reflections,
    selection,
    shapes,
    singular_values,
)
from explorer.ir.top.linear import convolution, matmul, matmul_blocks
from explorer.ir.top.movement import concat, pad, reshape, slices, transpose
from explorer.ir.top.quantization import blocks as quantized_blocks
from explorer.ir.top.quantization import dynamic as dynamic_quantization
from explorer.ir.top.quantization import (
    fixed_point,
    fixed_point_softmax,
    integer_average,
    integer_log_softmax,
    integer_normalizations,
    lookup,
    quantized,
    simulated,
)
from explorer.ir.top.reductions import (
    arg,
    cumulative,
    local_response_norm,
    normalization,
    reduction,
)
from explorer.ir.types import EncodingAttr, QuantizedType

_FAMILIES = (
    data,
    casting,
    elementwise,
    convolution,
    matmul,
    matmul_blocks,
    dynamic_quantization,
    quantized,
    quantized_blocks,
    fixed_point,
    fixed_point_softmax,
    lookup,
    integer_average,
    integer_log_softmax,
    integer_normalizations,
    simulated,
    pooling,
    reduction,
    arg,
    cumulative,
    determinant,
    linear_systems,
    matrix_factors,
    reflections,
    singular_values,
    normalization,
    local_response_norm,
    attention,
    reshape,
    transpose,
    concat,
    slices,
    pad,
    indexing,
    interpolation,
    selection,
    shapes,
    control,
    data_dependent,
)

OPERATIONS: tuple[type[TopOperation], ...] = tuple(
    value
    for module in _FAMILIES
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, TopOperation)
    and value.__module__ == module.__name__
    and "name" in vars(value)
)

Top = Dialect(
    "top",
    list(OPERATIONS),
    [
        ConstraintAttr,
        RangeAttr,
        EncodingAttr,
        OriginAttr,
        QuantizedType,
        RequantizationAttr,
        data_dependent.MeaningAttr,
    ],
)

__all__ = ["OPERATIONS", "Top"]
