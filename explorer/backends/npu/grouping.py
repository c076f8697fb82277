"""The pass that keeps tensors in the scratchpad of activations from the layer that makes them to
the last one that reads them.

   %a = npu.convolution(...) {tiles = {...}, ...}
=> %a = npu.convolution(...) {tiles = {...}, on_chip = 442368, room = 430080, ...}

Tensors lie at the end of the scratchpad, where the memory planner puts them by their lifetimes over
layers; tiles have what is left at its beginning. A tensor that fits next to the tiles of all layers
in its lifetime stays. Where tiles are in its way, they are made smaller if that costs fewer cycles
than the transfers of the tensor.

    group-layers                  False: every tensor goes to global memory
    group-layers/keep/conv1       False: this one does
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from xdsl.dialects import func

from explorer.backends.npu.lowered import LoweredLayers, TiledOperation
from explorer.backends.npu.placed_layers import LayerAt, Lying, PlacedLayers
from explorer.backends.npu.planning import tensors_of
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of, to_attribute
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import value_name
from explorer.memory.planners import GreedyPlanner, Planner
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.layers.tensors import alignment_bytes
from explorer.npu.program.compiling import (
    CHOICES,
    UNCODED,
    Tiled,
    tile_as,
    with_machine,
)
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.program.rooms import (
    end_of,
    machine_with_room,
    room_before,
    room_bytes,
    tile_in_room,
)
from explorer.npu.search.searching import likely_tiles, search_layer
from explorer.npu.tiling.coded import without_decoders
from explorer.results.decisions import GROUPS, SEARCH, TILED
from explorer.results.memory import BufferLifetime
from explorer.targets.npu.formats import limits_of, moves_on_chip
from explorer.targets.npu.machine import Machine

KEEP = "keep"
EXPLANATION = "it stays on the chip until its last reader has run"
EXPLANATION_OF_TILES = "end sooner after the layer before"
EXPLANATION_OF_MORE = "with all that fits the program would take {} cycles more"
MAX_OPTIONS = 2
"""Tiles that are tried by each of two estimates."""


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Tensors stay in the scratchpad of activations where they fit next to the tiles of the layers
    that make and read them."""

    machine: Machine
    planner: Planner = field(default_factory=GreedyPlanner)
    lowered: LoweredLayers = field(kw_only=True, compare=False, repr=False)

    name = GROUPS
    level = "tiled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        if moves_on_chip(self.machine):
            for function in functions_on(rewriter.module, self.machine.name):
                self._group(function, rewriter, options, events)
        return events.rewrites

    def _group(
        self,
        function: func.FuncOp,
        rewriter: RecordedRewriter,
        options: RewriteOptions,
        events: EventLog,
    ) -> None:
        kept, declined, _ = self._kept(function, rewriter, options)
        makers = {value_name(op.output): op for op in kept.layers}
        for name, reason in declined.items():
            events.decline(KEEP, makers[name], reason, EXPLANATION)
        kept.write(rewriter, events)

    def program_cycles(
        self, function: func.FuncOp, rewriter: RecordedRewriter, options: RewriteOptions
    ) -> int:
        """Of a function as this pass would leave it; as it is, where the pass does not run."""
        return self.program_cost(function, rewriter, options)[0]

    def program_cost(
        self, function: func.FuncOp, rewriter: RecordedRewriter, options: RewriteOptions
    ) -> tuple[int, int]:
        """Cycles and bytes of such a function."""
        if moves_on_chip(self.machine) and options.decision(GROUPS) is not False:
            return self._kept(function, rewriter, options)[2]
        steps = tensors_of(function, self.machine).steps
        layers = {identity_of(op): op for op in function.body.block.ops if isinstance(op, LayerOp)}
        return _Kept(self, [layers[step] for step in steps], rewriter, options).program_cost

    def _kept(
        self, function: func.FuncOp, rewriter: RecordedRewriter, options: RewriteOptions
    ) -> tuple[_Kept, dict[str, str], tuple[int, int]]:
        """What stays, of what does not the reason, and cycles and bytes of the program."""
        layers = {identity_of(op): op for op in function.body.block.ops if isinstance(op, LayerOp)}
        makers = {value_name(op.output): op for op in layers.values()}
        tensors = tensors_of(function, self.machine)
        kept = _Kept(self, [layers[step] for step in tensors.steps], rewriter, options)
        candidates: dict[str, BufferLifetime] = {}
        declined: dict[str, str] = {}
        for buffer in sorted(tensors.buffers, key=_order):
            mine = [makers[name] for name in buffer.values if name in makers]
            if not mine or tensors.ends & set(buffer.values):
                continue
            candidates[value_name(mine[-1].output)] = buffer
            if options.decision(f"{self.name}/{KEEP}/{identity_of(mine[-1])}") is False:
                declined[value_name(mine[-1].output)] = OVERRIDDEN
        left = {name: one for name, one in candidates.items() if name not in declined}
        # Combining asks for the same program before.
        known = None if options.decisions else self.lowered.groups
        key = self.lowered.program_key(function)
        if known is None or key not in known:
            found = kept.best(left)
            if known is None:
                known = {}
            known[key] = GroupedProgram(kept.made, found, kept.cost(found))
        declined |= kept.take_known(known[key])
        return kept, declined, known[key].cost


