"""Sequences and optionals: resolved while importing, so that only tensors are left.

s = SplitToSequence(x)    TensorSequence of slices of x
SequenceLength(s)         a constant
SequenceAt(s, 1)          the second slice itself
ConcatFromSequence(s)     top.concat of the slices
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import (
    Imported,
    OptionalValue,
    StringTensor,
    TensorSequence,
)
from explorer.ir.top.indexing import GatherOp

MAX_ELEMENTS = 4096
"""Elements of a sequence: each of them is an operation of its own."""


@converts("SequenceEmpty", since=11)
def empty(node: Node, build: Build) -> TensorSequence:
    return TensorSequence(())


@converts("SequenceConstruct", since=11)
def construct(node: Node, build: Build) -> TensorSequence:
    return TensorSequence(tuple(_tensor(node, index) for index in range(len(node.operands))))


@converts("SequenceInsert", since=11)
def insert(node: Node, build: Build) -> TensorSequence:
    """Before a position; behind all where none is given."""
    elements = list(node.sequence(0).elements)
    operand, behind = node.optional(2), len(elements)
    is_behind = operand is None or build.integers(operand, "a position in a sequence") == [behind]
    position = behind if is_behind else _position(node, 2, behind, build)
    assert position is not None
    elements.insert(position, _tensor(node, 1))
    return TensorSequence(tuple(elements))


@converts("SequenceErase", since=11)
def erase(node: Node, build: Build) -> TensorSequence:
    """At a position; the last where none is given."""
    elements = list(node.sequence(0).elements)
    position = _position(node, 1, len(elements), build)
    elements.pop(-1 if position is None else position)
    return TensorSequence(tuple(elements))


@converts("SequenceAt", since=11)
def at(node: Node, build: Build) -> Imported:
    """The element itself; where the position is computed, a gather of equally shaped ones."""
    elements, position = node.sequence(0).elements, node.operand(1)
    if build.knowledge.needed(position) is not None:
        found = _position(node, 1, len(elements), build)
        assert found is not None
        return elements[found]
    tensors = [e for e in elements if isinstance(e, Expr)]
    if not tensors or len({e.type for e in tensors}) != 1 or len(tensors) != len(elements):
        raise Unsupported("the position depends on the inputs, and the elements differ in shape")
    stacked = build.concat([e.unsqueeze([0]) for e in tensors], 0)
    return build.value(GatherOp, [stacked, position.reshape([])], axis=0)


@converts("SequenceLength", since=11)
def length(node: Node, build: Build) -> Expr:
    return build.weight(np.array(len(node.sequence(0).elements), np.int64))


@converts("SplitToSequence", since=11)
def split(node: Node, build: Build) -> TensorSequence:
    """Parts of one size (the last may be smaller), of listed sizes, or of size 1 without axis."""
    x, sizes = node.operand(0), node.optional(1)
    axis = build.axis(node.integer("axis", 0), x.rank)
    (total,) = x.sizes([axis], "a split into a sequence")
    keeps = sizes is not None or bool(node.integer("keepdims", 1))
    if sizes is None:
        parts = [1] * total
    elif sizes.rank:
        parts = build.integers(sizes, "the sizes of the parts")
    else:
        (part,) = build.integers(sizes, "the size of the parts")
        if part < 1:
            raise ValueError(f"parts of {part} elements")
        parts = [min(part, total - begin) for begin in range(0, total, part)]
    if sum(parts) != total or min(parts, default=0) < 0:
        raise ValueError(f"parts {parts} of an axis with {total} elements")
    if len(parts) > MAX_ELEMENTS:
        raise Unsupported(f"a sequence of {len(parts)} elements; at most {MAX_ELEMENTS}")
    begins = np.cumsum([0, *parts]).tolist()
    slices = [x.slice(axis, a, a + n) for a, n in zip(begins, parts, strict=False)]
    return TensorSequence(tuple(slices if keeps else (s.squeeze([axis]) for s in slices)))


@converts("ConcatFromSequence", since=11)
def concat(node: Node, build: Build) -> Expr:
    """Along an axis that is there, or along a new one."""
    present = node.sequence(0).elements
    elements = [e for e in present if isinstance(e, Expr)]
    if len(elements) < len(present):
        raise Unsupported("a sequence of strings")
    if not elements:
        raise Unsupported("an empty sequence has no tensor to join")
    is_new = bool(node.integer("new_axis", 0))
    axis = build.axis(node.integer("axis"), elements[0].rank + is_new)
    if is_new:
        elements = [element.unsqueeze([axis]) for element in elements]
    return build.concat(elements, axis)


@converts("SequenceMap", since=17)
def transform(node: Node, build: Build) -> Sequence[TensorSequence]:
    """The body once for each element; tensors beside the sequences are the same every time."""
    body = node.graph("body")
    count = len(node.sequence(0).elements)
    if count > MAX_ELEMENTS:
        raise Unsupported(f"a sequence of {count} elements; at most {MAX_ELEMENTS}")
    results: list[list[Imported]] = []
    for number in range(count):
        arguments = [_element(operand, number) for operand in node.operands]
        results.append(build.inline(body, arguments))
    outputs = range(len(body.output))
    return [TensorSequence(tuple(found[output] for found in results)) for output in outputs]


@converts("Optional", since=15)
def optional(node: Node, build: Build) -> OptionalValue:
    content = node.structure(0)
    if isinstance(content, OptionalValue):
        raise ValueError("an optional of an optional")
    return OptionalValue(content)


@converts("OptionalGetElement", since=15)
def get_element(node: Node, build: Build) -> Imported:
    """What is in an optional; from opset 18 on other values are their own content."""
    value = node.structure(0)
    content = value.content if isinstance(value, OptionalValue) else value
    if content is None:
        raise ValueError("the optional is empty")
    return content


@converts("OptionalHasElement", since=15)
def has_element(node: Node, build: Build) -> Expr:
    value = node.structure(0)
    content = value.content if isinstance(value, OptionalValue) else value
    return build.weight(np.array(content is not None))


def _tensor(node: Node, index: int) -> Expr | StringTensor:
    """An element of a sequence: numbers or strings."""
    value = node.structure(index)
    return value if isinstance(value, StringTensor) else node.operand(index)


def _element(operand: Imported | None, number: int) -> Imported:
    if operand is None:
        raise ValueError("an operand is missing")
    if not isinstance(operand, TensorSequence):
        return operand
    if number >= len(operand.elements):
        raise ValueError(f"sequences of different lengths; one has {len(operand.elements)}")
    return operand.elements[number]


def _position(node: Node, index: int, count: int, build: Build) -> int | None:
    """A position in a sequence, counted from the end if negative; None where it is left out."""
    operand = node.optional(index)
    if operand is None:
        return None
    (position,) = build.integers(operand, "a position in a sequence")
    if not -count <= position < count:
        raise ValueError(f"position {position} of {count}")
    return position % count
