"""Reading an ONNX file: parsed within bounds, checked, nothing executed.

    net.onnx  ->  SourceModel(inputs, outputs, nodes, ..., content=OnnxContent(proto, weights))

After this every node has a unique name, functions of the model itself are inlined, weights are
read-only arrays, and each tensor is made exactly once before it is used.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

from explorer.errors import ModelError, UnsupportedError
from explorer.importers.building.limits import check_rank, check_size
from explorer.importers.model import SourceModel, SourceNode, SourceValue
from explorer.importers.onnx.file.names import check_names
from explorer.importers.onnx.file.node_count import check_node_count
from explorer.importers.onnx.file.string_inputs import with_codes
from explorer.importers.onnx.file.structured_inputs import with_tensors
from explorer.importers.onnx.file.tensors import dtype_of, read_tensor
from explorer.importers.onnx.file.text import node_text
from explorer.importers.states import paired_states
from explorer.ir.types import Dim

LARGEST_FILE_BYTES = 2**31 - 1
"""What protobuf can hold in one message; larger models keep their weights in external data."""

_LARGEST_OPSET = 2**31 - 1
_OPSETS_SINCE_IR_VERSION = 3
"""Older files mean opset 1 and do not say so."""

_UNLIKELY = {
    b"version https://git-lfs": "this is a Git LFS pointer: fetch the file with `git lfs pull`",
    b"<!DOCTYPE": "this is a web page: download the file itself",
    b"<html": "this is a web page: download the file itself",
    b"\x1f\x8b": "this is a gzip archive: unpack it first",
    b"PK\x03\x04": "this is a zip archive: unpack it first",
}


@dataclass(frozen=True, eq=False)
class OnnxContent:
    """`SourceModel.content` of ONNX models."""

    proto: ModelProto
    weights: Mapping[str, np.ndarray]
    """Initializers of the outermost graph by name."""
    folder: Path | None
    """Where external data lies."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Inputs and weights, by name, that have no place in the IR, and why; only where the model was
    read to be examined."""


def load(
    path: str | Path, is_examined: bool = False, inputs: Mapping[str, Any] | None = None
) -> SourceModel:
    """Reads an ONNX file. ModelError says what is wrong with it and where.

    is_examined: inputs and weights of types that the IR does not have, for which UnsupportedError
    is raised else, are noted in `OnnxContent.problems`. inputs: values of inputs that are sequences
    or optionals, which become tensors.
    """
    path = Path(path)
    try:
        proto = with_tensors(parse(path), inputs or {})
        return from_proto(proto, path.stem, path, is_examined)
    except (ModelError, UnsupportedError) as error:
        if not error.file:
            error.file = str(path)
        raise


def from_proto(
    proto: ModelProto, name: str = "model", path: Path | None = None, is_examined: bool = False
) -> SourceModel:
    """A SourceModel for a parsed model, which becomes its own: nodes without a name get one."""
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError("not an ONNX model: there is no graph in it", hint="check the file")
    check_node_count(proto)
    if proto.functions:
        proto = _inlined(proto)
    proto = with_codes(proto)
    opsets = opset_versions(proto)
    graph = proto.graph
    folder = path.parent if path is not None else None
    _name_nodes(graph, "", Counter())
    problems: dict[str, str] = {}
    weights = {}
    for tensor in graph.initializer:
        with _noting(problems, tensor.name, is_examined):
            weights[tensor.name] = read_tensor(tensor, folder)
    stored = {t.name for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in stored]
    known = stored | {i.name for i in inputs} | {""}
    known |= {t.values.name for t in graph.sparse_initializer}
    _order_nodes(graph, known)
    values = [SourceValue(i.name, "", None) for i in inputs]
    for index, value in enumerate(inputs):
        with _noting(problems, value.name, is_examined):
            values[index] = _source_value(value, is_input=True)
    outputs = [SourceValue(o.name, "", None) for o in graph.output]
    for index, value in enumerate(graph.output):
        with _noting(problems, value.name, is_examined):
            outputs[index] = _source_value(value, is_input=False)
    return SourceModel(
        name=name,
        format="onnx",
        path=path,
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        opset=", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in opsets.items()),
        inputs=tuple(values),
        outputs=tuple(outputs),
        nodes=tuple(
            SourceNode(n.name, n.op_type, node_text(n), inner_operators=_inner_operators(n))
            for n in walk(graph)
        ),
        parameters=sum(math.prod(w.shape) for w in weights.values()) + _in_nodes(graph),
        content=OnnxContent(proto, weights, folder, problems),
        tensors=tuple(name for node in graph.node for name in node.output if name),
        constants=weights,
        states=paired_states(values, outputs),
    )


@contextmanager
def _noting(problems: dict[str, str], name: str, is_examined: bool) -> Iterator[None]:
    """Notes what is not supported instead of raising it, where the model is only examined."""
    try:
        yield
    except UnsupportedError as error:
        if not is_examined:
            raise
        problems.setdefault(name, error.message)


def _in_nodes(graph: GraphProto) -> int:
    """Elements of weights that are no initializers of the outermost graph: those of nested graphs,
    and values of Constant nodes, which some exporters write for all weights. Of these, scalars and
    int64 are settings and shapes."""
    constants = [
        attribute.t
        for node in walk(graph)
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.t.dims and attribute.t.data_type != TensorProto.INT64
    ]
    nested = [t for node in walk(graph) for g in subgraphs(node) for t in g.initializer]
    return sum(math.prod(max(0, size) for size in t.dims) for t in (*constants, *nested))


def _inlined(proto: ModelProto) -> ModelProto:
    """The model with its functions written out where they are called."""
    try:
        return onnx.inliner.inline_local_functions(proto)
    except onnx.checker.ValidationError as error:  # more functions than onnx allows, or damage
        raise ModelError(
            f"the functions of the model cannot be written out: {str(error).splitlines()[0]}",
            hint="the file is damaged, or has far more functions than a model needs",
        ) from error


def opset_versions(proto: ModelProto) -> dict[str, int]:
    """Version of every operator set that the model imports; "" is ONNX's own."""
    if not proto.opset_import and proto.ir_version >= _OPSETS_SINCE_IR_VERSION:
        raise ModelError("the model names no opset", hint="the file is cut off or damaged")
    versions: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if not 0 <= entry.version <= _LARGEST_OPSET:
            raise ModelError(
                f"{entry.version} is no version of the opset {entry.domain or 'ai.onnx'!r}",
                hint="the file is damaged: compare it with the original",
            )
        versions[domain] = entry.version
    newest = onnx.defs.onnx_opset_version()
    if versions.get("", 1) > newest:
        raise UnsupportedError(
            f"the model uses opset {versions['']}; this version of onnx knows up to {newest}",
            hint="install a newer onnx, or export with a lower opset",
        )
    versions.setdefault("", 1)
    return versions


