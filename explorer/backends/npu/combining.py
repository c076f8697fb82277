"""Elementwise layers that a convolution before them takes into its accumulators.

    %conv3 = npu.convolution(%a, ...)              %add7 = npu.convolution(%a, %x, ...)
    %add7 = npu.elementwise(%conv3, %x)      =>        {..., combined = {kind = "add", ...}}

Both operands may be made by convolutions: the later one is tried first, because its inputs need not
live longer then. The result is stored once, and what was between is neither stored nor loaded. All
of a function are combined, or none where the program would take more cycles: a layer that only adds
leaves time to load the weights of the next one, and has smaller tiles.

A layer is not combined where it takes more cycles by itself than the two. Where the machine decodes
weights, it may do so with coded weights and not without, or the reverse: both sets are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from explorer.backends.npu.chosen_tiles import ChosenTiles
from explorer.backends.npu.grouping import GroupLayers
from explorer.backends.npu.lowered import LoweredLayers
from explorer.ir.dialects.npu import LAYER_OPERATIONS, LayerOp, field_properties
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of, set_identity, to_attribute
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import value_name
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.npu.layers.combining import combined_with, combining_problem
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.elementwise import Elementwise
from explorer.npu.layers.fields import described
from explorer.npu.layers.layer import LayerError
from explorer.npu.program.addresses import ANYWHERE
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search.searching import Found, SearchRecord
from explorer.results.decisions import COMBINED, decided_tiles
from explorer.targets.npu.machine import Machine

RULE = "combine"
EXPLANATION = "arithmetic(layer(x), y)   =>   layer(x, y): accumulators hold what lies between"
SEARCHES_COMBINED = "npu searches of combined layers"
"""Name of the artifact that holds, by name, what searches for tiles came to; None of layers that
are no more."""


@dataclass(frozen=True)
class CombineLayers(Pass):
    """Sums, products and maxima of two tensors become the end of the convolution that makes one of
    them, where the program takes no more cycles."""

    machine: Machine
    planner: Planner = field(default_factory=GreedyPlanner)
    lowered: LoweredLayers = field(kw_only=True, compare=False, repr=False)

    name = COMBINED
    level = "tiled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        tiles = ChosenTiles(self.machine, options, COMBINED)
        searches: dict[str, SearchRecord | None] = {}
        for function in functions_on(rewriter.module, self.machine.name):
            chosen = self._chosen(function, rewriter, options)
            for one in self._combinations(function, rewriter, options, chosen):
                op = one.reader
                if one.reason:
                    events.decline(RULE, op, one.reason, EXPLANATION)
                    continue
                assert one.layer is not None and one.searched is not None
                searched = tiles.of(identity_of(op), one.layer, one.searched)
                searches |= {value_name(one.made.output): None, one.layer.name: searched.record}
                with events.rewrite(RULE, op, f"{identity_of(one.made)}: {EXPLANATION}"):
                    self._apply(replace(one, searched=searched), rewriter)
        rewriter.artifacts[KNOBS] = tuple(tiles.knobs[1:])  # without the effort of all searches
        rewriter.artifacts[SEARCHES_COMBINED] = searches
        return events.rewrites

    def _chosen(
        self, function: func.FuncOp, rewriter: RecordedRewriter, options: RewriteOptions
    ) -> _Chosen:
        """Which layers of a function are combined."""
        grouping = GroupLayers(self.machine, self.planner, lowered=self.lowered)
        before, best = None, _Chosen()
        names = list[str]()
        for is_uncoded in (False, True) if self.machine.decodes_weights else (False,):
            trial = copy_operation(function)
            module = ModuleOp([trial])
            tried = RecordedRewriter(module, rewriter.weights, rewriter.names.copy())
            applied = list[str]()
            for one in self._combinations(trial, tried, options, _Chosen(is_uncoded)):
                if not one.reason:
                    self._apply(one, tried)
                    applied.append(identity_of(one.reader))
            if applied == names:
                continue
            names = applied
            if before is None:
                before = grouping.program_cycles(function, rewriter, options)
            more = grouping.program_cycles(trial, tried, options) - before
            if best.is_first or more < min(best.more_cycles, 0):
                best = _Chosen(is_uncoded, more, is_first=False)
        return best

    def _combinations(
        self,
        function: func.FuncOp,
        rewriter: RecordedRewriter,
        options: RewriteOptions,
        chosen: _Chosen,
    ) -> Iterator[Combination]:
        """One by one, for the next may be of what became of the one before."""
        more = chosen.more_cycles
        for op in list(function.body.block.ops):
            if not isinstance(op, LayerOp) or Elementwise.__name__ != op.KIND:
                continue
            decided = decided_tiles(options.decisions)
            one = _combination_of(op, rewriter, self.lowered, decided, chosen.is_uncoded)
            if one is None:
                continue
            wanted = options.decision(f"{self.name}/{RULE}/{identity_of(op)}")
            if not one.reason and wanted is False:
                one = replace(one, reason=OVERRIDDEN)
            if not one.reason and more > 0 and wanted is not True:
                one = replace(
                    one, reason=f"with all that can be, the program would take {more} cycles more"
                )
            yield one

    def _apply(self, one: Combination, rewriter: RecordedRewriter) -> None:
        made, layer, searched = one.made, one.layer, one.searched
        assert layer is not None and searched is not None
        plain = described(layer)
        count = len(made.data)
        layer_op = LAYER_OPERATIONS[plain.kind].make(
            [[*made.data, one.other, *made.operands[count:]]],
            [one.reader.output.type],
            inputs=count + 1,
            constants=made.constants,
            tiles=to_attribute(tiles_of(searched.tiled)),
            title=f"{made.label()} + {one.reader.label()}",
            group=made.graph_family(),
            work=made.macs(),
            **field_properties(plain.fields),
        )
        set_identity(layer_op, identity_of(one.reader))
        rewriter.replace(one.reader, layer_op, absorbs=[made])
        self.lowered.keep(layer_op, rewriter.weights, layer, searched.tiled)


@dataclass(frozen=True)
class _Chosen:
    """What is combined in a function."""

    is_uncoded: bool = False
    """Whether a layer is compared with the two with weights as they are."""
    more_cycles: int = 0
    """Of the program with them than without: if there are more, nothing is combined."""
    is_first: bool = True
    """Whether nothing was compared so far."""


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A candidate, and what becomes of it."""

    made: LayerOp
    """What makes one of the operands."""
    reader: LayerOp
    other: SSAValue
    layer: Convolution | None = None
    searched: Found | None = None
    """Its tiles, by a fast search."""
    reason: str = ""
    """Why there is no such layer; empty where there is one."""


