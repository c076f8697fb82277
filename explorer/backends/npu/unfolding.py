"""Convolutions of few channels read neighbouring positions as channels.

    %conv1 = npu.convolution(%x, ...)         3 channels, a window of 7 x 7, strides of 2
 => %conv1.unfolded = npu.convolution(%x, ...)            12 channels: 2 x 2 neighbours
    %conv1 = npu.convolution(%conv1.unfolded, ...)        a window of 4 x 4

The forms are those of `explorer/npu/layers/unfolding.py`. A layer gets the one with the fewest
cycles, where both layers together save a twentieth.

Where nothing else reads an argument, the host writes it in channels of neighbours:

 => %conv1.unfolded = npu.unfold(%x)                      a view: these are the bytes
    %conv1 = npu.convolution(%conv1.unfolded, ...)

A form is taken to pay in a program, too, where it takes less time than the array alone took before;
all else is left out of programs that would take more cycles with it, or more bytes in as many. A
decision names the neighbours, and whether the host writes them: `unfold-inputs/unfold/conv1 =
"2x2"`, `"2x2:host"`, or false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from explorer.backends.npu.chosen_tiles import ChosenTiles
from explorer.backends.npu.grouping import GroupLayers
from explorer.backends.npu.lowered import LoweredLayers, TiledOperation
from explorer.errors import InputError
from explorer.ir.dialects.npu import LAYER_OPERATIONS, LayerOp, UnfoldOp, field_properties
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of, set_identity, to_attribute
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.top.data import WeightOp
from explorer.ir.types import element_type_of, static_shape, tensor_type
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.npu.cost.prediction import predict
from explorer.npu.layers.arrangement import is_written_by_host
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.fields import described
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.layers.unfolding import Unfolded, unfolded_forms
from explorer.npu.layers.value_layout import stored_form
from explorer.npu.program.addresses import ANYWHERE
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search.searching import Found, SearchRecord
from explorer.results import Knob
from explorer.results.decisions import UNFOLDED, decided_tiles
from explorer.targets.npu.machine import Machine

RULE, NONE, BY_HOST = "unfold", "none", ":host"
EXPLANATION = "layer(x)   =>   layer(unfold(x)): neighbouring positions become channels"
EXPLANATION_OF_HOST = f"{EXPLANATION}, which the host writes"
SEARCHES_UNFOLDED = "npu searches of unfolded layers"
"""Name of the artifact that holds, by name of a layer, what searches for the tiles of its two
layers came to."""
MIN_SAVED = 0.05
"""Of the layer's cycles: tensors of more channels are more bytes."""
MAX_SEARCHED = 3
"""Forms of a layer of which tiles are searched, of those with a moving layer and of those without
one: those with the fewest steps of the array."""


