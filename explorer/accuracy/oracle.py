"""The oracle: what the source model computes, according to onnxruntime without optimizations.

    reference(model, {"image": image}, ["conv1_out", "logits"])
        -> {"conv1_out": array, "logits": array}

All intermediate tensors can be had, by their names in the model. Runs on one thread, so that the
same inputs always give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from explorer.accuracy.exact_bytes import with_unsigned_weights
from explorer.errors import InputError, ModelError
from explorer.importers.model import SourceModel, bind_dimensions, with_sizes
from explorer.importers.onnx.reading import OnnxContent
from explorer.ir.types import ELEMENT_TYPES, is_float_dtype, numpy_dtype

TENSORS_PER_RUN = 256
"""Tensors of a model that are held at once; a larger model runs several times."""

NEWEST_FORMAT = 10
"""The file format's version (`ir_version`) that every onnxruntime from 1.18 on reads. Newer ones
only add element types, which onnxruntime refuses by themselves where it has none of them."""

WIDENED = " (widened)"
UNREADABLE = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
    "tensor(float4e2m1)": "float4_e2m1fn",
    "tensor(int4)": "int4",
    "tensor(uint4)": "uint4",
    "tensor(int2)": "int2",
    "tensor(uint2)": "uint2",
}
"""Types of onnxruntime that it does not give to NumPy, and their names here."""


def reference(
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    tensors: Sequence[str] | None = None,
) -> dict[str, np.ndarray]:
    """The named tensors of the model, or all of its outermost graph, for these inputs.

    InputError for a tensor that the model does not have; ModelError where onnxruntime cannot
    load or run the model.
    """
    return dict(iterate_reference(model, inputs, tensors))


def iterate_reference(
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    tensors: Sequence[str] | None = None,
    tensors_per_run: int = TENSORS_PER_RUN,
) -> Iterator[tuple[str, np.ndarray]]:
    """As `reference`, some tensors at a time: for models whose tensors don't fit into memory."""
    content = _content(model)
    computed = computed_tensors(model)
    wanted = computed if tensors is None else list(dict.fromkeys(tensors))
    to_run = []
    for name in wanted:
        if name in computed:
            to_run.append(name)
        elif name in inputs:
            yield name, np.asarray(inputs[name])
        elif name in content.weights:
            yield name, content.weights[name]
        else:
            raise InputError(f"the model has no tensor {name!r}", node=name)
    outputs = {output.name for output in content.proto.graph.output}
    for begin in range(0, len(to_run), tensors_per_run):
        chunk = to_run[begin : begin + tensors_per_run]
        exposed = [name for name in chunk if name not in outputs]
        session = _session(model, exposed)
        narrow = _narrow_outputs(session)
        if narrow.keys() & set(chunk):
            session = _session(model, exposed, [name for name in chunk if name in narrow])
        try:
            asked = [name + WIDENED if name in narrow else name for name in chunk]
            arrays = session.run(asked, dict(inputs))
        except runtime_errors() as error:
            raise ModelError(
                f"the oracle (onnxruntime) cannot run the model: {_first_line(error)}",
                file=_file(model),
                hint="check the inputs, or compare with the outputs that come with the model",
            ) from error
        for name, array in zip(chunk, arrays, strict=True):
            if isinstance(array, np.ndarray):
                yield name, array.astype(narrow.get(name, array.dtype), copy=False)


def computed_tensors(model: SourceModel) -> list[str]:
    """Every result of the outermost graph's nodes, in order."""
    graph = _content(model).proto.graph
    return [name for node in graph.node for name in node.output if name]


