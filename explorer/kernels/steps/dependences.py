"""Dependences: which iterations of a loop touch the same element.

    for i: for c: y[i] += x[i, c]     i is independent: subscript 0 of y tells its iterations apart
                                      c is not: all its iterations update y[i]

Three questions are answered here, each conservatively (a "no" may be over-cautious, a "yes" is
proven): are the iterations of a loop independent, may loops be exchanged, are two nests
independent. The proofs only use intervals and mixed radices of linear subscripts; this is the
textbook dependence test for tiled loops (Allen and Kennedy, Optimizing Compilers for Modern
Architectures, chapter 3), restricted to what schedules of dense kernels need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import affine, arith, memref
from xdsl.ir import Operation, SSAValue

from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    access_width,
    accesses_in,
    enclosing_loops,
    index_of,
    index_range,
    is_store,
    subscripts,
)

# Operations whose order of application may be changed. For floating-point sums and products this
# changes the rounding, which a schedule of a neural network is free to do.
ASSOCIATIVE = (
    arith.AddfOp,
    arith.MulfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.AddiOp,
    arith.MuliOp,
    arith.MaxSIOp,
    arith.MaxUIOp,
    arith.MinSIOp,
    arith.MinUIOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
)


def by_buffer(accesses: Sequence[Access]) -> dict[SSAValue, list[Access]]:
    """Accesses grouped by the buffer that they touch."""
    groups: dict[SSAValue, list[Access]] = {}
    for access in accesses:
        groups.setdefault(access.memref, []).append(access)
    return groups


def written_outside(loop: affine.ForOp) -> list[list[Access]]:
    """Accesses in a loop, per buffer that it writes and that lives longer than an iteration."""
    groups = by_buffer(accesses_in(loop))
    return [
        group
        for buffer, group in groups.items()
        if any(is_store(a) for a in group) and not _is_local(buffer, loop)
    ]


def conflict(loop: affine.ForOp) -> SSAValue | None:
    """A buffer of which two iterations of `loop` may touch the same element, or None.

    A nest that declares its iterations independent (`loop.independent`) is believed: its
    subscripts depend on data.
    """
    if "loop.independent" in loop.attributes:
        return None
    outer = {index_of(enclosing) for enclosing in enclosing_loops(loop)}
    for group in written_outside(loop):
        indices = {access: index_of(loop) for access in group}
        if not separated(group, indices, outer):
            return group[0].memref
    return None


def separated(
    group: Sequence[Access], index: Mapping[Access, SSAValue], fixed: set[SSAValue]
) -> bool:
    """Whether different values of a loop index always mean different elements of a buffer.

    `index[access]` is the index in question, `fixed` the indices that don't change meanwhile. It
    holds if in one dimension every access has the subscript `c * index + rest` with one c, and
    rest stays in an interval shorter than c.
    """
    rank = len(subscripts(group[0]))
    forms = {access: subscripts(access) for access in group}
    return any(_separates(d, rank, forms, index, fixed) for d in range(rank))


def _separates(
    dimension: int,
    rank: int,
    forms: Mapping[Access, Sequence[LinearForm | None]],
    index: Mapping[Access, SSAValue],
    fixed: set[SSAValue],
) -> bool:
    coefficients: set[int] = set()
    fixed_terms: list[dict[SSAValue, int]] = []
    lows: list[int] = []
    highs: list[int] = []
    for access, access_forms in forms.items():
        form = access_forms[dimension]
        if form is None or index[access] not in form.terms:
            return False
        moving = LinearForm(
            {i: c for i, c in form.terms.items() if i not in fixed and i is not index[access]},
            form.constant,
        )
        interval = moving.range()
        if interval is None:
            return False
        width = access_width(access) if dimension == rank - 1 else 1
        coefficients.add(form.terms[index[access]])
        fixed_terms.append({i: c for i, c in form.terms.items() if i in fixed})
        lows.append(interval[0])
        highs.append(interval[1] + width - 1)
    if len(coefficients) != 1 or any(terms != fixed_terms[0] for terms in fixed_terms):
        return False
    return max(highs) - min(lows) < abs(next(iter(coefficients)))


def determined_indices(forms: Sequence[LinearForm | None]) -> set[SSAValue]:
    """The loop indices that can be told from the element that is accessed.

    A subscript like 32 * ot + 16 * ov + oi is a number in mixed radix: it determines all of its
    digits when every coefficient is larger than what the smaller ones can sum up to.
    """
    found: set[SSAValue] = set()
    for form in forms:
        if form is None:
            continue
        reach = 0
        digits: set[SSAValue] = set()
        for index, coefficient in sorted(form.terms.items(), key=lambda term: abs(term[1])):
            bounds = index_range(index)
            only_one = bounds is not None and bounds[0] == bounds[1]
            if bounds is None or (abs(coefficient) <= reach and not only_one):
                digits.clear()
                break
            reach += abs(coefficient) * (bounds[1] - bounds[0])
            digits.add(index)
        found |= digits
    return found


def reduction_operation(group: Sequence[Access]) -> Operation | None:
    """The associative update `buffer[e] = buffer[e] op value` if that is all that happens to it."""
    loads = [a for a in group if isinstance(a, affine.LoadOp)]
    stores = [a for a in group if isinstance(a, affine.StoreOp)]
    if len(group) != 2 or len(loads) != 1 or len(stores) != 1:
        return None
    load, store = loads[0], stores[0]
    update = store.value.owner
    if not isinstance(update, ASSOCIATIVE) or subscripts(load) != subscripts(store):
        return None
    used_once = load.result.has_one_use() and update.results[0].has_one_use()
    return update if used_once and load.result in update.operands else None


def reordering_conflict(
    chain: Sequence[affine.ForOp], order: Sequence[affine.ForOp]
) -> SSAValue | None:
    """A buffer whose dependences forbid to run a perfect nest in another order, or None.

    Exchanging loops is legal when the loops that carry dependences keep their order, or when all
    that they carry is a reduction by an associative operation.
    """
    for group in written_outside(chain[0]):
        if reduction_operation(group) is not None:
            continue
        forms = zip(*(subscripts(access) for access in group), strict=True)
        # What all accesses have in common says in which iterations they can meet.
        determined = determined_indices([f for f, *others in forms if all(o == f for o in others)])
        carrying = [loop for loop in chain if index_of(loop) not in determined]
        carrying = [
            loop
            for loop in carrying
            if not separated(group, {a: index_of(loop) for a in group}, set())
        ]
        if [loop for loop in order if loop in carrying] != carrying:
            return group[0].memref
    return None


def nests_are_independent(first: Operation, second: Operation) -> bool:
    """Whether no element written by one nest is touched by the other."""
    here, there = by_buffer(accesses_in(first)), by_buffer(accesses_in(second))
    for buffer in here:
        for a in here[buffer]:
            for b in there.get(buffer, []):
                if (is_store(a) or is_store(b)) and not boxes_are_disjoint(a, b):
                    return False
    return True


def boxes_are_disjoint(first: Access, second: Access) -> bool:
    """Whether two accesses of one buffer differ in the range of at least one subscript."""
    pairs = list(zip(subscripts(first), subscripts(second), strict=True))
    for dimension, (a, b) in enumerate(pairs):
        range_a = None if a is None else a.range()
        range_b = None if b is None else b.range()
        if range_a is None or range_b is None:
            continue
        is_last = dimension == len(pairs) - 1
        end_a = range_a[1] + (access_width(first) - 1 if is_last else 0)
        end_b = range_b[1] + (access_width(second) - 1 if is_last else 0)
        if end_a < range_b[0] or end_b < range_a[0]:
            return True
        widths = (end_a - range_a[1], end_b - range_b[1])
        if a is not None and b is not None and _digits_are_disjoint(a, b, widths):
            return True
    return False


def _digits_are_disjoint(first: LinearForm, second: LinearForm, widths: tuple[int, int]) -> bool:
    """34 g + [0, 32) and 34 h + [32, 34): a digit in mixed radix is another, whatever g and h.

    `widths`: how many more elements than one each access touches.
    """
    radices = {abs(c) for c in first.terms.values()} & {abs(c) for c in second.terms.values()}
    for radix in radices:
        digits: list[tuple[int, int]] = []
        for form, width in zip((first, second), widths, strict=True):
            rest = {index: c for index, c in form.terms.items() if c % radix}
            span = LinearForm(rest, form.constant).range()
            if span is None or span[0] // radix != (span[1] + width) // radix:
                break
            digits.append((span[0] % radix, (span[1] + width) % radix))
        if len(digits) == 2 and (digits[0][1] < digits[1][0] or digits[1][1] < digits[0][0]):
            return True
    return False


def _is_local(buffer: SSAValue, loop: affine.ForOp) -> bool:
    """Whether a buffer is allocated anew in every iteration of `loop`."""
    allocation = buffer.owner
    return isinstance(allocation, memref.AllocaOp) and loop.is_ancestor(allocation)