@dataclass(frozen=True)
class UnfoldInputs(Pass):
    """Convolutions of few channels read neighbouring positions as channels, where the program
    takes fewer cycles."""

    machine: Machine
    planner: Planner = field(default_factory=GreedyPlanner)
    lowered: LoweredLayers = field(kw_only=True, compare=False, repr=False)

    name = UNFOLDED
    level = "tiled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        tiles = ChosenTiles(self.machine, options, UNFOLDED)
        knobs: list[Knob] = []
        searches: dict[str, list[SearchRecord]] = {}
        for function in functions_on(rewriter.module, self.machine.name):
            candidates = list(self._candidates(function, rewriter, options))
            more = self._more(function, candidates, rewriter, options)
            for one in candidates:
                if not one.reason and more and not one.is_sure:
                    one = replace(one, reason=more)
                knobs.append(one.knob(events.address(RULE, one.op)))
                if one.reason:
                    events.decline(RULE, one.op, one.reason, EXPLANATION)
                    continue
                assert one.form is not None
                found = [
                    tiles.of(layer.name, layer, known)
                    for layer, known in zip(one.form.layers, one.found, strict=True)
                ]
                searches[one.name] = [f.record for f in found if f.record is not None]
                rows, columns = one.form.neighbours
                text = f"{rows} x {columns} neighbours: {_explanation(one.form)}"
                with events.rewrite(RULE, one.op, text):
                    self._apply(replace(one, found=tuple(found)), rewriter)
        rewriter.artifacts[KNOBS] = (*knobs, *tiles.knobs[1:])  # without the effort of searches
        rewriter.artifacts[SEARCHES_UNFOLDED] = searches
        return events.rewrites

    def _more(
        self,
        function: func.FuncOp,
        candidates: Sequence[Candidate],
        rewriter: RecordedRewriter,
        options: RewriteOptions,
    ) -> str:
        """How much more the program takes with all layers that can be unfolded; empty where it does
        not, and where none has to be compared."""
        possible = [one for one in candidates if not one.reason]
        if all(one.is_sure for one in possible):
            return ""
        trial = copy_operation(function)
        module = ModuleOp([trial])
        tried = RecordedRewriter(module, rewriter.weights, rewriter.names.copy())
        ops = {identity_of(op): op for op in trial.body.block.ops if isinstance(op, LayerOp)}
        for one in possible:
            self._apply(replace(one, op=ops[one.name]), tried)
        grouping = GroupLayers(self.machine, self.planner, lowered=self.lowered)
        before = grouping.program_cost(function, rewriter, options)
        after = grouping.program_cost(trial, tried, options)
        if after <= before:
            return ""
        cycles, size = (new - old for new, old in zip(after, before, strict=True))
        more = f"{cycles} cycles" if cycles else f"{size} bytes"
        return f"with all that can be, the program would take {more} more"

    def _candidates(
        self, function: func.FuncOp, rewriter: RecordedRewriter, options: RewriteOptions
    ) -> Iterator[Candidate]:
        """Layers that have a form, or are asked to have one."""
        for op in function.body.block.ops:
            if not isinstance(op, LayerOp) or Convolution.__name__ != op.KIND or op.is_part:
                continue
            known = self.lowered.layer_of(op, rewriter.weights)
            layer, shape = known.layer, static_shape(op.data[0])
            if not isinstance(layer, Convolution) or shape != (1, *layer.input_shape):
                continue
            forms = unfolded_forms(layer, self.machine)
            if is_written_by_host(op.data[0]):
                forms += unfolded_forms(layer, self.machine, by_host=True)
            asked = options.decision(f"{self.name}/{RULE}/{identity_of(op)}")
            whole = Candidate(op=op, forms=tuple(forms))
            if forms and whole.name in decided_tiles(options.decisions):
                yield replace(whole, reason=f"the tiles of {whole.name} are decided")
            elif forms or isinstance(asked, str):
                yield self._best(whole, asked, known)

    def _best(self, whole: Candidate, asked: object, known: TiledOperation) -> Candidate:
        """The form with the fewest cycles, of several that with the fewest bytes, or the one that
        is asked for."""
        if asked is False or asked == NONE:
            return replace(whole, reason=OVERRIDDEN)
        forms = [one for one in whole.forms if _text(one) == asked]
        if isinstance(asked, str) and not forms:
            legal = ", ".join([NONE, *map(_text, whole.forms)])
            raise InputError(
                f"{self.name}/{RULE}/{whole.name} cannot be {asked!r}", hint=f"legal are {legal}"
            )
        before, size = predict(known.tiled), self._input_bytes(known.layer)
        best, problem = list[tuple[int, int, Candidate]](), ""
        for form in forms or _likely(whole.forms):
            try:
                found = tuple(self.lowered.searched.of(one) for one in form.layers)
            except LayerError as error:
                problem = error.message
                continue
            total = sum(self.lowered.streams.cycles(one.tiled, ANYWHERE) for one in found)
            own = sum(map(self._input_bytes, form.layers))
            is_better = (total, own) < (before.cycles, size)
            if form.moving is not None:
                is_better = total <= before.cycles * (1 - MIN_SAVED)
            if is_better or forms:
                best.append((total, own, replace(whole, form=form, found=found)))
            elif not problem:
                problem = _not_better(form, total, before.cycles)
        if not best:
            return replace(whole, reason=problem)
        total, _, one = min(best, key=lambda entry: entry[:2])
        on_array = sum(term.cycles for term in before.terms if term.queue == "compute")
        return replace(one, is_sure=bool(forms) or total <= on_array)

    def _input_bytes(self, layer: Layer) -> int:
        return sum(tensor.size_bytes(self.machine) for tensor in layer.inputs)

    def _apply(self, one: Candidate, rewriter: RecordedRewriter) -> None:
        assert one.form is not None
        op, value = one.op, one.op.data[0]
        replaced = [operand.owner for operand in op.operands[len(op.data) :]]
        if one.form.moving is None:
            made = _unfold_op(one.form, value)
            rewriter.insert_before(op, made, stem=f"{one.name}.unfolded")
            value = made.output
        for layer, found in zip(one.form.layers, one.found, strict=True):
            is_last = layer is one.form.summing
            plain = described(layer)
            kind = op.output.type
            if not is_last:
                shape = (1, *layer.output_shape)
                kind = tensor_type(element_type_of(value), shape)
            constants = [
                rewriter.add_weight(op, f"{layer.name}.{name}", array, like=op)
                for name, array in plain.arrays.items()
            ]
            made = LAYER_OPERATIONS[plain.kind].make(
                [[value, *constants]],
                [kind],
                inputs=1,
                constants=to_attribute(tuple(plain.arrays)),
                tiles=to_attribute(tiles_of(found.tiled)),
                title=op.label(),
                group=op.graph_family(),
                work=op.macs() if is_last else 0,
                **field_properties(plain.fields),
            )
            set_identity(made, layer.name)
            if is_last:
                rewriter.replace(op, made)
            else:
                rewriter.insert_before(op, made, stem=layer.name)
            self.lowered.keep(made, rewriter.weights, layer, found.tiled)
            value = made.output
        for constant in replaced:
            if isinstance(constant, WeightOp) and not constant.output.uses:
                rewriter.erase(constant)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A layer of few channels, and what becomes of it."""

    op: LayerOp
    forms: tuple[Unfolded, ...]
    form: Unfolded | None = None
    """The chosen one; None where it stays one layer."""
    found: tuple[Found, ...] = ()
    """Tiles of the form's layers."""
    reason: str = ""
    """Why it stays one layer."""
    is_sure: bool = False
    """Whether it is decided, or taken to pay without a comparison of programs."""

    @property
    def name(self) -> str:
        return identity_of(self.op)

    def knob(self, address: str) -> Knob:
        chosen = NONE if self.form is None or self.reason else _text(self.form)
        choices = (NONE, *map(_text, self.forms))
        explanation = EXPLANATION if self.form is None else _explanation(self.form)
        return Knob(address, chosen, choices, self.reason or explanation)


def _unfold_op(form: Unfolded, value: SSAValue) -> UnfoldOp:
    unfolding = form.unfolding
    made = UnfoldOp.make(
        [value],
        neighbours=unfolding.neighbours,
        strides=unfolding.strides,
        pads=unfolding.pads,
        padding=unfolding.padding + stored_form(value).offset,
    )
    set_identity(made, f"{form.summing.name}.unfolded")
    return made


def _likely(forms: Sequence[Unfolded]) -> list[Unfolded]:
    moving = [form for form in forms if form.moving is not None]
    written = [form for form in forms if form.moving is None]
    return [*moving[:MAX_SEARCHED], *written[:MAX_SEARCHED]]


def _not_better(form: Unfolded, cycles: int, before: int) -> str:
    layers = "two layers" if form.moving is not None else "one layer"
    return f"{layers} would take {cycles:,} cycles, one takes {before:,}"


def _explanation(form: Unfolded) -> str:
    return EXPLANATION_OF_HOST if form.moving is None else EXPLANATION


def _text(form: Unfolded) -> str:
    text = "{}x{}".format(*form.neighbours)
    return text if form.moving is not None else f"{text}{BY_HOST}"
