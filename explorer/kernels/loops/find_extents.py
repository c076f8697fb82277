"""Which elements kernels have to compute where several sizes are open.

    func @relu_1(%x: memref<64x16xf32>, %size: memref<1xi64>, %y: memref<64x16xf32>)
      attributes {kernel.extents = [[], [], [1, 1, 0, 1, 1, -1, 0, 0, 1, 1]]}   y: rows below size

Found on textbook nests, from the results of a program, of which a call has the first elements, to
its inputs: an element is computed where a needed one is made of it. What is selected only below a
size (masks of `keep-sizes`) is not needed beyond it. Sizes are arguments of the kernels, numbers
of the call like those that the program computes with. `clipping.py` ends loops there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, prod

from xdsl.dialects import affine, arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import BlockArgument, Operation, SSAValue

from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.evaluation import INPUT_NAMES, entry_function, input_names, output_names
from explorer.ir.open_sizes import OPEN_SIZES, sizes_attribute
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.symbols import Expression, Quotient, number, smaller
from explorer.ir.structure import own_functions
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.types import layout_of, static_shape, tensor_type
from explorer.kernels.loops.beginning import KEPT, Kept, KeptDimension
from explorer.kernels.loops.call_values import CallValues, call_sizes, prefix, source
from explorer.kernels.loops.extents import (
    VECTOR,
    KernelNeeds,
    Limits,
    Need,
    Needs,
    find_needs,
)
from explorer.kernels.loops.nest import accesses_in, subscripts
from explorer.kernels.loops.regrouping import in_buffer, in_tensor, regrouped, shape_of_buffer
from explorer.kernels.loops.running import RUNS, both, numbers_of_launches, used_if
from explorer.results.program import OpenSizes

EXTENTS = "kernel.extents"
ENDS = "kernel.ends"
ENDED = "kernel.ended"
"""By argument: of an operand of which no more is needed than what sums read, how many elements
those read together; 0 for others."""
KeptElements = tuple[int, tuple[tuple[int, Expression] | None, ...]]
"""An operand's place, and by dimension the first element and how many of it a result keeps."""
WHOLE = (-1, 0, 0, 1, 1)
LEAST = "kernel.least"
"""By argument: the size at the smallest sizes of a call; 0 for other arguments."""
UNEVEN = "kernel.uneven"
"""On a kernel of which launches need different elements."""
SIZE_ARGUMENT = "call_size"


@dataclass(frozen=True)
class Extent:
    """Elements of a dimension below (times * size - minus) / per, rounded up, where size is an
    argument's number."""

    argument: int
    times: int
    minus: int
    multiple: int = 1
    """No more than the last multiple of so many elements is needed, as vectors are read whole."""
    per: int = 1
    """Other than 1 for buffers that a schedule adds only: tiles of so many elements."""

    def row(self) -> tuple[int, ...]:
        """As numbers of the attribute."""
        return (self.argument, self.times, self.minus, self.multiple, self.per)


def extents_of_kernel(function: func.FuncOp, name: str = EXTENTS) -> list[list[Extent | None]]:
    """What has to be computed, by argument and dimension; empty where all of it.

    With ENDS: the elements that a loop over which numbers are accumulated needs to read.
    """
    attribute = function.attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        return []
    found: list[list[Extent | None]] = []
    for entry in attribute.data:
        assert isinstance(entry, DenseArrayBase)
        values = [int(value) for value in entry.get_values()]
        width = len(WHOLE)
        rows = [values[at : at + width] for at in range(0, len(values), width)]
        found.append([None if row[0] < 0 else Extent(*row) for row in rows])
    return found


def ends_sums(function: func.FuncOp) -> bool:
    """Whether loops over which numbers are accumulated end with the sizes of a call."""
    ended = function.attributes.get(ENDED)
    return isinstance(ended, DenseArrayBase) and any(ended.get_values())


