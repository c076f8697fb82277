"""Feed the array: tiles of one convolution on a small NPU, in cycles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from explorer.course.puzzles.puzzle import Puzzle, Standing
from explorer.errors import InputError
from explorer.ir.requantization import Requantization, fixed_point
from explorer.npu import Convolution, LayerError, Rescaling, compile_layer, predict, tile_layer
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.machine import Machine, describe

TARGET = "tiny-8"
SHAPES = ((16, 32, 32), (32, 16, 32), (16, 32, 16))
"""Channels, rows, columns; one for each third student."""
FILTERS = 16
EXTENTS = (4, 8, 16, 32)
"""Of rows and columns of a tile."""
BUFFERS = (1, 2)
KEYS = ("rows", "columns", "outputs", "inputs", "buffers")
Sizes = tuple[int, int, int, int, int]


class FeedTheArray(Puzzle):
    """Sizes of a tile and buffers; a simulator counts the cycles."""

    name = "feed-the-array"
    title = "Feed the array"
    unit = "cycles"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the layer's input: channels, rows, columns."""
        return SHAPES[self.student % len(SHAPES)]

    @property
    def task(self) -> str:
        channels, rows, columns = self.shape
        return (
            f"A 3x3 convolution of {channels} channels of {rows}x{columns} with {FILTERS} filters "
            f"runs on {TARGET}. Choose its tiles: rows and columns of outputs, blocks of outputs "
            "and of inputs, and one or two buffers."
        )

    @property
    def moves(self) -> str:
        return (
            "puzzle.choices has the values; "
            "play({'rows': 4, 'columns': 8, 'outputs': 1, 'inputs': 1, 'buffers': 2})."
        )

    @property
    def proof(self) -> str:
        return "the cycles of all tiles with these values, which are predicted exactly"

    @cached_property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """What each number may be."""
        channels, rows, columns = self.shape
        block = _machine().rows
        return {
            "rows": tuple(e for e in EXTENTS if e <= rows),
            "columns": tuple(e for e in EXTENTS if e <= columns),
            "outputs": (1, -(-FILTERS // _machine().columns)),
            "inputs": (1, -(-channels // block)),
            "buffers": BUFFERS,
        }

    @cached_property
    def optimum(self) -> float:
        found = (_cycles(self.shape, sizes) for sizes in product(*self.choices.values()))
        return min(cycles for cycles in found if cycles is not None)

    def judged(self, state: Any) -> Standing:
        hint = f"a number for each of {', '.join(KEYS)}"
        if not isinstance(state, Mapping) or set(state) != set(KEYS):
            raise InputError("sizes by their names are asked for", hint=hint)
        for name in KEYS:
            value = state[name]
            if isinstance(value, bool) or value not in self.choices[name]:
                legal = ", ".join(map(str, self.choices[name]))
                raise InputError(f"{name} cannot be {value!r}", hint=f"one of {legal}")
        sizes: Sizes = tuple(int(state[name]) for name in KEYS)  # type: ignore[assignment]
        *tile, buffers = sizes
        machine, layer = _machine(), _layer(self.shape)
        try:
            made = compile_layer(layer, machine, sizes=tile, buffers=buffers)
        except LayerError as error:
            return Standing(None, str(error))
        x = np.random.default_rng(1).integers(-128, 128, layer.input_shape)
        found = simulate(made.program, made.image_with(x), machine)
        told = f"the array works in {found.utilization:.0%} of the cycles"
        return Standing(found.cycles, told)


@cache
def _machine() -> Machine:
    return describe(load_target(TARGET))


@cache
def _layer(shape: tuple[int, int, int]) -> Convolution:
    chance, machine = np.random.default_rng(0), _machine()
    assert machine.scheme and machine.rounding, "the shipped target states both"
    how = Requantization(machine.scheme, machine.rounding)
    factors = fixed_point(chance.uniform(0.001, 0.002, FILTERS), how)
    return Convolution(
        name="conv",
        input_shape=shape,
        weights=chance.integers(-128, 128, (FILTERS, shape[0], 3, 3)),
        bias=chance.integers(-1000, 1000, FILTERS),
        rescaling=Rescaling(how=how, multipliers=factors.multipliers, shifts=factors.shifts),
        pads=(1, 1, 1, 1),
        input_zero_point=-3,
    )


@cache
def _cycles(shape: tuple[int, int, int], sizes: tuple[int, ...]) -> int | None:
    """Predicted cycles of the layer in these tiles; None where they do not fit."""
    *tile, buffers = sizes
    try:
        tiled = tile_layer(_layer(shape), _machine(), sizes=tile, buffers=buffers)
    except LayerError:
        return None
    return predict(tiled).cycles
