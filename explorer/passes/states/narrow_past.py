"""Rows of a past that grows are stored in fewer bytes: an opt-in loss.

    %present = top.scatter_elements(%past, %rows, %new) {axis = 2} : tensor<1x4x8x16xf32>
    ... top.matmul(%q, %present) ...
 => %half = top.cast(%new) {to = f16}
    %present = top.scatter_elements(%past, %rows, %half) {axis = 2} : tensor<1x4x8x16xf16>
    %wide = top.cast(%present) {to = f32}
    ... top.matmul(%q, %wide) ...

A number is rounded once, when its row is appended; everything reads the rounded number. The knob
`narrow-past/type/STATE` decides, STATE being the name of the state's input: `float32` (what it is
by itself) or `float16` (to nearest, ties to even; from 65520 on infinity, as IEEE 754 has it).
Callers still give and take float32 (`explorer.ir.padding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import Float32Type, ModuleOp, f16, f32
from xdsl.ir import BlockArgument, Operation, SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, entry_return, input_names, output_names
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.states import StateRecord, states_of
from explorer.ir.top.casting import CastOp
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.indexing import ScatterElementsOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of, shape_of, tensor_type
from explorer.ir.valid_length import VALID_LENGTH, length_attribute, length_of
from explorer.results import Knob
from explorer.results.program import HALF, GrowingValue

TYPE = "type"
FLOAT = "float32"
CHOICES = (FLOAT, HALF)
BY_ITSELF = "rows of the past are not rounded"


@dataclass(frozen=True)
class NarrowPast(Pass):
    """Rows of a past are stored in fewer bytes, where decided."""

    name = "narrow-past"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        events, knobs = EventLog(self.name, rewriter), list[Knob]()
        for state in states_of(function):
            appended = _appended(function, state)
            if appended is None:
                continue
            address = f"{self.name}/{TYPE}/{state.input}"
            asked = options.decision(address)
            _check_type(address, asked)
            kind = element_type_of(appended.output)
            if not isinstance(kind, Float32Type):
                if asked not in (None, FLOAT):
                    events.decline(TYPE, appended, f"its elements are {kind}, not {FLOAT}")
                continue
            value = FLOAT if asked is None else str(asked)
            knobs.append(Knob(address, value, CHOICES, "an override" if asked else BY_ITSELF))
            if value != FLOAT:
                with events.rewrite(TYPE, appended, f"a row is stored as {value}"):
                    _narrow(function, state, appended, rewriter)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites


def check_types(decisions: Mapping[str, object]) -> None:
    """InputError for a decision about a type that is none of `CHOICES`."""
    for address, value in decisions.items():
        if address.split("/")[:2] == [NarrowPast.name, TYPE]:
            _check_type(address, value)


def _check_type(address: str, value: object) -> None:
    if value not in (None, *CHOICES):
        raise InputError(f"{address} cannot be {value!r}", hint=" or ".join(CHOICES))


def stored_types(module: ModuleOp) -> tuple[str, ...]:
    """The types that a program stores rows of its past in, where they are not the source's."""
    length = length_of(entry_function(module))
    values = () if length is None else length.inputs
    return tuple(dict.fromkeys(value.stored for value in values if value.stored))


def _appended(function: func.FuncOp, state: StateRecord) -> ScatterElementsOp | None:
    """What appends the rows of a call to a state that grows; None of other states."""
    length = length_of(function)
    if length is None or state.input not in {value.name for value in length.inputs}:
        return None
    past = dict(zip(input_names(function), function.body.block.args, strict=True))[state.input]
    returned = dict(zip(output_names(function), entry_return(function).operands, strict=True))
    op = returned[state.output].owner
    return op if isinstance(op, ScatterElementsOp) and op.input is past else None


def _narrow(
    function: func.FuncOp, state: StateRecord, op: ScatterElementsOp, rewriter: RecordedRewriter
) -> None:
    """Rounds what is appended to one state, and widens what is read of it."""
    swap = _swap_of(op.output) if _is_read_turned(op.output) else []
    past, axis = op.input, op.get("axis")
    assert isinstance(past, BlockArgument)
    half = CastOp.make([op.updates], to=f16)
    rewriter.insert_before(op, half)
    operands, shape = [op.indices, half.output], shape_of(past)
    if swap:
        operands = [_swapped(value, op, rewriter) for value in operands]
        shape, axis = tuple(shape[a] for a in swap), swap.index(axis)
    past = rewriter.set_type(past, tensor_type(f16, shape))
    made = ScatterElementsOp.make([past, *operands], axis=axis, reduction="none")
    rewriter.insert_before(op, made)
    origin = origin_of(op.output)
    set_origins(made, [origin.then("permute", swap) if origin and swap else origin])
    index = output_names(function).index(state.output)
    rewriter.set_operand(entry_return(function), index, made.output)
    wide = CastOp.make([made.output], to=f32)
    if swap:
        rewriter.insert_before(op, wide)
        wide = TransposeOp.make([wide.output], permutation=swap)
    rewriter.replace(op, wide)
    own, length = {state.input, state.output}, length_of(function)
    assert length is not None

    def stored(values: tuple[GrowingValue, ...]) -> tuple[GrowingValue, ...]:
        return tuple(
            replace(v, stored=HALF, is_turned=bool(swap)) if v.name in own else v for v in values
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
