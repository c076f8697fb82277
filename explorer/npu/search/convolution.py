"""The tiles that a convolution may be cut into, and what each takes at least, all at once.

    space = ConvolutionSpace(layer, machine, "fast", {})
    space.bound            cycles that no run goes below, one for each point
    space.choices(3)       {"rows": 7, "columns": 14, ..., "order": "outputs", ...}

Bound: every queue does one thing at a time, so that no run is shorter than what one queue does,
with the first loads before it and the last store after it. Starts and latencies are
counted for each transfer and instruction. `estimate` adds what single buffers wait for and what the
order of micro-operations costs; only runs of the timeline know how queues wait for each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.program.requirements import vector_passes
from explorer.npu.search.axes import Axis, all_sizes, axis_of, fast_sizes
from explorer.npu.search.cuts import CUT_SUMS, Cut, cut_of
from explorer.npu.tiling.bands import Band
from explorer.npu.tiling.chunks import ORDERS
from explorer.npu.tiling.convolution import (
    CONSTANTS,
    Cuttable,
    TiledLayer,
    constants_per_block,
    cuttable,
    placed,
)
from explorer.npu.tiling.layouts import shared_constants
from explorer.targets.npu.formats import prefetches
from explorer.targets.npu.machine import Machine, Route

Effort = Literal["fast", "full"]
NAMES = ("rows", "columns", "outputs", "inputs", "together", "order", "constants",
         "input_buffers", "weight_buffers", "sum_buffers")  # fmt: skip
WORDS: Mapping[str, tuple[str, ...]] = {"order": ORDERS, "constants": CONSTANTS}
"""What numbers stand for in the table."""
CHUNK, AHEAD, DOUBLE, ALL = -1, -2, -3, -4
"""Counts of buffers that follow from a point: of all chunks of a tile, one more, twice as many, of
all chunks of the layer."""
FAST_BUFFERS = (
    # order, inputs, weights, sums
    (0, 2, 2, 2), (0, 2, AHEAD, 2), (1, AHEAD, 2, 2), (1, 2, ALL, 2), (1, AHEAD, ALL, 2),
    (0, 2, 1, 2), (0, 1, 2, 2), (0, 1, 1, 1), (1, 2, ALL, 1), (0, 2, 2, 1),
)  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    """Bands of equal sizes."""

    count: int
    outputs: int
    inputs: int
    example: Band
    least_bytes: float = 0.0
    """Of the weights of all of them, where these are coded."""


class ConvolutionSpace:
    """All points of a layer; arrays have an entry for each."""

    def __init__(
        self, layer: Convolution, machine: Machine, effort: Effort,
        fixed: Mapping[str, int | str], on_chip: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """`on_chip`: tensors that lie in the scratchpad of activations, by name."""
        self.layer, self.machine, self.on_chip = layer, machine, on_chip
        self.cut: Cuttable = cuttable(layer, machine)
        self.legal = self._legal(effort, fixed)
        kinds: dict[tuple[int, int], list[Band]] = {}
        for band in self.cut.bands:
            kinds.setdefault((len(band.outputs), len(band.inputs)), []).append(band)
        self.kinds = [
            _Kind(len(found), outputs, inputs, found[0], self._least_bytes(found))
            for (outputs, inputs), found in kinds.items()
        ]
        self._fill(effort, fixed)

    # ------------------------------------------------------------------------------- the points

    def _legal(self, effort: Effort, fixed: Mapping[str, int | str]) -> dict[str, list[int]]:
        """By name the sizes that are tried."""
        _, height, width = self.layer.output_shape
        outputs, inputs = self.cut.most
        sizes = fast_sizes if effort == "fast" else all_sizes
        found = {
            "rows": sizes(height), "columns": sizes(width), "outputs": sizes(outputs),
            "inputs": sizes(inputs), "together": sorted({self.cut.side_by_side, 1}, reverse=True),
        }  # fmt: skip
        if self.own:
            found["inputs"] = [inputs]
        side = self.cut.side_by_side
        if side > 1 and not self.own:
            whole = {min(inputs, -(-size // side) * side) for size in found["inputs"]}
            found["inputs"] = sorted({*whole, *found["inputs"]}, reverse=True)
        batch = self.machine.batch
        if self.machine.rows_per_element == 1 and batch > 1:  # whole batches of positions
            whole = {min(width, -(-size // batch) * batch) for size in found["columns"]}
            found["columns"] = sorted({*whole, 1}, reverse=True)
        for name in found:
            if name in fixed:
                found[name] = [int(fixed[name])]
        return found

    def _fill(self, effort: Effort, fixed: Mapping[str, int | str]) -> None:
        """The columns of the table, before and after buffers are chosen."""
        lists = [self.legal[name] for name in ("rows", "columns", "outputs", "inputs", "together")]
        grids = np.meshgrid(*(np.arange(len(one)) for one in lists), indexing="ij")
        picks = [grid.reshape(-1) for grid in grids]
        row, column, output, inner, side = picks
        rows_axis = axis_of(self.layer, 0, self.legal["rows"])
        columns_axis = axis_of(self.layer, 1, self.legal["columns"])
        buffers = FAST_BUFFERS if effort == "fast" else tuple(_all_buffers())
        is_cut = self._output_blocks > min(self.legal["outputs"])
        buffers = [(*one, held) for held in range(1 + is_cut) for one in buffers]
        count = len(row)
        where = np.repeat(np.arange(count), len(buffers))
        options = np.tile(np.array(buffers, np.int64), (count, 1))
        self.rows_at, self.columns_at = row[where], column[where]
        self.axes: tuple[Axis, Axis] = (rows_axis, columns_axis)
        self.rows = rows_axis.sizes[self.rows_at]
        self.columns = columns_axis.sizes[self.columns_at]
        self.outputs = np.array(self.legal["outputs"], np.int64)[output[where]]
        self.outputs_at, self.inputs_at, self.side_at = output[where], inner[where], side[where]
        self.inputs = np.array(self.legal["inputs"], np.int64)[self.inputs_at]
        self.together = np.array(self.legal["together"], np.int64)[self.side_at]
        self.order = options[:, 0]
        self.positions = rows_axis.count[self.rows_at] * columns_axis.count[self.columns_at]
        per_tile = np.max([self._chunks_of(k) for k in self.kinds], axis=0)
        keys = self._zeros + sum(
            k.count * -(-k.outputs // self.outputs) * self._chunks_of(k) for k in self.kinds
        )
        distinct = self._zeros + sum(k.count * self._chunks_of(k) for k in self.kinds)
        distinct = keys if self.own else distinct
        self.input_buffers = _counts(options[:, 1], per_tile, distinct * self.positions)
        self.weight_buffers = _counts(options[:, 2], per_tile, keys)
        self.sum_buffers, self.constants = options[:, 3], options[:, 4]
        if self.cut.repeated is not None:
            self.weight_buffers = np.full_like(self.weight_buffers, 2)
        for name in ("order", "constants", "input_buffers", "weight_buffers", "sum_buffers"):
            if name in fixed:
                words, value = WORDS.get(name), fixed[name]
                value = int(value) if words is None else words.index(str(value))
                setattr(self, name, np.full_like(self.order, value))
        self._keep(self._distinct() & self._fits())

    @property
    def own(self) -> int:
        """Blocks of inputs that each block of outputs has for itself; 0: all share them."""
        return self.cut.bands[0].own

    def _chunks_of(self, kind: _Kind) -> np.ndarray:
        """Chunks of a tile."""
        return self._zeros + 1 if self.own else -(-kind.inputs // self.inputs)

    @property
    def _zeros(self) -> np.ndarray:
        return np.zeros(len(self.rows), np.int64)

    def _distinct(self) -> np.ndarray:
        """The first of equal points."""
        columns = [getattr(self, name) for name in NAMES]
        packed = np.zeros(len(self.rows), np.int64)
        for column in columns:
            _, number = np.unique(column, return_inverse=True)
            packed = packed * (int(number.max(initial=0)) + 1) + number.reshape(-1)
        _, first = np.unique(packed, return_index=True)
        found = np.zeros(len(packed), bool)
        found[first] = True
        return found

    def _keep(self, mask: np.ndarray) -> None:
        for name in (
            *NAMES,
            "rows_at",
            "columns_at",
            "outputs_at",
            "inputs_at",
            "side_at",
            "positions",
        ):
            setattr(self, name, getattr(self, name)[mask])

    def _fits(self) -> np.ndarray:
        """Whether buffers and micro-operations have room, as far as sums of bytes tell."""
        machine, layer = self.machine, self.layer
        taps = layer.kernel[0] * layer.kernel[1]
        pixels = self.axes[0].window[self.rows_at] * self.axes[1].window[self.columns_at]
        held = self._of_cut("most_held", 0)
        sums = self.outputs * self.rows * self.columns * layer.output.digits(machine)
        sums = sums * self.cut.partials
        others = sums * (self.sum_buffers if prefetches(machine) else 1)
        others = others * (layer.combined is not None)
        blocks_held = np.where(self.constants == 1, self._output_blocks, self.outputs)
        constants = blocks_held * constants_per_block(layer, machine)
        constants = constants + shared_constants(layer, machine) + others
        weights = self.weight_buffers * self.outputs * taps
        weights = weights if self.own else weights * self.inputs
        if self.cut.repeated is not None:
            weights = np.full_like(weights, len(self.cut.repeated.elements))
        taken = [np.zeros(len(self.rows), np.int64) for _ in machine.scratchpads]
        for content, elements in (
            ("activations", self.input_buffers * held * pixels), (self._weights, weights),
            ("accumulators", self.sum_buffers * sums + constants),
        ):  # fmt: skip
            space = machine.by_content[content]
            taken[space.memory] = taken[space.memory] + elements * space.element_bytes
        each = taps if self.cut.partials == 1 else 1
        found = self.outputs * self.inputs * each <= machine.depth("micro_operations")
        room = max(2, min(queue.tokens for queue in machine.queues))
        found &= np.maximum(self.input_buffers, self.weight_buffers) <= room
        for total, memory in zip(taken, machine.scratchpads, strict=True):
            found &= total <= (memory.size_bytes or 0)
        return found

    @property
    def _sides(self) -> list[int]:
        return self.legal["together"]

    def _cuts(self, size: int, side: int) -> list[Cut]:
        """How the inputs of each kind of bands are cut into chunks; `size`: which of the legal
        numbers of inputs, or of outputs where each has inputs of its own."""
        key = (size, side)
        if key not in self._known_cuts:
            tiled = self.cut.tiled(rows=1, columns=1, outputs=1, inputs=1,
                                   together=self._sides[side])  # fmt: skip
            blocks = self.legal["outputs" if self.own else "inputs"][size]
            blocks *= self.own or 1
            self._known_cuts[key] = [cut_of(tiled, kind.example, blocks) for kind in self.kinds]
        return self._known_cuts[key]

    @cached_property
    def _known_cuts(self) -> dict[tuple[int, int], list[Cut]]:
        return {}

    def __len__(self) -> int:
        return len(self.rows)

    def choices(self, point: int) -> dict[str, int | str]:
        found: dict[str, int | str] = {name: int(getattr(self, name)[point]) for name in NAMES}
        words = {name: words[int(getattr(self, name)[point])] for name, words in WORDS.items()}
        return found | words

    def tiled(self, point: int) -> TiledLayer:
        """With the places of its buffers. Raises `RoomError` where they do not fit."""
        return placed(self.cut.tiled(**self.choices(point)))

    # -------------------------------------------------------------------------------- the bound

    def _least_bytes(self, bands: Sequence[Band]) -> float:
        """Of weights in any blocks; 0 where they are not coded."""
        coding, taps = self.cut.coding, self.layer.kernel[0] * self.layer.kernel[1]
        if coding is None or self.cut.repeated is not None:
            return 0.0
        if self.own:
            return coding.least_bytes(0, len(coding.numbers))
        return sum(
            coding.least_bytes(
                band.first_weight,
                band.first_weight + len(band.outputs) * len(band.inputs) * taps,
            )
            for band in bands
        )

    def _moved_weights(self, elements: np.ndarray, least_bytes: np.ndarray) -> np.ndarray:
        """Cycles of so many weights, without starts; `least_bytes`: where they are coded."""
        coding = self.cut.coding
        whole = self._moved(self._weights, True, -1, elements)
        if coding is None:
            return whole
        decoded, rate = coding.route.decoded_bytes_per_cycle, coding.route.bytes_per_cycle
        assert decoded is not None
        fastest = float(max(decoded, rate))  # slower blocks are left as they are
        size = elements * coding.element_bytes
        return np.minimum(whole, np.maximum(least_bytes / float(rate), size / fastest))

    def _route(self, content: str, is_load: bool, region: int) -> Route:
        memory = self.machine.by_content[content].memory
        return self.machine.route[self.machine.regions[region].name, memory, is_load]

    def _moved(
        self, content: str, is_load: bool, region: int, elements: np.ndarray,
        held: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Cycles of so many elements, without starts; `held`: with padding."""
        space = self.machine.by_content[content]
        pad = self.machine.scratchpads[space.memory]
        rate = self._route(content, is_load, region).bytes_per_cycle
        found = elements * space.global_bytes / float(rate)
        if pad.lane_bytes_per_cycle is not None:
            port = float(pad.lane_bytes_per_cycle * pad.lanes)
            found = np.maximum(found, (elements if held is None else held)
                               * space.element_bytes / port)  # fmt: skip
        return found

    def _transfers(
        self, content: str, is_load: bool, count: np.ndarray, elements: np.ndarray,
        held: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Cycles of so many transfers of inputs or of the output, and what of them takes a channel;
        `held`: elements with padding."""
        machine, layer = self.machine, self.layer
        names = [tensor.name for tensor in (layer.pictures if is_load else (layer.output,))]
        is_inside = [name in self.on_chip for name in names]
        outside = self._route(content, is_load, 0).fixed_cycles * count + self._moved(
            content, is_load, 0, elements, held)  # fmt: skip
        if not any(is_inside):
            return outside, outside
        inside = machine.on_chip_start_cycles * count + (
            elements if held is None else held) / float(machine.on_chip_rate(content))  # fmt: skip
        none = np.zeros_like(outside)
        return (inside if all(is_inside) else np.minimum(inside, outside)), none

    @cached_property
    def _parts(self) -> dict[str, np.ndarray]:
        """Cycles of each queue, and of its first and last steps."""
        machine, layer, (rows, columns) = self.machine, self.layer, self.axes
        taps = layer.kernel[0] * layer.kernel[1]
        r, c = self.rows_at, self.columns_at
        _, height, width = layer.output_shape
        last_axis = -1
        fixed_weights = self._route(self._weights, True, last_axis).fixed_cycles
        narrow = columns.plain[c] - columns.whole[c]
        is_line = rows.plain[r] * columns.whole[c] + rows.single[r] * narrow
        read, held_positions = rows.read[r] * columns.read[c], rows.held[r] * columns.held[c]
        zeros = np.zeros(len(self), np.float64)
        load, channel, out_tiles, chunks, weights = zeros.copy(), zeros.copy(), 0, 0, 0
        for number, kind in enumerate(self.kinds):
            k, groups, runs, held = (
                self._of_cut(name, number) for name in ("chunks", "groups", "runs", "held")
            )
            k = np.ones_like(k) if self.own else k
            tiles = -(-kind.outputs // self.outputs)
            is_kept = np.where(
                self.order == 0, self.input_buffers >= self.positions * k, self.input_buffers >= k
            )
            if not self._shares_inputs:
                is_once = (tiles == 1) | is_kept | (self.own > 0)
                passes = np.where(is_once, 1, tiles) * kind.count
                transfers = is_line * runs + (self.positions - is_line) * groups
                mine, shared = self._transfers(
                    "activations", True, transfers, read * held, held_positions * held
                )
                load, channel = load + passes * mine, channel + passes * shared
            out_tiles = out_tiles + kind.count * tiles
            chunks = chunks + kind.count * tiles * k
            weights += kind.count * kind.inputs * (1 if self.own else kind.outputs)
        if self._shares_inputs:  # each chunk once, whatever lies in buffers
            runs, groups, held = self._shared[:, self.inputs_at, self.side_at]
            transfers = is_line * runs + (self.positions - is_line) * groups
            mine, shared = self._transfers(
                "activations", True, transfers, read * held, held_positions * held
            )
            load, channel = load + mine, channel + shared
        for kind in self.kinds if self.cut.repeated is None else ():
            k = self._chunks_of(kind)
            is_kept = np.where(self.order == 0, self.weight_buffers >= k,
                               self.weight_buffers >= chunks)  # fmt: skip
            tiles = kind.count * -(-kind.outputs // self.outputs)
            inputs = 1 if self.own else kind.inputs
            elements = kind.count * kind.outputs * inputs * taps
            moved = self._moved_weights(np.asarray(elements), np.asarray(kind.least_bytes))
            mine = np.where(is_kept, 1, self.positions) * (fixed_weights * tiles * k + moved)
            load, channel = load + mine, channel + mine
        compute = self._compute(out_tiles, chunks, weights * self._steps_of_taps)
        tiles = self.positions * out_tiles
        content = "accumulators" if layer.output.is_wide and layer.output.digits(
            machine) == 1 else "outputs"  # fmt: skip
        count = layer.output.digits(machine) * self._output_blocks * height * width
        store, shared = self._transfers(content, False, tiles, np.asarray(count))
        return {"load": load, "store": store, "channel": channel + shared, "tiles": tiles,
                "chunks": chunks * self.positions, **compute, **self._ends(content)}  # fmt: skip

    @property
    def _weights(self) -> str:
        """What weights are loaded as."""
        return "diagonals" if self.own and self.cut.repeated is None else "weights"

    @property
    def _steps_of_taps(self) -> int:
        """Steps for each position, block of outputs and block of inputs."""
        taps = self.layer.kernel[0] * self.layer.kernel[1]
        return -(-taps // self.cut.partials)

    @property
    def _output_blocks(self) -> int:
        return sum(kind.count * kind.outputs for kind in self.kinds)

    @cached_property
    def _shares_inputs(self) -> bool:
        """Whether bands read the same inputs, which may lie in a buffer then."""
        found = [number for band in self.cut.bands for number in band.inputs]
        return len(set(found)) < len(found)

    @cached_property
    def _shared(self) -> np.ndarray:
        """Transfers at equal distances, transfers, and blocks of all distinct chunks of inputs, by
        number of inputs and of blocks side by side."""
        found = np.zeros((3, len(self.legal["inputs"]), len(self._sides)), np.int64)
        for i, size in enumerate(self.legal["inputs"]):
            chunks = {
                band.inputs[first : first + size]
                for band in self.cut.bands
                for first in range(0, len(band.inputs), size)
            }
            for t, side in enumerate(self._sides):
                tiled = self.cut.tiled(rows=1, columns=1, outputs=1, inputs=1, together=side)
                groups = sum(len(tiled.groups(chunk)) for chunk in chunks)
                found[:, i, t] = len(chunks), groups, groups * side
        return found

    def _of_cut(self, name: str, kind: int) -> np.ndarray:
        """What the chunks of a kind of bands come to, for each point."""
        at = self.outputs_at if self.own else self.inputs_at
        return self._table(kind)[name][at, self.side_at]

    def _table(self, kind: int) -> dict[str, np.ndarray]:
        if kind not in self._tables:
            shape = (len(self.legal["outputs" if self.own else "inputs"]), len(self._sides))
            cuts = [[self._cuts(i, t)[kind] for t in range(shape[1])] for i in range(shape[0])]
            self._tables[kind] = {
                name: np.array([[of(one) for one in row] for row in cuts], np.int64)
                for name, of in CUT_SUMS.items()
            }
        return self._tables[kind]

    @cached_property
    def _tables(self) -> dict[int, dict[str, np.ndarray]]:
        return {}

    def _compute(
        self, out_tiles: np.ndarray | int, chunks: np.ndarray | int, weights: int
    ) -> dict[str, np.ndarray]:
        """What the queue that computes does."""
        machine, layer, (rows, columns) = self.machine, self.layer, self.axes
        _, height, width = layer.output_shape
        batch = 1 if machine.instruction_set.elements_hold_batch else machine.batch
        steps = calls = np.zeros(len(self), np.int64)
        full = (rows.count[self.rows_at] - 1, columns.count[self.columns_at] - 1)
        last = (rows.last[self.rows_at], columns.last[self.columns_at])
        for tall, many in ((self.rows, full[0]), (last[0], 1)):
            for wide, more in ((self.columns, full[1]), (last[1], 1)):
                mine, count = _batched(tall, wide, batch)
                steps, calls = steps + many * more * mine, calls + many * more * count
        matrix, vector = machine.matrix, machine.vector
        assert vector is not None
        fixed = matrix.start_cycles + matrix.latency_cycles
        vector_fixed = vector.start_cycles + vector.latency_cycles
        multiply = fixed * calls * chunks + steps * weights * machine.multiply_step_cycles
        tiles = self.positions * out_tiles
        pixels = self._output_blocks * height * width
        each = machine.multiply_step_cycles
        has_resets = not machine.replaces_sums
        reset = has_resets * (fixed * tiles + pixels // batch * each)
        passes = vector_passes(layer, machine)
        vectors = passes * (vector_fixed * tiles + pixels * machine.vector_element_cycles)
        per_block = constants_per_block(layer, machine)
        constant = self._route("accumulators", True, -1)
        repeats = np.where((self.order == 1) & (np.asarray(out_tiles) > 1), self.positions, 1)
        moved = self._moved("accumulators", True, -1, np.asarray(self._output_blocks * per_block))
        loads = repeats * (constant.fixed_cycles * np.asarray(out_tiles) + moved)
        first_tile = np.minimum(self.outputs, self.kinds[0].outputs) * self.rows * self.columns
        first_loads = constant.fixed_cycles + self._moved(
            "accumulators", True, -1, self.outputs * per_block)  # fmt: skip
        of_layer = constant.fixed_cycles + moved
        loads = np.where(self.constants == 1, of_layer, loads)
        first_loads = np.where(self.constants == 1, of_layer, first_loads)
        micro = self._route("micro_operations", True, -1).fixed_cycles + self._moved(
            "micro_operations", True, -1, np.asarray(1))  # fmt: skip
        reset_first = has_resets * (2 * fixed + (first_tile // batch + 1) * each)
        rest = multiply + vectors + np.maximum(0, reset - reset_first) + np.maximum(
            0, loads - first_loads)  # fmt: skip
        return {"compute": multiply + vectors + reset + loads + micro, "rest": rest,
                "multiply": multiply, "other_loads": loads + micro,
                "before": first_loads + micro}  # fmt: skip

    def _ends(self, content: str) -> dict[str, np.ndarray]:
        """The first loads, and what comes after the last of them."""
        machine, layer, (rows, columns) = self.machine, self.layer, self.axes
        taps = layer.kernel[0] * layer.kernel[1]
        groups, runs, held = (
            self._of_cut(f"first_{name}", 0) for name in ("groups", "runs", "held")
        )
        r, c = self.rows_at, self.columns_at
        is_plain = rows.is_first_plain[r] & columns.is_first_plain[c]
        is_line = is_plain & (columns.is_first_whole[c] | (rows.window[r] == 1))
        count = np.where(is_line == 1, runs, groups)
        first, _ = self._transfers(
            "activations", True, count, rows.first_read[r] * columns.first_read[c] * held
        )
        if self.cut.repeated is None:
            size = np.minimum(self.outputs, self.kinds[0].outputs)
            inputs = np.minimum(self.inputs, self.kinds[0].inputs)
            size = size * (1 if self.own else inputs) * taps
            coding = self.cut.coding
            least = size * (0.0 if coding is None else coding.least_of_element)
            first = first + self._route(self._weights, True, -1).fixed_cycles
            first = first + self._moved_weights(size, least)
        last_tile = rows.last[r] * columns.last[c]  # of one block of outputs at least
        store, _ = self._transfers(content, False, np.asarray(1), last_tile)
        vector = machine.vector
        assert vector is not None
        each = vector.start_cycles + vector.latency_cycles
        finish = vector_passes(layer, machine) * (each + last_tile * machine.vector_element_cycles)
        batch = 1 if machine.instruction_set.elements_hold_batch else machine.batch
        finish = finish + machine.matrix.start_cycles + machine.matrix.latency_cycles
        finish = finish + _batched(rows.last[r], columns.last[c], batch)[0] * self._steps_of_taps
        return {"first": first, "last_store": store, "last_tile": finish}

    @cached_property
    def bound(self) -> np.ndarray:
        """Cycles that no run of a point goes below."""
        part = self._parts
        last = part["last_store"]
        begin = np.maximum(part["first"], part["before"])
        found = np.maximum(begin + part["rest"], part["compute"]) + last
        found = np.maximum(found, part["load"] + part["last_tile"] + last)
        found = np.maximum(found, part["first"] + part["last_tile"] + part["store"])
        if len(self.machine.dma_engines) == 1:
            moved = part["channel"] + part["other_loads"]
            found = np.maximum(found, moved / self.machine.dma_engines[0].channels)
        return np.floor(found).astype(np.int64) + 1  # the last instruction

    @cached_property
    def estimate(self) -> np.ndarray:
        """Cycles that a run is likely to take."""
        part, found = self._parts, self.bound.astype(np.float64)
        is_alone = (self.input_buffers == 1) | (
            (self.weight_buffers == 1) & (self.cut.repeated is None)
        )
        serial = part["load"] + part["multiply"] + part["last_store"]
        found = np.where(is_alone, np.maximum(found, serial), found)
        # Loads stop with full buffers until the first chunk is computed.
        ahead = np.minimum(self.input_buffers, self.weight_buffers) / part["chunks"]
        stopped = part["before"] + part["load"] * np.maximum(0, 1 - ahead)
        found = np.maximum(found, stopped + part["last_tile"] + part["last_store"])
        stored = part["compute"] + part["store"]
        found = np.where(self.sum_buffers == 1, np.maximum(found, stored), found)
        return found + 0.02 * (part["load"] + part["compute"] + part["store"]) + self._micro

    @property
    def estimate_after_another(self) -> np.ndarray:
        """The same where the layer before leaves time to load constants and micro-operations."""
        return self.estimate - self._parts["before"] - self._micro

    @property
    def chunk_count(self) -> np.ndarray:
        """Steps of all tiles."""
        return self._parts["chunks"]

    @cached_property
    def _micro(self) -> np.ndarray:
        """Loads of micro-operations: each mix of buffers has sequences of its own."""
        taps = self.layer.kernel[0] * self.layer.kernel[1]
        chunks = self._parts["chunks"]
        mixes = np.lcm(np.maximum(self.input_buffers, 1), self.sum_buffers)
        if self.cut.repeated is None:
            mixes = np.maximum(mixes, np.minimum(self.weight_buffers, chunks)) * np.where(
                self.weight_buffers > 2, 2, 1)  # fmt: skip
        classes = 1 + (self.axes[0].count[self.rows_at] > 1) + (
            self.axes[1].count[self.columns_at] > 1)  # fmt: skip
        count = np.minimum(mixes * classes, chunks)
        is_one = self.rows * self.columns == 1  # taps are loops then
        taps = taps if self.cut.partials == 1 else 1
        each = self.outputs * self.inputs * np.where(is_one, 1, taps)
        is_kept = count * each <= self.machine.depth("micro_operations")
        loaded = np.where(is_kept, count, chunks) * each
        route = self._route("micro_operations", True, -1)
        starts = np.where(is_kept, np.minimum(count, 3), chunks) * route.fixed_cycles
        return starts + self._moved("micro_operations", True, -1, loaded)


def _batched(rows: np.ndarray, columns: np.ndarray, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps of the array for each weight, and instructions, of a tile: along its rows, or its
    columns where these are fewer steps."""
    along, across = -(-columns // batch) * rows, -(-rows // batch) * columns
    count = np.where(across < along, rows, columns)
    calls = (count >= batch).astype(np.int64) + (count % batch > 0)
    return np.minimum(along, across), calls


def _counts(wanted: np.ndarray, per_tile: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Counts of buffers, no more than there is to hold."""
    found = np.where(wanted == CHUNK, per_tile, wanted)
    found = np.where(wanted == AHEAD, per_tile + 1, found)
    found = np.where(wanted == DOUBLE, 2 * per_tile, found)
    found = np.where(wanted == ALL, most, found)
    return np.maximum(1, np.minimum(found, np.maximum(most, 1)))


def _all_buffers() -> Iterator[tuple[int, int, int, int]]:
    counts = (1, 2, CHUNK, AHEAD, DOUBLE, ALL)
    yield from itertools.product(range(len(ORDERS)), counts, counts, (1, 2))
