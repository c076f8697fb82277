"""Rows of a past that grows are stored as columns where a product reads them so, and, an opt-in
loss, in fewer bytes.

    %present = top.scatter_elements(%past, %rows, %new) {axis = 2} : tensor<1x4x8x16xf32>
    ... top.matmul(%q, %present) ...
 => %half = top.cast(%new) {to = f16}
    %present = top.scatter_elements(%past, %rows, %half) {axis = 2} : tensor<1x4x8x16xf16>
    %wide = top.cast(%present) {to = f32}
    ... top.matmul(%q, %wide) ...

A number is rounded once, when its row is appended; everything reads the rounded number. The knob
`narrow-past/type/STATE` decides, STATE being the name of the state's input: `float32` (what it is
by itself), `float16` (to nearest, ties to even; from 65520 on infinity, as IEEE 754 has it) or
`int8`, with a scale for each row of each head (`explorer.ir.row_scales`). The scales are a state of
their own, the last input and output:

    %scales = top.scatter_elements(%past_scale, ...) {axis = 2} : tensor<1x4x8x1xf32>
    %wide = top.binary(%cast, %scales) {kind = "mul"} : tensor<1x4x8x16xf32>

Keys are the columns of a product. The knob `narrow-past/order/STATE` decides how they lie: as
`rows`, which the program transposes in every call, or as `columns`, of which a call transposes the
new ones only:

    %new_t = top.transpose(%new) : tensor<1x4x16x1xf32>
    %present = top.scatter_elements(%past, %rows_t, %new_t) {axis = 3} : tensor<1x4x16x8xf32>

Keys of float32 lie as columns by themselves where a call adds few rows (`MAX_ROWS`): a product of
many takes long, and fused attention reads rows. Those that are rounded always do.

Callers still give and take float32 (`explorer.ir.padding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, Float32Type, ModuleOp, StringAttr, f16, f32
from xdsl.ir import BlockArgument, Operation, SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import (
    INPUT_NAMES,
    OUTPUT_NAMES,
    entry_function,
    entry_return,
    input_names,
    output_names,
)
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.row_scales import row_axis
from explorer.ir.states import StateRecord, set_states, states_of
from explorer.ir.top.casting import CastOp
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.indexing import ScatterElementsOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of, shape_of, tensor_type
from explorer.ir.valid_length import VALID_LENGTH, length_attribute, length_of
from explorer.passes.states.quantized_rows import first_of, quantize_rows
from explorer.results import Knob
from explorer.results.program import BYTES, HALF, GrowingValue, ValidLength

TYPE, ORDER = "type", "order"
FLOAT = "float32"
CHOICES = (FLOAT, HALF, BYTES)
BY_ITSELF = "rows of the past are not rounded"
ROWS, COLUMNS = ORDERS = ("rows", "columns")
AS_READ = "a product reads them as columns, and would have all of them transposed in every call"
MAX_ROWS = 16
"""Of a call that leaves keys of float32 as columns by itself."""
MANY_ROWS = f"a call adds more than {MAX_ROWS} rows: its products take longer than transposing"
SQUARE = "a row is as long as the capacity: whole arrays of both orders would have one shape"
ON_DEVICE = "the device has no loops that append a column"


@dataclass(frozen=True)
class NarrowPast(Pass):
    """Rows of a past are stored as columns where that pays, and in fewer bytes where decided."""

    runs_loops: bool = True
    """Whether the target does: else float32 lies as it is given."""
    name = "narrow-past"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        events, knobs = EventLog(self.name, rewriter), list[Knob]()
        length = length_of(function)
        if length is None:
            return []
        for state in states_of(function):
            appended = _appended(function, state, length)
            if appended is None:
                continue
            address = f"{self.name}/{TYPE}/{state.input}"
            asked = options.decision(address)
            _check(address, asked, CHOICES)
            element = element_type_of(appended.output)
            is_float = isinstance(element, Float32Type)
            if not is_float and asked not in (None, FLOAT):
                events.decline(TYPE, appended, f"its elements are {element}, not {FLOAT}")
            kind = str(asked or FLOAT) if is_float else FLOAT
            if is_float:
                why = "an override" if asked else BY_ITSELF
                knobs.append(Knob(address, kind, CHOICES, why))
            order = self._order(state, appended, kind, length, options, events, knobs)
            if kind != FLOAT:
                with events.rewrite(TYPE, appended, f"a row is stored as {kind}"):
                    _store(function, state, appended, kind, order, rewriter)
            elif order == COLUMNS:
                with events.rewrite(ORDER, appended, "a product reads rows as columns"):
                    _store(function, state, appended, "", order, rewriter)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _order(
        self,
        state: StateRecord,
        appended: ScatterElementsOp,
        kind: str,
        length: ValidLength,
        options: RewriteOptions,
        events: EventLog,
        knobs: list[Knob],
    ) -> str:
        """How the rows of a state lie in the program."""
        address = f"{self.name}/{ORDER}/{state.input}"
        asked = options.decision(address)
        _check(address, asked, ORDERS)
        if not _is_read_turned(appended.output):
            events.decline(ORDER, appended, "no product reads its rows as columns, or not it alone")
            return ROWS
        if kind == FLOAT and shape_of(appended.output)[-1] == length.capacity:
            events.decline(ORDER, appended, SQUARE)
            return ROWS
        order, why = COLUMNS, AS_READ
        if kind == FLOAT and not self.runs_loops:
            order, why = ROWS, ON_DEVICE
        elif kind == FLOAT and length.rows > MAX_ROWS:
            order, why = ROWS, MANY_ROWS
        if asked:
            order, why = str(asked), "an override"
        if order == ROWS:
            events.decline(ORDER, appended, why)
        knobs.append(Knob(address, order, ORDERS, why))
        return order


def check_types(decisions: Mapping[str, object]) -> None:
    """InputError for a decision about a type or an order that is none of its choices."""
    for address, value in decisions.items():
        for which, choices in ((TYPE, CHOICES), (ORDER, ORDERS)):
            if address.split("/")[:2] == [NarrowPast.name, which]:
                _check(address, value, choices)


def _check(address: str, value: object, choices: Sequence[str]) -> None:
    if value not in (None, *choices):
        raise InputError(f"{address} cannot be {value!r}", hint=" or ".join(choices))


def stored_types(module: ModuleOp) -> tuple[str, ...]:
    """The types that a program stores rows of its past in, where they are not the source's."""
    length = length_of(entry_function(module))
    values = () if length is None else length.inputs
    return tuple(dict.fromkeys(value.stored for value in values if value.stored))


