"""Calls that write into their operand: as the function of their name, and what changes with it.

   %f = aten.fill_(%s, 1)        with %s = aten.select(%y, 1, 0)
=> a tensor of ones for f, and y with it in the place of s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.file.program import Ref, references
from explorer.importers.pytorch.file.versions import View, Write
from explorer.importers.pytorch.operators.indexing import (
    replaced,
    replaced_at,
    replaced_diagonal,
)
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode

ConvertNode = Callable[[AtenNode, Build], Expr | Sequence[Expr]]
"""A node's results; `Unsupported` with the reason for what cannot be expressed."""
Find = Callable[[str], ConvertNode | None]
"""What converts a target."""


def written(node: AtenNode, build: Build, convert: ConvertNode, find: Find) -> list[Expr]:
    """The result in the shape and type of what was written into, and the new versions of others."""
    if node.step.unclear:
        raise Unsupported("it writes into what may or may not share its storage with others")
    if node.step.write is not None and _touches_complex(node, node.step.write):
        raise Unsupported("a write into complex numbers of which there are views, or into a view")
    made = convert(node, build)
    result = made if isinstance(made, Expr) else next(iter(made))
    target = node.operand(node.first())
    result = result.astype(target.dtype)
    if result.shape != target.shape:
        result = expanded(result, target.all_sizes())
    write = node.step.write
    if write is None:
        return [result]
    root = _put_back(node, node.given[write.root], write.path, result, build, find)
    return [result, *(_follow(node, root, path, build, find) for path in write.others)]


def _touches_complex(node: AtenNode, write: Write) -> bool:
    """Whether what is written into, or a view that changes with it, is complex."""
    views = [view for path in (write.path, *write.others) for view in path]
    names = {write.root, *(view.call.results[view.result] for view in views)}
    return node.has_complex() or not names.isdisjoint(node.complexes)


def _put_back(
    node: AtenNode,
    root: Expr,
    path: Sequence[View],
    value: Expr,
    build: Build,
    find: Find,
) -> Expr:
    """The root with a value in the place of one of its views."""
    if not path:
        return value
    view, rest = path[0], path[1:]
    inside = value
    if rest:
        seen = _viewed(node, root, view, build, find)
        inside = _put_back(node, seen, rest, value, build, find)
    bound = _bound(node, root, view, build)
    put = _INVERSES.get(view.call.target.removeprefix("aten."))
    if put is None:
        raise Unsupported(f"a write into the result of {view.call.target}")
    return put(bound, root, inside, view.result, build)


def _follow(node: AtenNode, root: Expr, path: Sequence[View], build: Build, find: Find) -> Expr:
    for view in path:
        root = _viewed(node, root, view, build, find)
    return root


def _viewed(node: AtenNode, root: Expr, view: View, build: Build, find: Find) -> Expr:
    convert = find(view.call.target)
    if convert is None:
        raise Unsupported(f"a view by {view.call.target}")
    made = convert(_bound(node, root, view, build), build)
    return made if isinstance(made, Expr) else list(made)[view.result]


def _bound(node: AtenNode, root: Expr, view: View, build: Build) -> AtenNode:
    """The call of a view with a value in the place of what it viewed."""
    del build
    call = replace(view.call, arguments={**view.call.arguments, view.parameter: Ref("viewed")})
    others = {
        name: node.given[name]
        for name in references(tuple(view.call.arguments.values()))
        if name in node.given
    }
    return replace(node, step=replace(node.step, call=call), given={**others, "viewed": root})


# -- the inverses of views -------------------------------------------------------------------------

_Put = Callable[[AtenNode, Expr, Expr, int, Build], Expr]


