"""Step pack: a buffer gets another layout, and all its accesses follow.

    pack y (0,1) (1,16) (2,1) (3,1) (1,1,16)     y[n, 16 ot + oi, i, j]  ->  y[n, ot, i, j, oi]

A layout is a list of new dimensions (dimension, divisor, modulus): the new coordinate is
`(old[dimension] // divisor) % modulus`. The ranges of the loops prove that the division is exact,
so that subscripts stay linear; where they don't, the loop has to be split first.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType

from explorer.kernels.loops.nest import (
    AffineAccess,
    LinearForm,
    LoopNest,
    linear_subscripts,
    set_subscripts,
)

PackDimension = tuple[int, int, int | None]
"""(dimension, divisor, modulus or None for no modulus)."""

Pack = Sequence[PackDimension]


def is_identity(pack: Pack) -> bool:
    return all(entry == (k, 1, None) for k, entry in enumerate(pack))


def identity_pack(rank: int) -> list[PackDimension]:
    return [(dimension, 1, None) for dimension in range(rank)]


def blocked_pack(block: int) -> list[PackDimension]:
    """NCHW{block}c of a (N, C, H, W) tensor."""
    return [(0, 1, None), (1, block, None), (2, 1, None), (3, 1, None), (1, 1, block)]


def block_of(pack: Pack | None) -> int:
    """The block of a layout NCHW{block}c; 0 for every other layout."""
    if not pack or len(pack) != 5 or pack[1][0] != 1:
        return 0
    block = pack[1][1]
    return block if list(pack) == blocked_pack(block) else 0


def packed_shape(shape: Sequence[int], pack: Pack) -> list[int]:
    """Extents of the new dimensions; the last block of a divided dimension is filled up."""
    extents: list[int] = []
    for dimension, divisor, modulus in pack:
        extent = -(-shape[dimension] // divisor)
        extents.append(extent if modulus is None else min(modulus, extent))
    return extents


def pack(nest: LoopNest, buffer: str, layout: Pack) -> None:
    """Changes the layout of an argument and rewrites all its accesses.

    Illegal where a subscript is not aligned to a divisor (split the loop by it first), and where
    the layout would give two elements one place.
    """
    value = nest.buffer(buffer, "pack")
    assert isinstance(value.type, MemRefType)
    shape = list(value.type.get_shape())
    _require_digits(nest, buffer, layout, len(shape))
    for access in nest.accesses(buffer):
        try:
            forms = linear_subscripts(access)
            packed = [_packed_form(forms[entry[0]], entry) for entry in layout]
        except ValueError as reason:
            raise nest.error("pack", f"{buffer}: {reason}") from reason
        assert isinstance(access, AffineAccess)
        set_subscripts(access, packed)
    element_type = value.type.element_type
    nest.retype(buffer, MemRefType(element_type, packed_shape(shape, layout)))


def _require_digits(nest: LoopNest, buffer: str, layout: Pack, rank: int) -> None:
    """Each old dimension must be cut into all digits of a mixed radix: no two elements share one
    place, and none is lost."""
    for dimension in range(rank):
        digits = sorted((e for e in layout if e[0] == dimension), key=lambda e: -e[1])
        above: int | None = None
        for _, divisor, modulus in digits:
            if modulus != (None if above is None else above // divisor) or (
                above is not None and above % divisor
            ):
                break
            above = divisor
        if above != 1 or len({divisor for _, divisor, _ in digits}) != len(digits):
            raise nest.error(
                "pack",
                f"{buffer}: dimension {dimension} is not cut into digits: by falling divisors down "
                "to 1, the first without a modulus, each further modulus the divisor before it "
                "divided by its own",
            )
    strange = [e[0] for e in layout if not 0 <= e[0] < rank]
    if strange:
        raise nest.error("pack", f"{buffer} has no dimension {strange[0]}; it has {rank}")


def _packed_form(form: LinearForm, entry: PackDimension) -> LinearForm:
    dimension, divisor, modulus = entry
    quotient, remainder = _divided(form, divisor)
    _require_below(remainder, divisor, f"dimension {dimension}")
    if modulus is None:
        return quotient
    _, kept = _divided(quotient, modulus)
    _require_below(kept, modulus, f"dimension {dimension} divided by {divisor}")
    return kept


def _divided(form: LinearForm, divisor: int) -> tuple[LinearForm, LinearForm]:
    """Terms that `divisor` divides, divided by it, and the rest."""
    quotient = {i: c // divisor for i, c in form.terms.items() if c % divisor == 0}
    remainder = {i: c for i, c in form.terms.items() if c % divisor}
    whole, rest = divmod(form.constant, divisor)
    return LinearForm(quotient, whole), LinearForm(remainder, rest)


def _require_below(form: LinearForm, limit: int, what: str) -> None:
    interval = form.range()
    if interval is None or interval[0] < 0 or interval[1] >= limit:
        raise ValueError(f"{what} is not aligned to {limit}; split its loop by {limit} first")