def _appended(
    function: func.FuncOp, state: StateRecord, length: ValidLength
) -> ScatterElementsOp | None:
    """What appends the rows of a call to a state that grows; None of other states."""
    if state.input not in {value.name for value in length.inputs}:
        return None
    past = dict(zip(input_names(function), function.body.block.args, strict=True))[state.input]
    returned = dict(zip(output_names(function), entry_return(function).operands, strict=True))
    op = returned[state.output].owner
    return op if isinstance(op, ScatterElementsOp) and op.input is past else None


def _store(
    function: func.FuncOp,
    state: StateRecord,
    op: ScatterElementsOp,
    kind: str,
    order: str,
    rewriter: RecordedRewriter,
) -> None:
    """Rounds what is appended to one state, and widens what is read of it.

    kind: empty where nothing is rounded.
    """
    swap = _swap_of(op.output) if order == COLUMNS else []
    past = op.input
    assert isinstance(past, BlockArgument)
    returned = list(entry_return(function).operands)
    index = output_names(function).index(state.output)
    scales: dict[str, str] = {}
    if kind != BYTES:
        rows = op.updates
        if kind == HALF:
            half = CastOp.make([rows], to=f16)
            rewriter.insert_before(op, half)
            rows = half.output
        made = wide = _append(op, past, op.indices, rows, swap, rewriter)
        origin = origin_of(op.output)
        set_origins(made, [origin.then("permute", swap) if origin and swap else origin])
        if kind == HALF:
            wide = CastOp.make([made.output], to=f32)
    else:
        narrow, scale = quantize_rows(op.updates, op.get("axis"), op, rewriter)
        made = _append(op, past, op.indices, narrow, swap, rewriter)
        scales = _add_scales(function, state, rewriter)
        shape = list(shape_of(op.output))
        along = row_axis(op.get("axis"), len(shape))
        shape[along] = 1
        block = function.body.block
        past_scale = block.insert_arg(tensor_type(f32, shape), len(block.args))
        past_scale.name_hint = rewriter.names.fresh(f"{past.name_hint}_scale")
        places = first_of(op.indices, along, op, rewriter)
        every = _append(op, past_scale, places, scale, swap, rewriter)
        returned.append(every.output)
        cast = CastOp.make([made.output], to=f32)
        rewriter.insert_before(op, cast)
        wide = BinaryOp.make([cast.output, every.output], kind="mul")
    returned[index] = made.output
    rewriter.replace(entry_return(function), ReturnOp.make([returned]))
    if swap:
        if wide is not made:
            rewriter.insert_before(op, wide)
        wide = TransposeOp.make([wide.output], permutation=swap)
    rewriter.replace(op, wide)
    _note_stored(function, state, kind, scales, bool(swap), rewriter)