def whole_extents(function: func.FuncOp) -> ArrayAttr[DenseArrayBase]:
    """The attribute of a kernel that computes all of its results."""
    ranks = [len(entry) for entry in extents_of_kernel(function)]
    return ArrayAttr([DenseArrayBase.from_list(i64, list(WHOLE) * rank) for rank in ranks])


@dataclass(frozen=True)
class FindExtents(Pass):
    """Kernels are marked with the elements that a call needs of their results."""

    name = "find-extents"
    level = "loops"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        entry = entry_function(rewriter.module)
        sizes = call_sizes(entry)
        if sizes is None:
            return []
        events = EventLog(self.name, rewriter)
        made = [op for op in entry.body.block.ops if isinstance(op, func.CallOp)]
        calls = {op.callee.string_value(): op for op in made}
        for function in own_functions(rewriter.module):
            call = calls.get(function.sym_name.data)
            if call is not None:
                _Extents(rewriter, entry, function, call, sizes, events).run()
                sizes = call_sizes(entry) or sizes
        return events.rewrites


class _Extents(CallValues):
    def __init__(
        self,
        rewriter: RecordedRewriter,
        entry: func.FuncOp,
        function: func.FuncOp,
        call: func.CallOp,
        sizes: OpenSizes,
        events: EventLog,
    ) -> None:
        super().__init__(rewriter, entry, function, call, sizes)
        self.events = events
        self.needed: dict[SSAValue, Needs | None] = {}
        """By value, in dimensions of the tensor; a value that is not here is not needed."""
        self.kept: dict[str, set[KeptElements | None]] = {}
        """By kernel: the operand that a result keeps, with where each dimension of that begins and
        how much of it; of all launches."""
        self.used: dict[SSAValue, Need] = {}
        """By value: a number that is above 0 in calls that use it; None: all calls do."""
        self.runs: dict[Operation, Need] = {}
        """By launch, likewise."""
        self.ended: dict[str, dict[SSAValue, int]] = {}
        """By kernel: operands of which no more is needed than what sums read, with how many
        elements those read together."""

    def run(self) -> None:
        self.find_neutral()
        last = self.function.body.block.last_op
        assert last is not None
        for index, operand in enumerate(last.operands):
            self._need(operand, self._of_output(self.call.results[index]))
            self._use(operand, None)
        found: dict[str, list[tuple[LaunchOp, KernelNeeds]]] = {}
        for op in reversed([*self.function.body.block.ops]):
            if isinstance(op, LaunchOp):
                needs = self._visit_launch(op)
                if needs is not None:
                    found.setdefault(op.kernel.data, []).append((op, needs))
            elif isinstance(op, TopOperation) and not isinstance(op, ReturnOp | WeightOp):
                self._visit_view(op)
        for name, uses in found.items():
            self._mark(self.kernels[name], uses)

    # -- what is known of values -------------------------------------------------------------------
    # -- needs -------------------------------------------------------------------------------------
    def _of_output(self, result: SSAValue) -> Needs | None:
        """What a call has of an output of the program; None where another function reads it."""
        last = self.entry.body.block.last_op
        assert last is not None
        places = [i for i, operand in enumerate(last.operands) if source(operand) is result]
        users = [use.operation for use in result.uses]
        if len(places) != 1 or len(users) != 1:
            return None
        name = output_names(self.entry)[places[0]]
        found: list[Need] = [None] * len(static_shape(result))
        for axis in self.sizes.outputs:
            if axis.name == name:
                found[axis.axis] = prefix(axis)
        return tuple(found)

    def _need(self, value: SSAValue, needs: Needs | None) -> None:
        shape = static_shape(value)
        whole: Needs = (None,) * len(shape)
        if needs is None or len(needs) != len(shape):
            needs = whole
        known = self.needed.get(value)
        self.needed[value] = needs if known is None else self.bounds.more_of(known, needs)

    def _visit_launch(self, launch: LaunchOp) -> KernelNeeds | None:
        if not any(result in self.needed for result in launch.results):
            return None
        kernel, values = self.kernels[launch.kernel.data], self.values(launch)
        self._see_use(launch, values)
        results: dict[SSAValue, Needs] = {}
        for argument, value in values.items():
            if value in launch.results:
                shape = shape_of_buffer(argument)
                results[argument] = in_buffer(value, self.needed.get(value), shape)
        limits = self.limits(launch)
        self.kept.setdefault(launch.kernel.data, set()).add(_kept(kernel, self.box(launch)))
        inside = {
            argument: in_buffer(
                value, self._inside(identity_of(launch), value), shape_of_buffer(argument)
            )
            for argument, value in values.items()
            if value not in launch.results
        }
        ends = self.ends[launch]
        multiples = {a: _multiple(v) for a, v in values.items() if v not in launch.results}
        found = find_needs(kernel, results, limits, self.bounds, inside, ends, multiples)
        for argument, value in values.items():
            if value not in launch.results and argument in found.needed:
                if argument in found.ended:
                    own = self.ended.setdefault(launch.kernel.data, {})
                    own[argument] = min(own.get(argument, VECTOR), multiples[argument])
                needs = in_tensor(value, found.needed[argument], shape_of_buffer(argument))
                place = list(launch.operands).index(value)
                self._need(value, self._of_part(launch, place, needs))
        return found

    def _see_use(self, launch: LaunchOp, values: Mapping[SSAValue, SSAValue]) -> None:
        """Which calls run a launch, and so use its operands."""
        results = [result for result in launch.results if result in self.needed]
        own = self.runs[launch] = self._any_use(results)
        quantity = self.quantity(launch)
        for argument, value in values.items():
            if value not in launch.results:
                self._use(value, both(own, used_if(argument, quantity)))

    def _any_use(self, results: Sequence[SSAValue]) -> Need:
        return reduce(self.bounds.more, [self.used.get(result) for result in results])

    def _use(self, value: SSAValue, used: Need) -> None:
        self.used[value] = self.bounds.more(self.used[value], used) if value in self.used else used

    def _inside(self, name: str, value: SSAValue) -> Needs:
        """What an operation reads of an operand at places that data decide; passes may have moved
        axes, so that they are known by their sizes."""
        shape = static_shape(value)
        found: list[Need] = [None] * len(shape)
        own = [axis for axis in self.sizes.gathered if axis.name == name]
        for axis, size in enumerate(shape):
            sizes = [prefix(one) for one in own if prod(n for n, _ in one.factors) == size]
            if len(sizes) == shape.count(size) and sizes:
                found[axis] = reduce(self.bounds.more, sizes)
        return tuple(found)

    def _of_part(self, op: TopOperation, place: int, needs: Needs) -> Needs:
        """Of an operand of a concatenation, from which a call's elements are gathered."""
        name = f"{identity_of(op)}/{place}"
        sizes = [prefix(axis) for axis in self.sizes.gathered if axis.name == name]
        shapes = static_shape(op.operands[place]), static_shape(op.results[0])
        joined = [a for a, (n, all_of) in enumerate(zip(*shapes, strict=False)) if n != all_of]
        if len(sizes) != 1 or len(joined) != 1 or len(shapes[0]) != len(shapes[1]):
            return needs
        return (*needs[: joined[0]], sizes[0], *needs[joined[0] + 1 :])

    def _visit_view(self, op: TopOperation) -> None:
        """A view has the same elements in the same order; of anything else all is needed."""
        for operand in op.operands:
            needs: Needs | None = None
            if len(op.results) == 1 and self.needed.get(op.results[0]) is not None:
                needs = self._through_view(op, operand)
            if any(result in self.needed for result in op.results):
                self._need(operand, needs)
                self._use(operand, self._any_use(op.results))

    def _through_view(self, op: TopOperation, operand: SSAValue) -> Needs | None:
        (result,) = op.results
        own = self.needed[result]
        assert own is not None
        before, after = static_shape(operand), static_shape(result)
        if isinstance(op, ConcatOp):  # its parts lie in one buffer
            pairs = zip(own, before, after, strict=True)
            kept = tuple(need if size == whole else None for need, size, whole in pairs)
            return self._of_part(op, list(op.operands).index(operand), kept)
        if len(op.operands) != 1:
            return None
        if isinstance(op, SliceOp) and op.is_static_slice:
            return _of_slice(own, op.ranges(before), before)
        if before == after:
            return own
        plain = layout_of(operand).is_plain and layout_of(result).is_plain
        if plain and prod(before) == prod(after):
            return regrouped(own, after, before, self.joined)
        return None

    # -- marks -------------------------------------------------------------------------------------
    def _mark(self, kernel: func.FuncOp, uses: list[tuple[LaunchOp, KernelNeeds]]) -> None:
        """A kernel computes what the launch needs that needs most."""
        stored: list[Needs | None] = []
        for argument in kernel.body.block.args:
            found: Needs | None = None
            for _, use in uses:
                own = use.stored.get(argument)
                found = found if own is None else self.bounds.more_of(found, own)
            stored.append(None if found is None else self._given(found))
        is_uneven = any(use.stored != uses[0][1].stored for _, use in uses)
        neutral = [n and self._given(n) for n in self.neutral[kernel.sym_name.data]]
        launches = [op for op in self.function.body.block.ops if isinstance(op, LaunchOp)]
        own_launches = [op for op in launches if op.kernel.data == kernel.sym_name.data]
        every = [need for needs in (*stored, *neutral) for need in needs or ()]
        is_known = any(need is not None and not need.is_number for need in every)
        if not is_known and all(self.runs.get(op) is None for op in own_launches):
            return
        with self.events.rewrite("extents", kernel, "loops end with the sizes of a call"):
            self._add_sizes(kernel, stored, neutral, own_launches, is_uneven)

    def _given(self, needs: Needs) -> Needs:
        """Without those of which the size is no number that a kernel can be given: the valid
        length is known to the program alone."""
        return tuple(
            None
            if need is None or (self.length in need.names and self._is_unknown(_rounded(need)[0]))
            else need
            for need in needs
        )

    def _is_unknown(self, size: Expression) -> bool:
        return self.length in size.names and str(size) not in self.by_text

    def _add_sizes(
        self,
        kernel: func.FuncOp,
        stored: Sequence[Needs | None],
        neutral: Sequence[Needs | None],
        launches: Sequence[LaunchOp],
        is_uneven: bool,
    ) -> None:
        marked = kernel.clone()
        if is_uneven:
            marked.attributes[UNEVEN] = UnitAttr()
        block = marked.body.block
        place = len(launches[0].operands)
        sizes: list[Expression] = []
        entries, ends = (
            [
                _entry(needs or (None,) * len(shape_of_buffer(argument)), place, sizes)
                for argument, needs in zip(block.args, found, strict=True)
            ]
            for found in (stored, neutral)
        )
        kept = self._kept_of(kernel, place, sizes)
        if kept is not None:
            marked.attributes[KEPT] = kept.attribute()
        roles = [a.role for a in kernel_arguments(kernel)]
        names = [a.name for a in kernel_arguments(kernel)]
        every = [(size,) * len(launches) for size in sizes]
        known = {
            op: None if need is None or self._is_unknown(need) else need
            for op, need in self.runs.items()
        }
        runs = numbers_of_launches(known, launches, number(1))
        if runs:
            marked.attributes[RUNS] = IntegerAttr(place + len(every), i64)
            every.append(runs)
        for offset, own in enumerate(every):
            name = f"{SIZE_ARGUMENT}{offset}"
            added = block.insert_arg(MemRefType(i64, [1]), place + offset)
            added.name_hint = name
            roles.insert(place + offset, "input")
            names.insert(place + offset, name)
            entries.insert(place + offset, list(WHOLE))
            ends.insert(place + offset, list(WHOLE))
            for launch, size in zip(launches, own, strict=True):
                launch.operands = [*launch.operands, self._scalar(size)]
        marked.attributes["kernel.roles"] = ArrayAttr([StringAttr(role) for role in roles])
        marked.attributes["kernel.names"] = ArrayAttr([StringAttr(name) for name in names])
        for name, rows in ((EXTENTS, entries), (ENDS, ends)):
            marked.attributes[name] = ArrayAttr(
                [DenseArrayBase.from_list(i64, entry) for entry in rows]
            )
        smallest = {name: low for name, low, _ in self.sizes.ranges}
        least = [0] * len(block.args)
        least[place : place + len(sizes)] = [size.value(smallest) for size in sizes]
        marked.attributes[LEAST] = DenseArrayBase.from_list(i64, least)
        ended = self.ended.get(kernel.sym_name.data, {})
        if ended:
            places = [ended.get(argument, 0) for argument in kernel.body.block.args]
            marked.attributes[ENDED] = DenseArrayBase.from_list(i64, places)
        marked.function_type = FunctionType.from_lists([a.type for a in block.args], [])
        self.rewriter.replace_function(kernel, marked)

    def _kept_of(self, kernel: func.FuncOp, place: int, sizes: list[Expression]) -> Kept | None:
        """What all launches keep; adds the sizes that say it."""
        every = [one for one in self.kept.get(kernel.sym_name.data, {None}) if one is not None]
        if not every or len(every) != len(self.kept[kernel.sym_name.data]):
            return None
        found = reduce(_kept_by_both, every)
        if found is None:
            return None
        operand, dimensions = found
        rows: list[KeptDimension | None] = []
        for dimension in dimensions:
            if dimension is None:
                rows.append(None)
                continue
            first, need = dimension
            if need.is_number:
                return None
            size, times, minus = _linear(need)
            if self._is_unknown(size):
                return None
            if size not in sizes:
                sizes.append(size)
            rows.append(KeptDimension(first, place + sizes.index(size), times, minus))
        return Kept(operand, tuple(rows), len(every) == 1)

    def _scalar(self, size: Expression) -> SSAValue:
        """The number of a call in this function; an input of the program where it is new."""
        text = str(size)
        if text not in self.by_text:
            self.by_text[text] = self._added_scalar(text)
        return self.by_text[text]

    def _added_scalar(self, text: str) -> SSAValue:
        entry, rewriter = self.entry, self.rewriter
        numbers = {known: name for name, known in self.sizes.numbers}
        names = list(input_names(entry))
        block = entry.body.block
        if text in numbers:
            argument: BlockArgument = block.args[names.index(numbers[text])]
        else:
            name = f"size.{text}"
            argument = block.insert_arg(tensor_type(i64, ()), len(block.args))
            argument.name_hint = rewriter.names.fresh("size")
            entry.attributes[INPUT_NAMES] = ArrayAttr([StringAttr(n) for n in (*names, name)])
            self.sizes = replace(self.sizes, numbers=(*self.sizes.numbers, (name, text)))
            rewriter.set_attribute(entry, OPEN_SIZES, sizes_attribute(self.sizes))
        given = self._sent(argument)
        self.call.operands = [*self.call.operands, given]
        own = self.function.body.block
        value = own.insert_arg(tensor_type(i64, ()), len(own.args))
        value.name_hint = rewriter.names.fresh("size")
        rewriter.update_signature(entry)
        rewriter.update_signature(self.function)
        return value

    def _sent(self, argument: SSAValue) -> SSAValue:
        """The argument as the call takes it: sent to the device like the others."""
        made = [o.owner for o in self.call.operands]
        example = next((op for op in made if isinstance(op, TransferOp)), None)
        if example is None:
            return argument
        sent = TransferOp.make([argument], to=example.get("to"))
        self.rewriter.insert_before(self.call, sent)
        return sent.output


