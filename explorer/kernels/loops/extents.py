"""How far an access reaches while loops run no further than what is needed asks for.

    store %y[2*i + 1, j]      needed: rows below seq            i < (seq - 1 + 1) / 2
    load  %x[i + 2, j]        reaches rows below ((seq)/2 - 1) + 2 + 1

A need is an expression over open sizes: elements of a dimension from the first on; None is all of
them. Values that are selected only where an index is below a size are needed below that size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from explorer.ir.sizes.symbols import Expression, Name, larger, number
from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    accesses_in,
    bounds_of,
    enclosing_loops,
    is_store,
    subscripts,
)

Need = Expression | None
Needs = tuple[Need, ...]

Limits = Callable[[SSAValue], Mapping[SSAValue, Expression]]
"""For the condition of a select: indices that are below an expression wherever it is true."""


MAX_TRIED_SIZES = 4096
"""Up to so many sizes of a name, two expressions are compared at each of them."""
VECTOR = 16
"""Loops that end where numbers add nothing read whole vectors of so many elements at most."""
MAX_TEXT = 300
"""A need with a longer text is all of a dimension."""


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest size of every open name."""

    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def more(self, one: Need, other: Need) -> Need:
        """What both need."""
        if one is None or other is None or one == other:
            return None if one is None else other
        difference = one - other
        if difference.is_number:
            return one if difference.constant >= 0 else other
        low, high = self.interval(difference)
        if low is not None and low >= 0:
            return one
        if high is not None and high <= 0:
            return other
        if any(self.ranges.get(name, (1, 1))[0] < 1 for name in difference.names):
            return None  # `larger` takes it that no size is 0
        found = larger(one, other)
        return found if len(str(found)) <= MAX_TEXT else None

    def more_of(self, one: Needs | None, other: Needs) -> Needs:
        if one is None:
            return other
        return tuple(self.more(a, b) for a, b in zip(one, other, strict=True))

    def interval(self, expression: Expression) -> tuple[int | None, int | None]:
        """The smallest and the largest number that it is in a call; None where one is not known.

        Exact for sums of multiples of sizes, and for anything of one name with few sizes.
        """
        if any(name not in self.ranges for name in expression.names):
            return None, None
        if all(len(p) < 2 and all(isinstance(a, Name) for a in p) for p, _ in expression.terms):
            return self._end_of_sum(expression, 0), self._end_of_sum(expression, 1)
        if len(expression.names) != 1:
            return None, None
        (name,) = expression.names
        lowest, highest = self.ranges[name]
        if highest - lowest >= MAX_TRIED_SIZES:
            return None, None
        values = [expression.value({name: size}) for size in range(lowest, highest + 1)]
        return min(values), max(values)

    def _end_of_sum(self, expression: Expression, end: int) -> int:
        total = expression.constant
        for product, factor in expression.terms:
            for atom in product:
                assert isinstance(atom, Name)
                total += factor * self.ranges[atom.text][end if factor > 0 else 1 - end]
        return total


def whole_vectors(end: Expression, multiple: int) -> Expression:
    """The elements that a loop in steps of up to `multiple` reads which ends at `end` and starts at
    the first one."""
    return end if multiple == 1 else (end + (multiple - 1)).divided(multiple) * multiple


@dataclass
class KernelNeeds:
    """What a kernel needs of its arguments, from what is needed of its results."""

    needed: dict[SSAValue, Needs] = field(default_factory=dict)
    """By argument, before the kernel's first statement."""
    stored: dict[SSAValue, Needs] = field(default_factory=dict)
    """By argument that is stored to: the most that any statement has to store."""
    ends: Mapping[SSAValue, Expression] = field(default_factory=dict)
    multiples: Mapping[SSAValue, int] = field(default_factory=dict)
    """By argument, elements that loops read together which end there; VECTOR of others."""
    own: set[SSAValue] = field(default_factory=set)
    """What the kernel stores to."""
    ended: set[SSAValue] = field(default_factory=set)
    """Arguments of which no more is needed because of those ends."""


def find_needs(
    kernel: func.FuncOp,
    results: Mapping[SSAValue, Needs],
    limits: Limits,
    sizes: Bounds,
    inside: Mapping[SSAValue, Needs],
    ends: Mapping[SSAValue, Expression] | None = None,
    multiples: Mapping[SSAValue, int] | None = None,
) -> KernelNeeds:
    """results: needs of arguments that are results, after the last statement.

    inside: by argument, the elements of a dimension that are read at places which data decide.
    ends: indices of loops over which numbers are accumulated, and from where on that adds nothing;
    what they read is needed up to the end of a vector, which holds if `clipping.py` ends them.
    multiples: elements of such a vector, by argument.
    """
    found = KernelNeeds(dict(results), ends=ends or {}, multiples=multiples or {})
    tops = [op for op in kernel.body.block.ops if op.regions]
    found.own = {a.memref for top in tops for a in accesses_in(top) if is_store(a)}
    for top in reversed(tops):
        _visit(top, found, limits, sizes, inside)
    return found


