"""Clipping: loops over rows end earlier where a program runs at less than its largest size.

    affine.for %n = 0 to 8 {                       affine.for %n = 0 to 8 {
      ...                                      =>    ...
      store %y[%n, ...]                            } {loop.clip = [1, 0, 1]}
    }                                                      rows below 1 * size, in steps of 1

`loop.clip = [times, minus, per]` on a loop says: no iteration from (times * size - minus) / per on,
rounded upwards, stores a row that the size asks for. A fourth number is the argument that holds
the size, where several sizes are open (`find_extents.py`), a fifth one iterations for every `per`
elements. With per = 0 the loop runs whole or not at all: its stores begin at element minus. A tile
that crosses the last row is computed whole; its rows after that lie inside the buffer and are read
by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, MemRefType, StringAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.ranges import leading_axis
from explorer.ir.structure import kernel_functions, outermost, own_functions, walk_inside
from explorer.kernels.loops.beginning import kept_of_kernel
from explorer.kernels.loops.extents import VECTOR
from explorer.kernels.loops.find_extents import (
    ENDED,
    ENDS,
    EXTENTS,
    Extent,
    extents_of_kernel,
    whole_extents,
)
from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    access_width,
    accesses_in,
    bounds_of,
    enclosing_loops,
    extent_of,
    index_of,
    is_access,
    is_store,
    kind_of,
    subscripts,
)
from explorer.kernels.loops.row_wise import rows_of_kernel, size_of_kernel
from explorer.kernels.loops.running import runs_of_kernel

CLIP = "loop.clip"


@dataclass(frozen=True)
class Clip:
    """Iterations from ceil((times * size - minus) / per) on have nothing to do."""

    times: int
    minus: int
    per: int
    argument: int = -1
    """The kernel's argument that holds the size; -1: the size of the only open dimension."""
    scale: int = 1
    """Iterations for every `per` elements: a loop that ends with whole vectors of its elements."""

    def bound(self, size: int) -> int:
        """For a loop that ends with the size (per > 0)."""
        return -((self.minus - self.times * size) // self.per) * self.scale


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
    text = text if clip.per == 1 else f"({text}) / {clip.per}"
    return text if clip.scale == 1 else f"{text} * {clip.scale}"


def whole_text(clip: Clip, size: str, end: str) -> str:
    """The number in C of iterations of which the size asks for all; `end`: where the loop ends."""
    elements = _elements(clip, size)
    if clip.minus:
        elements += f" {'-' if clip.minus > 0 else '+'} {abs(clip.minus)}"
    bound = f"({elements}) / {clip.per}"
    fitting = f"{bound} < {end} ? {bound} : {end}"
    return fitting if clip.minus <= 0 else f"{elements} <= 0 ? 0 : {fitting}"


@dataclass(frozen=True)
class ClipLoops(Pass):
    """Loops over the rows of an open dimension end where the size at run time says."""

    name = "clip-loops"
    level = "scheduled"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        _store_what_is_read(rewriter)
        for kernel in kernel_functions(rewriter.module).values():
            size, extents = size_of_kernel(kernel), extents_of_kernel(kernel)
            if not size and not extents:
                continue
            explanation = f"its rows end with {size or 'the sizes of a call'}"
            clipped = kernel.clone()
            runs = runs_of_kernel(kernel)
            rows = rows_of_kernel(kernel)
            ends = extents_of_kernel(kernel, ENDS)
            is_clipped = (
                clip_to_extents(clipped, extents, ends) if extents else clip_kernel(clipped, rows)
            )
            if runs is not None:
                is_clipped |= skip_kernel(clipped, runs)
            if not is_clipped:
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


def skip_kernel(function: func.FuncOp, argument: int) -> bool:
    """Marks loops so that none runs where the number of an argument is 0."""
    tops = [op for op in function.body.block.ops if isinstance(op, affine.ForOp)]
    return sum(_skip(top, Clip(1, 0, 0, argument)) for top in tops) > 0


def _skip(loop: affine.ForOp, clip: Clip) -> int:
    """Marks a loop, or those inside of one that ends already; how many."""
    if kind_of(loop) == "unroll":
        return 0
    if CLIP not in loop.attributes:
        _set_clip(loop, clip)
        return 1
    inner = [op for op in loop.body.block.ops if isinstance(op, affine.ForOp)]
    return sum(_skip(op, clip) for op in inner)


def clip_to_extents(
    function: func.FuncOp,
    extents: Sequence[Sequence[Extent | None]],
    ends: Sequence[Sequence[Extent | None]] = (),
) -> bool:
    """Marks all loops that store beyond what a call needs; False where there is none.

    ends: by argument, where loops over which numbers are accumulated end.
    """
    known, added = _by_argument(function, extents, ends)
    tops = [op for op in function.body.block.ops if isinstance(op, affine.ForOp)]
    found = sum(_clip_all(top, known, frozenset()) for top in tops)
    loops = [op for top in tops for op in walk_inside(top) if isinstance(op, affine.ForOp)]
    for loop in loops:
        clip = None if CLIP in loop.attributes else _end_of_sum(loop, known, added)
        if clip is not None:
            _set_clip(loop, clip)
            found += 1
    return found > 0


def _by_argument(
    function: func.FuncOp,
    extents: Sequence[Sequence[Extent | None]],
    ends: Sequence[Sequence[Extent | None]],
) -> tuple[dict[SSAValue, Sequence[Extent | None]], dict[SSAValue, Sequence[Extent | None]]]:
    """What is stored of arguments, and where numbers that are read add nothing."""
    # Buffers that a schedule adds come last, and nothing is known of them.
    arguments: list[SSAValue] = list(function.body.block.args)
    known: dict[SSAValue, Sequence[Extent | None]] = dict(zip(arguments, extents, strict=False))
    added: dict[SSAValue, Sequence[Extent | None]] = dict(zip(arguments, ends, strict=False))
    for argument in _read_further(function, known, added):
        known[argument] = ()  # all of it is stored, as it is read
    return known, added


def _store_what_is_read(rewriter: RecordedRewriter) -> None:
    """Operands are whole where a kernel that adds them up reads further than it needs.

    So is all that they are made of, up to masks: those are right whatever they read.
    """
    kernels = kernel_functions(rewriter.module)
    launches: dict[str, list[LaunchOp]] = {}
    for function in own_functions(rewriter.module):
        for op in function.body.block.ops:
            if isinstance(op, LaunchOp):
                launches.setdefault(op.kernel.data, []).append(op)
    pending = [
        operand
        for name, kernel in kernels.items()
        for place in _operands_read_further(kernel)
        for operand in (launch.operands[place] for launch in launches.get(name, ()))
    ]
    seen: set[object] = set()
    while pending:
        maker = pending.pop().owner
        if maker in seen or not isinstance(maker, TopOperation):
            continue
        seen.add(maker)
        if not isinstance(maker, LaunchOp):  # a view
            pending += maker.operands
            continue
        made = kernels[maker.kernel.data]
        rewriter.set_attribute(made, EXTENTS, whole_extents(made))
        if kept_of_kernel(made) is None:
            pending += [o for launch in launches[maker.kernel.data] for o in launch.operands]


def _operands_read_further(kernel: func.FuncOp) -> list[int]:
    """Places of operands of which a loop that adds them up cannot end where that adds nothing."""
    ended = kernel.attributes.get(ENDED)
    if not isinstance(ended, DenseArrayBase):
        return []
    arguments: list[SSAValue] = list(kernel.body.block.args)
    known, added = _by_argument(kernel, extents_of_kernel(kernel), extents_of_kernel(kernel, ENDS))
    accesses = accesses_in(kernel)
    return [
        place
        for place, multiple in enumerate(ended.get_values())
        if multiple
        and not all(
            _ends_in_time(access, known, added, int(multiple))
            for access in accesses
            if access.memref is arguments[place]
        )
    ]


def _read_further(
    function: func.FuncOp,
    extents: Mapping[SSAValue, Sequence[Extent | None]],
    added: Mapping[SSAValue, Sequence[Extent | None]],
) -> list[SSAValue]:
    """Arguments that the kernel stores to, and reads beyond where accumulating adds nothing: in
    steps of more elements than it stores more."""
    stored = {access.memref for access in accesses_in(function) if is_store(access)}
    found: list[SSAValue] = []
    for buffer, own in added.items():
        loads = [a for a in accesses_in(function) if a.memref is buffer and not is_store(a)]
        is_own = buffer in stored and any(own)
        if is_own and not all(_ends_in_time(load, extents, added) for load in loads):
            found.append(buffer)
    return found


def _ends_in_time(
    load: Access,
    extents: Mapping[SSAValue, Sequence[Extent | None]],
    ends: Mapping[SSAValue, Sequence[Extent | None]],
    multiple: int = VECTOR,
) -> bool:
    """Whether a loop that can end reads no more than whole vectors of `multiple` elements, or only
    what it stores itself."""
    own = _of_buffer(ends[load.memref], load)
    for axis, (form, extent) in enumerate(zip(subscripts(load), own, strict=False)):
        if extent is None:
            continue
        loops = [
            loop
            for loop in enclosing_loops(load)
            if form is not None and index_of(loop) in form.terms
        ]
        if form is None or not loops:
            return False
        stores = [a for a in accesses_in(loops[0]) if is_store(a) and a.memref is load.memref]
        if any(subscripts(store) == subscripts(load) for store in stores):
            continue
        index = index_of(loops[0])
        rest = LinearForm({i: c for i, c in form.terms.items() if i is not index}, form.constant)
        reach, width = rest.range(), access_width(load) if axis == len(own) - 1 else 1
        per = form.terms[index]
        if reach is None or reach[0] < 0 or multiple % per:
            return False
        first = reach[0] - reach[0] % per
        if reach[1] + width > first + per:
            return False
        end = _clip_of_extents(loops[0], extents)
        if end is None and not _is_guarded(loops[0], extents):
            end = _end_of_sum(loops[0], extents, ends)
        if end is None or not _is_within(end, extent, per, first, multiple):
            return False
    return True


def _is_within(end: Clip, extent: Extent, per: int, first: int, multiple: int) -> bool:
    """Whether a loop in steps of `per` elements, from `first` on, ends with whole vectors of an
    extent."""
    is_same = (end.times, end.argument, end.per) == (extent.times, extent.argument, per * end.scale)
    return is_same and end.minus >= extent.minus + first and multiple % end.per == 0


def _set_clip(loop: affine.ForOp, clip: Clip) -> None:
    values = [clip.times, clip.minus, clip.per, clip.argument, clip.scale]
    loop.attributes[CLIP] = DenseArrayBase.from_list(i64, values)


def _end_of_sum(
    loop: affine.ForOp,
    extents: Mapping[SSAValue, Sequence[Extent | None]],
    ends: Mapping[SSAValue, Sequence[Extent | None]],
) -> Clip | None:
    """Where a loop ends over which numbers are accumulated: what it reads adds nothing later.

    What else it stores is a part of a result that a call needs no further, or an array of its own.
    """
    if not _may_end(loop):
        return None
    index = index_of(loop)
    inside = accesses_in(loop)
    own = {op.memref for op in walk_inside(loop) if isinstance(op, memref.AllocaOp)}
    sums = [s for s in inside if is_store(s) and s.memref not in own and not _has(s, index)]
    found = {_clip_of_store(s, index, extents) for s in inside if is_store(s) and _has(s, index)}
    if not sums or not all(_accumulates(store) for store in sums):
        return None
    loads = [a for a in inside if not is_store(a) and _has(a, index) and a.memref not in own]
    read = {_clip_of_store(load, index, ends) for load in loads if any(ends.get(load.memref, ()))}
    if not read or None in read or len(read) != 1 or None in found:
        return None
    every = [clip for clip in (*found, *read) if clip is not None]
    if len({(clip.times, clip.per // clip.scale, clip.argument) for clip in every}) != 1:
        return None
    widest = max(every, key=lambda clip: (clip.per, -clip.minus))
    return widest if all(clip.minus >= widest.minus for clip in every) else None


def _has(access: Access, index: SSAValue) -> bool:
    return any(form is not None and index in form.terms for form in subscripts(access))


def _clip_of_store(
    access: Access, index: SSAValue, extents: Mapping[SSAValue, Sequence[Extent | None]]
) -> Clip | None:
    own = _of_buffer(extents.get(access.memref) or (), access)
    for form, extent in zip(subscripts(access), own, strict=False):
        if extent is not None and form is not None and index in form.terms:
            return _clip_to(form, index, extent)
    return None


def _accumulates(store: Access) -> bool:
    """Whether a store adds to the element that it stores: part = part + f(..)."""
    if not isinstance(store, affine.StoreOp | affine.VectorStoreOp | memref.StoreOp):
        return False
    pending, seen = [store.value], set[Operation]()
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, Operation) or owner in seen:
            continue
        seen.add(owner)
        if is_access(owner):
            if owner.memref is store.memref and subscripts(owner) == subscripts(store):
                return True
            continue
        pending += owner.operands
    return False


def _clip_all(
    loop: affine.ForOp,
    extents: Mapping[SSAValue, Sequence[Extent | None]],
    guards: frozenset[Clip],
) -> int:
    """Marks a loop and those inside; how many. guards: those of the loops around it."""
    clip = _clip_of_extents(loop, extents)
    if clip is None and kind_of(loop) != "unroll":
        clip = _guard(loop, extents)
        clip = None if clip in guards else clip
    elif clip is not None and clip.scale == extent_of(loop) and replace(clip, scale=1) in guards:
        clip = None  # a whole vector of a loop around it, which ends with vectors
    found = 0
    if clip is not None:
        _set_clip(loop, clip)
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
    found = {_begin_of(store, extents) for store in _deciding(lasting, extents, loop)}
    return next(iter(found)) if len(found) == 1 else None


def _is_guarded(loop: affine.ForOp, extents: Mapping[SSAValue, Sequence[Extent | None]]) -> bool:
    """Whether a loop runs whole or not at all, and no loop around it decides that."""
    guard = _guard(loop, extents)
    around = [one for one in enclosing_loops(loop) if kind_of(one) != "unroll"]
    return guard is not None and not any(
        _clip_of_extents(one, extents) is None and _guard(one, extents) == guard for one in around
    )


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
            rest = bounds[0] % extent.multiple
            minus = (bounds[0] - rest) * extent.per + extent.minus + extent.multiple - 1
            return Clip(extent.times, minus, 0, extent.argument)
    return None


def _clip_of_extents(
    loop: affine.ForOp, extents: Mapping[SSAValue, Sequence[Extent | None]]
) -> Clip | None:
    """How a loop ends, where every store inside has a dimension that grows with its index."""
    if not _may_end(loop):
        return None
    index = index_of(loop)
    found: set[Clip | None] = set()
    for store in _deciding(_stores_to_buffers(loop), extents, loop):
        own = _of_buffer(extents.get(store.memref) or (), store)
        clips = [
            _clip_to(form, index, extent)
            for form, extent in zip(subscripts(store), own, strict=False)
            if extent is not None and form is not None and index in form.terms
        ]
        found.add(clips[0] if clips else None)
    return _last_of(found)


def _last_of(clips: Collection[Clip | None]) -> Clip | None:
    """The clip of which a loop ends last; None where one is missing, or that is not known."""
    known = [clip for clip in clips if clip is not None]
    if len(known) != len(clips) or len({replace(clip, minus=0) for clip in known}) != 1:
        return None
    return min(known, key=lambda clip: clip.minus)


def _deciding(
    stores: Sequence[Access],
    extents: Mapping[SSAValue, Sequence[Extent | None]],
    loop: affine.ForOp,
) -> Sequence[Access]:
    """The stores that decide where a loop ends: where there are stores to results, not those to
    scratch that is read inside of the loop only."""
    lasting = [
        store
        for store in stores
        if not _is_temporary(store, extents) or _is_read_outside(store.memref, loop)
    ]
    return lasting or stores


def _is_read_outside(buffer: SSAValue, loop: affine.ForOp) -> bool:
    """Whether a buffer is read by other loops: a loop that was joined with an independent one
    stores for them, too."""
    return any(
        is_access(use.operation)
        and not is_store(use.operation)
        and not loop.is_ancestor(use.operation)
        for use in buffer.uses
    )


def _is_temporary(store: Access, extents: Mapping[SSAValue, Sequence[Extent | None]]) -> bool:
    """Whether a step made the buffer and stated its extents."""
    block = store.memref.owner
    if not extents.get(store.memref) or not isinstance(store.memref, BlockArgument):
        return False
    function = block.parent_op() if isinstance(block, Block) else None
    roles = None if function is None else function.attributes.get("kernel.roles")
    return isinstance(roles, ArrayAttr) and roles.data[store.memref.index] == StringAttr("scratch")


def _stores_to_buffers(loop: affine.ForOp) -> list[Access]:
    """The stores inside a loop, but for those to arrays of registers."""
    stores = [access for access in accesses_in(loop) if is_store(access)]
    return [s for s in stores if not isinstance(s.memref.owner, memref.AllocaOp)]


def _of_buffer(extents: Sequence[Extent | None], access: Access) -> Sequence[Extent | None]:
    """Of the buffer's dimensions: blocks of channels are the second and the last one."""
    if not extents or len(subscripts(access)) != len(extents) + 1:
        return extents
    return [extents[0], None, *extents[2:], None]


def _may_end(loop: affine.ForOp) -> bool:
    bounds = bounds_of(loop)
    return bounds is not None and not bounds[0] and bounds[1] >= 2 and kind_of(loop) != "unroll"


def _clip_at(
    form: LinearForm,
    index: SSAValue,
    times: int,
    argument: int = -1,
    minus: int = 0,
    units: int = 1,
) -> Clip | None:
    """Where (times * size - minus) / units ends an index of a subscript."""
    per = form.terms.get(index, 0)
    rest = LinearForm({i: c for i, c in form.terms.items() if i is not index}, form.constant)
    smallest = rest.range()
    if per < 1 or smallest is None or smallest[0] < 0:
        return None
    return Clip(times, smallest[0] * units + minus, per * units, argument)


def _clip_to(form: LinearForm, index: SSAValue, extent: Extent) -> Clip | None:
    """Where an extent ends an index of a subscript.

    Of a multiple of 16 elements loops in steps of 16 and of 32 take those that begin before the
    size, loops in steps of 4 take 4 for every 16 elements.
    """
    times, minus = extent.times, extent.minus
    clip = _clip_at(form, index, times, extent.argument, minus, extent.per)
    if clip is None or extent.multiple == 1:
        return clip
    whole, per = extent.multiple, clip.per
    rest = (clip.minus - extent.minus) % whole
    minus = clip.minus + whole - 1 - rest
    if per % whole == 0:
        return replace(clip, minus=minus)
    if whole % per == 0 and rest < per:
        return replace(clip, minus=minus, per=whole, scale=whole // per)
    return clip


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
    return _last_of(found)
