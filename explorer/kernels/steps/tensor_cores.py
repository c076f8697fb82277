"""Step tensor_cores: a tile of a product is computed by the matrix instructions of a warp.

    for wm, wn, il, jl {item}:                   32 items of a warp: 8 x 4
      for mp: for np:                            16 x 8 tiles of sums, two by two for each item
        for ih: for jh: for ki:            ->    {mma} mma.sync.m16n8k16
          acc[wm, wn, il, jl, mp, np, ih, jh] += a[.. 8 ih + il, ki] * b[.. 2 jl + jh, ki]

The instruction multiplies a 16 x 16 tile of A with a 16 x 8 tile of B, both halves, and adds to
16 x 8 sums of float32. Each of the 32 items holds a part of every tile, a *fragment*, and PTX says
which (PTX ISA 8.5, section 9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with floating point
type"), for the item 4 il + jl of a warp:

    sums    c[2 ih + jh]            row 8 ih + il,  column 2 jl + jh
    A       a[h + 2 g], two halves  row 8 h + il,   columns 2 jl + {0, 1} + 8 g
    B       b[g], two halves        rows 2 jl + {0, 1} + 8 g,  column il

The sums' fragment is what loops over items and registers describe, so that the nest stays a nest
of loops: it means the same before and after this step, and everything that does not know the
mark runs the loops. Only fragments of A and B are read by other items than those whose sums use
them; the printer of OpenCL C (`explorer.kernels.printing.opencl_tensor_cores`) loads these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import Float16Type, StringAttr
from xdsl.ir import Operation, SSAValue

from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    extent_of,
    index_form,
    index_of,
    is_store,
    linear_subscripts,
    perfect_chain,
    shape_of,
)
from explorer.kernels.steps.groups import items_around, own_dimensions

MMA = "mma"
INSTRUCTION = "loop.instruction"
PTX, EMULATED = "ptx", "emulated"
"""The instruction itself through inline PTX; the same in OpenCL C, for any device and for tests."""

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""Of the tile that one instruction computes."""

WARP = (8, 4)
"""The items of a warp: rows of a fragment, pairs of its columns."""

REGISTERS = (2, 2)
"""Sums of an item: rows that are 8 apart, neighbouring columns."""


@dataclass(frozen=True, kw_only=True)
class MatrixTile:
    """A marked nest: the loops, and what it multiplies and adds to."""

    loops: tuple[affine.ForOp, ...]
    """Over tiles of rows, tiles of columns, registers (rows, columns), depth."""
    rows: affine.ForOp
    pairs: affine.ForOp
    """The loops over a warp's items."""
    sums: affine.LoadOp
    left: affine.LoadOp
    right: affine.LoadOp


def tensor_cores(nest: LoopNest, loop: str, by: str = PTX) -> None:
    """Marks a tile of a product for matrix instructions: `loop` runs over its tiles of rows.

    The nest is `for rows: for columns: for 2: for 2: for 16`, of nothing but `sums += A * B`
    inside of items whose last two loops are 8 and 4 (`items` comes first); A and B are tiles of
    halves in local memory (`stage` with element f16) with the depth innermost. Illegal for all
    other nests: the reason names what differs. `by`: `ptx` or `emulated`.
    """
    if by not in (PTX, EMULATED):
        raise nest.error("tensor_cores", f"there is no way {by!r}; there are {PTX}, {EMULATED}")
    for outer in nest.loops(loop, "tensor_cores"):
        if not _adds_to_sums(outer):
            continue  # the loops that set and store the sums have the same names
        try:
            matrix_tile(outer)
        except ValueError as reason:
            raise nest.error("tensor_cores", f"{loop}: {reason}") from reason
        outer.attributes["loop.kind"] = StringAttr(MMA)
        outer.attributes[INSTRUCTION] = StringAttr(by)
    if not any(instruction_of(outer) for outer in nest.loops(loop)):
        raise nest.error("tensor_cores", f"{loop} holds no product")


def instruction_of(loop: affine.ForOp) -> str:
    """ptx or emulated for a loop that is marked; empty for others."""
    found = loop.attributes.get(INSTRUCTION)
    return found.data if isinstance(found, StringAttr) else ""


def matrix_tile(outer: affine.ForOp) -> MatrixTile:
    """The parts of a nest that one instruction after another can compute.

    Raises ValueError saying why it cannot.
    """
    chain = perfect_chain(outer)
    extents = tuple(extent_of(loop) for loop in chain)
    if len(chain) != 5 or extents[2:] != (*REGISTERS, DEPTH):
        wanted = ", ".join(map(str, (*REGISTERS, DEPTH)))
        raise ValueError(f"the loops inside have {extents[2:]} iterations, not {wanted}")
    items = items_around(outer)
    if tuple(extent_of(loop) for loop in items[-2:]) != WARP:
        raise ValueError("the items around are not 8 x 4 for each warp")
    sums, left, right = _operands(chain[-1])
    tile = MatrixTile(
        loops=tuple(chain), rows=items[-2], pairs=items[-1], sums=sums, left=left, right=right
    )
    _check_sums(tile, len(items))
    if _is_right(tile, left):
        tile = MatrixTile(
            loops=tuple(chain), rows=items[-2], pairs=items[-1], sums=sums, left=right, right=left
        )
    _check_operand(tile, tile.left, {index_of(chain[2]): 8, index_of(items[-2]): 1}, "A")
    _check_operand(tile, tile.right, {index_of(items[-1]): 2, index_of(chain[3]): 1}, "B")
    return tile


