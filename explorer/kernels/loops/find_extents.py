"""Which elements kernels have to compute where several sizes are open.

    func @relu_1(%x: memref<64x16xf32>, %size: memref<1xi64>, %y: memref<64x16xf32>)
      attributes {kernel.extents = [[], [], [1, 1, 0, -1, 0, 0]]}         y: rows below 1 * size - 0

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

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    MemRefType,
    StringAttr,
    i64,
)
from xdsl.ir import BlockArgument, SSAValue

from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.evaluation import INPUT_NAMES, entry_function, input_names, output_names
from explorer.ir.layout import rounded_channels
from explorer.ir.open_sizes import OPEN_SIZES, sizes_attribute, sizes_of_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.symbols import Expression, number, parse
from explorer.ir.structure import kernel_functions, own_functions
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.types import layout_of, static_shape, tensor_type
from explorer.kernels.loops.beginning import KEPT, Kept, KeptDimension
from explorer.kernels.loops.extents import Bounds, KernelNeeds, Limits, Need, Needs, find_needs
from explorer.kernels.loops.nest import (
    LinearForm,
    accesses_in,
    subscripts,
)
from explorer.kernels.loops.regrouping import regrouped
from explorer.results.program import OpenAxis, OpenSizes

EXTENTS = "kernel.extents"
WHOLE = (-1, 0, 0)
SIZE_ARGUMENT = "call_size"


@dataclass(frozen=True)
class Extent:
    """Elements of a dimension below times * size - minus, where size is an argument's number."""

    argument: int
    times: int
    minus: int


def extents_of_kernel(function: func.FuncOp) -> list[list[Extent | None]]:
    """What has to be computed, by argument and dimension; empty where all of it."""
    attribute = function.attributes.get(EXTENTS)
    if not isinstance(attribute, ArrayAttr):
        return []
    found: list[list[Extent | None]] = []
    for entry in attribute.data:
        assert isinstance(entry, DenseArrayBase)
        values = [int(value) for value in entry.get_values()]
        triples = zip(values[::3], values[1::3], values[2::3], strict=True)
        found.append([None if a < 0 else Extent(a, t, m) for a, t, m in triples])
    return found


@dataclass(frozen=True)
class FindExtents(Pass):
    """Kernels are marked with the elements that a call needs of their results."""

    name = "find-extents"
    level = "loops"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        entry = entry_function(rewriter.module)
        sizes = sizes_of_function(entry)
        if sizes is None:
            return []
        events = EventLog(self.name, rewriter)
        made = [op for op in entry.body.block.ops if isinstance(op, func.CallOp)]
        calls = {op.callee.string_value(): op for op in made}
        for function in own_functions(rewriter.module):
            call = calls.get(function.sym_name.data)
            if call is not None:
                _Extents(rewriter, entry, function, call, sizes, events).run()
                sizes = sizes_of_function(entry) or sizes
        return events.rewrites