def _combination_of(
    reader: LayerOp,
    rewriter: RecordedRewriter,
    lowered: LoweredLayers,
    decided: frozenset[str],
    is_uncoded: bool,
) -> Combination | None:
    """None where no operand of a layer is made by a convolution. `decided`: operations
    with given tiles. `is_uncoded`: see `_Chosen`."""
    sides = list(reader.data)
    if len(sides) != 2 or sides[0] is sides[1] or reader.is_part:
        return None
    found = [
        (owner, side)
        for side, value in enumerate(sides)
        if isinstance(owner := value.owner, LayerOp) and Convolution.__name__ == owner.KIND
    ]
    own = lowered.layer_of(reader, rewriter.weights)
    assert isinstance(own.layer, Elementwise)
    declined: Combination | None = None
    for made, side in sorted(found, key=lambda entry: -_position(entry[0])):
        one = Combination(made=made, reader=reader, other=sides[1 - side])
        mine = lowered.layer_of(made, rewriter.weights)
        problem = _problem(one, decided) or combining_problem(mine.layer, own.layer, side)
        if problem:
            declined = declined or replace(one, reason=problem)
            continue
        assert isinstance(mine.layer, Convolution)
        layer = combined_with(mine.layer, own.layer, side)
        try:
            searched = lowered.searched.of(layer)
            compared = [searched.tiled, mine.tiled]
            if is_uncoded:
                compared = [lowered.searched_uncoded.of(each).tiled for each in (layer, mine.layer)]
        except LayerError as error:
            return replace(one, reason=error.message)
        together, *apart = (
            lowered.streams.cycles(tiled, ANYWHERE) for tiled in (*compared, own.tiled)
        )
        more = together - sum(apart)
        reason = f"one layer would take {more} cycles more than two" if more > 0 else ""
        return replace(one, layer=layer, searched=searched, reason=reason)
    return declined


def _problem(one: Combination, decided: frozenset[str]) -> str:
    name = identity_of(one.made)
    readers = [identity_of(use.operation) for use in one.made.output.uses]
    if len(readers) > 1:
        return f"{name} is read by {', '.join(sorted(set(readers)))}"
    if one.made.is_part:
        return f"{name} is one of several parts of its operand"
    owner = one.other.owner
    if isinstance(owner, Operation) and _position(owner) > _position(one.made):
        return f"its other operand is made after {name}"
    fixed = [op for op in (name, identity_of(one.reader)) if op in decided]
    return f"the tiles of {fixed[0]} are decided" if fixed else ""


def _position(op: Operation) -> int:
    assert op.parent is not None
    return op.parent.get_operation_index(op)
