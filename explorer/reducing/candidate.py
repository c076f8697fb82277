"""A model with inputs, as reducing sees it: an ONNX graph and what onnxruntime computes of it.

Where onnxruntime refuses the model, as it does operators of other tools, the imported program is
the reference: its parts compute what they do in the whole, whether that is right or not.

    candidate = candidate_of(model, {"image": image})
    candidate.operations                         175
    candidate.expected["logits"]                 onnxruntime's, every node as it is
    intermediates(candidate, ["conv1_out"])      other tensors of the same run

The graph is plain: constants are initializers, sizes are those of the inputs, outputs have the
types that the reference found, and nothing is kept that says only how to read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from onnx import GraphProto, ModelProto, ValueInfoProto, helper, numpy_helper

from explorer.compilation.interpreting import interpret
from explorer.errors import ExplorerError, InputError, ModelError
from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import OnnxContent, from_proto
from explorer.references.onnx_runtime import open_proto

Arrays = Mapping[str, np.ndarray]
MAX_BYTES = (2 << 30) - (16 << 20)
"""Of a model with its constants: what one protobuf message holds."""
INITIALIZERS_ALONE = 4
"""The first version of the file format in which initializers are no inputs."""


@dataclass(frozen=True, eq=False)
class Candidate:
    model: ModelProto
    inputs: Arrays
    expected: Arrays = field(default_factory=dict)
    """Outputs of the reference; none where it does not run the model."""
    refusal: str = ""
    """Why it does not."""
    is_interpreted: bool = False
    """Whether the imported program is the reference, since onnxruntime refused the whole model."""

    @property
    def operations(self) -> int:
        return len(self.model.graph.node)

    @property
    def elements(self) -> int:
        """Numbers in inputs and constants."""
        constants = sum(int(np.prod(tensor.dims)) for tensor in self.model.graph.initializer)
        return constants + sum(array.size for array in self.inputs.values())

    @cached_property
    def digest(self) -> str:
        """Of all that a condition may depend on."""
        found = hashlib.sha256(self.model.SerializeToString(deterministic=True))
        for name, array in sorted(self.inputs.items()):
            found.update(f"{name} {array.dtype} {array.shape} ".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


def candidate_of(model: SourceModel, inputs: Arrays) -> Candidate:
    """The candidate of a model that was loaded from ONNX, with arrays for all its inputs."""
    content = model.content
    if not isinstance(content, OnnxContent):
        raise InputError(f"an ONNX model is reduced, and this is {model.format}")
    return candidate_of_proto(content.proto, inputs, model.constants)


def candidate_of_proto(
    proto: ModelProto, inputs: Arrays, constants: Arrays | None = None
) -> Candidate:
    """As `candidate_of`. constants: arrays of initializers that lie outside the message."""
    outside = [array.nbytes for array in (constants or {}).values()]
    if max(proto.ByteSize(), sum(outside)) > MAX_BYTES:
        raise InputError(
            "the model takes more than 2 GiB, which no single file of ONNX holds",
            hint="cut it in two first (onnx.utils.extract_model)",
        )
    plain = _plain(proto, inputs, constants or {})
    given = {value.name: np.asarray(inputs[value.name]) for value in plain.graph.input}
    try:
        return _settled(plain, given, False)
    except ModelError as error:
        refusal = error.message
    return settled(plain, given, True) or Candidate(plain, given, refusal=refusal)


def settled(model: ModelProto, inputs: Arrays, is_interpreted: bool) -> Candidate | None:
    """The model with the types of its outputs as the reference finds them; None where it refuses.

    The message is changed.
    """
    try:
        return _settled(model, inputs, is_interpreted)
    except ExplorerError:
        return None


def _settled(model: ModelProto, inputs: Arrays, is_interpreted: bool) -> Candidate:
    for value in model.graph.input:
        if value.name in inputs:
            _retype(value, inputs[value.name])
    outputs = [value.name for value in model.graph.output]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    found = computed(model, inputs, outputs, is_interpreted)
    for value in model.graph.output:
        if isinstance(array := found.get(value.name), np.ndarray):
            _retype(value, array)
    expected = {name: array for name, array in found.items() if isinstance(array, np.ndarray)}
    return Candidate(model, inputs, expected, is_interpreted=is_interpreted)


def computed(
    model: ModelProto, inputs: Arrays, names: Sequence[str], is_interpreted: bool = False
) -> dict[str, object]:
    """Tensors by name, every node computed as it is; ExplorerError where the reference refuses."""
    shown = {value.name for value in model.graph.output}
    addition = GraphProto(output=[ValueInfoProto(name=n) for n in names if n not in shown])
    if is_interpreted:
        whole = ModelProto.FromString(
            model.SerializeToString() + ModelProto(graph=addition).SerializeToString()
        )
        try:
            return dict(interpret(from_proto(whole), inputs))
        except Exception as error:  # a trial that means nothing, whatever notices it
            raise ModelError(f"the imported program cannot be run: {error}") from error
    with open_proto(model, "a candidate", is_optimized=False, addition=addition) as opened:
        return dict(opened.run(inputs, list(names)))


def intermediates(candidate: Candidate, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Tensors of the reference's run, without what is no tensor of numbers; none if it refuses."""
    known = {**candidate.inputs, **candidate.expected}
    missing = [name for name in names if name not in known]
    if missing:
        try:
            known |= computed(candidate.model, candidate.inputs, missing, candidate.is_interpreted)
        except ExplorerError:
            return {}
    found = {name: known[name] for name in names if name in known}
    return {
        name: array
        for name, array in found.items()
        if isinstance(array, np.ndarray) and array.dtype.kind not in "OUS"
    }


def value_info(name: str, array: np.ndarray) -> ValueInfoProto:
    """An input or output of the array's type and sizes."""
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )


def _retype(value: ValueInfoProto, array: np.ndarray) -> None:
    value.CopyFrom(value_info(value.name, array))


def _plain(proto: ModelProto, inputs: Arrays, constants: Arrays) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(proto)
    graph = model.graph
    del graph.value_info[:], model.metadata_props[:]
    model.doc_string = graph.doc_string = ""
    model.ir_version = max(model.ir_version, INITIALIZERS_ALONE)
    for tensor in graph.initializer:
        if tensor.external_data:
            tensor.CopyFrom(
                numpy_helper.from_array(np.asarray(constants[tensor.name]), tensor.name)
            )
    kept = []
    for node in graph.node:
        node.doc_string = ""
        value = node.attribute[0] if len(node.attribute) == 1 else None
        if node.op_type == "Constant" and not node.domain and value and value.name == "value":
            tensor = graph.initializer.add()
            tensor.CopyFrom(value.t)
            tensor.name = node.output[0]
        else:
            kept.append(node)
    _replace(graph.node, kept)
    own = {tensor.name for tensor in graph.initializer}
    _replace(graph.input, [v for v in graph.input if v.name not in own or v.name in inputs])
    given = {value.name for value in graph.input}
    _replace(graph.initializer, [t for t in graph.initializer if t.name not in given])
    if missing := sorted(given - set(inputs)):
        raise InputError(f"there is no array for the input {missing[0]!r}")
    return model


def _replace(field: object, values: Sequence[object]) -> None:
    """A repeated field's content; protobuf's fields know no assignment."""
    copies = [type(value)() for value in values]
    for copy, value in zip(copies, values, strict=True):
        copy.CopyFrom(value)  # type: ignore[attr-defined]
    del field[:]  # type: ignore[attr-defined]
    field.extend(copies)  # type: ignore[attr-defined]
