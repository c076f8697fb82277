"""What weights take once they are coded, however they are cut into blocks.

coding = coding_of(layer, machine)       None where the machine decodes none
coding.block_bytes([(0, 9), (18, 27)])   of a block of these elements, one parameter for all
coding.least_bytes(0, 36)                that no blocks of them go below
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.tensors import unpacked
from explorer.npu.tiling import layouts
from explorer.targets.npu.coding import HEADER_BITS, code_bits
from explorer.targets.npu.machine import Machine, Route

Rows = Sequence[tuple[int, int]]
"""First element of each row, and the one after its last."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Coding:
    """Weights of a layer as they lie in memory, and the bits of their codes."""

    numbers: np.ndarray
    """i64 of [elements, numbers of one]."""
    bits: int
    """Of a number."""
    sums: np.ndarray
    """i64 of [parameters, elements + 1]: bits of the codes of all elements before one."""
    least: np.ndarray
    """i64 of [elements + 1]: the same with the best parameter for each, or as they are."""
    route: Route
    """That loads them."""

    @property
    def element_bytes(self) -> int:
        return self.numbers.shape[1] * self.bits // 8

    def block_bytes(self, rows: Rows) -> int:
        """Of a block of these elements; 0 where it is not worth it: it takes as many bytes as they
        do, or is decoded more slowly than they are moved."""
        bits = np.zeros(len(self.sums), np.int64)
        for first, end in rows:
            bits += self.sums[:, end] - self.sums[:, first]
        found = -(-(HEADER_BITS + int(bits.min())) // 8)
        whole = sum(end - first for first, end in rows) * self.element_bytes
        decoded = self.route.decoded_bytes_per_cycle
        assert decoded is not None
        rate = self.route.bytes_per_cycle
        cycles = max(_cycles(found, rate), _cycles(whole, decoded))
        return found if found < whole and cycles <= _cycles(whole, rate) else 0

    def least_bytes(self, first: int, end: int) -> float:
        """Of these elements: each lies in a block with one parameter, or as it is."""
        return (int(self.least[end]) - int(self.least[first])) / 8

    @property
    def least_of_element(self) -> float:
        """Bytes that no element goes below."""
        return int(np.diff(self.least).min(initial=0)) / 8

    def rows(self, rows: Rows) -> np.ndarray:
        """i64: numbers of these elements in order."""
        return np.concatenate([self.numbers[first:end].reshape(-1) for first, end in rows])


def coding_of(layer: Convolution, machine: Machine, content: str) -> Coding | None:
    """`content`: what the weights are loaded as."""
    space = machine.by_content[content]
    route = machine.route.get((machine.regions[-1].name, space.memory, True))
    if route is None or route.decoded_bytes_per_cycle is None:
        return None
    numbers = unpacked(layouts.weights(layer, machine), machine.weight_bits)
    numbers = numbers.reshape(-1, space.global_bytes * 8 // machine.weight_bits)
    bits = code_bits(numbers.reshape(-1), machine.weight_bits)
    each = bits.reshape(len(bits), *numbers.shape).sum(axis=2)
    best = np.minimum(each.min(axis=0), space.global_bytes * 8)
    return Coding(
        numbers=numbers, bits=machine.weight_bits, sums=_before(each), least=_before(best),
        route=route,
    )  # fmt: skip


@lru_cache(maxsize=16)
def without_decoders(machine: Machine) -> Machine:
    """The machine where all weights lie as they are."""
    routes = tuple(
        (ends, replace(one, decoded_bytes_per_cycle=None)) for ends, one in machine.routes
    )
    return replace(machine, routes=routes)


def least_bytes(weights: np.ndarray, machine: Machine) -> float:
    """Of weights of any order and any blocks, on the machine's route with the least."""
    bits = code_bits(weights.reshape(-1), machine.weight_bits)
    return int(np.minimum(bits.min(axis=0), machine.weight_bits).sum()) / 8


def _before(each: np.ndarray) -> np.ndarray:
    """Sums of all before one, along the last axis."""
    found = np.zeros((*each.shape[:-1], each.shape[-1] + 1), np.int64)
    np.cumsum(each, axis=-1, out=found[..., 1:])
    return found


def _cycles(size: int, rate: Fraction) -> int:
    return -(-size * rate.denominator // rate.numerator)