def walk(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """All nodes, those of nested graphs after the node that holds them."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from walk(inner)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    return [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]


def _inner_operators(node: NodeProto) -> tuple[str, ...]:
    inner = (one.op_type for graph in subgraphs(node) for one in walk(graph))
    return tuple(dict.fromkeys(inner))


def parse(path: Path) -> ModelProto:
    """The protobuf message in a file; ModelError says why there is none."""
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        raise ModelError("the file is empty", hint="download or export it again")
    if size_bytes > LARGEST_FILE_BYTES:
        raise ModelError(
            f"the file has {size_bytes:,} bytes; an ONNX file has at most {LARGEST_FILE_BYTES:,}",
            hint="save the model with external data",
        )
    data = path.read_bytes()
    for start, hint in _UNLIKELY.items():
        if data.startswith(start):
            raise ModelError("not an ONNX model", hint=hint)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise ModelError(
            f"not an ONNX model, or cut off after {size_bytes:,} bytes",
            hint="compare the file's size with the original's, and download it again",
        ) from error
    check_names(proto)
    return proto


def _name_nodes(graph: GraphProto, prefix: str, taken: Counter[str]) -> None:
    """Gives every node a unique name: `Operator_index` where it has none, `name#2` for a second."""
    for index, node in enumerate(graph.node):
        name = node.name or f"{prefix}{node.op_type}_{index}"
        taken[name] += 1
        node.name = name if taken[name] == 1 else f"{name}#{taken[name]}"
        for inner in subgraphs(node):
            _name_nodes(inner, f"{node.name}/", taken)


def _order_nodes(graph: GraphProto, known: Set[str]) -> None:
    """Puts nodes behind what they use; others keep their order.

    ONNX demands this order of a file, but exporters are careless and runtimes forgive it.
    ModelError unless every tensor is made, and made once, and nothing depends on itself.
    """
    _drop_replaced_constants(graph)
    makers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and (name in makers or name in known):
                raise ModelError(
                    f"tensor {name!r} is made twice; the second time by {node.name}",
                    node=node.name,
                    hint="the file is damaged",
                )
            makers[name] = index
    available = known | makers.keys()
    uses = [_uses(node, available) for node in graph.node]
    order = _sorted_indices([[makers[n] for n in names if n in makers] for names in uses])
    if len(order) < len(graph.node):
        node = next(n for i, n in enumerate(graph.node) if i not in set(order))
        raise ModelError(
            f"node {node.name} ({node.op_type}) needs its own result, perhaps through others",
            node=node.name,
            hint="the file is damaged",
        )
    if order != sorted(order):
        nodes = [graph.node[index] for index in order]
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    for output in graph.output:
        if output.name not in available:
            raise ModelError(
                f"no node makes the output {output.name!r}", hint="the file is cut off or damaged"
            )


def _drop_replaced_constants(graph: GraphProto) -> None:
    """Where two constants make one tensor the later counts, as in onnxruntime.

    Not valid ONNX, but optimizers of transformer models leave such files behind.
    """
    last: dict[str, int] = {}
    replaced: list[int] = []
    for index, node in enumerate(graph.node):
        if node.op_type == "Constant" and len(node.output) == 1:
            if node.output[0] in last:
                replaced.append(last[node.output[0]])
            last[node.output[0]] = index
    for index in sorted(replaced, reverse=True):
        del graph.node[index]


def _uses(node: NodeProto, available: Set[str]) -> list[str]:
    """Tensors that a node needs, those of its nested graphs included; these are ordered too."""
    names = [name for name in node.input if name]
    for name in names:
        if name not in available:
            raise ModelError(
                f"no node makes {name!r}, which {node.name} ({node.op_type}) needs",
                node=node.name,
                hint="the file is cut off or damaged",
            )
    names += [n for n in _differentiated(node) if n in available]
    for inner in subgraphs(node):
        own = {t.name for t in inner.initializer} | {i.name for i in inner.input}
        _order_nodes(inner, available | own)
        names += [name for n in walk(inner) for name in n.input if name in available]
        names += [output.name for output in inner.output if output.name in available]
    return names


def _differentiated(node: NodeProto) -> list[str]:
    """The tensor whose gradient a node asks for, which it names and does not read."""
    if node.op_type != "Gradient" or node.domain != "ai.onnx.preview.training":
        return []
    return [a.s.decode("utf-8", "replace") for a in node.attribute if a.name == "y"]


def _sorted_indices(needs: Sequence[Sequence[int]]) -> list[int]:
    """Order of 0 ... n - 1 in which everything follows what it needs, up to the first cycle.

    Depth first, without recursion: a chain may have thousands of nodes.
    """
    done: list[int] = []
    state = [0] * len(needs)  # 0: not met, 1: waits for what it needs, 2: done
    for start in range(len(needs)):
        pending = [start]
        while pending:
            index = pending[-1]
            waiting = [n for n in needs[index] if state[n] == 0]
            state[index] = max(state[index], 1)
            if waiting:
                pending.extend(reversed(waiting))
                continue
            pending.pop()
            if state[index] == 1:
                if any(state[n] == 1 for n in needs[index]):
                    return done
                state[index] = 2
                done.append(index)
    return done


def _source_value(value: ValueInfoProto, is_input: bool) -> SourceValue:
    """Name, type and shape; dimensions of inputs that have no name, or the size -1, as some
    exporters write them, are called `name.axis`."""
    role = "input" if is_input else "output"
    kind = value.type.WhichOneof("value")
    is_text = kind == "tensor_type" and value.type.tensor_type.elem_type == onnx.TensorProto.STRING
    if not is_input and (is_text or kind != "tensor_type"):
        # Strings, a sequence, an optional: their tensors become outputs with names of their own.
        return SourceValue(value.name, "", None)
    if kind in ("sequence_type", "optional_type"):
        what = kind.removesuffix("_type")
        raise UnsupportedError(
            f"input {value.name!r} is {'an' if what == 'optional' else 'a'} {what}: which tensors "
            "it holds is not known before the model runs",
            hint=f"give its tensors: explorer.compile(file, inputs={{{value.name!r}: "
            f"{'array or None' if what == 'optional' else '[first, second]'}}})",
        )
    if kind != "tensor_type":
        raise UnsupportedError(f"{role} {value.name!r} is a {kind or 'value'} without tensor type")
    tensor = value.type.tensor_type
    if is_text:
        raise UnsupportedError(
            f"{role} {value.name!r} has elements of type STRING",
            hint="run the model through explorer.onnx_backend, which compiles for given inputs",
        )
    dtype = dtype_of(tensor.elem_type, f"{role} {value.name!r}")
    if not tensor.HasField("shape"):
        if is_input:
            raise UnsupportedError(
                f"input {value.name!r} has no shape, not even a number of dimensions"
            )
        return SourceValue(value.name, dtype.name, None)
    check_rank(len(tensor.shape.dim), f"{role} {value.name!r}")
    shape = tuple(_dimension(d, f"{value.name}.{axis}") for axis, d in enumerate(tensor.shape.dim))
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise ModelError(f"{role} {value.name!r} has a negative size: {shape}")
    check_size([d for d in shape if isinstance(d, int)], dtype.itemsize, f"{role} {value.name!r}")
    return SourceValue(value.name, dtype.name, shape)


def _dimension(dimension: onnx.TensorShapeProto.Dimension, unnamed: str) -> Dim:
    if dimension.WhichOneof("value") == "dim_value" and dimension.dim_value != -1:
        return dimension.dim_value
    return re.sub(r"\s+", " ", dimension.dim_param).strip() or unnamed
