"""Keeping a range: a dimension stays open, and the program is made for all its sizes at once.

    func @main(%x: tensor<?x3xf32, dims = ["batch", ""]>)            batch = 1..8
 => func @main(%x: ...) attributes {range = #top.range<"batch", 1, 8, inputs = [1], outputs = [1]>}

This changes no operation. It shows that the program works row by row (`rows.py`), or refuses; the
passes behind it then compile for the largest size, and loops over rows end earlier for a smaller
one (`explorer/kernels/loops/clipping.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.errors import InputError, RangeError
from explorer.ir.evaluation import entry_function, entry_return
from explorer.ir.interfaces import Rows, Status
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.constraints import check_sizes, constraints_of
from explorer.ir.sizes.ranges import RANGE, OpenSize, RangeAttr, SizeRange
from explorer.passes.analysis.row_wise import analyse_rows
from explorer.passes.sizes.keep_sizes import KeepSizes

MAX_SIZES = 65_536
"""Sizes of a range; each is checked against the constraints."""


@dataclass(frozen=True)
class KeepRange(Pass):
    """A dimension stays open between two sizes: every operation is shown to work row by row."""

    range: SizeRange
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of all dimensions."""
    otherwise: KeepSizes | None = None
    """What keeps the dimension open where the program does not work row by row."""

    name = "keep-range"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        size = self.range
        if size.highest - size.lowest >= MAX_SIZES:
            raise InputError(
                f"{size} are {size.highest - size.lowest + 1} sizes",
                hint=f"a range of at most {MAX_SIZES}",
            )
        for number in range(size.lowest, size.highest + 1):
            sizes = {**self.sizes, size.name: number}
            check_sizes(constraints_of(function), sizes, "the range holds")
        try:
            found = analyse_rows(function, rewriter.weights, size.name, self.sizes)
        except RangeError:
            if self.otherwise is None:
                raise
            return self.otherwise.run(rewriter, options)
        rows = tuple(_factor(found[argument]) for argument in function.body.block.args)
        outputs = tuple(_factor(found[value]) for value in entry_return(function).operands)
        events = EventLog(self.name, rewriter)
        counted = sum(isinstance(status, Rows) for status in found.values())
        explanation = f"{size}: {counted} values grow row by row with it"
        with events.rewrite("keep", function, explanation):
            rewriter.set_attribute(function, RANGE, RangeAttr.get(OpenSize(size, rows, outputs)))
        return events.rewrites


def _factor(status: Status) -> int:
    return status.factor if isinstance(status, Rows) else 0
