"""Exact results of operators about which the other judges are wrong: from Python's integers,
fractions and functions of `math`, from PyTorch in float64, or from a definition in one line.

    proof(model, inputs)        [array]        None where there is none

A proof is of a model with one node (and casts around types that NumPy lacks), and is rounded to the
type of the result as the operator says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any  # Any: attributes and inputs of any kind

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, helper

MAX_POSITION = 2.0**20
"""Beyond which positions have few digits between pixels."""
Attributes = Mapping[str, Any]
Prove = Callable[[Sequence[Any], Attributes], np.ndarray | None]


def proof(model: ModelProto, inputs: Mapping[str, Any]) -> list[np.ndarray] | None:
    """The exact result of the model's node; `model` has no casts around it."""
    nodes = model.graph.node
    if len(nodes) != 1 or nodes[0].op_type not in PROOFS:
        return None
    node = nodes[0]
    if node.domain and node.op_type not in ("Gelu", "FastGelu", "QuickGelu"):  # onnxruntime's own
        return None
    arrays = [inputs.get(name) if name else None for name in node.input]
    if any(name and inputs.get(name) is None for name in node.input):
        return None
    try:
        found = PROOFS[node.op_type](arrays, _attributes(node))
    except ValueError:  # of NumPy, about operands that do not fit together
        return None
    return None if found is None else [found]


def _operands(inputs: Sequence[Any], count: int) -> list[Any]:
    """So many, with None for those that are left out at the end."""
    return [*inputs, *[None] * count][:count]


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _is_whole(x: np.ndarray) -> bool:
    return x.dtype.kind in "iu"


