"""What a tiled layer does, step by step: how long each takes, and what it occupies meanwhile.

Made from the tiles alone. Chunks of the same shape in the same buffers do the same, so that their
steps are made once; only whether their micro-operations have to be loaded again differs.

    load       a transfer per block of inputs, and the weights
    compute    constants of new channels; reset; multiply; of a tile's last chunk: rescale
    store      a transfer per block of outputs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from explorer.npu.micro import MicroScratchpad, products
from explorer.npu.tiles import (
    Chunk,
    TiledLayer,
    constants_per_block,
    input_blocks,
    input_pieces,
    most_padding,
    window,
)
from explorer.targets.npu.instructions import MicroOperation

LOAD, COMPUTE, STORE = range(3)
TO_COMPUTE, INPUTS_FREE, TO_STORE, SUMS_FREE = range(4)
"""What tokens say: two queues exchange them forwards and backwards."""

Bank = tuple[int, int]
"""A scratchpad, and one of its banks."""
Extent = tuple[str, int, int]
"""A content, and the first and last of its elements that are touched."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One instruction to be."""

    queue: int
    what: str
    """activations, weights, micro_operations, constants, reset, multiply, rescale, outputs or
    finish."""
    cycles: int
    """From its beginning to its end."""
    fixed_cycles: int
    """Of these, those that do not depend on how much it does."""
    amount: int = 0
    """Bytes that cross global memory, or steps of an engine."""
    dma: int = -1
    """The engine that moves; -1 where nothing is moved."""
    banks: frozenset[Bank] = frozenset()
    takes: int = -1
    """The token that it waits for; -1: none."""
    gives: int = -1
    """The token that it gives at its end."""


