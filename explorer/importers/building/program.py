"""A program under construction: its arguments, the names of its operations, what it returns.

    program = ProgramBuilder(model, {"batch": 1})
    values = program.inputs()                                   {"image": %image}
    w = program.constant("conv1.w", array)                      %w = top.weight() {weight = ...}
    program.begin("conv1")
    y = program.build.value(ConvOp, [values["image"], w, None], ...)
    program.finish("conv1", "Conv", {"conv1_out": y})           %conv1, origin conv1_out
    module = program.module({"logits": y})

Each operation stands for the node that was begun last, from which it has its location. Those that
make a node's results are called after it, others after what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from explorer.errors import InputError, UnsupportedError
from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, all_plain, plain
from explorer.importers.building.identifiers import argument_name, stem_of
from explorer.importers.building.knowledge import Knowledge
from explorer.importers.building.limits import check_size
from explorer.importers.building.quantized_types import as_stored, is_quantized
from explorer.importers.building.specialize import specialize
from explorer.importers.model import SourceModel, SourceValue, State, with_sizes
from explorer.ir.evaluation import FULL_MASKS, INPUT_NAMES, OUTPUT_NAMES, SPECIALIZED
from explorer.ir.operation import IDENTITY, TopOperation, set_identity
from explorer.ir.origins import (
    Origin,
    location_of,
    origin_of,
    origins_of,
    set_origins,
    sources_of,
)
from explorer.ir.rewriting import Names
from explorer.ir.sizes.constraints import set_constraints
from explorer.ir.states import StateRecord, set_states
from explorer.ir.structure import DEVICE
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.requirements import requirements
from explorer.ir.types import (
    ELEMENT_TYPES,
    QuantizedType,
    element_type_of,
    format_shape,
    numpy_dtype,
    shape_of,
    tensor_type,
)
from explorer.ir.weights import Weights


class ProgramBuilder:
    """`build` appends operations to the program's block; an importer may put one of its own there,
    over the same weights and knowledge."""

    def __init__(self, model: SourceModel, sizes: Mapping[str, int]) -> None:
        """`sizes` of symbolic dimensions of the inputs; others stay symbolic."""
        self.model = model
        self.sizes = sizes
        self.weights = Weights()
        self.knowledge = Knowledge(self.weights, model.assumed, model.whole_pasts)
        self.build = Build(self.weights, self.knowledge, Block())
        self.names = Names()

    def inputs(self, left_out: Iterable[str] = ()) -> dict[str, Expr]:
        """The program's arguments by the model's names, without those that are no tensors here.

        ModelError for an input that does not fit into this machine's memory.
        """
        block, taken = self.build.block, set[str]()
        found: dict[str, Expr] = {}
        for value in self.model.inputs:
            if value.name in left_out:
                continue
            argument = block.insert_arg(self._type(value), len(block.args))
            argument.name_hint = argument_name(value.name, taken)
            taken.add(argument.name_hint)
            found[value.name] = self.build.expr(argument)
            self.knowledge.add_input(argument, value.name)
        self.names = Names(taken)
        return found

    def _type(self, value: SourceValue):
        if value.element_type not in ELEMENT_TYPES:
            raise UnsupportedError(
                f"the input {value.name!r} has elements of {value.element_type}",
                hint="inputs are numbers or booleans",
            )
        shape = with_sizes(value.shape or (), self.sizes)
        kind = tensor_type(ELEMENT_TYPES[value.element_type], shape)
        numbers = [d for d in shape if isinstance(d, int)]
        item_bytes = np.dtype(numpy_dtype(kind.element_type)).itemsize
        check_size(numbers, item_bytes, f"input {value.name!r}")
        return kind

    def begin(self, node: str) -> None:
        """What is built from now on is made for a node of the model; for none where it is empty."""
        self.build.source, self.build.created = node, []

    def constant(self, name: str, array: np.ndarray, kind: QuantizedType | None = None) -> Expr:
        """A weight of the model; of quantized numbers where `kind` says what its integers mean."""
        self.begin("")
        value = self.build.weight(array, name, kind)
        self.identify_weight()
        return value

    def identify_weight(self) -> None:
        """Names the weight that was made first."""
        self.identify(self.build.created[0], "", "")

    def finish(
        self,
        node: str,
        operator: str,
        results: Mapping[str, Expr],
        origins: Mapping[str, Origin | None] | None = None,
    ) -> None:
        """Ends a node: names what was made for it, and says which tensors of the model its results
        are. `origins`: in which form, where it is another than the model's; None: in none."""
        created = set(self.build.created)
        self.identify_all(node, operator, list(results.values()))
        for name, result in results.items():
            value = plain(result)
            if not isinstance(value, OpResult) or not name:
                continue
            if value.op in created:
                origin = Origin(name) if origins is None else origins.get(name)
                _set_origin(value, origin)
            elif not isinstance(value.op, WeightOp):
                # Nothing was computed (Identity): the operation before it stands for this node too.
                value.op.location = location_of([*sources_of(value.op), node])

    def identify_all(self, node: str, operator: str, results: Sequence[Expr]) -> None:
        final = set(all_plain(results))
        for op in self.build.created:
            if IDENTITY in op.attributes:  # of a nested graph
                continue
            is_final = any(result in final for result in op.results)
            self.identify(op, node if is_final else "", operator)

    def identify(self, op: Operation, node: str, operator: str) -> None:
        """Gives an operation its name: a weight's own, the node's, or of what the operation is."""
        if isinstance(op, WeightOp):
            set_identity(op, self.names.fresh(stem_of(op.weight.data, "weight")))
        elif node:
            set_identity(op, self.names.fresh(stem_of(node, operator)))
        else:
            label = op.label() if isinstance(op, TopOperation) else op.name
            set_identity(op, self.names.fresh(stem_of(label.split(" ")[0], "value")))

    def returned(self, result: Expr) -> Expr:
        """What the program returns of a result: of quantized numbers their stored integers."""
        made = plain(result)
        if not isinstance(made, OpResult) or not is_quantized(result.element_type):
            return result
        self.begin("")
        stored = as_stored(result, self.build)
        (op,) = self.build.created
        op.location = made.op.location
        set_origins(op, [origin_of(made)])
        self.identify(op, "", "")
        return stored

    def module(self, results: Mapping[str, Expr]) -> ModuleOp:
        """The whole program. `results`: what it returns, by the names of its outputs."""
        block = self.build.block
        block.add_op(ReturnOp.make([all_plain(results.values())], []))
        types = [a.type for a in block.args], [r.type for r in results.values()]
        function = func.FuncOp("main", types, Region(block))
        function.attributes[DEVICE] = StringAttr("host")
        function.attributes[INPUT_NAMES] = _strings(v.name for v in self.model.inputs)
        function.attributes[OUTPUT_NAMES] = _strings(results)
        set_states(function, self._states(results))
        specialize(block, self.build, self.names)
        if self.knowledge.specialized:
            function.attributes[SPECIALIZED] = _strings(sorted(self.knowledge.specialized))
        if self.knowledge.full_masks:
            function.attributes[FULL_MASKS] = _strings(sorted(self.knowledge.full_masks))
        declared = {v.name: v.shape or () for v in self.model.outputs}
        set_constraints(function, requirements(function, self.weights, declared))
        module = ModuleOp([function])
        module.verify()
        return module

    def _states(self, results: Mapping[str, Expr]) -> Iterator[StateRecord]:
        """The states that the program has. InputError for one that it should have and has not."""
        names = (value.name for value in self.model.inputs)
        arguments = dict(zip(names, self.build.block.args, strict=True))
        for state in self.model.states:
            if state.axis is not None:  # it is one of a fixed size once it has a capacity
                continue
            reason = _not_a_state(arguments[state.input], plain(results[state.output]))
            if not reason:
                yield _state_record(state)
            elif not state.is_guessed:
                raise InputError(
                    f"{state.input!r} and {state.output!r} are no state: {reason}",
                    node=state.output,
                )


def _not_a_state(before: SSAValue, after: SSAValue) -> str:
    if isinstance(after, BlockArgument):
        return "nothing writes it, what a call leaves of it is an input"
    old, new = ((shape_of(v), element_type_of(v)) for v in (before, after))
    is_unlike = len(old[0]) != len(new[0]) or any(
        size != other and isinstance(size, int) and isinstance(other, int)
        for size, other in zip(old[0], new[0], strict=False)
    )
    if is_unlike or old[1] != new[1]:
        texts = [f"{format_shape(shape)} {kind}" for shape, kind in (old, new)]
        return f"it is {texts[0]}, and what a call leaves of it {texts[1]}"
    return ""


def _state_record(state: State) -> StateRecord:
    is_zero = state.initial is None or not np.any(state.initial)
    return StateRecord(state.input, state.output, "zeros" if is_zero else "given")


def _set_origin(value: OpResult, origin: Origin | None) -> None:
    """An operation keeps the first tensor that it was made for: equal ones say nothing new."""
    origins = origins_of(value.op)
    if origins[value.index] is None and origin is not None:
        origins[value.index] = origin
        set_origins(value.op, origins)


def _strings(names: Iterable[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(n) for n in names])