def _wrapped(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Python's integers modulo the type."""
    bits = 8 * dtype.itemsize
    unsigned = np.array([int(n) & ((1 << bits) - 1) for n in numbers.reshape(-1)], f"u{bits // 8}")
    return unsigned.view(f"{dtype.kind}{bits // 8}").reshape(numbers.shape)


def _by_element(function: Callable[[float], float]) -> Prove:
    def prove(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
        del attributes
        (x,) = inputs
        wide = x.astype(np.float64)
        return np.array([function(float(n)) for n in wide.reshape(-1)]).reshape(x.shape)

    return prove


def _gelu(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    if attributes.get("approximate", b"none") != b"none":
        return None
    return _by_element(lambda n: n * 0.5 * math.erfc(-n / math.sqrt(2)) if n > -1e3 else n * 0.0)(
        inputs, attributes
    )


def _tanh_gelu(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    """onnxruntime's FastGelu, with a bias or without: x / (1 + e^(-2u)) has no difference of
    numbers near 1."""
    del attributes
    x = sum(a.astype(np.float64) for a in inputs if a is not None)
    angle = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / (1 + np.exp(-2 * angle)))


def _quick_gelu(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    """onnxruntime's x * sigmoid(alpha x)"""
    x = inputs[0].astype(np.float64)
    return np.asarray(x / (1 + np.exp(-attributes.get("alpha", 1.702) * x)))


def _exponential(alpha: float, gamma: float = 1.0, is_scaled: bool = False) -> Prove:
    """gamma * alpha * (exp(x) - 1) below 0: Elu and Selu; Celu divides x by alpha."""

    def prove(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
        (x,) = inputs
        factor = attributes.get("alpha", alpha)
        outer = attributes.get("gamma", gamma)
        wide = x.astype(np.float64)
        below = factor * np.expm1(wide / factor if is_scaled else wide)
        return outer * np.where(wide > 0, wide, below)

    return prove


def _prelu(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    """x where it is not below 0: no product with a slope."""
    del attributes
    x, slope = inputs
    if "float" not in x.dtype.name:
        return None
    return np.where(x < 0, slope.astype(np.float64) * x.astype(np.float64), x.astype(np.float64))


def _gemm(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    a, b, c = _operands(inputs, 3)
    is_plain = attributes.get("alpha", 1.0) == 1 and attributes.get("beta", 1.0) == 1
    if not _is_whole(a) or not is_plain:
        return None
    left, right = (x.astype(object) for x in (a, b))
    left = left.T if attributes.get("transA") else left
    right = right.T if attributes.get("transB") else right
    if not left.shape[1]:
        return None
    total = left @ right + (0 if c is None else c.astype(object))
    return _wrapped(total, a.dtype)


def _reduced(finish: Callable[[list[int]], int]) -> Prove:
    """A reduction of whole numbers by Python's."""

    def prove(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
        x, given = _operands(inputs, 2)
        if not _is_whole(x) or not x.size:
            return None
        axes = attributes.get("axes") if given is None else given.tolist()
        if not axes:
            if attributes.get("noop_with_empty_axes"):
                return None
            axes = list(range(x.ndim))
        axes = sorted(int(a) % x.ndim for a in axes)
        rest = [a for a in range(x.ndim) if a not in axes]
        rows = x.transpose([*rest, *axes]).reshape([*(x.shape[a] for a in rest), -1])
        limits = np.iinfo(x.dtype)
        numbers = [[int(n) for n in row] for row in rows.reshape(-1, rows.shape[-1])]
        found = np.array([finish(row) for row in numbers], object)
        if any(abs(sum(row)) >= 2**63 for row in numbers) or not np.all(found <= limits.max):
            return None  # what does not fit is open
        keeps = attributes.get("keepdims", 1)
        shape = [1 if a in axes else x.shape[a] for a in range(x.ndim) if keeps or a in rest]
        return _wrapped(found, x.dtype).reshape(shape)

    return prove


def _mean(row: list[int]) -> int:
    total = sum(row)
    return abs(total) // len(row) * (1 if total >= 0 else -1)


def _shrink(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    (x,) = inputs
    if not _is_whole(x):
        return None
    bound, bias = attributes.get("lambd", 0.5), attributes.get("bias", 0.0)
    if bias != int(bias):
        return None
    found = [
        n + int(bias) if n < -bound else n - int(bias) if n > bound else 0
        for n in (int(n) for n in x.reshape(-1))
    ]
    return _wrapped(np.array(found, object).reshape(x.shape), x.dtype)


def _grid_sample(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    """PyTorch's in float64, rounded once for whole numbers, within their type."""
    import torch

    x, grid = inputs
    mode = attributes.get("mode", b"linear").decode().replace("linear", "bilinear")
    mode = mode.replace("bibi", "bi").replace("cubic", "bicubic").replace("bibi", "bi")
    if (
        x.ndim not in (4, 5)
        or not x.size
        or x.dtype.kind in "OUbc"
        or not (np.abs(grid.astype(np.float64)) < MAX_POSITION).all()
    ):
        return None
    if x.ndim == 5 and "cubic" in mode:
        return None
    with torch.no_grad():
        found = torch.nn.functional.grid_sample(
            torch.from_numpy(x.astype(np.float64)),
            torch.from_numpy(grid.astype(np.float64)),
            mode,
            attributes.get("padding_mode", b"zeros").decode(),
            bool(attributes.get("align_corners", 0)),
        ).numpy()
    if not _is_whole(x):
        return found
    limits = ml_dtypes.iinfo(x.dtype)
    return np.array(
        [min(max(int(n), int(limits.min)), int(limits.max)) for n in np.rint(found).reshape(-1)],
        x.dtype,
    ).reshape(found.shape)


def _dft(inputs: Sequence[Any], attributes: Attributes) -> np.ndarray | None:
    """NumPy's transform in float64."""
    x, length, axis = _operands(inputs, 3)
    place = int(attributes.get("axis", -2)) if axis is None else int(axis)
    if x.ndim < 2 or x.shape[-1] not in (1, 2) or not np.isfinite(x.astype(np.float64)).all():
        return None
    wide = x.astype(np.float64)
    numbers = wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0] + 0j
    place = place % x.ndim
    count = x.shape[place] if length is None else int(length)
    if count < 1:
        return None
    is_inverse = attributes.get("inverse", 0)
    found = (np.fft.ifft if is_inverse else np.fft.fft)(numbers, count, place)
    if attributes.get("onesided", 0):
        if is_inverse:
            return None
        found = np.take(found, range(count // 2 + 1), place)
    return np.stack([found.real, found.imag], -1)


PROOFS: Mapping[str, Prove] = {
    "Celu": _exponential(1.0, is_scaled=True),
    "DFT": _dft,
    "Elu": _exponential(1.0),
    "Erf": _by_element(math.erf),
    "Gelu": _gelu,
    "Gemm": _gemm,
    "FastGelu": _tanh_gelu,
    "GridSample": _grid_sample,
    "PRelu": _prelu,
    "QuickGelu": _quick_gelu,
    "ReduceL2": _reduced(lambda row: math.isqrt(sum(n * n for n in row))),
    "ReduceMean": _reduced(_mean),
    "Selu": _exponential(1.67326319217681884765625, 1.05070102214813232421875),
    "Shrink": _shrink,
}