def _multiple(value: SSAValue) -> int:
    """Elements that a sum reads together. Vectors of blocked values are of channels, so that loops
    over rows and columns end exactly."""
    return 1 if layout_of(value).block else VECTOR


def _kept(kernel: func.FuncOp, box: Limits) -> KeptElements | None:
    """The operand that a result keeps below sizes: y[i] = select(i < size, x[i], other)."""
    arguments: list[SSAValue] = list(kernel.body.block.args)
    nests = [op for op in kernel.body.block.ops if op.regions]
    for store in (access for nest in nests for access in accesses_in(nest)):
        if not isinstance(store, affine.StoreOp) or not isinstance(
            store.value.owner, arith.SelectOp
        ):
            continue
        select = store.value.owner
        load = select.lhs.owner
        if not isinstance(load, affine.LoadOp) or load.memref not in arguments:
            continue
        below, found = box(select.cond), list[tuple[int, Expression] | None]()
        for form in subscripts(store):
            own = [] if form is None else [i for i in form.terms if i in below]
            if form is None or not own:
                found.append(None)
            elif len(form.terms) == 1 and form.terms[own[0]] == 1:
                found.append((form.constant, below[own[0]]))
            else:
                return None
        if any(found) and sum(one is not None for one in found) == len(below):
            return arguments.index(load.memref), tuple(found)
    return None