class _Extents:
    def __init__(
        self,
        rewriter: RecordedRewriter,
        entry: func.FuncOp,
        function: func.FuncOp,
        call: func.CallOp,
        sizes: OpenSizes,
        events: EventLog,
    ) -> None:
        self.rewriter, self.entry, self.function = rewriter, entry, function
        self.call, self.sizes, self.events = call, sizes, events
        self.kernels = kernel_functions(rewriter.module)
        self.bounds = Bounds({name: (low, high) for name, low, high in sizes.ranges})
        self.needed: dict[SSAValue, Needs | None] = {}
        """By value, in dimensions of the tensor; a value that is not here is not needed."""
        self.masks: dict[SSAValue, Needs] = {}
        """Tensors that are true below a size of each of some dimensions only."""
        self.by_text: dict[str, SSAValue] = {}
        self.kept: dict[str, set[tuple[int, tuple[tuple[int, Expression] | None, ...]] | None]] = {}
        """By kernel: the operand that a result keeps, with where each dimension of that begins and
        how much of it; of all launches."""
        self._find_inputs()

    def run(self) -> None:
        last = self.function.body.block.last_op
        assert last is not None
        for index, operand in enumerate(last.operands):
            self._need(operand, self._of_output(self.call.results[index]))
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
    def _find_inputs(self) -> None:
        """Numbers and masks of a call among the function's arguments."""
        texts = dict(self.sizes.numbers)
        masks = {mask.name: mask for mask in self.sizes.masks}
        given: list[SSAValue] = list(self.entry.body.block.args)
        names = dict(zip(given, input_names(self.entry), strict=True))
        arguments = self.function.body.block.args
        for operand, own in zip(self.call.operands, arguments, strict=True):
            name = names.get(_source(operand), "")
            if name in texts:
                self.by_text[texts[name]] = own
            elif name in masks:
                found: list[Need] = [None] * len(masks[name].shape)
                for axis in masks[name].axes:
                    found[axis.axis] = _prefix(axis)
                self.masks[own] = tuple(found)

    def _limits(self, launch: LaunchOp) -> Limits:
        values = self._values(launch)

        def of_condition(condition: SSAValue) -> Mapping[SSAValue, Expression]:
            owner = condition.owner
            if isinstance(owner, arith.AndIOp):
                return {**of_condition(owner.lhs), **of_condition(owner.rhs)}
            if isinstance(owner, affine.LoadOp | memref.LoadOp):
                read = _root(values.get(owner.memref))
                needs = None if read is None else self.masks.get(read)
                if read is None or needs is None:
                    return {}
                own = regrouped(needs, static_shape(read), _shape(owner.memref))
                return _bounds(subscripts(owner), own)
            return {}

        return of_condition

    def _values(self, launch: LaunchOp) -> dict[SSAValue, SSAValue]:
        """The function's values by the kernel's arguments."""
        kernel = self.kernels[launch.kernel.data]
        inputs, outputs = iter(launch.operands), iter(launch.results)
        found: dict[SSAValue, SSAValue] = {}
        roles = kernel_arguments(kernel)
        for argument, role in zip(kernel.body.block.args, roles, strict=True):
            if role.role != "scratch":
                found[argument] = next(outputs if role.role == "output" else inputs)
        return found

    # -- needs -------------------------------------------------------------------------------------
    def _of_output(self, result: SSAValue) -> Needs | None:
        """What a call has of an output of the program; None where another function reads it."""
        last = self.entry.body.block.last_op
        assert last is not None
        places = [i for i, operand in enumerate(last.operands) if _source(operand) is result]
        users = [use.operation for use in result.uses]
        if len(places) != 1 or len(users) != 1:
            return None
        name = output_names(self.entry)[places[0]]
        found: list[Need] = [None] * len(static_shape(result))
        for axis in self.sizes.outputs:
            if axis.name == name:
                found[axis.axis] = _prefix(axis)
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
        kernel, values = self.kernels[launch.kernel.data], self._values(launch)
        results: dict[SSAValue, Needs] = {}
        for argument, value in values.items():
            if value in launch.results:
                shape = _shape(argument)
                results[argument] = _in_buffer(value, self.needed.get(value), shape)
        limits = self._limits(launch)
        self.kept.setdefault(launch.kernel.data, set()).add(_kept(kernel, limits))
        inside = {
            argument: _in_buffer(value, self._inside(identity_of(launch), value), _shape(argument))
            for argument, value in values.items()
            if value not in launch.results
        }
        found = find_needs(kernel, results, limits, self.bounds, inside)
        for argument, value in values.items():
            if value not in launch.results and argument in found.needed:
                needs = _in_tensor(value, found.needed[argument], _shape(argument))
                place = list(launch.operands).index(value)
                self._need(value, self._of_part(launch, place, needs))
        return found

    def _inside(self, name: str, value: SSAValue) -> Needs:
        """What an operation reads of an operand at places that data decide; passes may have moved
        axes, so that they are known by their sizes."""
        shape = static_shape(value)
        found: list[Need] = [None] * len(shape)
        own = [axis for axis in self.sizes.gathered if axis.name == name]
        for axis, size in enumerate(shape):
            sizes = [_prefix(one) for one in own if prod(n for n, _ in one.factors) == size]
            if len(sizes) == shape.count(size) and sizes:
                found[axis] = reduce(self.bounds.more, sizes)
        return tuple(found)

    def _of_part(self, op: TopOperation, place: int, needs: Needs) -> Needs:
        """Of an operand of a concatenation, from which a call's elements are gathered."""
        own = self._inside(f"{identity_of(op)}/{place}", op.operands[place])
        return tuple(need if part is None else part for need, part in zip(needs, own, strict=True))

    def _visit_view(self, op: TopOperation) -> None:
        """A view has the same elements in the same order; of anything else all is needed."""
        for operand in op.operands:
            needs: Needs | None = None
            if len(op.results) == 1 and self.needed.get(op.results[0]) is not None:
                needs = self._through_view(op, operand)
            if any(result in self.needed for result in op.results):
                self._need(operand, needs)

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
            return regrouped(own, after, before)
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
            stored.append(found)
        if not any(need is not None for needs in stored if needs for need in needs):
            return
        launches = [op for op in self.function.body.block.ops if isinstance(op, LaunchOp)]
        own_launches = [op for op in launches if op.kernel.data == kernel.sym_name.data]
        with self.events.rewrite("extents", kernel, "loops end with the sizes of a call"):
            self._add_sizes(kernel, stored, own_launches)

    def _add_sizes(
        self, kernel: func.FuncOp, stored: Sequence[Needs | None], launches: Sequence[LaunchOp]
    ) -> None:
        marked = kernel.clone()
        block = marked.body.block
        place = len(launches[0].operands)
        sizes: list[Expression] = []
        entries: list[list[int]] = []
        for argument, needs in zip(block.args, stored, strict=True):
            entry: list[int] = []
            for need in needs or (None,) * len(_shape(argument)):
                if need is None or need.is_number:
                    entry += WHOLE
                    continue
                size, times, minus = _linear(need)
                if size not in sizes:
                    sizes.append(size)
                entry += (place + sizes.index(size), times, minus)
            entries.append(entry)
        kept = self._kept_of(kernel, place, sizes)
        if kept is not None:
            marked.attributes[KEPT] = kept.attribute()
        roles = [a.role for a in kernel_arguments(kernel)]
        names = [a.name for a in kernel_arguments(kernel)]
        for offset, size in enumerate(sizes):
            name = f"{SIZE_ARGUMENT}{offset}"
            added = block.insert_arg(MemRefType(i64, [1]), place + offset)
            added.name_hint = name
            roles.insert(place + offset, "input")
            names.insert(place + offset, name)
            entries.insert(place + offset, list(WHOLE))
            value = self._scalar(size)
            for launch in launches:
                launch.operands = [*launch.operands, value]
        marked.attributes["kernel.roles"] = ArrayAttr([StringAttr(role) for role in roles])
        marked.attributes["kernel.names"] = ArrayAttr([StringAttr(name) for name in names])
        marked.attributes[EXTENTS] = ArrayAttr(
            [DenseArrayBase.from_list(i64, entry) for entry in entries]
        )
        marked.function_type = FunctionType.from_lists([a.type for a in block.args], [])
        self.rewriter.replace_function(kernel, marked)

    def _kept_of(self, kernel: func.FuncOp, place: int, sizes: list[Expression]) -> Kept | None:
        """What all launches keep; adds the sizes that say it."""
        (found, *others) = self.kept.get(kernel.sym_name.data, {None})
        if found is None or others:
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
            if size not in sizes:
                sizes.append(size)
            rows.append(KeptDimension(first, place + sizes.index(size), times, minus))
        return Kept(operand, tuple(rows))

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


