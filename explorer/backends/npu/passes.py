"""The passes behind placement: layers in tiles, then at addresses, then as instructions.

   %conv3 = top.conv(%x, %w, bias = %b) {...}
=> %conv3 = npu.convolution(%x, %w1, %w2, ...) {strides = [2, 2], tiles = {rows = 7, ...}, ...}
   (laying_out.py)
=> %conv3 = npu.convolution(...) {..., offset = 4096, scratchpads = {activations = [0, 512], ...}}
=> %conv3 = npu.instructions(%x, %w9) {lines = ["load activations ...", ...], ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue

from explorer.backends.npu.chosen_tiles import ChosenTiles
from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.network import argument_offsets
from explorer.backends.npu.planning import constants_start, kept_offsets, offsets_in, plan_tensors
from explorer.backends.npu.writing import LeftBehind, TensorPlaces, scratchpad_addresses, written
from explorer.errors import NotQuantizedError, UnsupportedError
from explorer.ir.dialects.npu import (
    ARGUMENT_OFFSETS,
    LAYER_OPERATIONS,
    SPACE_BYTES,
    InstructionsOp,
    LayerOp,
    NpuOperation,
    field_properties,
)
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import (
    Lines,
    LinesAttr,
    TopOperation,
    identity_of,
    set_identity,
    to_attribute,
)
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import operations, value_name
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp, WeightOp
from explorer.ir.types import QuantizedType, element_type_of
from explorer.memory.budget import refuse
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.memory.planning import MEMORY, PLANS, value_offsets
from explorer.memory.sharing import share_arena
from explorer.npu.cost.network import LayerSteps
from explorer.npu.layers.fields import described
from explorer.npu.layers.from_operations import ReadLayer, view_problem
from explorer.npu.layers.fusion import EXPLANATIONS, VIEWED, fusion_of, readers_of, stays
from explorer.npu.layers.layer import LayerError
from explorer.npu.program.ir_layers import tiles_of
from explorer.results import MemoryPlan
from explorer.targets.npu.assembly import line_of
from explorer.targets.npu.machine import Machine

SEARCHES_MADE = "npu searches"
"""Name of the artifact that holds what the search for the tiles of each layer came to."""
STEPS = "npu steps"
"""Name of the artifact that holds, by function, what every layer does step by step."""


@dataclass(frozen=True)
class TileLayers(Pass):
    """Operations become layers, cut into tiles that a search found to take the fewest cycles, or
    that decisions say."""

    machine: Machine
    lowered: LoweredLayers = field(compare=False, repr=False)

    name = "tile-layers"
    level = "tiled"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        problems: list[str] = []
        tiles = ChosenTiles(self.machine, options)
        own = functions_on(rewriter.module, self.machine.name)
        for function in own:
            choice = _Choice(self.machine, events, options, problems)
            ops = [op for op in function.body.block.ops if isinstance(op, TopOperation)]
            computed = [op for op in ops if not choice.is_idle(op)]
            for op in computed:
                try:
                    self._lower(op, rewriter, events, tiles)
                except LayerError as error:
                    problems.append(_problem(op, error.message))
            if not problems:
                choice.fuse(function, rewriter)
            _erase_unused(function, rewriter)
        rewriter.artifacts[KNOBS] = tuple(tiles.knobs) if own else ()
        rewriter.artifacts[SEARCHES_MADE] = tuple(tiles.records)
        if not own and _has_floats_alone(rewriter.module):
            raise NotQuantizedError(
                f"{self.machine.name} computes with integers, and nothing in this model is "
                "quantized",
                hint="quantize first: explorer calibrate MODEL --data DATA.npz --arithmetic "
                "integer -o TABLE, then --quantize TABLE",
            )
        if problems:
            raise UnsupportedError(
                f"{len(problems)} operations cannot be computed by {self.machine.name}",
                problems=problems,
                hint="leave them to the host (without --no-host); a float model is quantized "
                "first: explorer calibrate, then --quantize",
            )
        return events.rewrites

    def _lower(
        self, op: TopOperation, rewriter: RecordedRewriter, events: EventLog, tiles: ChosenTiles
    ) -> None:
        found = self.lowered.of(op, rewriter.weights)
        made: list[LayerOp] = []
        for index, one in enumerate(found):
            if one.found is None:
                raise LayerError(one.problem)
            is_last = one is found[-1]
            name = identity_of(op) if is_last else f"{identity_of(op)}.{index}"
            searched = tiles.of(name, one.read.layer, one.found)
            chosen = tiles_of(searched.tiled)
            text = _described(chosen)
            if searched.tiled.buffers == 1:
                text = f"{text}; nothing is loaded ahead: {searched.single_buffer_reason}"
            with events.rewrite("tile", op, f"tiles of {text}"):
                layer_op = self._layer_operation(op, one.read, chosen, made, rewriter)
                if is_last:
                    set_identity(layer_op, identity_of(op))
                    rewriter.replace(op, layer_op)
                else:
                    rewriter.insert_before(op, layer_op, stem=op.label().split(" ")[0])
            self.lowered.keep(layer_op, rewriter.weights, one.read.layer, searched.tiled)
            made.append(layer_op)

    def _layer_operation(
        self,
        op: TopOperation,
        read: ReadLayer,
        tiles: Mapping[str, int | str],
        before: Sequence[LayerOp],
        rewriter: RecordedRewriter,
    ) -> LayerOp:
        plain = described(read.layer)
        made_type = op.results[0].type if read.result is None else read.result
        data = [v if isinstance(v, SSAValue) else before[v].output for v in read.reads]
        others = before[-1].output if before and read.result is None else None
        # What reads the layer before is no other part of the same result.
        is_part = others is not None and others.type == made_type and others not in data
        if is_part:
            data.append(before[-1].output)
        constants = [
            rewriter.add_weight(op, f"{identity_of(op)}.{name}", array, like=op)
            for name, array in plain.arrays.items()
        ]
        return LAYER_OPERATIONS[plain.kind].make(
            [[*data, *constants]],
            [made_type],
            inputs=len(data),
            part=1 if is_part else None,
            constants=to_attribute(tuple(plain.arrays)) if plain.arrays else None,
            tiles=to_attribute(tiles),
            title=op.label(),
            group=op.graph_family(),
            # Copies and transpositions before a product are no work of the program.
            work=getattr(read.layer, "macs", 0) if op.macs() and read.result is None else 0,
            **field_properties(plain.fields),
        )


@dataclass(frozen=True)
class _Choice:
    """Which operations of a function have no layer of their own."""

    machine: Machine
    events: EventLog
    options: RewriteOptions
    problems: list[str]
    fused: dict[Operation, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """The rule, and who reads it, of operations that are to be read through."""

    def is_idle(self, op: TopOperation) -> bool:
        """Whether no layer computes it: it stays as it is, others read through it, or it is a
        problem, which is added."""
        try:
            if not stays(op):
                return self._is_fused(op)
            self.fused[op] = VIEWED, readers_of(op)  # in case that nothing reads it in the end
            problem = view_problem(op, self.machine)
        except LayerError as error:
            problem = error.message
        if problem:
            self.problems.append(_problem(op, problem))
        return True

    def _is_fused(self, op: TopOperation) -> bool:
        found = fusion_of(op)
        if found is None:
            return False
        reason = found.reason
        if not reason and self.options.decision(self.events.address(found.rule, op)) is False:
            reason = OVERRIDDEN
        if reason:
            self.events.decline(found.rule, op, reason, EXPLANATIONS[found.rule])
        else:
            self.fused[op] = found.rule, found.readers
        return not reason

    def fuse(self, function: func.FuncOp, rewriter: RecordedRewriter) -> None:
        """Erases what layers have read through, the last one first, each as an event."""
        for op in reversed(list(function.body.block.ops)):
            if not _is_unused(op) or isinstance(op, WeightOp):
                continue
            rule, readers = self.fused[op]
            text = f"{', '.join(readers)}: {EXPLANATIONS[rule]}"
            with self.events.rewrite(rule, op, text):
                rewriter.erase(op)


def _described(tiles: Mapping[str, int | str]) -> str:
    """What was chosen for a layer, in words: counts first."""
    words = []
    for name, value in tiles.items():
        if isinstance(value, str):
            words.append(f"{name} of {value}")
            continue
        word = name.replace("_", " ")
        words.append(f"{value} {word.removesuffix('s') if value == 1 else word}")
    return ", ".join(words)


def _problem(op: TopOperation, reason: str) -> str:
    """Why an operation is no layer, by its name and its source nodes."""
    return f"{identity_of(op)} (from {', '.join(sources_of(op))}): {reason}"


def _has_floats_alone(module: ModuleOp) -> bool:
    """Whether something is computed, and nothing is quantized: copies of inputs are no work."""
    computed = [
        op
        for op in operations(module)
        if isinstance(op, TopOperation) and not isinstance(op, ConvertLayoutOp | TransferOp)
    ]
    kinds = [
        element_type_of(result)
        for op in computed
        for result in op.results
        if isinstance(result.type, TensorType)
    ]
    return bool(kinds) and not any(isinstance(kind, QuantizedType) for kind in kinds)


def _erase_unused(function: func.FuncOp, rewriter: RecordedRewriter) -> None:
    """Weights that are constants of layers now."""
    for op in reversed(list(function.body.block.ops)):
        if _is_unused(op):
            rewriter.erase(op)


def _is_unused(op: Operation) -> bool:
    """Whether nothing reads an operation that is none of the machine's."""
    is_own = not isinstance(op, TopOperation) or isinstance(op, NpuOperation | ReturnOp)
    return not is_own and not any(result.uses for result in op.results)


