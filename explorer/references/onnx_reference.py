"""Who is right about ONNX models: onnxruntime without optimizations, on one thread.

    OnnxReference().tensors(model, {"image": image}, ["conv1_out", "logits"])
        -> [("conv1_out", array), ("logits", array)]

All intermediate tensors can be had, by their names in the model: they are appended to its outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
from onnx import ModelProto

from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import OnnxContent
from explorer.importers.onnx.program.host_values import program_arrays
from explorer.ir.types import ELEMENT_TYPES, numpy_dtype
from explorer.references.interface import OpenedModel, Reference, ReferenceNode
from explorer.references.onnx_float64 import evaluate_exactly, names_read
from explorer.references.onnx_pairs import pair_parts
from explorer.references.onnx_parts import onnx_parts
from explorer.references.onnx_runtime import NAME, open_alone, open_model, shared_process
from explorer.references.parts import NoPart, Part

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
_PASS_ON = ("Identity", "Dropout")


class OnnxReference(Reference):
    name = NAME
    title = "onnxruntime, optimizations off"
    has_float64 = True
    keeps_special = True

    def start(self) -> None:
        shared_process().start()

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        """Computed tensors. A type that onnxruntime has but makes no arrays of is cast to float32,
        which holds it exactly, by a node behind it."""
        outputs = {output.name for output in _proto(model).graph.output}
        exposed = [name for name in names if name not in outputs]
        narrow: dict[str, np.dtype] = {}
        opened = open_model(model, is_optimized=False, addition=_addition(exposed))
        try:
            narrow = _narrow_outputs(opened.outputs, names)
            if narrow:
                opened.close()
                opened = open_model(model, is_optimized=False, addition=_addition(exposed, narrow))
            asked = {name: name + WIDENED if name in narrow else name for name in names}
            found = opened.run(inputs, list(asked.values()))
        finally:
            opened.close()
        values: list[tuple[str, np.ndarray]] = []
        for name in names:
            value = found[asked[name]]
            if isinstance(value, np.ndarray) and value.dtype != object:
                values.append((name, value.astype(narrow.get(name, value.dtype), copy=False)))
            elif name in outputs:
                values += program_arrays(_proto(model), name, value).items()
        return values

    def open(
        self,
        model: SourceModel,
        *,
        threads: int = 1,
        is_exact: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> OpenedModel:
        return open_alone(model, threads=threads, is_exact=is_exact, sizes=sizes)

    def nodes(self, model: SourceModel) -> dict[str, ReferenceNode]:
        """onnxruntime computes a node in float64 where it has such a kernel, onnx's reference
        implementation (`onnx.reference`) where not."""
        proto = _proto(model)
        return {
            name: ReferenceNode(
                name=node.name or node.output[0],
                operator=node.op_type,
                inputs=tuple(names_read(node)),
                outputs=tuple(node.output),
                evaluate=partial(evaluate_exactly, node, proto),
                is_passed_on=node.op_type in _PASS_ON,
            )
            for node in proto.graph.node
            for name in node.output
        }

    def parts(
        self, model: SourceModel, values: Mapping[str, np.ndarray]
    ) -> Iterator[Part | NoPart]:
        yield from onnx_parts(model, values)
        yield from pair_parts(model, values)


def _narrow_outputs(types: Mapping[str, str], names: Collection[str]) -> dict[str, np.dtype]:
    """Of some outputs those of types that onnxruntime has, but for which it makes no arrays."""
    return {
        name: numpy_dtype(ELEMENT_TYPES[UNREADABLE[kind]])
        for name, kind in types.items()
        if kind in UNREADABLE and name in names
    }


def _addition(exposed: Sequence[str], narrow: Collection[str] = ()) -> onnx.GraphProto:
    """What makes the exposed tensors outputs, too; narrow ones in float32, with `WIDENED` behind
    their names."""
    casts = [
        onnx.helper.make_node("Cast", [name], [name + WIDENED], to=onnx.TensorProto.FLOAT)
        for name in narrow
    ]
    names = [name for name in exposed if name not in narrow]
    names += [name + WIDENED for name in narrow]
    return onnx.GraphProto(node=casts, output=[onnx.ValueInfoProto(name=name) for name in names])


def _proto(model: SourceModel) -> ModelProto:
    assert isinstance(model.content, OnnxContent), model.format
    return model.content.proto
