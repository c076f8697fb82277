"""Loops that begin where something changes: a kernel that replaces what is beyond a call's sizes.

    y[c, i, j] = valid[i, j] ? x[c, i, j] : 0           x and y in one buffer

    for (j = i < h ? w : 0; j < 82; j++)                rows of the call begin after their elements

`kernel.kept = [[0, 1], ..., [1, 3, 1, 0], ...]` on a kernel says which elements of its result are
those of an operand: the argument of that operand, 1 where no others are, and for every dimension
of the result the first element, the argument that holds a size (-1: all elements), times and
minus; the elements end before first + times * size - minus. `find_extents.py` finds that. Where the
result lies over the operand, nothing has to be stored for them, and `loop.begin` marks the loops
that begin later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    access_width,
    accesses_in,
    accesses_of,
    enclosing_loops,
    index_of,
    is_store,
    kind_of,
    subscripts,
)

KEPT = "kernel.kept"
BEGIN = "loop.begin"


@dataclass(frozen=True)
class KeptDimension:
    """Elements from `first` on, before first + times * size - minus."""

    first: int
    argument: int
    times: int
    minus: int


@dataclass(frozen=True)
class Kept:
    """The elements of a result that are those of an operand."""

    operand: int
    """The operand's place among the kernel's arguments."""
    dimensions: tuple[KeptDimension | None, ...]
    """Of the result; None: all elements."""
    is_exact: bool
    """Whether all other elements are another number."""

    def attribute(self) -> ArrayAttr[DenseArrayBase]:
        whole = KeptDimension(0, -1, 0, 0)
        first = [self.operand, int(self.is_exact)]
        rows = [[d.first, d.argument, d.times, d.minus]
                for d in (one or whole for one in self.dimensions)]  # fmt: skip
        return ArrayAttr([DenseArrayBase.from_list(i64, row) for row in [first, *rows]])


@dataclass(frozen=True)
class End:
    """A subscript that has to stay below a size of the call: form < times * size - minus."""

    form: LinearForm
    argument: int
    times: int
    minus: int


@dataclass(frozen=True)
class Begin:
    """Iterations of a loop that store kept elements only, where all conditions hold."""

    conditions: tuple[End, ...]
    """Of indices of loops around it."""
    own: End
    """In units of the loop: index < (times * size - minus) / per."""
    per: int
    is_exact: bool
    """Whether the other iterations store no kept elements."""

    def arguments(self) -> tuple[int, ...]:
        return (self.own.argument, *(end.argument for end in self.conditions))


def kept_of_kernel(function: func.FuncOp) -> Kept | None:
    attribute = function.attributes.get(KEPT)
    if not isinstance(attribute, ArrayAttr):
        return None
    rows = [
        [int(value) for value in row.get_values()]
        for row in attribute.data
        if isinstance(row, DenseArrayBase)
    ]
    found = [None if row[1] < 0 else KeptDimension(*row) for row in rows[1:]]
    return Kept(rows[0][0], tuple(found), bool(rows[0][1]))


def begin_at_changes(kernel: func.FuncOp, operand: int) -> None:
    """Marks the loops of a kernel over an operand that may begin later."""
    kept = kept_of_kernel(kernel)
    if kept is None or kept.operand != operand:
        return
    for loop in walk_inside(kernel):
        if isinstance(loop, affine.ForOp) and kind_of(loop) == "parallel":
            del loop.attributes["loop.kind"]  # few elements change: tasks would find nothing to do
    for store in accesses_of(_result(kernel)):
        loops = enclosing_loops(store) if is_store(store) else []
        for loop in reversed(loops):
            begin = _begin(store, loop, kept)
            if begin is None:
                continue
            loop.attributes[BEGIN] = UnitAttr()
            if begin.is_exact:
                _store_other(store)
            break


def begin_of(loop: affine.ForOp) -> Begin | None:
    """Where a marked loop begins."""
    if BEGIN not in loop.attributes:
        return None
    parent = loop.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    kept = None if parent is None else kept_of_kernel(parent)
    if parent is None or kept is None:
        return None
    stores = [a for a in accesses_in(loop) if is_store(a) and a.memref is _result(parent)]
    found = [_begin(store, loop, kept) for store in stores]
    return found[0] if len(found) == 1 else None


def begin_text(
    begin: Begin, size: Callable[[int], str], form: Callable[[LinearForm], str], end: str
) -> str:
    """The first iteration in C, of a loop that ends at `end`."""
    text = f"({_elements(begin.own, size)}) / {begin.per}"
    conditions = [f"{form(one.form)} < {_elements(one, size)}" for one in begin.conditions]
    conditions.append(f"{_elements(begin.own, size)} > 0")
    return f"{' && '.join(conditions)} ? {text} : 0"


def changes_nothing(
    begin: Begin, size: Callable[[int], str], form: Callable[[LinearForm], str], index: str
) -> str:
    """The condition in C on which an iteration changes nothing."""
    conditions = [f"{form(one.form)} < {_elements(one, size)}" for one in begin.conditions]
    own = f"({index} + 1) * {begin.per}" if begin.per > 1 else f"{index} + 1"
    conditions.append(f"{own} <= {_elements(begin.own, size)}")
    return " && ".join(conditions)


def _elements(end: End, size: Callable[[int], str]) -> str:
    text = size(end.argument)
    text = text if end.times == 1 else f"{text} * {end.times}"
    if not end.minus:
        return text
    return f"{text} {'-' if end.minus > 0 else '+'} {abs(end.minus)}"


def _begin(store: Access, loop: affine.ForOp, kept: Kept) -> Begin | None:
    """The iterations of a loop for which one store inside stores kept elements only."""
    if not is_store(store) or loop.step.value.data != 1 or kind_of(loop) == "unroll":
        return None
    if len([a for a in accesses_in(loop) if is_store(a)]) != 1:
        return None
    forms, dimensions = subscripts(store), list(kept.dimensions)
    if len(forms) == len(dimensions) + 1:  # blocks of channels are the second and the last one
        if dimensions[1] is not None:
            return None
        dimensions.append(None)
    if len(forms) != len(dimensions):
        return None
    index, own, per, is_exact = index_of(loop), None, 1, kept.is_exact
    around = {index_of(outer) for outer in enclosing_loops(loop)}
    conditions: list[End] = []
    for axis, (form, dimension) in enumerate(zip(forms, dimensions, strict=True)):
        if dimension is None:
            continue
        bounds = None if form is None else form.range()
        if form is None or bounds is None or bounds[0] < dimension.first:
            return None
        width = access_width(store) if axis == len(forms) - 1 else 1
        minus = dimension.minus - dimension.first + width - 1
        is_exact = is_exact and width == 1
        if index not in form.terms:
            if not set(form.terms) <= around:
                return None
            conditions.append(End(form, dimension.argument, dimension.times, minus))
            continue
        rest = LinearForm({i: c for i, c in form.terms.items() if i is not index}, form.constant)
        most = rest.range()
        per = form.terms[index]
        if own is not None or most is None or per < 1:
            return None
        # per * i + rest < end for all smaller i:  i <= (end - 1 - rest) / per
        minus += most[1] - per + 1
        is_exact = is_exact and per == 1 and most[0] == most[1]
        own = End(LinearForm({index: 1}), dimension.argument, dimension.times, minus)
    return None if own is None else Begin(tuple(conditions), own, per, is_exact)


def _store_other(store: Access) -> None:
    """Where no kept element is stored, the other choice is: no mask is read then."""
    assert is_store(store)
    if not isinstance(store, affine.StoreOp | affine.VectorStoreOp | memref.StoreOp):
        return
    select = store.value.owner
    if isinstance(select, arith.SelectOp):
        store.operands[0] = select.rhs
        _erase_unused(select)


def _erase_unused(op: Operation) -> None:
    """Erases an operation that nothing uses, and what only it used."""
    if op.regions or any(result.uses for result in op.results):
        return
    owners = [operand.owner for operand in op.operands]
    op.detach()
    op.erase()
    for owner in owners:
        if isinstance(owner, Operation) and owner.parent is not None:
            _erase_unused(owner)


def _result(kernel: func.FuncOp) -> SSAValue:
    roles = kernel.attributes.get("kernel.roles")
    assert isinstance(roles, ArrayAttr)
    place = [str(role.data) for role in roles.data].index("output")  # pyright: ignore
    return kernel.body.block.args[place]
