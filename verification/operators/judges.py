"""What others make of a case: onnxruntime without optimizations, onnx's reference, and float64.

    opinions = ask(case.model, case.inputs)
    opinions["onnxruntime"]       [array, ...]
    opinions["onnx"]              NoOpinion("it has no kernel for int8")
    opinions["float64"]           onnx's reference with every float in float64

onnxruntime decides whether inputs are legal: what it refuses in a run (an index outside of its
axis) is nothing to judge.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Any: a value is a tensor, a list of tensors, or None

import numpy as np
from onnx import ModelProto, TensorProto

from explorer.errors import ModelError
from explorer.references.onnx_runtime import open_proto

RUNTIME, ONNX, FLOAT64 = "onnxruntime", "onnx", "float64"
JUDGES = (RUNTIME, ONNX, FLOAT64)
NO_KERNEL = re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|[Uu]nsupported")
WRONG_MODEL = re.compile(r"Inference")
"""What onnxruntime says, while it loads a model, of shapes and types that do not fit. Other models
that it does not load have types that it has no code for."""
NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
DRAWS_RANDOM_NUMBERS = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)


@dataclass(frozen=True)
class NoOpinion:
    """Why a judge has none. `is_illegal`: it says that the inputs are wrong."""

    reason: str
    is_illegal: bool = False


Opinion = list[Any] | NoOpinion
Opinions = dict[str, Opinion]


def ask(model: ModelProto, inputs: Mapping[str, Any]) -> Opinions:
    """The opinion of every judge."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        opinions: Opinions = {RUNTIME: _runtime(model, inputs), ONNX: _reference(model, inputs)}
        if _has_narrow_floats(model):
            opinions[FLOAT64] = _float64(model, inputs)
    return opinions


def _runtime(model: ModelProto, inputs: Mapping[str, Any]) -> Opinion:
    try:
        opened = open_proto(model, model.graph.name, is_optimized=False)
    except ModelError as error:
        return NoOpinion(error.message, is_illegal=bool(WRONG_MODEL.search(error.message)))
    try:
        with opened:
            return list(opened.run(inputs).values())
    except ModelError as error:
        return NoOpinion(error.message, is_illegal=not NO_KERNEL.search(error.message))


def _reference(model: ModelProto, inputs: Mapping[str, Any]) -> Opinion:
    from onnx.reference import ReferenceEvaluator  # slow to import

    try:
        # It may write into its inputs.
        return list(ReferenceEvaluator(model).run(None, {n: _copy(v) for n, v in inputs.items()}))
    except Exception as error:  # whatever its NumPy code meets
        return NoOpinion(f"{type(error).__name__}: {' '.join(str(error).split())}"[:200])


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _has_narrow_floats(model: ModelProto) -> bool:
    return any(v.type.tensor_type.elem_type in NARROW for v in model.graph.input)


def _float64(model: ModelProto, inputs: Mapping[str, Any]) -> Opinion:
    """onnx's reference with every float input in float64. A model that converts between types
    means those types: it has no opinion."""
    operators = {node.op_type for node in model.graph.node}
    if operators & {"Cast", "CastLike", "BitCast"} or "QuantizeLinear" in "".join(operators):
        return NoOpinion("the types are the point")
    wide = ModelProto()
    wide.CopyFrom(model)
    arrays = dict(inputs)
    for value in wide.graph.input:
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
            arrays[value.name] = np.asarray(inputs[value.name]).astype(np.float64)
    return _reference(wide, arrays)


def is_random(model: ModelProto) -> bool:
    return any(node.op_type in DRAWS_RANDOM_NUMBERS for node in model.graph.node) or any(
        node.op_type == "Dropout" and len(node.input) > 2 for node in model.graph.node
    )


def output_names(model: ModelProto) -> Sequence[str]:
    return [value.name for value in model.graph.output]