def _kept(
    kernel: func.FuncOp, limits: Limits
) -> tuple[int, tuple[tuple[int, Expression] | None, ...]] | None:
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
        below, found = limits(select.cond), list[tuple[int, Expression] | None]()
        for form in subscripts(store):
            own = [] if form is None else [i for i in form.terms if i in below]
            if form is None or not own:
                found.append(None)
            elif len(form.terms) == 1 and form.terms[own[0]] == 1:
                found.append((form.constant, below[own[0]]))
            else:
                return None
        if any(found):
            return arguments.index(load.memref), tuple(found)
    return None


def _prefix(axis: OpenAxis) -> Need:
    """The elements of an axis up to the last that a call has."""
    last, stride = number(0), 1
    for largest, text in axis.factors[::-1]:
        last, stride = last + (parse(text) - 1) * stride, stride * largest
    return last + 1


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


def _source(value: SSAValue) -> SSAValue:
    """The value that was sent or received."""
    while isinstance(value.owner, TopOperation) and value.owner.name == "top.transfer":
        value = value.owner.operands[0]
    return value


def _root(value: SSAValue | None) -> SSAValue | None:
    """The value that views are of."""
    while value is not None and isinstance(value.owner, TopOperation):
        owner = value.owner
        if isinstance(owner, LaunchOp | WeightOp) or len(owner.operands) != 1:
            return value
        value = owner.operands[0]
    return value


