"""What others make of a case: onnxruntime without optimizations, onnx's reference, and float64.

    opinions = ask(case.model, case.inputs)
    opinions["onnxruntime"]       [array, ...]
    opinions["onnx"]              NoOpinion("it has no kernel for int8")
    opinions["float64"]           onnx's reference with every float in float64
    opinions["integers"]          onnx's reference with Python's integers, wrapped around at the end
    opinions["proof"]             the exact result of an operator, where `proofs.py` has one

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
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from explorer.errors import ModelError
from explorer.references.onnx_runtime import open_proto
from verification.operators.drawing import INSIDE
from verification.operators.pairs import element_types, schemas
from verification.operators.proofs import proof

RUNTIME, ONNX, FLOAT64, INTEGERS = "onnxruntime", "onnx", "float64", "integers"
PROOF = "proof"
EXACT = (FLOAT64, INTEGERS, PROOF)
"""Judges that do not round or wrap around on the way."""
NO_KERNEL = re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|[Uu]nsupported")
WRONG_MODEL = re.compile(r"Inference")
"""What onnxruntime says, while it loads a model, of shapes and types that do not fit. Other models
that it does not load have types that it has no code for."""
NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
COARSEST_FIRST = (
    *(TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE),
)
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
WHOLE = (
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)
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
    """Why a judge has none. `is_illegal`: it says that the inputs are wrong. `is_refusal`: it may
    say so, or have met a limit of its own."""

    reason: str
    is_illegal: bool = False
    is_refusal: bool = False


Opinion = list[Any] | NoOpinion
Opinions = dict[str, Opinion]


def ask(model: ModelProto, inputs: Mapping[str, Any]) -> Opinions:
    """The opinion of every judge; onnxruntime's alone where it says that the inputs are illegal,
    as the others may take hours for an index that is far outside."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        runtime = _runtime(model, inputs)
        if isinstance(runtime, NoOpinion) and runtime.is_illegal:
            return {RUNTIME: runtime}
        opinions: Opinions = {RUNTIME: runtime, ONNX: _reference(model, inputs)}
        if _has_narrow_floats(model):
            opinions[FLOAT64] = _float64(model, inputs)
        opinions[INTEGERS] = _integers(model, inputs)
        opinions[PROOF] = _proof(model, inputs)
    return opinions


def _proof(model: ModelProto, inputs: Mapping[str, Any]) -> Opinion:
    plain, arrays = _unwrapped(model, inputs)
    found = proof(plain, arrays)
    return NoOpinion("there is no proof for the operator") if found is None else list(found)


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
        found = ReferenceEvaluator(model).run(None, {n: _copy(v) for n, v in inputs.items()})
        return [_as_declared(a, t) for a, t in zip(found, _declared(model), strict=True)]
    except Exception as error:  # whatever its NumPy code meets
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        is_refusal = isinstance(error, ValueError)
        return NoOpinion(words, isinstance(error, IndexError), is_refusal)


def _declared(model: ModelProto) -> list[int]:
    """The element types that the operators' definitions give the outputs by those of the inputs; 0
    where they do not. onnx's own inference gives some the type of another operand."""
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    opsets = {o.domain: o.version for o in model.opset_import}
    for node in model.graph.node:
        if node.op_type not in schemas():
            continue
        schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 0), node.domain)
        bound: dict[str, int] = {}
        for name, formal in zip(node.input, schema.inputs, strict=False):
            if types.get(name):
                bound.setdefault(formal.type_str, types[name])
        for name, formal in zip(node.output, schema.outputs, strict=False):
            types[name] = bound.get(formal.type_str) or _element_type(formal.type_str)
    return [types.get(value.name, 0) for value in model.graph.output]


def _element_type(type_string: str) -> int:
    """Of `tensor(float)`; 0 of a type variable and of what has no numbers."""
    names = [name for name in element_types([type_string]) if name != "string"]
    return helper.np_dtype_to_tensor_dtype(np.dtype(names[0])) if names else 0


def _as_declared(found: Any, element_type: int) -> Any:
    """A float result of onnx's reference in the type that its operator is defined to have: some
    kernels keep that of another operand."""
    if element_type not in FLOATS or not isinstance(found, np.ndarray):
        return found
    if "float" not in found.dtype.name:
        return found
    return found.astype(helper.tensor_dtype_to_np_dtype(element_type), copy=False)


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _has_narrow_floats(model: ModelProto) -> bool:
    return any(v.type.tensor_type.elem_type in NARROW for v in model.graph.input)


def _float64(model: ModelProto, inputs: Mapping[str, Any]) -> Opinion:
    """onnx's reference with every float input in float64. A model that converts between types
    means those types: it has no opinion."""
    wide, arrays = _unwrapped(model, inputs)
    operators = {node.op_type for node in wide.graph.node}
    if operators & {"Cast", "CastLike", "BitCast"} or "QuantizeLinear" in "".join(operators):
        return NoOpinion("the types are the point")
    narrow = (*NARROW, *(WHOLE if operators == {"Attention"} else ()))  # of a mask, which is added
    for value in wide.graph.input:
        if value.name != "nonpad_kv_seqlen" and value.type.tensor_type.elem_type in narrow:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
            arrays[value.name] = np.asarray(arrays[value.name]).astype(np.float64)
    return _reference(wide, arrays)


