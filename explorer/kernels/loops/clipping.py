"""Clipping: loops over rows end earlier where a program runs at less than its largest size.

    affine.for %n = 0 to 8 {                       affine.for %n = 0 to 8 {
      ...                                      =>    ...
      store %y[%n, ...]                            } {loop.clip = [1, 0, 1]}
    }                                                      rows below 1 * size, in steps of 1

`loop.clip = [times, minus, per]` on a loop says: no iteration from (times * size - minus) / per on,
rounded upwards, stores a row that the size asks for. A tile that crosses the last row is computed
whole; its rows behind lie inside the buffer and are read by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i64
from xdsl.ir import SSAValue

from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.ranges import leading_axis
from explorer.ir.structure import kernel_functions
from explorer.kernels.loops.nest import (
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

    def bound(self, size: int) -> int:
        return -((self.minus - self.times * size) // self.per)


def clip_of(loop: affine.ForOp) -> Clip | None:
    attribute = loop.attributes.get(CLIP)
    if not isinstance(attribute, DenseArrayBase):
        return None
    times, minus, per = attribute.get_values()
    return Clip(int(times), int(minus), int(per))


def clip_text(clip: Clip, size: str) -> str:
    """The bound in C: `size * 3`, `(size - 5) / 4`. Below 0, C's division may give 0 as well."""
    text = size if clip.times == 1 else f"{size} * {clip.times}"
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
            size = size_of_kernel(kernel)
            if not size:
                continue
            explanation = f"its rows end with {size}"
            clipped = kernel.clone()
            if not clip_kernel(clipped, rows_of_kernel(kernel)):
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
    bounds = bounds_of(loop)
    if bounds is None or bounds[0] or bounds[1] < 2 or kind_of(loop) == "unroll":
        return None
    index = index_of(loop)
    found: set[Clip] = set()
    for store in accesses_in(loop):
        if not is_store(store) or isinstance(store.memref.owner, memref.AllocaOp):
            continue
        unit = rows.get(store.memref, 0)
        assert isinstance(store.memref.type, MemRefType)
        form = subscripts(store)[leading_axis(store.memref.type.get_shape())]
        if not unit or form is None:
            return None
        per = form.terms.get(index, 0)
        rest = LinearForm({i: c for i, c in form.terms.items() if i is not index}, form.constant)
        smallest = rest.range()
        if per < 1 or smallest is None or smallest[0] < 0:
            return None
        found.add(Clip(unit, smallest[0], per))
    return next(iter(found)) if len(found) == 1 else None
