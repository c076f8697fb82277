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
from xdsl.ir import BlockArgument

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, entry_return, input_names, output_names
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.states import StateRecord, states_of
from explorer.ir.top.casting import CastOp
from explorer.ir.top.indexing import ScatterElementsOp
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
    """Rows of a past are stored in fewer bytes, where a decision says so."""

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
    half = CastOp.make([op.updates], to=f16)
    rewriter.insert_before(op, half)
    past = op.input
    assert isinstance(past, BlockArgument)
    narrow = tensor_type(f16, shape_of(past))
    past = rewriter.set_type(past, narrow)
    made = ScatterElementsOp.make(
        [past, op.indices, half.output], axis=op.get("axis"), reduction="none"
    )
    rewriter.insert_before(op, made)
    set_origins(made, [origin_of(op.output)])
    wide = CastOp.make([made.output], to=f32)
    index = output_names(function).index(state.output)
    rewriter.set_operand(entry_return(function), index, made.output)
    rewriter.replace(op, wide)
    own, length = {state.input, state.output}, length_of(function)
    assert length is not None

    def stored(values: tuple[GrowingValue, ...]) -> tuple[GrowingValue, ...]:
        return tuple(replace(v, stored=HALF) if v.name in own else v for v in values)

    length = replace(length, inputs=stored(length.inputs), outputs=stored(length.outputs))
    rewriter.set_attribute(function, VALID_LENGTH, length_attribute(length))
    rewriter.update_signature(function)
