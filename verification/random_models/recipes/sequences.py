"""Sequences and optionals: made, changed and taken apart again, so that tensors come out."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from verification.random_models.draft import TYPES, Draft, NotPossible, Value
from verification.random_models.recipes.recipe import recipes


def changed(draft: Draft) -> None:
    """A sequence of tensors, to which some are added and from which some are erased."""
    x = draft.operand(TYPES, (0, 1, 2))
    tensors = [draft.like(x, x.shape) for _ in range(draft.number(1, 3))]
    (result,) = draft.fresh()
    nodes = _construct(draft, tensors, result)
    length, name = len(tensors), nodes[-1].output[0]
    for step in range(draft.number(0, 2)):
        place = [_place(draft, length + (0 if draft.flag() else 1))] if draft.flag() else []
        if draft.flag() or length < 2:
            operands = [name, draft.like(x, x.shape).name, *place]
            node, length = helper.make_node("SequenceInsert", operands, [""]), length + 1
        else:
            where = [_place(draft, length)] if place else []
            node, length = helper.make_node("SequenceErase", [name, *where], [""]), length - 1
        name = node.output[0] = f"{result}_step{step}"
        nodes.append(node)
    _take_apart(draft, nodes, name, result, x, length)


def split_sequence(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    axis = draft.number(0, x.rank - 1)
    size = x.shape[axis]
    if size < 2:
        raise NotPossible
    (result,) = draft.fresh()
    parts = draft.one_of([[], [draft.constant([1, size - 1])], [draft.constant(np.array(size))]])
    flags: dict[str, Any] = {"keepdims": draft.number(0, 1)} if not parts else {}
    nodes = [
        helper.make_node("SplitToSequence", [x.name, *parts], [f"{result}_s"], axis=axis, **flags)
    ]
    where = draft.constant(np.array(0, np.int64))
    nodes.append(helper.make_node("SequenceAt", [f"{result}_s", where], [result]))
    first = 1 if len(parts) == 0 or draft.constants[parts[0]].ndim else size
    own = [first if a == axis else s for a, s in enumerate(x.shape)]
    if flags and not flags["keepdims"]:
        del own[axis]
    draft.add_nodes(nodes, [result], types=[(x.dtype, tuple(own))])


def mapped(draft: Draft) -> None:
    x = draft.operand(("float32",), (1, 2))
    tensors = [draft.like(x, x.shape) for _ in range(draft.number(1, 3))]
    (result,) = draft.fresh()
    nodes = _construct(draft, tensors, result)
    inner = [helper.make_node(draft.one_of(["Neg", "Relu"]), [f"{result}_x"], [f"{result}_y"])]
    infos = [
        helper.make_tensor_value_info(f"{result}_{n}", TensorProto.FLOAT, x.shape) for n in "xy"
    ]
    body = helper.make_graph(inner, f"{result}_body", infos[:1], infos[1:])
    name = nodes[-1].output[0]
    nodes.append(helper.make_node("SequenceMap", [name], [f"{result}_m"], body=body))
    _take_apart(draft, nodes, f"{result}_m", result, x, len(tensors))


def optional(draft: Draft) -> None:
    """A tensor as an optional, and whether it is there."""
    x = draft.operand(TYPES, (0, 1, 2))
    held, there, (result,) = "", "", draft.fresh()
    held, there = f"{result}_o", f"{result}_there"
    nodes = [
        helper.make_node("Optional", [x.name], [held]),
        helper.make_node("OptionalHasElement", [held], [there]),
        helper.make_node("OptionalGetElement", [held], [result]),
    ]
    draft.add_nodes(nodes, [there, result], types=[("bool", ()), (x.dtype, x.shape)])


def _construct(draft: Draft, tensors: list[Value], result: str) -> list[NodeProto]:
    """The sequence all at once, or beginning with an empty one."""
    if draft.flag():
        names = [t.name for t in tensors]
        return [helper.make_node("SequenceConstruct", names, [f"{result}_s"])]
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(tensors[0].dtype))
    nodes = [helper.make_node("SequenceEmpty", [], [f"{result}_e"], dtype=dtype)]
    for number, tensor in enumerate(tensors):
        name = f"{result}_e{number}"
        operands = [nodes[-1].output[0], tensor.name]
        nodes.append(helper.make_node("SequenceInsert", operands, [name]))
    return nodes


def _take_apart(
    draft: Draft, nodes: list[NodeProto], name: str, result: str, x: Value, length: int
) -> None:
    """One of the tensors, all of them joined, or how many there are."""
    match draft.number(0, 2):
        case 0:
            where = _place(draft, length)
            nodes.append(helper.make_node("SequenceAt", [name, where], [result]))
            shape, dtype = x.shape, x.dtype
        case 1:
            is_new = draft.number(0, 1)
            if not is_new and not x.rank:
                raise NotPossible
            axis = draft.number(0, x.rank - 1 + is_new)
            sizes = list(x.shape)
            sizes[axis : axis + 1 - is_new] = [length if is_new else length * sizes[axis]]
            flags: dict[str, Any] = {"axis": axis, "new_axis": is_new}
            nodes.append(helper.make_node("ConcatFromSequence", [name], [result], **flags))
            shape, dtype = tuple(sizes), x.dtype
        case _:
            nodes.append(helper.make_node("SequenceLength", [name], [result]))
            shape, dtype = (), "int64"
    draft.add_nodes(nodes, [result], types=[(dtype, shape)])


def _place(draft: Draft, length: int) -> str:
    return draft.constant(np.array(draft.number(-length, length - 1), np.int64))


RECIPES = (*recipes(changed, split_sequence, optional, mapped), *recipes(changed))