@dataclass(frozen=True)
class AssignAddresses(Pass):
    """Tensors and constants get addresses in global memory, buffers of tiles in the
    scratchpads."""

    machine: Machine
    planner: Planner = field(default_factory=GreedyPlanner)
    budget_bytes: int | None = None
    base_bytes: int = 0
    """Where in global memory tensors may begin."""
    lowered: LoweredLayers = field(kw_only=True, compare=False, repr=False)

    name = "assign-addresses"
    level = "addressed"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        plans: dict[str, MemoryPlan] = {}
        for function in functions_on(rewriter.module, self.machine.name):
            plan = plan_tensors(function, self.machine, self.planner, self.base_bytes)
            plans[function.sym_name.data] = plan
            self._assign(function, plan, rewriter, events)
        whole = share_arena(plans)
        if self.budget_bytes is not None:
            refuse(whole, self.budget_bytes)
        rewriter.artifacts[MEMORY], rewriter.artifacts[PLANS] = whole, plans
        return events.rewrites

    def _assign(
        self,
        function: func.FuncOp,
        plan: MemoryPlan,
        rewriter: RecordedRewriter,
        events: EventLog,
    ) -> None:
        kept = kept_offsets(function)
        offsets = {n: self.base_bytes + at for n, at in value_offsets(plan).items()}
        values = TensorPlaces(offsets={**offsets, **kept}, on_chip=frozenset(kept))
        owners = {
            name: one.buffer.values[0] for one in plan.placements for name in one.buffer.values
        }
        end, before = constants_start(plan, self.machine, self.base_bytes), None
        for op in list(function.body.block.ops):
            if not isinstance(op, LayerOp):
                continue
            offset = offsets.get(value_name(op.output))
            made = written(op, rewriter.weights, self.lowered, values, end, before)
            before = made.left_behind()
            constants = made.constants
            end = max(start + size for start, size in constants.values())
            where = f"byte {offset} of global memory"
            if offset is None:
                where = f"byte {op.get('on_chip')} of the scratchpad of activations"
            elif not op.is_part and (owner := owners[value_name(op.output)]) != value_name(
                op.output
            ):
                where += f", in place of {owner}, which nothing reads afterwards"
            with events.rewrite("place", op, f"lies at {where}"):
                rewriter.update(
                    op,
                    offset=offset,
                    places=to_attribute(constants),
                    scratchpads=to_attribute(scratchpad_addresses(made.tiled)),
                )
        arguments = [offsets[value_name(argument)] for argument in function.body.block.args]
        rewriter.set_attribute(function, ARGUMENT_OFFSETS, to_attribute(arguments))
        rewriter.set_attribute(function, SPACE_BYTES, IntegerAttr(end, i64))