def _visit(
    top: Operation,
    found: KernelNeeds,
    limits: Limits,
    sizes: Bounds,
    inside: Mapping[SSAValue, Needs],
) -> None:
    accesses = accesses_in(top)
    stores = [a for a in accesses if is_store(a)]
    bounds: dict[SSAValue, Expression] | None = None
    for store in stores:
        own = _bounds_of_store(store, found)
        if own is None:
            continue  # nothing of it is needed
        bounds = own if bounds is None else _more_bounds(bounds, own, sizes)
    if bounds is None:
        return
    for store in stores:
        buffer = store.memref
        if isinstance(buffer, BlockArgument) and buffer in found.needed:
            needed = found.needed[buffer]
            found.stored[buffer] = sizes.more_of(found.stored.get(buffer), needed)
    for buffer in {s.memref for s in stores}:
        if _overwrites([s for s in stores if s.memref is buffer], accesses, buffer):
            found.needed.pop(buffer, None)
    for load in accesses:
        if is_store(load):
            continue
        own = dict(bounds)
        for index, limit in _selected_below(load, limits).items():
            own[index] = _less(own.get(index), limit)
        for index in {i for form in subscripts(load) if form is not None for i in form.terms}:
            if index in found.ends:
                multiple = found.multiples.get(load.memref, VECTOR)
                own[index] = _less(own.get(index), whole_vectors(found.ends[index], multiple))
                found.ended.add(load.memref)
        reach = _reach(load, own, inside.get(load.memref))
        found.needed[load.memref] = sizes.more_of(found.needed.get(load.memref), reach)


def _bounds_of_store(store: Access, found: KernelNeeds) -> dict[SSAValue, Expression] | None:
    """Indices below which the store is needed; None where nothing of the buffer is."""
    if isinstance(store.memref.owner, memref.AllocaOp):
        return {}
    needed = found.needed.get(store.memref)
    if needed is None:
        return None
    bounds: dict[SSAValue, Expression] = {}
    for form, need in zip(subscripts(store), needed, strict=True):
        if need is None or form is None:
            continue
        for index, per in form.terms.items():
            rest = LinearForm({i: c for i, c in form.terms.items() if i is not index})
            smallest = rest.range()
            if per < 1 or smallest is None:
                continue
            least = smallest[0] + form.constant
            bounds[index] = _less(bounds.get(index), (need + (per - 1 - least)).divided(per))
    return bounds


def _more_bounds(
    one: dict[SSAValue, Expression], other: dict[SSAValue, Expression], sizes: Bounds
) -> dict[SSAValue, Expression]:
    """Bounds for both stores: of indices that both bound."""
    found = {i: sizes.more(bound, other[i]) for i, bound in one.items() if i in other}
    return {index: bound for index, bound in found.items() if bound is not None}


def _less(one: Expression | None, other: Expression) -> Expression:
    """The smaller of two bounds, or the second where that is not known: a size that is selected
    below does not grow from kernel to kernel."""
    if one is None:
        return other
    difference = one - other
    return one if difference.is_number and difference.constant <= 0 else other


def _overwrites(stores: Sequence[Access], accesses: Sequence[Access], buffer: SSAValue) -> bool:
    """Whether every element of the buffer is new after these loops, whatever it was before."""
    if not isinstance(buffer.type, MemRefType):
        return False
    shape = buffer.type.get_shape()
    for store in stores:
        loops = enclosing_loops(store)
        if not isinstance((loops[0] if loops else store).parent_op(), func.FuncOp):
            continue  # a condition surrounds it
        seen: set[SSAValue] = set()
        for form, size in zip(subscripts(store), shape, strict=True):
            if form is None or form.constant or len(form.terms) > 1:
                break
            if not form.terms:
                if size != 1:
                    break
                continue
            ((index, per),) = form.terms.items()
            if per != 1 or index in seen or _extent(index) != size:
                break
            seen.add(index)
        else:
            return True
    return False


def _extent(index: SSAValue) -> int | None:
    loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
    bounds = bounds_of(loop) if isinstance(loop, affine.ForOp) else None
    return None if bounds is None or bounds[0] else bounds[1]


def _reach(load: Access, bounds: Mapping[SSAValue, Expression], inside: Needs | None) -> Needs:
    """One more than the highest subscript of each dimension; None where it is the last, or not
    known."""
    assert isinstance(load.memref.type, MemRefType)
    found: list[Need] = []
    for axis, size in enumerate(load.memref.type.get_shape()):
        form = subscripts(load)[axis]
        place = None if inside is None else inside[axis]
        found.append(place if form is None else _highest(form, bounds, size))
    return tuple(found)


def _highest(form: LinearForm, bounds: Mapping[SSAValue, Expression], size: int) -> Need:
    total = number(form.constant + 1)
    for index, coefficient in form.terms.items():
        extent = _extent(index)
        if extent is None:
            return None
        if coefficient < 0:
            continue  # it is smallest where the index is 0
        last = bounds.get(index, number(extent)) - 1
        total = total + last * coefficient
    if total.is_number:
        return None if total.constant >= size else total
    return total


def _selected_below(load: Access, limits: Limits) -> Mapping[SSAValue, Expression]:
    """Indices that are below a size wherever the loaded number is used."""
    found: Mapping[SSAValue, Expression] | None = None
    for use in load.results[0].uses if load.results else ():
        select = use.operation
        if not isinstance(select, arith.SelectOp) or use.index != 1:
            return {}
        own = limits(select.cond)
        if found is not None and dict(own) != dict(found):
            return {}
        found = own
    return found or {}