def _kept_by_both(one: KeptElements | None, other: KeptElements | None) -> KeptElements | None:
    """The elements that both keep, where both begin at the same ones."""
    if one is None or other is None or one[0] != other[0]:
        return None
    found: list[tuple[int, Expression] | None] = []
    for first, second in zip(one[1], other[1], strict=True):
        if first is None or second is None:
            found.append(first or second)
        elif first[0] != second[0]:
            return None
        else:
            found.append((first[0], smaller(first[1], second[1])))
    return one[0], tuple(found)


def _entry(needs: Needs, place: int, sizes: list[Expression]) -> list[int]:
    """The numbers of each dimension's `Extent`; new sizes follow the argument `place`."""
    entry: list[int] = []
    for need in needs:
        if need is None or need.is_number:
            entry += WHOLE
            continue
        size, times, minus, multiple = _rounded(need)
        if size not in sizes:
            sizes.append(size)
        entry += Extent(place + sizes.index(size), times, minus, multiple).row()
    return entry


def _of_slice(needs: Needs, ranges: Sequence[range], shape: Sequence[int]) -> Needs:
    """What is needed of the operand of a slice."""
    found: list[Need] = []
    for need, taken, size in zip(needs, ranges, shape, strict=True):
        if taken == range(size):
            found.append(need)
        elif taken.step < 0 or not taken:
            found.append(None)
        else:
            last = (number(len(taken)) if need is None else need) - 1
            found.append(last * taken.step + (taken.start + 1))
    return tuple(found)


def _linear(need: Expression) -> tuple[Expression, int, int]:
    """size, times and minus with need = times * size - minus."""
    varying = need - need.constant
    times = reduce(gcd, (abs(c) for _, c in varying.terms))
    size = Expression(tuple((product, c // times) for product, c in varying.terms))
    return size, times, -need.constant


def _rounded(need: Expression) -> tuple[Expression, int, int, int]:
    """size, times, minus and multiple: need is the last multiple of that many elements that is not
    above times * size - minus."""
    varying = [(product, factor) for product, factor in need.terms if product]
    product, factor = varying[0]
    atom = product[0] if len(product) == len(varying) == 1 else None
    is_whole = factor > 1 and need.constant % factor == 0
    if isinstance(atom, Quotient) and is_whole and factor % atom.divisor == 0:
        dividend = atom.dividend + need.constant // factor * atom.divisor
        size, times, minus, own = _rounded(dividend * (factor // atom.divisor))
        if own == 1:
            return size, times, minus, factor
    return *_linear(need), 1