def random_inputs(
    model: SourceModel, seed: int, dimensions: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Inputs drawn from a seeded generator, by type, shape and what the name tells.

    Floats are normal (mean 0, deviation 1), unsigned bytes cover their range, other integers are
    indices: below the size of the table that they are looked up in where a weight tells it, else
    below 8. Masks are 0 or 1. Symbolic dimensions take their size from `dimensions`; a batch is 1
    by default (`bind_dimensions`).
    """
    sizes = bind_dimensions(model, dimensions or {})
    generator = np.random.default_rng(seed)
    limits = _index_limits(model)
    inputs = {}
    for value in model.inputs:
        shape = with_sizes(value.shape or (), sizes)
        numbers = [size for size in shape if isinstance(size, int)]
        dtype = numpy_dtype(ELEMENT_TYPES[value.element_type])
        inputs[value.name] = _draw(generator, value.name, dtype, numbers, limits)
    return inputs


def _draw(
    generator: np.random.Generator,
    name: str,
    dtype: np.dtype,
    shape: Sequence[int],
    limits: Mapping[str, int],
) -> np.ndarray:
    if is_float_dtype(dtype):
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype == np.uint8:
        return generator.integers(0, 256, shape).astype(dtype)
    default = 2 if "mask" in name or "type" in name or "segment" in name else 8
    return generator.integers(0, limits.get(name, default), shape).astype(dtype)


def _index_limits(model: SourceModel) -> dict[str, int]:
    """For inputs that are looked up in a weight, directly or after a cast: the weight's rows."""
    content = _content(model)
    limits: dict[str, int] = {}
    source = {value.name: value.name for value in model.inputs}
    for node in content.proto.graph.node:
        if node.op_type in ("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"):
            if node.input[0] in source:
                source[node.output[0]] = source[node.input[0]]
        elif node.op_type == "Gather" and node.input[1] in source:
            table = content.weights.get(node.input[0])
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            if table is not None and table.ndim > axis >= 0:
                name = source[node.input[1]]
                limits[name] = min(limits.get(name, table.shape[axis]), table.shape[axis])
    return limits


def _narrow_outputs(session: Any) -> dict[str, np.dtype]:
    """Outputs of types that onnxruntime has, but for which it makes no arrays.

    Any: onnxruntime has no types.
    """
    return {
        output.name: numpy_dtype(ELEMENT_TYPES[UNREADABLE[output.type]])
        for output in session.get_outputs()
        if output.type in UNREADABLE
    }


def _session(model: SourceModel, exposed: Sequence[str], narrow: Sequence[str] = ()):
    """An onnxruntime session in which the exposed tensors are outputs too.

    The narrow ones are outputs in float32 (which holds them exactly), with `WIDENED` behind their
    names.

    They are appended to the serialized model: by protobuf's rules that merges both messages, so
    that no copy of the model is made and no type needs to be known. A format that is newer than
    onnxruntime reads is called an older one in the same way.
    """
    import onnxruntime

    content = _content(model)
    casts = [
        onnx.helper.make_node("Cast", [name], [name + WIDENED], to=onnx.TensorProto.FLOAT)
        for name in narrow
    ]
    names = [*exposed, *(name + WIDENED for name in narrow)]
    graph = onnx.GraphProto(
        node=casts, output=[onnx.ValueInfoProto(name=name) for name in names if name not in narrow]
    )
    newest = min(content.proto.ir_version, NEWEST_FORMAT)
    addition = onnx.ModelProto(graph=graph, ir_version=newest)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if content.folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(content.folder))
    try:
        exact = with_unsigned_weights(content.proto)
        data = exact.SerializeToString() + addition.SerializeToString()
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except (*runtime_errors(), ValueError) as error:
        raise ModelError(
            f"the oracle (onnxruntime) cannot load the model: {_first_line(error)}",
            file=_file(model),
            hint="compare with the outputs that come with the model, or with the imported program",
        ) from error


def runtime_errors() -> tuple[type[Exception], ...]:
    """onnxruntime's exceptions, which have only `Exception` as their base."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # pyright: ignore

    names = (
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NotImplemented",
        "RuntimeException",
        "NoSuchFile",
        "NoModel",
        "EngineError",
        "EPFail",
        "ModelLoaded",
    )
    return tuple(getattr(state, name) for name in names if hasattr(state, name))


def _content(model: SourceModel) -> OnnxContent:
    assert isinstance(model.content, OnnxContent), model.format
    return model.content


def _file(model: SourceModel) -> str:
    return "" if model.path is None else str(model.path)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:500]
