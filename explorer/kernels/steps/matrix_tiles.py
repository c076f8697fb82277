"""Step matrix_tiles: a tile of sums is computed by the matrix instructions of a core.

    for kg in 128:                                 {matrix} over 16 rows x 16 columns x 64 bytes
      for mp in 32: for nv in 2:             ->    at a time (AMX, `tdpbusd`), or 2 x 2 x 8
        acc[mp, nv] = dot(acc[mp, nv],             (Arm's i8mm, `usmmla`)
                          x[mp, 4 kg], w[nv, kg])

Products of bfloat16 (`dot_pairs`) are as large: two of them where there are four bytes (`tdpbf16ps`
of AMX, Arm's `bfmmla`).

Of a convolution the loops over taps and over blocks of channels are around the groups: a row is a
pixel, whose bytes lie in pieces, one for each tap and block.

The nest stays as it is: it means the same before and after this step, and everything that does not
know the mark runs the loops. What is printed is a call of a function of the prelude
(`matrix.c`), which has the instructions where the compiler may use them and the system lets it, and
the very dot products else. Of bytes the bits are the same; sums of bfloat16 are rounded as the
instruction rounds them.

Intel, Architecture Instruction Set Extensions Programming Reference, chapter 3 (AMX); Arm, C
Language Extensions, "Matrix multiplication intrinsics".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import affine, memref
from xdsl.dialects.builtin import StringAttr, VectorType
from xdsl.ir import SSAValue

from explorer.ir.loop_dialect import DotOp, DotPairsOp
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    extent_of,
    index_of,
    item_bytes,
    linear_subscripts,
    perfect_chain,
    shape_of,
)
from explorer.kernels.steps.tensor_cores import INSTRUCTION, instruction_of

MATRIX = "matrix"
TILE_LOOPS, MAX_OUTER_LOOPS = 3, 3


@dataclass(frozen=True, kw_only=True)
class MatrixTile:
    """The parts of a marked nest."""

    around: tuple[affine.ForOp, ...]
    """Over the pieces of a row, at most three loops; none where its groups lie side by side."""
    groups: affine.ForOp
    rows: affine.ForOp
    vectors: affine.ForOp
    dot: DotOp | DotPairsOp
    sums: affine.LoadOp
    few: affine.VectorLoadOp
    """Four bytes, or two bfloat16."""
    filters: affine.VectorLoadOp

    @property
    def row_stride(self) -> int:
        """Bytes from one row's first element to the next one's."""
        return _byte_stride(self.few, index_of(self.rows))

    @property
    def vector_stride(self) -> int:
        """Bytes from one vector's filters to the next one's."""
        return _byte_stride(self.filters, index_of(self.vectors))

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Of every loop around the groups, how often it runs and by how many bytes a row's piece
        moves with it."""
        return [(extent_of(loop), _byte_stride(self.few, index_of(loop))) for loop in self.around]


def matrix_tiles(nest: LoopNest, loop: str) -> None:
    """Marks the sum of a tile of dot products: `loop` runs over their groups, each of four bytes
    or two bfloat16.

    The nest is `for groups: for rows: for vectors:` of nothing but `sums = dot(sums, bytes,
    filters)`, with sums in an array of rows x vectors of their own, groups of a row side by side,
    and filters packed group by group (`dot` comes first). Up to three more loops of the same sum
    may stand around the groups. Illegal for other nests, and for dot products that split signs.
    """
    for outer in nest.loops(loop, "matrix_tiles"):
        try:
            matrix_tile(outer)
        except ValueError as reason:
            raise nest.error("matrix_tiles", f"{loop}: {reason}") from reason
        outer.attributes[INSTRUCTION] = StringAttr(MATRIX)


def is_matrix_tile(loop: affine.ForOp) -> bool:
    return instruction_of(loop) == MATRIX


def matrix_tile(outer: affine.ForOp) -> MatrixTile:
    """The parts of a nest that matrix instructions can compute; ValueError says why they cannot."""
    chain = perfect_chain(outer)
    if not TILE_LOOPS <= len(chain) <= TILE_LOOPS + MAX_OUTER_LOOPS:
        raise ValueError(f"{len(chain)} loops are nested there, not groups, rows and vectors")
    dots = [op for op in chain[-1].body.block.ops if isinstance(op, DotOp | DotPairsOp)]
    if len(dots) != 1:
        raise ValueError("it does not hold one dot product; apply `dot` first")
    (dot,) = dots
    if isinstance(dot, DotOp) and dot.splits_signs is not None:
        raise ValueError("the dot product splits signs, which no matrix instruction does")
    sums, few, filters = (operand.owner for operand in dot.operands)
    if not isinstance(sums, affine.LoadOp) or not isinstance(sums.memref.owner, memref.AllocaOp):
        raise ValueError("the sums are no array of their own; accumulate them first")
    assert isinstance(few, affine.VectorLoadOp) and isinstance(filters, affine.VectorLoadOp)
    *around, groups, rows, vectors = chain
    tile = MatrixTile(
        around=tuple(around),
        groups=groups,
        rows=rows,
        vectors=vectors,
        dot=dot,
        sums=sums,
        few=few,
        filters=filters,
    )
    own = [LinearForm({index_of(loop): 1}) for loop in (rows, vectors)]
    extents = (extent_of(rows), extent_of(vectors))
    if linear_subscripts(sums) != own or shape_of(sums.memref) != extents:
        raise ValueError("the sums are not [rows, vectors] of the tile")
    _check_steps(few, {groups: _size_bytes(few), vectors: 0}, "neighbouring groups")
    wanted = {rows: 0}
    step = _size_bytes(filters)
    for loop in (groups, *reversed(around)):
        wanted[loop] = step
        step *= extent_of(loop)
    _check_steps(filters, wanted, "filters of neighbouring groups")
    return tile


def _check_steps(load: affine.VectorLoadOp, wanted: dict[affine.ForOp, int], what: str) -> None:
    for loop, step in wanted.items():
        found = _byte_stride(load, index_of(loop))
        if found != step:
            raise ValueError(f"{what} are {found} bytes apart, not {step}")


def _size_bytes(load: affine.VectorLoadOp) -> int:
    kind = load.result.type
    assert isinstance(kind, VectorType)
    return prod(kind.get_shape()) * item_bytes(load.memref)


def _byte_stride(load: affine.VectorLoadOp, index: SSAValue) -> int:
    """By how many bytes an access moves with an index."""
    total, stride = 0, item_bytes(load.memref)
    for form, extent in zip(
        reversed(linear_subscripts(load)), reversed(shape_of(load.memref)), strict=True
    ):
        total += form.terms.get(index, 0) * stride
        stride *= extent
    return total
