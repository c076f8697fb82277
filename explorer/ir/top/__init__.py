"""The `top` dialect: device-independent tensor operations, few and close to ONNX in meaning."""

from xdsl.ir import Dialect

from explorer.ir.constraints import ConstraintAttr
from explorer.ir.operation import TopOperation
from explorer.ir.origins import OriginAttr
from explorer.ir.ranges import RangeAttr
from explorer.ir.requantization import RequantizationAttr
from explorer.ir.top import (
    attention,
    casting,
    control,
    cumulative,
    data,
    determinant,
    dynamic_quantization,
    elementwise,
    indexing,
    interpolation,
    late,
    linear,
    movement,
    normalization,
    pooling,
    quantized,
    quantized_blocks,
    reduction,
    selection,
    shapes,
)
from explorer.ir.types import EncodingAttr, QuantizedType

_FAMILIES = (
    data,
    casting,
    elementwise,
    linear,
    dynamic_quantization,
    quantized,
    quantized_blocks,
    pooling,
    reduction,
    cumulative,
    determinant,
    normalization,
    attention,
    movement,
    indexing,
    interpolation,
    selection,
    shapes,
    control,
    late,
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
        late.MeaningAttr,
    ],
)

__all__ = ["OPERATIONS", "Top"]
