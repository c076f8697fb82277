"""OpenCL C of nests that `tensor_cores` has marked: fragments, and one instruction after another.

    for mp: for np: for ih, jh, ki:         uint a[2][4], b[4][2];
      acc[.., mp, np, ih, jh] +=      ->    for mp: a[mp][0] = *(uint *)&x_tile[..][2 * jl]; ..
          x_tile * w_tile                   for np: b[np][0] = *(uint *)&w_tile[..][2 * jl]; ..
                                            for mp: for np: mma_ptx(acc[mp][np], a[mp], b[np]);

An item loads every fragment once and uses it for all tiles of its warp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine
from xdsl.ir import SSAValue

from explorer.kernels.loops.nest import LinearForm, extent_of
from explorer.kernels.printing.identifiers import Names
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.source_lines import SourceLines, tags_of, tags_within
from explorer.kernels.steps.tensor_cores import (
    EMULATED,
    MatrixTile,
    instruction_of,
    left_fragment,
    matrix_tile,
    right_fragment,
)

FRAGMENTS = {"left": (4, left_fragment), "right": (2, right_fragment)}
"""Of each operand: registers of an item (two halves each), and where they lie."""

WARP_WORDS = 32 * sum(registers for registers, _ in FRAGMENTS.values())
"""Words of local memory in which the emulation lays out what a warp holds."""


@dataclass(frozen=True, kw_only=True)
class MatrixWriter:
    """What the printer of a work-group's body lends for one marked nest.

    `subscript` is the text of a linear form; `array` the name of a buffer.
    """

    names: Names
    lines: SourceLines
    index: str
    subscript: Callable[[LinearForm], str]
    array: Callable[[SSAValue], str]
    name_index: Callable[[affine.ForOp], str]
    require: Callable[[Requirement], None]
    exchange: str
    """The array through which emulated warps exchange their fragments."""

    def write(self, outer: affine.ForOp, depth: int) -> None:
        """The text of a marked nest."""
        tile = matrix_tile(outer)
        tags = tags_of(outer) or tags_within(outer)
        by = instruction_of(outer)
        self.require(Requirement(f"mma_{by}"))
        left, right = self.names.claim("a"), self.names.claim("b")
        rows, columns = (extent_of(loop) for loop in tile.loops[:2])
        declared = f"uint {left}[{rows}][4], {right}[{columns}][2];"
        self.lines.add(depth, declared, tags)
        for name, operand, loop in ((left, "left", tile.loops[0]), (right, "right", tile.loops[1])):
            self._load(tile, operand, name, loop, depth, tags)
        self._multiply(tile, left, right, by, depth, tags)

    def _load(
        self,
        tile: MatrixTile,
        operand: str,
        name: str,
        loop: affine.ForOp,
        depth: int,
        tags: Sequence[str],
    ) -> None:
        """All fragments of an operand: two halves side by side are one word."""
        registers, place = FRAGMENTS[operand]
        source = tile.left if operand == "left" else tile.right
        number = self._open_loop(loop, depth, tags)
        for register in range(registers):
            text = self.array(source.memref)
            text += "".join(f"[{self.subscript(form)}]" for form in place(tile, register))
            left = f"{name}[{number}][{register}] ="
            self.lines.add_wrapped(depth + 1, f"{left} *(__local const uint *)&{text};", tags)
        self._close_loop(depth, tags)

    def _multiply(
        self, tile: MatrixTile, left: str, right: str, by: str, depth: int, tags: Sequence[str]
    ) -> None:
        row = self._open_loop(tile.loops[0], depth, tags)
        column = self._open_loop(tile.loops[1], depth + 1, tags)
        sums = f"{self.array(tile.sums.memref)}[{row}][{column}]"
        exchange = f", {self.exchange}" if by == EMULATED else ""
        call = f"mma_{by}(&{sums}[0][0], {left}[{row}], {right}[{column}]{exchange});"
        self.lines.add_wrapped(depth + 2, call, tags)
        self._close_loop(depth + 1, tags)
        self._close_loop(depth, tags)

    def _open_loop(self, loop: affine.ForOp, depth: int, tags: Sequence[str]) -> str:
        extent = extent_of(loop)
        self.lines.add(depth, f"UNROLL({extent})", tags)
        self.names.open_block()
        name = self.name_index(loop)
        header = f"for ({self.index} {name} = 0; {name} < {extent}; {name}++) {{"
        self.lines.add(depth, header, tags)
        return name

    def _close_loop(self, depth: int, tags: Sequence[str]) -> None:
        self.names.close_block()
        self.lines.add(depth, "}", tags)