@dataclass
class Steps:
    """Steps of all chunks, in the order of the program."""

    tiled: TiledLayer
    micro: MicroScratchpad = field(init=False)

    def __post_init__(self) -> None:
        machine = self.tiled.machine
        self.layer, self.machine = self.tiled.layer, machine
        self.micro = MicroScratchpad(machine.depth("micro_operations"))
        self._sequences: dict[tuple[MicroOperation, ...], int] = {}
        self._known: dict[object, list[tuple[Step, int, int]]] = {}
        self._padding = most_padding(machine)
        self._batch = machine.batch if machine.set == "full" else 1

    def __iter__(self) -> Iterator[Step]:
        tiled = self.tiled
        buffers, tiles = tiled.buffers, tiled.tile_count
        chunks = tiles * -(-input_blocks(self.layer, self.machine) // tiled.inputs)
        constants = None
        for number, chunk in enumerate(tiled.chunks()):
            loads = [*self._inputs(chunk), *self._weights(chunk)]
            yield from _tokens(loads, INPUTS_FREE if number >= buffers else -1, TO_COMPUTE)
            if chunk.is_first:
                if constants != (chunk.group, chunk.outputs):
                    constants = chunk.group, chunk.outputs
                    yield self._constants(chunk)
                waits = SUMS_FREE if chunk.tile >= buffers else -1
                yield from _tokens(self._with_micro("reset", chunk), waits, -1)
            frees = INPUTS_FREE if number + buffers < chunks else -1
            yield from _tokens(self._with_micro("multiply", chunk), TO_COMPUTE, frees)
            if chunk.is_last:
                yield from _tokens(self._with_micro("rescale", chunk), -1, TO_STORE)
                is_waited = chunk.tile + buffers < tiles or chunk.tile == tiles - 1
                frees = SUMS_FREE if is_waited else -1
                yield from _tokens(list(self._outputs(chunk)), TO_STORE, frees)
        yield Step(queue=COMPUTE, what="finish", cycles=1, fixed_cycles=1, takes=SUMS_FREE)

    # ------------------------------------------------------------------------------ transfers

    def _transfer(
        self, queue: int, what: str, content: str, first: int, elements: int, moved: int
    ) -> Step:
        """`elements` of the scratchpad are touched from the first on, `moved` come from outside."""
        machine = self.machine
        space = machine.by_content[content]
        # Input and output lie in the first memory, what never changes in the last one.
        is_constant = what not in ("activations", "outputs")
        region = machine.regions[-1 if is_constant else 0].name
        route = machine.route[region, space.memory, queue != STORE]
        size = moved * space.global_bytes
        rate = route.bytes_per_cycle
        moving = -(-size * rate.denominator // rate.numerator)
        scratchpad = machine.scratchpads[space.memory]
        if scratchpad.lane_bytes_per_cycle is not None:
            port = scratchpad.lane_bytes_per_cycle * scratchpad.lanes
            moving = max(moving, int(-(-elements * space.element_bytes // port)))
        return Step(
            queue=queue, what=what, cycles=max(1, route.fixed_cycles + moving),
            fixed_cycles=route.fixed_cycles, amount=size, dma=route.engine,
            banks=self._banks([(content, first, first + elements - 1)]),
        )  # fmt: skip

    def _inputs(self, chunk: Chunk) -> Iterator[Step]:
        tall, wide = self._window(chunk)
        start = self.tiled.region("activations", chunk.buffer).address
        _, _, pieces = input_pieces(self.layer, chunk, self._padding)
        for index in range(len(chunk.inputs)):
            for offset, piece in pieces:
                rows = piece["y_size"] + piece["y_pad_before"] + piece.get("y_pad_after", 0)
                first = start + index * tall * wide + offset
                moved = piece["y_size"] * piece["x_size"]
                yield self._transfer(LOAD, "activations", "activations", first, rows * wide, moved)

    def _weights(self, chunk: Chunk) -> Iterator[Step]:
        taps = self.layer.kernel[0] * self.layer.kernel[1]
        is_whole = len(chunk.inputs) == input_blocks(self.layer, self.machine)
        pieces = 1 if is_whole else len(chunk.outputs)
        size = len(chunk.outputs) * len(chunk.inputs) * taps // pieces
        start = self.tiled.region("weights", chunk.buffer).address
        for piece in range(pieces):
            yield self._transfer(LOAD, "weights", "weights", start + piece * size, size, size)

    def _constants(self, chunk: Chunk) -> Step:
        size = len(chunk.outputs) * constants_per_block(self.machine)
        start = self.tiled.region("constants").address
        return self._transfer(COMPUTE, "constants", "accumulators", start, size, size)

    def _outputs(self, chunk: Chunk) -> Iterator[Step]:
        pixels = len(chunk.rows) * len(chunk.columns)
        for index in range(len(chunk.outputs)):
            first = self.tiled.sums_of(chunk) + index * pixels
            yield self._transfer(STORE, "outputs", "outputs", first, pixels, pixels)

    # ---------------------------------------------------------------------------------- loops

    def _with_micro(self, what: str, chunk: Chunk) -> list[Step]:
        """The steps of a kind, each behind the load of its micro-operations if it needs one."""
        shape = (
            what, len(chunk.outputs), len(chunk.inputs), len(chunk.rows), len(chunk.columns),
            chunk.buffer if what == "multiply" else 0, chunk.tile % self.tiled.buffers,
        )  # fmt: skip
        if shape not in self._known:
            make = {"reset": self._reset, "multiply": self._multiply, "rescale": self._rescale}
            self._known[shape] = list(make[what](chunk))
        found: list[Step] = []
        for step, sequence, length in self._known[shape]:
            begin, is_new = self.micro.place(sequence, length)
            if is_new:
                content = "micro_operations"
                found.append(self._transfer(COMPUTE, content, content, begin, length, length))
            read = self._banks([("micro_operations", begin, begin + length - 1)])
            found.append(replace(step, banks=step.banks | read))
        return found

    def _reset(self, chunk: Chunk) -> Iterator[tuple[Step, int, int]]:
        pixels, outputs = len(chunk.rows) * len(chunk.columns), len(chunk.outputs)
        for inner, batch, offset in self._batches(pixels):
            first = self.tiled.sums_of(chunk) + offset
            last = first + (outputs - 1) * pixels + (inner - 1) * self._batch + batch - 1
            step = self._loop("reset", outputs * inner, [("accumulators", first, last)])
            yield step, self._named([MicroOperation(destination=first)]), 1

    def _multiply(self, chunk: Chunk) -> Iterator[tuple[Step, int, int]]:
        layer, (tall, wide) = self.layer, self._window(chunk)
        stride_y, stride_x = layer.strides
        rows, columns = len(chunk.rows), len(chunk.columns)
        sources = self.tiled.region("activations", chunk.buffer).address
        weights = self.tiled.region("weights", chunk.buffer).address
        for inner, batch, offset in self._batches(columns):
            micro = list(products(self.tiled, chunk, offset))
            across = (inner - 1) * self._batch + batch - 1
            first = self.tiled.sums_of(chunk) + offset
            source = sources + offset * stride_x
            farthest = (len(chunk.inputs) - 1) * tall * wide + across * stride_x
            farthest += ((layer.kernel[0] - 1) * layer.dilations[0] + (rows - 1) * stride_y) * wide
            farthest += (layer.kernel[1] - 1) * layer.dilations[1]
            last = first + (len(chunk.outputs) * rows - 1) * columns + across
            extents = [
                ("accumulators", first, last),
                ("activations", source, source + farthest),
                ("weights", weights, weights + len(micro) - 1),
            ]
            step = self._loop("multiply", rows * inner * len(micro), extents)
            yield step, self._named(micro), len(micro)

    def _rescale(self, chunk: Chunk) -> Iterator[tuple[Step, int, int]]:
        """Bias, factors, and what the target needs beside them to round and to clip."""
        scaling = self.layer.rescaling
        pixels, outputs = len(chunk.rows) * len(chunk.columns), len(chunk.outputs)
        sums = self.tiled.sums_of(chunk)
        start, each = self.tiled.region("constants").address, constants_per_block(self.machine)
        mine: Extent = ("accumulators", sums, sums + outputs * pixels - 1)
        is_vta = self.machine.set == "vta"
        # Of each: which constant of a block it begins with, and how many it reads.
        reads = [(0, 1), (1, 1 if is_vta else 2)]
        if is_vta:
            reads += [(0, 0)] * (2 + (scaling.zero_point != 0))
        for constant, count in reads:
            first = start + constant
            last = first + (outputs - 1) * each + count - 1
            extents = [mine, ("accumulators", first, last)] if count else [mine]
            step = self._loop("rescale", outputs * pixels, extents)
            yield step, self._named([MicroOperation(sums, first)]), 1

    def _loop(self, what: str, steps: int, extents: Sequence[Extent]) -> Step:
        machine = self.machine
        engine = machine.vector if what == "rescale" else machine.matrix
        assert engine is not None
        each = machine.vector_step_cycles if what == "rescale" else machine.multiply_step_cycles
        fixed = engine.start_cycles + engine.latency_cycles
        return Step(
            queue=COMPUTE, what=what, cycles=max(1, fixed + steps * each), fixed_cycles=fixed,
            amount=steps, banks=self._banks(extents),
        )  # fmt: skip

    def _named(self, micro: list[MicroOperation]) -> int:
        """A number for a sequence: sequences of the same operations are the same."""
        return self._sequences.setdefault(tuple(micro), len(self._sequences))

    def _batches(self, count: int) -> Iterator[tuple[int, int, int]]:
        """How often the array takes whole batches of positions, and what is left."""
        whole, rest = divmod(count, self._batch)
        for inner, batch, offset in ((whole, self._batch, 0), (1, rest, whole * self._batch)):
            if inner and batch:
                yield inner, batch, offset

    def _window(self, chunk: Chunk) -> tuple[int, int]:
        return (
            window(self.layer, 0, len(chunk.rows)),
            window(self.layer, 1, len(chunk.columns)),
        )

    def _banks(self, extents: Sequence[Extent]) -> frozenset[Bank]:
        found: set[Bank] = set()
        for content, first, last in extents:
            space = self.machine.by_content[content]
            memory = self.machine.scratchpads[space.memory]
            size = (memory.size_bytes or 0) // memory.banks
            begin, end = first * space.element_bytes, (last + 1) * space.element_bytes - 1
            banks = range(begin // size, min(end // size, memory.banks - 1) + 1)
            found.update((space.memory, bank) for bank in banks)
        return frozenset(found)


def _tokens(steps: list[Step], takes: int, gives: int) -> list[Step]:
    """The first one waits for a token, the last one gives one."""
    steps[0] = replace(steps[0], takes=takes)
    steps[-1] = replace(steps[-1], gives=gives)
    return steps
