"""Clipping: loops over rows end earlier where a program runs at less than its largest size.

    affine.for %n = 0 to 8 {                       affine.for %n = 0 to 8 {
      ...                                      =>    ...
      store %y[%n, ...]                            } {loop.clip = [1, 0, 1]}
    }                                                      rows below 1 * size, in steps of 1

`loop.clip = [times, minus, per]` on a loop says: no iteration from (times * size - minus) / per on,
rounded upwards, stores a row that the size asks for. A fourth number is the argument that holds
the size, where several sizes are open (`find_extents.py`). With per = 0 the loop runs whole or not
at all: its stores begin at element minus. A tile that crosses the last row is
computed whole; its rows after that lie inside the buffer and are read by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i64
from xdsl.ir import Operation, SSAValue

from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.ranges import leading_axis
from explorer.ir.structure import kernel_functions, outermost
from explorer.kernels.loops.find_extents import Extent, extents_of_kernel
from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    accesses_in,
    bounds_of,
    index_of,
    is_store,
    kind_of,
    subscripts,
)
from explorer.kernels.loops.row_wise import rows_of_kernel, size_of_kernel

CLIP = "loop.clip"


@dataclass(frozen=True)
class Clip:
    """Iterations from ceil((times * size - minus) / per) on have nothing to do."""

    times: int
    minus: int
    per: int
    argument: int = -1
    """The kernel's argument that holds the size; -1: the size of the only open dimension."""

    def bound(self, size: int) -> int:
        """For a loop that ends with the size (per > 0)."""
        return -((self.minus - self.times * size) // self.per)


def clip_of(loop: affine.ForOp) -> Clip | None:
    attribute = loop.attributes.get(CLIP)
    if not isinstance(attribute, DenseArrayBase):
        return None
    return Clip(*(int(value) for value in attribute.get_values()))


def end_text(clip: Clip, size: str, end: str) -> str:
    """The end of a loop in C that would end at `end`."""
    if not clip.per:
        return f"{_elements(clip, size)} > {clip.minus} ? {end} : 0"
    bound = clip_text(clip, size)
    return f"{bound} < {end} ? {bound} : {end}"


def skip_text(clip: Clip, size: str, index: str) -> str:
    """The condition in C on which an iteration has nothing to do."""
    if not clip.per:
        return f"{_elements(clip, size)} <= {clip.minus}"
    return f"{index} >= {clip_text(clip, size)}"


def _elements(clip: Clip, size: str) -> str:
    return size if clip.times == 1 else f"{size} * {clip.times}"


def clip_text(clip: Clip, size: str) -> str:
    """The bound in C: `size * 3`, `(size - 5) / 4`. Below 0, C's division may give 0 as well."""
    text = _elements(clip, size)
    constant = clip.per - 1 - clip.minus
    if constant:
        text += f" {'+' if constant > 0 else '-'} {abs(constant)}"
    return text if clip.per == 1 else f"({text}) / {clip.per}"


@dataclass(frozen=True)
class ClipLoops(Pass):
    """Loops over the rows of an open dimension end where the size at run time says."""

    name = "clip-loops"
    level = "scheduled"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        for kernel in kernel_functions(rewriter.module).values():
            size, extents = size_of_kernel(kernel), extents_of_kernel(kernel)
            if not size and not extents:
                continue
            explanation = f"its rows end with {size or 'the sizes of a call'}"
            clipped = kernel.clone()
            rows = rows_of_kernel(kernel)
            if not (clip_to_extents(clipped, extents) if extents else clip_kernel(clipped, rows)):
                events.decline(
                    "clip", kernel, "all of its rows are computed in one piece", explanation
                )
                continue
            with events.rewrite("clip", kernel, explanation):
                rewriter.replace_function(kernel, clipped)
        return events.rewrites


def clip_kernel(function: func.FuncOp, units: Sequence[int]) -> bool:
    """Marks the outermost loops over rows; False where there is none.

    units: rows per unit of the size, by argument.
    """
    rows: dict[SSAValue, int] = dict(zip(function.body.block.args, units, strict=True))
    tops = [op for op in function.body.block.ops if isinstance(op, affine.ForOp)]
    return sum(_clip_nest(top, rows) for top in tops) > 0


def clip_to_extents(function: func.FuncOp, extents: Sequence[Sequence[Extent | None]]) -> bool:
    """Marks all loops that store beyond what a call needs; False where there is none."""
    # Buffers that a schedule adds come last, and nothing is known of them.
    known: dict[SSAValue, Sequence[Extent | None]] = dict(
        zip(function.body.block.args, extents, strict=False)
    )
    tops = [op for op in function.body.block.ops if isinstance(op, affine.ForOp)]
    return sum(_clip_all(top, known, frozenset()) for top in tops) > 0


def _clip_all(
    loop: affine.ForOp,
    extents: Mapping[SSAValue, Sequence[Extent | None]],
    guards: frozenset[Clip],
) -> int:
    """Marks a loop and those inside; how many. guards: of the loops around it."""
    clip = _clip_of_extents(loop, extents)
    if clip is None and kind_of(loop) != "unroll":
        clip = _guard(loop, extents)
        clip = None if clip in guards else clip
    found = 0
    if clip is not None:
        values = [clip.times, clip.minus, clip.per, clip.argument]
        loop.attributes[CLIP] = DenseArrayBase.from_list(i64, values)
        guards |= {clip}
        found = 1
    inner = [op for op in loop.body.block.ops if isinstance(op, affine.ForOp)]
    return found + sum(_clip_all(op, extents, guards) for op in inner)


def _guard(loop: affine.ForOp, extents: Mapping[SSAValue, Sequence[Extent | None]]) -> Clip | None:
    """Where all that a loop stores begins at the same element of an open dimension, not the first.

    Sums in registers are stored by the loops that read them.
    """
    stores = [access for access in accesses_in(loop) if is_store(access)]
    arrays = {s.memref for s in stores if isinstance(s.memref.owner, memref.AllocaOp)}
    lasting = [store for store in stores if store.memref not in arrays]
    if not lasting:
        lasting = [store for array in arrays for store in _stores_from(array, loop)]
    found = {_begin_of(store, extents) for store in lasting}
    return next(iter(found)) if len(found) == 1 else None


def _stores_from(array: SSAValue, loop: affine.ForOp) -> list[Access]:
    """The stores to buffers in the loops after this one that read an array of registers."""
    found: list[Access] = []
    block = loop.parent
    if block is None or not isinstance(array.owner, Operation) or array.owner.parent is not block:
        return found
    for use in array.uses:
        around = outermost(use.operation, block)
        if around is loop or not isinstance(around, affine.ForOp):
            continue
        found += _stores_to_buffers(around)
    return found


def _begin_of(store: Access, extents: Mapping[SSAValue, Sequence[Extent | None]]) -> Clip | None:
    own = _of_buffer(extents.get(store.memref) or (), store)
    for form, extent in zip(subscripts(store), own, strict=False):
        bounds = None if form is None else form.range()
        if extent is not None and bounds is not None and bounds[0] > 0:
            return Clip(extent.times, bounds[0] + extent.minus, 0, extent.argument)
    return None


def _clip_of_extents(
    loop: affine.ForOp, extents: Mapping[SSAValue, Sequence[Extent | None]]
) -> Clip | None:
    """How a loop ends, where every store inside has a dimension that grows with its index."""
    if not _may_end(loop):
        return None
    index = index_of(loop)
    found: set[Clip | None] = set()
    for store in _stores_to_buffers(loop):
        own = _of_buffer(extents.get(store.memref) or (), store)
        clips = [
            _clip_at(form, index, extent.times, extent.argument, extent.minus)
            for form, extent in zip(subscripts(store), own, strict=False)
            if extent is not None and form is not None and index in form.terms
        ]
        found.add(clips[0] if clips else None)
    return next(iter(found)) if len(found) == 1 else None


def _stores_to_buffers(loop: affine.ForOp) -> list[Access]:
    """The stores inside a loop, but for those to arrays of registers."""
    stores = [access for access in accesses_in(loop) if is_store(access)]
    return [s for s in stores if not isinstance(s.memref.owner, memref.AllocaOp)]


def _of_buffer(extents: Sequence[Extent | None], access: Access) -> Sequence[Extent | None]:
    """Of the buffer's dimensions: blocks of channels are the second and the last one."""
    if len(subscripts(access)) != len(extents) + 1:
        return extents
    return [extents[0], None, *extents[2:], None]


def _may_end(loop: affine.ForOp) -> bool:
    bounds = bounds_of(loop)
    return bounds is not None and not bounds[0] and bounds[1] >= 2 and kind_of(loop) != "unroll"


def _clip_at(
    form: LinearForm, index: SSAValue, times: int, argument: int = -1, minus: int = 0
) -> Clip | None:
    """Where times * size - minus ends an index of a subscript."""
    per = form.terms.get(index, 0)
    rest = LinearForm({i: c for i, c in form.terms.items() if i is not index}, form.constant)
    smallest = rest.range()
    if per < 1 or smallest is None or smallest[0] < 0:
        return None
    return Clip(times, smallest[0] + minus, per, argument)


def _clip_nest(loop: affine.ForOp, rows: Mapping[SSAValue, int]) -> int:
    """Marks a loop, or those inside; how many."""
    clip = _clip(loop, rows)
    if clip is not None:
        loop.attributes[CLIP] = DenseArrayBase.from_list(i64, [clip.times, clip.minus, clip.per])
        return 1
    inner = [op for op in loop.body.block.ops if isinstance(op, affine.ForOp)]
    return sum(_clip_nest(op, rows) for op in inner)


def _clip(loop: affine.ForOp, rows: Mapping[SSAValue, int]) -> Clip | None:
    """How a loop ends, where every store inside is of rows that grow with its index."""
    if not _may_end(loop):
        return None
    index = index_of(loop)
    found: set[Clip | None] = set()
    for store in _stores_to_buffers(loop):
        unit = rows.get(store.memref, 0)
        assert isinstance(store.memref.type, MemRefType)
        form = subscripts(store)[leading_axis(store.memref.type.get_shape())]
        if not unit or form is None:
            return None
        found.add(_clip_at(form, index, unit))
    return next(iter(found)) if len(found) == 1 else None
