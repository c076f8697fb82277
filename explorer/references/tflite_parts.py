"""Operators of a TFLite file as files of their own.

    a file with operators 0 ... 40      a copy of it that has operator 7 alone, with new inputs and
                                        outputs of its main subgraph

The copy keeps all bytes of the file. Its list of operators is shortened in place, and new lists of
inputs and outputs stand at its end: offsets of a flatbuffer only point forward.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.contents import Operator, Quantization, Tensor, TfliteContent
from explorer.importers.tflite.file.reading import read
from explorer.references.parts import Arrays, NoPart, Operand, Part, Steps

_SUBGRAPHS, _SIGNATURES = 2, 7
"""Fields of the table `Model` in the schema."""
_INPUTS, _OUTPUTS, _OPERATORS = 1, 2, 3
"""Fields of the table `SubGraph`."""
SMALL = 16
"""Elements of constants that tell operators apart."""


def tflite_parts(model: SourceModel, values: Arrays) -> Iterator[Part | NoPart]:
    """One for each operator of the main subgraph. values: the tensors of a run by name."""
    content = model.content
    assert isinstance(content, TfliteContent)
    for number, operator in enumerate(content.main.operators):
        reason = _reason(operator, content, values)
        if reason:
            yield NoPart(node=operator.name, operator=operator.kind, reason=reason)
        else:
            yield _part(content, number, operator, values)


def _reason(operator: Operator, content: TfliteContent, values: Arrays) -> str:
    flow = content.states.flows[operator.name]
    if len(flow.results) != len(operator.outputs) or any(
        t is not None and t.is_variable for t in operator.inputs
    ):
        return "it has a state"
    for tensor in operator.inputs:
        if tensor is None or tensor.data is not None:
            continue
        if tensor.name not in values:
            return f"its operand {tensor.name!r} is no tensor of numbers"
        if values[tensor.name].shape != tensor.shape:
            return f"the sizes of its operand {tensor.name!r} are known in a run only"
    if all(t is None or t.data is not None for t in operator.inputs):
        return "it has no operand that is computed"
    if not content.main.inputs or not content.main.outputs:
        return "the file has no inputs or no outputs"
    return ""


def _part(content: TfliteContent, number: int, operator: Operator, values: Arrays) -> Part:
    operands = tuple(None if t is None else _operand(t, values) for t in operator.inputs)
    given = {t.index: None for t in operator.inputs if t is not None and t.data is None}
    outputs = [t.index for t in operator.outputs]

    def model_for(inputs: Arrays) -> SourceModel:
        del inputs  # whose shapes the file has
        return read(memoryview(with_one(bytes(content.file), number, list(given), outputs)),
                    operator.name)  # fmt: skip

    first = operator.outputs[0]
    described = [None if t is None else _described(t) for t in operator.inputs]
    results = [_described(t) for t in operator.outputs]
    return Part(
        node=operator.name,
        operator=operator.kind,
        operands=operands,
        outputs=tuple(t.name for t in operator.outputs),
        form=f"{operator.kind} {operator.version} {dict(operator.options)} "
        f"{operator.custom_options.hex()} {described} {results}",
        model_for=model_for,
        attributes={
            **operator.options,
            **_custom_options(operator.custom_options),
            "result_type": first.element_type,
        },
        result=_steps(first.quantization),
        is_resizable=False,
    )


def _custom_options(data: bytes) -> dict[str, object]:
    """A map of FlexBuffers by name; nothing where it is another form."""
    from flatbuffers import flexbuffers

    try:
        found = flexbuffers.Loads(data) if data else {}
    except Exception:  # bytes of any form; the importer says what is wrong with them
        return {}
    return found if isinstance(found, dict) else {}


def _operand(tensor: Tensor, values: Arrays) -> Operand:
    is_constant = tensor.data is not None
    array = tensor.data if tensor.data is not None else values[tensor.name]
    steps = _steps(tensor.quantization)
    return Operand(name=tensor.name, array=array, is_constant=is_constant, steps=steps)


def _steps(quantization: Quantization | None) -> Steps | None:
    if quantization is None or not quantization.scales.size:
        return None
    return Steps(
        scale=quantization.scales, zero_point=quantization.zero_points, axis=quantization.axis
    )


def _described(tensor: Tensor) -> str:
    found = f"{tensor.element_type}{tensor.shape}"
    if tensor.data is not None and tensor.data.size <= SMALL:
        found += tensor.data.tobytes().hex()
    if tensor.quantization is not None:
        scales, zeros = tensor.quantization.scales[:SMALL], tensor.quantization.zero_points[:SMALL]
        found += f" {scales.tolist()} {zeros.tolist()} {tensor.quantization.axis}"
    return found


def with_one(file: bytes, number: int, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """The file with one operator of its main subgraph, between these tensors."""
    copy = bytearray(file)
    root = _at(copy, 0)
    subgraphs = _field(copy, root, _SUBGRAPHS)
    main = _at(copy, _at(copy, subgraphs) + 4)
    operators = _at(copy, _field(copy, main, _OPERATORS))
    chosen = _at(copy, operators + 4 + 4 * number)
    struct.pack_into("<I", copy, operators, 1)
    struct.pack_into("<I", copy, operators + 4, chosen - operators - 4)
    signatures = _field(copy, root, _SIGNATURES)
    if signatures:
        struct.pack_into("<I", copy, _at(copy, signatures), 0)
    for slot, tensors in ((_INPUTS, inputs), (_OUTPUTS, outputs)):
        copy.extend(bytes(-len(copy) % 4))
        place = _field(copy, main, slot)
        struct.pack_into("<I", copy, place, len(copy) - place)
        copy.extend(np.array([len(tensors), *tensors], "<i4").tobytes())
    return bytes(copy)


def _at(content: bytearray, place: int) -> int:
    """Where the offset at a place points to."""
    return place + struct.unpack_from("<I", content, place)[0]


def _field(content: bytearray, table: int, number: int) -> int:
    """Where a field of a table stands; 0 where the table does not have it."""
    layout = table - struct.unpack_from("<i", content, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", content, layout)[0]:
        return 0
    found = struct.unpack_from("<H", content, layout + place)[0]
    return table + found if found else 0
