"""When Winograd's form of a convolution pays: a small model of what it multiplies, moves and does.

    64 -> 64 channels, 56 x 56:   direct      3.9 Mcycles   9 products per output and channel
                                  winograd2   2.2 Mcycles   4, transforms of 16 values per 4 outputs
                                  winograd4   1.4 Mcycles   2.25, transforms of 36 values per 16

    products     a step of the sum over channels: what takes longest of arithmetic, loads and the
                 latency of additions, and the weights, which come from a farther cache
    transforms   every vector that goes into a transform or comes out of it
    memory       weights, 16 or 36 per filter instead of 9, and what else is in no cache nearby

Products and memory overlap but for a part of the shorter one; the transforms are added. How fast a
core multiplies and loads, what its caches hold and give, its description says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.rules import (
    FLOAT_BYTES,
    broadcast_registers,
    load_parts,
    multiply_parts,
)
from explorer.kernels.cost.tiles import AS_GOOD, USUAL_VECTORS, Work, choose
from explorer.kernels.schedules.choices import divisors
from explorer.kernels.schedules.machine import USUAL_CACHES
from explorer.kernels.steps.winograd.matrices import TAPS, VARIANTS

WEIGHT_STREAM_CYCLES = 0.5
"""Extra cycles per weight vector."""
CYCLES_PER_VALUE = 3.5
"""Of a transform, for each vector that is read or written: it comes from the second-level cache."""
NEXT_SHARE = 0.5
"""Of the cache behind the second-level one: what of a layer stays there."""
NEAR_SHARE = 0.6
"""Of the second-level cache: what of a layer may stay there beside the rest."""
BAND_SHARE = 0.3
"""The same for the products of a band."""
NOT_HIDDEN = 0.25
"""Of the shorter one of products and memory: waiting is only mostly hidden."""
MIN_GAIN = 1.25
MIN_CYCLES = 40_000
"""Of the direct form: about 10 microseconds."""
MAX_TASKS = 16
THREADS = 2
"""Tasks should be enough for so many threads, none of which waits for the other."""
MAX_TILE = 28
LEFT_OVER = 1.1
"""Rows that bands leave over are a second nest; without is better when nothing else differs."""

ORDERS: Mapping[str, str] = MappingProxyType(
    {
        "bands": "every task transforms its own bands of tiles: all of it stays in a cache",
        "groups": "all tiles are transformed first, and groups of output channels are the tasks",
    }
)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A 3x3 convolution of stride 1, channels in blocks."""

    images: int
    input_blocks: int
    output_blocks: int
    height: int
    width: int
    block: int
    least: tuple[int, int] | None = None
    """Rows and columns at the smallest sizes of a call, where a call decides them."""

    def tiles(self, outputs: int) -> tuple[int, int]:
        """(rows, columns) of tiles of that many outputs each way."""
        return -(-self.height // outputs), -(-self.width // outputs)

    def of_calls(self) -> list[Layer]:
        """At the largest, the middle and the smallest sizes that calls have."""
        if self.least is None:
            return [self]
        height, width = self.least
        middle = round((height * self.height) ** 0.5), round((width * self.width) ** 0.5)
        smaller = (middle, self.least)
        return [self, *(replace(self, height=h, width=w, least=None) for h, w in smaller)]

    @property
    def input_channels(self) -> int:
        return self.input_blocks * self.block

    @property
    def weights(self) -> int:
        """Filters, one for every pair of channels."""
        return self.input_channels * self.output_blocks * self.block


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the tiles of a layer are gone through; see the step `winograd`."""

    outputs: int
    vectors: int
    pixels: int
    rows: int
    band: int
    bands: int
    order: str
    why: str = ""
    parts: int = 1


@dataclass(frozen=True)
class Prediction:
    """Cycles of one launch on one thread."""

    products: float
    transforms: float
    memory: float
    plan: Plan | None = None

    @property
    def cycles(self) -> float:
        longer, shorter = max(self.products, self.memory), min(self.products, self.memory)
        return longer + NOT_HIDDEN * shorter + self.transforms


def mean_of(predictions: Sequence[Prediction]) -> Prediction:
    """The geometric mean of the cycles at several sizes, with the plan of the first one."""
    cycles = prod(one.cycles ** (1 / len(predictions)) for one in predictions)
    return Prediction(cycles, 0.0, 0.0, predictions[0].plan)


def order_by_cycles(predictions: Mapping[str, Prediction]) -> list[str]:
    """The names, the best first: a Winograd form only where it clearly pays.

    It costs precision and time to compile, so that a small gain or a small layer is no reason.
    """
    direct = predictions["direct"].cycles
    others = sorted((p.cycles, name) for name, p in predictions.items() if name != "direct")
    is_worth_it = direct >= MIN_CYCLES and others[0][0] * MIN_GAIN <= direct
    names = [name for _, name in others]
    return [*names[:1], "direct", *names[1:]] if is_worth_it else ["direct", *names]


def explain(predictions: Mapping[str, Prediction], is_mean: bool = False) -> str:
    """All of them: `predicted cycles: winograd4 1,308,000, direct 3,871,000`."""
    sizes = sorted((p.cycles, name) for name, p in predictions.items())
    listed = ", ".join(f"{name} {round(cycles, -3):,.0f}" for cycles, name in sizes)
    return f"predicted cycles{', mean of three sizes' if is_mean else ''}: {listed}"


def cycles_per_step(points: int, vectors: int, machine: CostMachine) -> float:
    """Cycles in which one step of the reduction updates `points` x `vectors` sums."""
    if points == 0 or vectors == 0:
        return 0.0
    core, width = machine.core, FLOAT_BYTES * machine.vector_floats
    arithmetic = points * vectors * multiply_parts(width, machine) / core.arithmetic_units
    loads = (points + vectors * load_parts(width, machine)) / core.load_units
    longest = max(arithmetic, loads, core.multiply_add_latency_cycles)
    return longest + WEIGHT_STREAM_CYCLES * vectors


def predict_direct(layer: Layer, machine: CostMachine) -> Prediction:
    """The sum over channels and window, tile by tile."""
    steps = TAPS * TAPS * layer.input_channels
    point_bytes = FLOAT_BYTES * layer.input_channels
    work = Work(
        height=layer.height,
        width=layer.width,
        blocks=layer.output_blocks,
        steps=steps,
        point_bytes=point_bytes,
    )
    tile = choose(work, machine)
    steps = TAPS * TAPS * layer.input_channels * layer.images * layer.output_blocks / tile.vectors
    full, left = divmod(layer.width, tile.pixels)
    row = full * cycles_per_step(tile.rows * tile.pixels, tile.vectors, machine)
    if left:
        row += cycles_per_step(tile.rows * left, tile.vectors, machine)
    weights = TAPS * TAPS * layer.weights * FLOAT_BYTES
    memory = weights / _Caches.of(machine).memory_rate
    return Prediction(steps * row * layer.height / tile.rows, 0.0, memory)


def predict_winograd(layer: Layer, outputs: int, machine: CostMachine) -> Prediction:
    """The best plan for tiles of that many outputs, and its cycles.

    Of those that the model cannot tell apart one of about two vectors: fewer loads.
    """
    found = [
        (_with_idle_threads(layer, one), one)
        for one in (_predict(layer, plan, machine) for plan in _plans(layer, outputs, machine))
    ]
    least = min(cycles for cycles, _ in found)
    near = [(cycles, one) for cycles, one in found if cycles <= AS_GOOD * least]
    return min(near, key=lambda each: (_unusual_vectors(each[1]), each[0]))[1]


def weights_are_far(layer: Layer, outputs: int, machine: CostMachine) -> tuple[bool, str]:
    """Whether transformed weights do not stay in the second-level cache, and why."""
    weights = VARIANTS[outputs].points ** 2 * layer.weights * FLOAT_BYTES
    near = _Caches.of(machine).near_bytes
    return (
        weights > NEAR_SHARE * near,
        f"{weights:,} bytes of weights, {near:,} in the second cache",
    )


def _unusual_vectors(one: Prediction) -> int:
    assert one.plan is not None
    return abs(one.plan.vectors - USUAL_VECTORS)


@dataclass(frozen=True)
class _Caches:
    """What is asked of the second-level cache and of those behind it, in bytes and per cycle."""

    near_bytes: int
    near_rate: float
    """Of what comes from behind it."""
    next_bytes: int
    memory_rate: float

    @classmethod
    def of(cls, machine: CostMachine) -> _Caches:
        """Caches that a core has not are as large as the last one that it has."""
        levels = machine.caches or USUAL_CACHES
        near, far = levels[min(1, len(levels) - 1)], levels[-1]
        return cls(near.size_bytes, near.bytes_per_cycle, far.size_bytes, far.bytes_per_cycle)


def _plans(layer: Layer, outputs: int, machine: CostMachine) -> Iterator[Plan]:
    rows_of_tiles, columns = layer.tiles(outputs)
    most = machine.registers - broadcast_registers(machine)
    for vectors in divisors(layer.output_blocks):
        if vectors > machine.registers // 4:
            break
        for pixels in range(1, min(columns, MAX_TILE) + 1):
            for rows in range(1, rows_of_tiles + 1 if pixels == columns else 2):
                if rows * pixels * vectors + vectors > most:
                    break
                yield from _orders(layer, outputs, (vectors, pixels, rows), machine)


def _orders(
    layer: Layer, outputs: int, tile: tuple[int, int, int], machine: CostMachine
) -> Iterator[Plan]:
    vectors, pixels, rows = tile
    rows_of_tiles, columns = layer.tiles(outputs)
    whole = layer.height // outputs
    bands = max(whole // rows, 1)
    per_task = min(d for d in divisors(bands) if bands // d <= MAX_TASKS)
    yield Plan(
        outputs=outputs,
        vectors=vectors,
        pixels=pixels,
        rows=rows,
        band=rows,
        bands=per_task,
        order="bands",
    )
    points = VARIANTS[outputs].points ** 2
    row_bytes = points * columns * vectors * layer.block * FLOAT_BYTES
    most_bytes = BAND_SHARE * _Caches.of(machine).near_bytes
    legal = [d for d in range(rows, rows_of_tiles + 1, rows) if d * row_bytes <= most_bytes]
    even = [d for d in legal if rows_of_tiles % d == 0]
    yield Plan(
        outputs=outputs,
        vectors=vectors,
        pixels=pixels,
        rows=rows,
        band=max(even or legal or [rows]),
        bands=1,
        order="groups",
    )


def _predict(layer: Layer, plan: Plan, machine: CostMachine) -> Prediction:
    rows_of_tiles, columns = layer.tiles(plan.outputs)
    points = VARIANTS[plan.outputs].points ** 2
    full, left = divmod(columns, plan.pixels)
    products = 0.0
    bands, rest = divmod(rows_of_tiles, plan.band)
    for rows, count in ((plan.rows, bands * (plan.band // plan.rows)), (rest, 1)):
        cycles = full * cycles_per_step(rows * plan.pixels, plan.vectors, machine)
        cycles += cycles_per_step(rows * left, plan.vectors, machine)
        products += count * cycles
    products *= points * layer.input_channels * layer.images * layer.output_blocks / plan.vectors
    products *= LEFT_OVER if rest else 1.0
    tiles = rows_of_tiles * columns * layer.images
    values = 2 * points * layer.input_blocks + (points + plan.outputs**2) * layer.output_blocks
    transformed = points * layer.input_channels * tiles * FLOAT_BYTES
    weights = points * layer.weights * FLOAT_BYTES
    caches = _Caches.of(machine)
    memory = weights / caches.memory_rate
    if plan.order == "bands":
        memory += _read_again(weights, (bands + bool(rest)) * layer.images - 1, caches)
    else:
        memory += _read_again(transformed, 1 + layer.output_blocks / plan.vectors, caches)
    return Prediction(products, values * tiles * CYCLES_PER_VALUE, memory, plan)


def _read_again(size_bytes: int, times: float, caches: _Caches) -> float:
    """Cycles for something that is gone through repeatedly; none if it stays nearby."""
    if size_bytes <= NEAR_SHARE * caches.near_bytes:
        return 0.0
    is_next = size_bytes <= NEXT_SHARE * caches.next_bytes
    return size_bytes * times / (caches.near_rate if is_next else caches.memory_rate)


def _with_idle_threads(layer: Layer, one: Prediction) -> float:
    """Cycles, more where tasks are too few for some threads."""
    plan = one.plan
    assert plan is not None
    rows_of_tiles, _ = layer.tiles(plan.outputs)
    tasks = layer.output_blocks // plan.vectors
    if plan.order == "bands":
        tasks = -(-rows_of_tiles // plan.band // plan.bands)
    return one.cycles * -(-tasks // THREADS) * THREADS / tasks