def is_illegal(model: ModelProto, inputs: Mapping[str, Any]) -> bool:
    """Whether onnxruntime says so of the same shapes in float32, where it has no code for types."""
    wide, arrays = _unwrapped(model, inputs)
    for value in (*wide.graph.input, *wide.graph.output):
        if value.type.tensor_type.elem_type in (*NARROW, TensorProto.DOUBLE):
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and "float" in array.dtype.name:
            arrays[name] = array.astype(np.float32)
    found = _runtime(wide, arrays)
    return isinstance(found, NoOpinion) and found.is_illegal


def narrowest_float(model: ModelProto) -> str:
    """The coarsest float type that the model reads, or casts its inputs to; "" where it reads no
    floats."""
    types = {value.type.tensor_type.elem_type for value in model.graph.input}
    types |= {
        attribute.i
        for node in model.graph.node
        if node.op_type == "Cast" and node.output[0].endswith(INSIDE)
        for attribute in node.attribute
        if attribute.name == "to"
    }
    known = [t for t in COARSEST_FIRST if t in types]
    return np.dtype(helper.tensor_dtype_to_np_dtype(known[0])).name if known else ""


def _unwrapped(model: ModelProto, inputs: Mapping[str, Any]) -> tuple[ModelProto, dict[str, Any]]:
    """The model without the casts around types that NumPy lacks, and inputs rounded to those."""
    plain, arrays = ModelProto(), dict(inputs)
    plain.CopyFrom(model)
    nodes = list(plain.graph.node)
    names: dict[str, str] = {}
    for node in [n for n in nodes if n.op_type == "Cast"]:
        dtype = helper.tensor_dtype_to_np_dtype(next(a.i for a in node.attribute if a.name == "to"))
        kind = np.asarray(arrays[node.input[0]]).dtype.kind if node.input[0] in arrays else "O"
        if node.output[0].endswith(INSIDE) and kind != "O":
            arrays[node.input[0]] = arrays[node.input[0]].astype(dtype).astype(np.float32)
            names[node.output[0]] = node.input[0]
        elif node.input[0].endswith(INSIDE):
            names[node.input[0]] = node.output[0]
        else:
            continue
        nodes.remove(node)
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del plain.graph.node[:]
    plain.graph.node.extend(kept)
    return plain, arrays


def _integers(model: ModelProto, inputs: Mapping[str, Any]) -> Opinion:
    """onnx's reference on Python's integers; what comes out wraps around into the declared type.
    No opinion where it makes other numbers of them."""
    declared = [value.type.tensor_type.elem_type for value in model.graph.output]
    types = [np.dtype(helper.tensor_dtype_to_np_dtype(t)) if t in WHOLE else None for t in declared]
    arrays = {
        n: v.astype(object) if isinstance(v, np.ndarray) and v.dtype.kind in "iu" else v
        for n, v in inputs.items()
    }
    if any(node.op_type == "Pow" for node in model.graph.node):
        return NoOpinion("powers of whole numbers have too many digits")
    if None in types or all(getattr(v, "dtype", None) != np.dtype(object) for v in arrays.values()):
        return NoOpinion("no whole numbers")
    found = _reference(model, arrays)
    if isinstance(found, NoOpinion):
        return found
    results = []
    for value, dtype in zip(found, types, strict=True):
        array = np.asarray(value)
        if array.dtype != object or not all(isinstance(n, int) for n in array.reshape(-1)):
            return NoOpinion("not computed in whole numbers")
        assert dtype is not None
        wrapped = [_wrapped(n, dtype) for n in array.reshape(-1)]
        results.append(np.array(wrapped, dtype).reshape(array.shape))
    return results


def _wrapped(number: int, dtype: np.dtype) -> int:
    bits = 8 * dtype.itemsize
    rest = number & ((1 << bits) - 1)
    return rest - (1 << bits) if dtype.kind == "i" and rest >> (bits - 1) else rest


def inner_operators(node: NodeProto) -> list[str]:
    """Of the nodes in a node's nested graphs."""
    inner = [n for a in node.attribute if a.type == AttributeProto.GRAPH for n in a.g.node]
    return [name for one in inner for name in (one.op_type, *inner_operators(one))]


def is_random(model: ModelProto) -> bool:
    return any(node.op_type in DRAWS_RANDOM_NUMBERS for node in model.graph.node) or any(
        node.op_type == "Dropout" and len(node.input) > 2 for node in model.graph.node
    )


def output_names(model: ModelProto) -> Sequence[str]:
    return [value.name for value in model.graph.output]