def _append(
    op: ScatterElementsOp,
    past: BlockArgument,
    places: SSAValue,
    rows: SSAValue,
    swap: Sequence[int],
    rewriter: RecordedRewriter,
) -> ScatterElementsOp:
    """`op` with other rows, which are stored as they are, with axes in the order `swap`."""
    shape, axis = shape_of(past), op.get("axis")
    if swap:
        places, rows = (_swapped(value, op, rewriter) for value in (places, rows))
        shape, axis = tuple(shape[a] for a in swap), swap.index(axis)
    stored = rewriter.set_type(past, tensor_type(element_type_of(rows), shape))
    made = ScatterElementsOp.make([stored, places, rows], axis=axis, reduction="none")
    rewriter.insert_before(op, made)
    return made


def _add_scales(
    function: func.FuncOp, state: StateRecord, rewriter: RecordedRewriter
) -> dict[str, str]:
    """Names the scales of a state's rows, the last input and output of the function."""
    inputs, outputs = input_names(function), output_names(function)
    names = []
    for attribute, name, others in (
        (INPUT_NAMES, state.input, inputs),
        (OUTPUT_NAMES, state.output, outputs),
    ):
        own = f"{name}.scale"
        while own in {*inputs, *outputs}:
            own += "_"
        names.append(own)
        every = ArrayAttr([StringAttr(each) for each in (*others, own)])
        rewriter.set_attribute(function, attribute, every)
    set_states(function, [*states_of(function), StateRecord(*names)])
    return dict(zip((state.input, state.output), names, strict=True))


def _note_stored(
    function: func.FuncOp,
    state: StateRecord,
    kind: str,
    scales: Mapping[str, str],
    is_turned: bool,
    rewriter: RecordedRewriter,
) -> None:
    own, length = {state.input, state.output}, length_of(function)
    assert length is not None

    def stored(values: tuple[GrowingValue, ...]) -> tuple[GrowingValue, ...]:
        return tuple(
            replace(v, stored=kind, is_turned=is_turned, scale=scales.get(v.name, ""))
            if v.name in own
            else v
            for v in values
        )

    length = replace(length, inputs=stored(length.inputs), outputs=stored(length.outputs))
    rewriter.set_attribute(function, VALID_LENGTH, length_attribute(length))
    rewriter.update_signature(function)


def _swap_of(value: SSAValue) -> list[int]:
    """The order of axes with the last two swapped."""
    rank = len(shape_of(value))
    return [*range(rank - 2), rank - 1, rank - 2]


def _swapped(value: SSAValue, anchor: Operation, rewriter: RecordedRewriter) -> SSAValue:
    made = TransposeOp.make([value], permutation=_swap_of(value))
    rewriter.insert_before(anchor, made)
    return made.output


def _is_read_turned(value: SSAValue) -> bool:
    """Whether rows are the columns of a product: keys are, and values are not.

    Heads that share them may be repeated before that.
    """
    users = [use.operation for use in value.uses if not isinstance(use.operation, ReturnOp)]
    if len(users) != 1:
        return False
    (user,) = users
    if isinstance(user, ReshapeOp | ExpandOp):
        return _is_read_turned(user.results[0])
    if not isinstance(user, TransposeOp) or list(user.get("permutation")) != _swap_of(user.input):
        return False
    products = [use.operation for use in user.output.uses]
    return all(isinstance(op, MatMulOp) and op.right is user.output for op in products)