@dataclass(frozen=True)
class EmitInstructions(Pass):
    """Layers become instructions, and their constants one block of bytes: those that were laid
    out, and micro-operations."""

    machine: Machine
    lowered: LoweredLayers = field(compare=False, repr=False)

    name = "emit-instructions"
    level = "instructions"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        costs: dict[str, tuple[LayerSteps, ...]] = {}
        for function in functions_on(rewriter.module, self.machine.name):
            layers = [op for op in function.body.block.ops if isinstance(op, LayerOp)]
            values = _places_in(function)
            found: list[LayerSteps] = []
            before = None
            for op in layers:
                steps, before = self._emit(op, values, before, op is layers[-1], rewriter, events)
                found.append(steps)
            costs[function.sym_name.data] = tuple(found)
            _erase_unused(function, rewriter)
        self.lowered.clear()
        rewriter.artifacts[STEPS] = costs
        return events.rewrites

    def _emit(
        self,
        op: LayerOp,
        values: TensorPlaces,
        before: LeftBehind | None,
        is_last: bool,
        rewriter: RecordedRewriter,
        events: EventLog,
    ) -> tuple[LayerSteps, LeftBehind]:
        start = min(offset for offset, _ in op.get("places").values())
        made = written(op, rewriter.weights, self.lowered, values, start)
        instructions, steps = made.in_program(before, is_last)
        end = max(offset + size for offset, size in made.constants.values())
        lines = Lines(tuple(map(line_of, instructions)), instructions)
        with events.rewrite("emit", op, f"{len(instructions):,} instructions"):
            name = f"{identity_of(op)}.image"
            constants = rewriter.add_weight(op, name, made.image(start, end), like=op)
            emitted = InstructionsOp.make(
                [[*op.data, constants]],
                [op.output.type],
                lines=LinesAttr(lines),
                constants_offset=start,
                **{name: op.properties.get(name) for name in KEPT},
            )
            set_identity(emitted, identity_of(op))
            rewriter.replace(op, emitted)
        return steps, made.left_behind(steps.steps)


KEPT = ("inputs", "part", "title", "group", "work", "offset", "on_chip")
"""Properties of a layer that its instructions have, too."""


def _places_in(function: func.FuncOp) -> TensorPlaces:
    """Where every value lies, as the IR says it."""
    names = [value_name(argument) for argument in function.body.block.args]
    given = dict(zip(names, argument_offsets(function), strict=True))
    found, kept = offsets_in(function, "offset", given), kept_offsets(function)
    return TensorPlaces(offsets={**found, **kept}, on_chip=frozenset(kept))
