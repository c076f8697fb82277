"""Integer arithmetic that ends in a requantization, as operators of ONNX and TFLite describe it.

product_of(part)     weights, bias and ratios of a QLinearConv or a FULLY_CONNECTED
pair_of(part)        the exact result of an ADD or MUL of bytes, in steps of its scale
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.accuracy.hard_inputs.rounding import Product
from explorer.references.parts import Operand, Part, plain

_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "qlinearadd": np.add, "qlinearmul": np.multiply, "add": np.add, "mul": np.multiply,
    "sub": np.subtract,
}  # fmt: skip
_PRODUCTS = ("conv2d", "depthwiseconv2d", "fullyconnected")


def product_of(part: Part) -> Product | None:
    """None where the operation is no product of bytes with constant weights."""
    operator = plain(part.operator)
    if operator in ("qlinearconv", "qlinearmatmul", "qdqconv", "qdqmatmul"):
        return _of_onnx(part, operator)
    return _of_tflite(part, operator) if operator in _PRODUCTS else None


def _of_onnx(part: Part, operator: str) -> Product | None:
    operands = part.operands
    given = [o for o in operands[:8] if o is not None]
    if len(given) < 8 or given[0].is_constant or not all(o.is_constant for o in given[1:]):
        return None
    zero, weights, result_scale = given[2].array, given[3].array, given[6].array
    of_weights = np.asarray(given[5].array, np.int64).reshape(-1)
    wide = weights.astype(np.int64)
    if operator.endswith("matmul"):
        if weights.ndim != 2:
            return None
        wide = (wide - of_weights).T[:, :, None]
        axis, groups = -1, 1
    else:
        wide = wide.reshape(weights.shape[0], weights.shape[1], -1) - of_weights[:, None, None]
        axis, groups = 1, int(str(part.attributes.get("group", 1)))
    bias = operands[8] if len(operands) > 8 else None
    return _product(
        given[0], zero, wide, bias, given[1].array, given[4].array, result_scale, axis, groups
    )


def _of_tflite(part: Part, operator: str) -> Product | None:
    data, weights = part.operands[0], part.operands[1]
    if data is None or weights is None or data.is_constant or not weights.is_constant:
        return None
    if data.steps is None or weights.steps is None or part.result is None:
        return None
    wide = weights.array.astype(np.int64)
    if operator == "depthwiseconv2d":
        wide = np.moveaxis(wide.reshape(-1, wide.shape[-1]), -1, 0)[:, None, :]
    elif operator == "conv2d":
        wide = np.moveaxis(wide.reshape(wide.shape[0], -1, wide.shape[-1]), -1, 1)
    else:
        wide = wide.reshape(wide.shape[0], -1, 1)
    zeros = np.asarray(weights.steps.zero_point, np.int64).reshape(-1, 1, 1)
    bias = part.operands[2] if len(part.operands) > 2 else None
    groups = data.array.shape[-1] if operator == "depthwiseconv2d" else 1
    scales = (data.steps.scale, weights.steps.scale, part.result.scale)
    return _product(data, data.steps.zero_point, wide - zeros, bias, *scales, -1, groups)


def _product(
    data: Operand,
    zero: np.ndarray,
    weights: np.ndarray,
    bias: Operand | None,
    scale: np.ndarray,
    weight_scale: np.ndarray,
    result_scale: np.ndarray,
    axis: int,
    groups: int,
) -> Product | None:
    if data.array.dtype.itemsize != 1 or (bias is not None and not bias.is_constant):
        return None
    outputs = weights.shape[0]
    sums = np.zeros(outputs, np.int64) if bias is None else bias.array.astype(np.int64).reshape(-1)
    scales = np.asarray(weight_scale, np.float64).reshape(-1) * float(np.ravel(scale)[0])
    ratios = np.broadcast_to(scales / float(np.ravel(result_scale)[0]), outputs)
    return Product(
        input=data.name,
        zero_point=int(np.ravel(zero)[0]),
        weights=weights,
        bias=sums,
        ratios=ratios,
        channel_axis=axis,
        groups=groups,
    )


def pair_of(part: Part) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """None where the operation does not combine two tensors of bytes with scales."""
    combine = _OPERATIONS.get(plain(part.operator))
    steps = _steps_of_pair(part)
    if combine is None or steps is None:
        return None
    (first, first_zero), (second, second_zero), (result, _) = steps

    def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return combine((a - first_zero) * first, (b - second_zero) * second) / result

    return exact


def _steps_of_pair(part: Part) -> list[tuple[float, float]] | None:
    if plain(part.operator).startswith("qlinear"):
        given = [o.array for o in part.operands if o is not None]
        if len(given) != 8 or any(given[n].size != 1 for n in (1, 2, 4, 5, 6, 7)):
            return None
        return [(float(given[n].item()), float(given[n + 1].item())) for n in (1, 4, 6)]
    steps = [o.steps for o in part.operands[:2] if o is not None] + [part.result]
    arrays = [o.array for o in part.operands[:2] if o is not None]
    if len(steps) != 3 or any(a.dtype.itemsize != 1 for a in arrays):
        return None
    known = [s for s in steps if s is not None and np.size(s.scale) == 1]
    if len(known) != 3:
        return None
    return [(float(np.ravel(s.scale)[0]), float(np.ravel(s.zero_point)[0])) for s in known]