def _order(buffer: BufferLifetime) -> tuple[int, int]:
    """Short lives first, of these the larger tensors."""
    return buffer.last - buffer.first, -buffer.size_bytes


@dataclass(frozen=True)
class _Way:
    """Tensors that stay, and the tiles of all layers next to them."""

    at: Sequence[LayerAt]
    buffers: Sequence[BufferLifetime]
    places: Lying
    reasons: Mapping[str, str]
    """Of tensors that do not stay."""


@dataclass(frozen=True)
class GroupedProgram:
    """What was found for a program, and the layers that it has then."""

    made: Sequence[TiledOperation]
    way: _Way
    cost: tuple[int, int]
    """Cycles and bytes."""


class _Kept(PlacedLayers):
    """What stays so far."""

    def __init__(
        self,
        pass_: GroupLayers,
        layers: Sequence[LayerOp],
        rewriter: RecordedRewriter,
        options: RewriteOptions,
    ) -> None:
        super().__init__(pass_.machine, pass_.lowered, layers, rewriter.weights)
        self.planner, self.options = pass_.planner, options
        self.cycles: dict[Hashable, int] = {}
        self.costs: dict[int, tuple[_Way, tuple[int, int]]] = {}
        self._begin()
        self.alone = self._way({})
        """Where nothing stays."""

    def take_known(self, known: GroupedProgram) -> dict[str, str]:
        """What was found for the same program, in the tiles of these layers; of tensors
        that do not stay the reason."""
        pairs = zip(known.way.at, known.made, self.made, strict=True)
        at = [
            replace(at, tiled=own.tiled) if at.tiled is old.tiled else at for at, old, own in pairs
        ]
        self._take(replace(known.way, at=at))
        return {name: reason for name, reason in known.way.reasons.items() if reason}

    def best(self, candidates: Mapping[str, BufferLifetime]) -> _Way:
        """Keeps tensors in this order, and refines tiles.

        Where the machine decodes weights, the program without a decoder is one of several. The one
        with the fewest cycles is taken, of several that with the fewest bytes; if there are fewer
        cycles where nothing stays, then that.
        """
        ways = self._ways(candidates)
        if len(ways) == 1:
            return ways[0]
        best = min(reversed(ways), key=self.cost)
        more = self.cost(best)[0] - self.cost(self.alone)[0]
        if more <= 0:
            return best
        reasons = dict.fromkeys(candidates, EXPLANATION_OF_MORE.format(more))
        return self._refined(replace(self.alone, reasons=reasons))

    def _ways(self, candidates: Mapping[str, BufferLifetime]) -> list[_Way]:
        ways: list[_Way] = []
        if self.machine.decodes_weights and self.options.decision(SEARCH) != "none":
            plain = self._without_decoders()
            ways = list(self._coded(plain.best(candidates)))
        self._begin()
        return [*ways, self._refined(self._way_of(candidates))]

    def _without_decoders(self) -> _Kept:
        """The same layers on a machine without decoders, in the tiles that a search finds there."""
        other = copy(self)
        other.machine = without_decoders(self.machine)
        other.cycles, other.mirrored, other.costs, other.programs = {}, {}, {}, None
        other.made = []
        for step, one in enumerate(self.made):
            tile = partial(tile_as, one.layer, other.machine, tiles_of(one.tiled))
            if isinstance(one.layer, Convolution) and not self._is_decided(step):
                tile = partial(self._searched_uncoded, one.layer)
            tiled = self.lowered.streams.tiles("without decoders", one.tiled, tile)
            other.made.append(replace(one, tiled=tiled))
        return other

    def _searched_uncoded(self, layer: Layer) -> Tiled:
        return self.lowered.searched_uncoded.of(layer).tiled

    def _coded(self, way: _Way) -> Iterator[_Way]:
        """What stays without decoders: with weights as they are, coded, and coded in refined tiles.

        A shorter load can change what is prefetched. Where the program takes more cycles with all
        weights coded, each layer has them as it ends sooner.
        """
        plain = replace(way, at=[self._uncoded_layer(at) for at in way.at])
        yield plain
        try:
            found = replace(way, at=[self._coded_layer(*pair) for pair in enumerate(way.at)])
        except LayerError:  # the machine has no such tiles
            return
        yield found
        if self.cost(found)[0] > self.cost(plain)[0]:
            programs = self.programs_with(way.places)
            yield replace(way, at=programs.refined(plain.at, lambda step: [found.at[step]]))
        yield self._refined(found)

    def _uncoded_layer(self, at: LayerAt) -> LayerAt:
        tile = partial(with_machine, at.tiled, self.machine)
        return replace(at, tiled=self.lowered.streams.tiles("uncoded", at.tiled, tile))

    def _coded_layer(self, step: int, at: LayerAt) -> LayerAt:
        made, choices = self.made[step], tiles_of(at.tiled)
        if choices == tiles_of(made.tiled) and (at.room is None or end_of(made.tiled) <= at.room):
            return replace(at, tiled=made.tiled)
        tile = partial(tile_as, made.layer, choices=choices)
        key = self.machine, at.room, tuple(choices.items())
        return replace(at, tiled=self.lowered.streams.tiles(
            key, made.layer, partial(tile_in_room, self.machine, at.room, tile)
        ))  # fmt: skip

    def _way_of(self, candidates: Mapping[str, BufferLifetime]) -> _Way:
        """What a tensor costs is known of layers by themselves: if all together take more cycles in
        the program than none, those stay that no tiles become smaller for, and else none."""
        plain = self.alone = self._way({})
        found, cycles = dict[str, str](), 0
        for may_cut in (True, False):
            found = {name: self._try_to_keep(one, may_cut) for name, one in candidates.items()}
            way = self._way(found)
            if not self.buffers:
                return way
            cycles = cycles or self.cost(plain)[0]
            more = self.cost(way)[0] - cycles
            if more <= 0:
                return way
            self._take(plain)
            reason = EXPLANATION_OF_MORE.format(more)
            found = {name: why or reason for name, why in found.items()}
        return replace(plain, reasons=found)

    def _begin(self) -> None:
        """Nothing stays, and all layers have the tiles that were found for them alone."""
        self.buffers, self.places = [], {}
        self.at = [
            LayerAt(tiled=one.tiled, room=None, cycles=self._cycles(step, one.tiled, {}))
            for step, one in enumerate(self.made)
        ]

    def _refined(self, way: _Way) -> _Way:
        self._take(way)
        self.refine()
        return self._way(way.reasons)

    def cost(self, way: _Way) -> tuple[int, int]:
        """Cycles and bytes of the program."""
        if id(way) not in self.costs:
            self.costs[id(way)] = way, self.programs_with(way.places).cost(way.at)
        return self.costs[id(way)][1]

    def _way(self, reasons: Mapping[str, str]) -> _Way:
        """`reasons`: by tensor, why it does not stay; empty where it does."""
        return _Way(list(self.at), list(self.buffers), self.places, reasons)

    def _take(self, way: _Way) -> None:
        self.at, self.buffers, self.places = list(way.at), list(way.buffers), way.places

    @property
    def program_cost(self) -> tuple[int, int]:
        """As it is so far."""
        return self.cost(self._way({}))

    def refine(self) -> None:
        """Other tiles where the program takes fewer cycles with them."""
        if not self.layers or self.options.decision(SEARCH) == "none":
            return
        programs = self.programs_with(self.places)
        found = programs.refined(self.at, self._options)
        if programs.cost(found)[0] < programs.cost(self.at)[0]:
            self.at = found

    def _options(self, step: int) -> list[LayerAt]:
        """Other tiles that a layer may have; none where decisions say what it has."""
        if self._is_decided(step):
            return []
        at, layer = self.at[step], self.made[step].layer
        inside = self.touched(step, self.places)
        key = "likely", self.machine, at.room, inside
        try:
            tiles = self.lowered.streams.tiles(
                key, layer, partial(self._likely, layer, at.room, inside)
            )
        except LayerError:
            return []
        return [replace(at, tiled=one) for one in tiles]

    def _likely(self, layer: Layer, room: int | None, inside: frozenset[str]) -> list[Tiled]:
        found = likely_tiles(layer, machine_with_room(self.machine, room), inside, MAX_OPTIONS)
        return [with_machine(one, self.machine) for one in found]

    def _is_decided(self, step: int) -> bool:
        name = identity_of(self.layers[step])
        choices = CHOICES[type(self.made[step].tiled)]
        addresses = [f"{pass_}/{name}/{choice}" for pass_ in TILED for choice in choices]
        return any(self.options.decision(address) is not None for address in addresses)

    def _try_to_keep(self, buffer: BufferLifetime, may_cut: bool) -> str:
        """Why it cannot stay; empty where it does from now on."""
        each, whole = alignment_bytes(self.machine), room_bytes(self.machine)
        trial = [*self.buffers, replace(buffer, alignment_bytes=each)]
        plan = self.planner(trial, [identity_of(op) for op in self.layers])
        top = whole // each * each
        if plan.peak_bytes > top:
            return (
                f"{buffer.size_bytes} bytes do not fit next to other tensors: together "
                f"{plan.peak_bytes} of {whole}"
            )
        places: dict[str, int] = {}
        rooms: list[int | None] = [None] * len(self.layers)
        for placed in plan.placements:
            mine = placed.buffer
            begin = top - placed.offset_bytes - -(-mine.size_bytes // each) * each
            places |= dict.fromkeys(mine.values, begin)
            room = room_before(self.machine, begin)
            for step in range(mine.first, mine.last):
                before = rooms[step]
                rooms[step] = room if before is None else min(room, before)
        if max(places.values()) > self._largest_offset:
            return "an address on the chip has too few bits"
        found: dict[int, LayerAt] = {}
        for step, room in enumerate(rooms):
            touched = self.touched(step, places) != self.touched(step, self.places)
            if room == self.at[step].room and not touched:
                continue
            one = self._at(step, room, places)
            if isinstance(one, str):
                return one
            if not may_cut and one.tiled is not self.made[step].tiled:
                return "the tiles of a layer are in its way"
            found[step] = one
        after = sum(one.cycles for one in found.values())
        before = sum(self.at[step].cycles for step in found)
        if after > before:
            return f"smaller tiles would take {after - before} cycles more than its transfers"
        self.buffers, self.places = trial, places
        for step, one in found.items():
            self.at[step] = one
        return ""

    @property
    def _largest_offset(self) -> int:
        """Bytes that every transfer can address."""
        most = min(limits_of(self.machine, kind)["global_address"] for kind in ("load", "store"))
        return most * min(space.global_bytes for space in self.machine.spaces)

    def _at(self, step: int, room: int | None, places: Lying) -> LayerAt | str:
        """A layer in that room; the reason where it has no tiles there."""
        tiled = self.at[step].tiled
        if not end_of(self.made[step].tiled):  # its tiles lie in other scratchpads
            room = None
        if room is None or end_of(tiled) > room:
            tiled = self._tiled(step, room)
            if isinstance(tiled, str):
                return tiled
        return LayerAt(tiled=tiled, room=room, cycles=self._cycles(step, tiled, places))

    def _tiled(self, step: int, room: int | None) -> Tiled | str:
        """The tiles as they are, if they fit, else others."""
        made = self.made[step]
        if room is None or end_of(made.tiled) <= room:
            return made.tiled
        key = "in room", self.machine, room, self._is_decided(step)
        try:
            return self.lowered.streams.tiles(
                key, made.tiled, partial(self._searched, step, made.layer, room)
            )
        except LayerError as error:
            return error.message

    def _searched(self, step: int, layer: Layer, room: int) -> Tiled:
        choices = tiles_of(self.made[step].tiled)
        try:
            return tile_in_room(self.machine, room, lambda small: tile_as(layer, small, choices))
        except LayerError:
            if self._is_decided(step):
                raise
        return tile_in_room(self.machine, room, lambda small: search_layer(layer, small).tiled)

    def _cycles(self, step: int, tiled: Tiled, places: Lying) -> int:
        """Of a layer by itself."""
        inside = self.touched(step, places)
        key = step, inside, tuple(tiles_of(tiled).items()), end_of(tiled)
        if key not in self.cycles:
            self.cycles[key] = self.lowered.streams.cycles(tiled, self.addresses(step, places))
        return self.cycles[key]

    def write(self, rewriter: RecordedRewriter, events: EventLog) -> None:
        """What stays, in the IR."""
        for op, made, at in zip(self.layers, self.made, self.at, strict=True):
            name = value_name(op.output)
            changes: dict[str, Any] = {} if at.room is None else {"room": at.room}
            if at.tiled is not made.tiled:
                changes["tiles"] = to_attribute(tiles_of(at.tiled))
            if name in self.places:
                changes["on_chip"] = self.places[name]
            if not changes:
                continue
            text = f"tiles have {at.room:,} bytes" if at.room is not None else "its tiles"
            rule = "room"
            if at.room is None and name not in self.places:
                text = f"other tiles, which {EXPLANATION_OF_TILES}"
            if UNCODED in tiles_of(at.tiled):
                text += ", with weights that are not coded"
            if name in self.places:
                rule, text = KEEP, f"{EXPLANATION}; {text}"
            with events.rewrite(rule, op, text):
                rewriter.update(op, None, **changes)
            self.lowered.keep(op, rewriter.weights, made.layer, at.tiled)