def _bounds(forms: Sequence[LinearForm | None], needs: Needs) -> dict[SSAValue, Expression]:
    """The indices of subscripts that are below a size."""
    found: dict[SSAValue, Expression] = {}
    for form, need in zip(forms, needs, strict=True):
        if form is None or need is None or len(form.terms) != 1:
            continue
        ((index, per),) = form.terms.items()
        if per == 1:
            found[index] = need - form.constant
    return found


def _linear(need: Expression) -> tuple[Expression, int, int]:
    """size, times and minus with need = times * size - minus."""
    varying = need - need.constant
    times = reduce(gcd, (abs(c) for _, c in varying.terms))
    size = Expression(tuple((product, c // times) for product, c in varying.terms))
    return size, times, -need.constant


def _shape(argument: SSAValue) -> tuple[int, ...]:
    assert isinstance(argument.type, MemRefType)
    return argument.type.get_shape()


def _in_buffer(value: SSAValue, needs: Needs | None, shape: tuple[int, ...]) -> Needs:
    """Needs of a tensor's dimensions as those of the kernel's buffer."""
    own, shifts = static_shape(value), _shifts(value)
    if needs is None:
        return (None,) * len(shape)
    if len(shape) == len(own):
        return _shifted(needs, shifts)
    return (None,) * len(shape) if any(shifts) else regrouped(needs, _rounded(value), shape)


def _in_tensor(value: SSAValue, needs: Needs, shape: tuple[int, ...]) -> Needs:
    """Needs of a kernel's buffer as those of the tensor's dimensions."""
    own, shifts = static_shape(value), _shifts(value)
    if len(shape) == len(own):
        return _shifted(needs, [-shift for shift in shifts])
    return (None,) * len(own) if any(shifts) else regrouped(needs, shape, _rounded(value))


def _rounded(value: SSAValue) -> tuple[int, ...]:
    """The shape, with channels as they are stored."""
    shape, layout = static_shape(value), layout_of(value)
    if not layout.block:
        return shape
    return (shape[0], rounded_channels(shape[1], layout), *shape[2:])


def _shifts(value: SSAValue) -> list[int]:
    """Where the first element of each dimension is in the buffer of a kernel."""
    top, left = layout_of(value).halo[:2]
    shifts = [0] * len(static_shape(value))
    if top or left:
        shifts[2], shifts[3] = top, left
    return shifts


def _shifted(needs: Needs, shifts: Sequence[int]) -> Needs:
    return tuple(
        None if need is None else need + shift for need, shift in zip(needs, shifts, strict=True)
    )