def _itself(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del view, root, part, build
    return value


def _shaped(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del view, part
    return value.reshape(root.all_sizes())


def _selected(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del part
    axis = build.axis(view.integer("dim", build), root.rank)
    return replaced_at(root, value, axis, view.integer("index", build), build)


def _sliced(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del part
    axis = build.axis(view.integer("dim", build, 0), root.rank)
    step = view.integer("step", build, 1)
    whole = value.shape[axis] == root.shape[axis]
    if whole and step == 1:
        return value
    start, stop = view.integer("start", build, 0), view.integer("end", build, 2**63 - 1)
    return replaced(root, value, axis, start, stop, step, build)


def _narrowed(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del part
    axis = build.axis(view.integer("dim", build), root.rank)
    start, length = view.integer("start", build), view.integer("length", build)
    return replaced(root, value, axis, start, start + length, 1, build)


def _permuted(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    """The order of axes by where a transposed marker has them."""
    del part
    rank = root.rank
    kind = view.call.target.removeprefix("aten.")
    order = list(range(rank))
    if kind == "permute":
        order = [build.axis(a, rank) for a in view.integers("dims", build)]
    elif kind in ("t", "numpy_T"):
        order.reverse()
    elif kind in ("mT", "mH", "adjoint"):
        order[-2:] = order[-1], order[-2]
    else:
        names = ("dim0", "dim1") if view.has("dim0") else ("axis0", "axis1")
        first, second = (build.axis(view.integer(name, build), rank) for name in names)
        order[first], order[second] = second, first
    return value.transpose([order.index(axis) for axis in range(rank)])


def _parted(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    """One of the parts of an axis: split, chunk."""
    axis = build.axis(view.integer("dim", build, 0), root.rank)
    (size,) = root.sizes([axis], "a part that is replaced")
    if view.has("split_sizes") or isinstance(view.argument("split_size"), tuple):
        name = "split_sizes" if view.has("split_sizes") else "split_size"
        sizes = view.integers(name, build)
    else:
        chunks = view.has("chunks")
        step = (
            -(-size // view.integer("chunks", build))
            if chunks
            else view.integer("split_size", build)
        )
        sizes = [min(step, size - at) for at in range(0, size, step)]
    start = sum(sizes[:part])
    return replaced(root, value, axis, start, start + sizes[part], 1, build)


def _unbound(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    axis = build.axis(view.integer("dim", build, 0), root.rank)
    return replaced_at(root, value, axis, part, build)


def _diagonal(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del part
    offset = view.integer("offset", build, 0)
    axes = [
        build.axis(view.integer(name, build, default), root.rank)
        for name, default in (("dim1", 0), ("dim2", 1))
    ]
    return replaced_diagonal(root, value, offset, axes, build)


def _expanded(view: AtenNode, root: Expr, value: Expr, part: int, build: Build) -> Expr:
    del view, part
    if root.shape != value.shape:
        raise Unsupported("a write into a tensor whose elements are repeated")
    return value


_INVERSES: dict[str, _Put] = {
    **dict.fromkeys(
        ("alias", "detach", "detach_", "lift_fresh", "contiguous", "requires_grad_", "positive",
         "dropout", "feature_dropout", "alpha_dropout", "type_as", "to.dtype", "to.device",
         "to.dtype_layout", "to.other", "to.prim_Device"),
        _itself,
    ),
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "view_as", "reshape_as", "flatten.using_ints", "ravel",
         "unflatten.int", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze"),
        _shaped,
    ),
    "select.int": _selected,
    "slice.Tensor": _sliced,
    "narrow": _narrowed,
    **dict.fromkeys(
        ("permute", "t", "numpy_T", "mT", "mH", "adjoint", "transpose.int", "swapaxes", "swapdims"),
        _permuted,
    ),
    **dict.fromkeys(
        ("split", "split.Tensor", "split.sizes", "split_with_sizes", "chunk"), _parted
    ),
    "unbind.int": _unbound,
    "diagonal": _diagonal,
    "expand": _expanded,
    "expand_as": _expanded,
}  # fmt: skip

__all__ = ["ConvertNode", "Find", "written"]