def _adds_to_sums(outer: affine.ForOp) -> bool:
    """Whether a nest loads and stores an array that is no argument."""
    accesses = accesses_in(outer)
    loaded = {access.memref for access in accesses if not is_store(access)}
    stored = {access.memref for access in accesses if is_store(access)}
    return any(isinstance(array.owner, memref.AllocaOp) for array in loaded & stored)


def _operands(innermost: affine.ForOp) -> tuple[affine.LoadOp, affine.LoadOp, affine.LoadOp]:
    """The loads of `sums = sums + widened(a) * widened(b)`."""
    accesses = accesses_in(innermost)
    stores = [access for access in accesses if isinstance(access, affine.StoreOp)]
    if len(accesses) != 4 or len(stores) != 1:
        raise ValueError(f"it has {len(accesses)} accesses, not those of sums += A * B")
    total = stores[0].value.owner
    if not isinstance(total, arith.AddfOp):
        raise ValueError("it does not add to its sums")
    for sums, product in (total.operands, total.operands[::-1]):
        if isinstance(product.owner, arith.MulfOp) and isinstance(sums.owner, affine.LoadOp):
            if linear_subscripts(sums.owner) != linear_subscripts(stores[0]):
                raise ValueError("it adds to other sums than it loads")
            left, right = (_widened(operand) for operand in product.owner.operands)
            return sums.owner, left, right
    raise ValueError("it does not add a product of two loads")


def _widened(value: SSAValue) -> affine.LoadOp:
    owner = value.owner
    source = owner.operands[0].owner if isinstance(owner, arith.ExtFOp) else None
    if not isinstance(source, affine.LoadOp) or not isinstance(source.result.type, Float16Type):
        raise ValueError("an operand is no tile of halves; stage it with element f16")
    return source


def _check_sums(tile: MatrixTile, items: int) -> None:
    """Every item has its own sums, by tiles and registers, in this order."""
    array = tile.sums.memref.owner
    own = [index_form(loop) for loop in tile.loops[:4]]
    is_own = isinstance(array, memref.AllocaOp) and own_dimensions(array) == items
    if not is_own or linear_subscripts(tile.sums)[items:] != own:
        raise ValueError("the sums are no registers of the items; accumulate them first")


def _is_right(tile: MatrixTile, load: affine.LoadOp) -> bool:
    """Whether an operand moves with the columns."""
    return any(index_of(tile.pairs) in form.terms for form in linear_subscripts(load))


def _check_operand(
    tile: MatrixTile, load: affine.LoadOp, rows: dict[SSAValue, int], name: str
) -> None:
    """One dimension runs through the rows or columns of the tile, the last through the depth."""
    if not isinstance(load.memref.owner, memref.AllocaOp) or own_dimensions(load.memref.owner) > -1:
        raise ValueError(f"{name} is no tile in local memory")
    forms = linear_subscripts(load)
    depth = index_of(tile.loops[4])
    inside = {index_of(loop) for loop in (*tile.loops[2:], tile.rows, tile.pairs)}
    moving = [{i: c for i, c in form.terms.items() if i in inside} for form in forms]
    others = [terms for terms in moving[:-1] if terms]
    if moving[-1] != {depth: 1} or others != [rows]:
        raise ValueError(f"{name} is not [rows or columns, depth] of the tile")
    numbers = [forms[-1].constant, *shape_of(load.memref)[-1:]]
    numbers += [c for index, c in forms[-1].terms.items() if index is not depth]
    if any(number % 2 for number in numbers):
        raise ValueError(f"pairs of halves of {name} do not lie at multiples of 4 bytes")


def left_fragment(tile: MatrixTile, register: int) -> list[LinearForm]:
    """Where the first of an item's two halves of A lies: subscripts of `tile.left`."""
    high, further = register % 2, register // 2
    return _fragment(tile, tile.left, {index_of(tile.loops[2]): LinearForm({}, high)}, further)


def right_fragment(tile: MatrixTile, register: int) -> list[LinearForm]:
    """The same of B: the item's row of the warp is the column that it loads."""
    column = {index_of(tile.pairs): LinearForm(), index_of(tile.loops[3]): index_form(tile.rows)}
    return _fragment(tile, tile.right, column, register)


def _fragment(
    tile: MatrixTile, load: affine.LoadOp, moved: dict[SSAValue, LinearForm], further: int
) -> list[LinearForm]:
    depth = index_form(tile.pairs).scaled(2) + LinearForm({}, 8 * further)
    replaced = {**moved, index_of(tile.loops[4]): depth}
    return [form.substitute(replaced) for form in linear_subscripts(load)]


def uses_emulation(root: Operation) -> bool:
    """Whether a nest holds a product by the emulated instruction."""
    loops = [op for op in root.walk() if isinstance(op, affine.ForOp)]
    return any(instruction_of(cast(affine.ForOp, loop)) == EMULATED for loop in loops)
