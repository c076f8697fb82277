"""A program in which quantization is simulated: one build, all thresholds and modes.

    program = simulated_program(model)
    with Simulator(program) as simulator:
        simulator.set({"image": kind, "relu1": None, ...})  None keeps a tensor float
        simulator.outputs(examples)                         for each output an array (N, ...)

What a layer costs is asked many hundred times. So nothing is built again: parameters of tensors are
four bytes each in the block of weights, and the weights of a layer are copied from one of two
packed blocks, that of the model and the one that was rounded. Sums are those of floats: scales,
zero points and what saturates are exact, the rounding of requantization is that of the next tensor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func

from explorer.closing import Closing
from explorer.compilation import Compilation, compile_model
from explorer.compilation.settings.settings import default_pipeline, device_for
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.requantization import integer_limits
from explorer.ir.rewriting.passes import Pass
from explorer.ir.top.quantization.simulated import TABLES, UNQUANTIZED
from explorer.ir.types import QuantizedType
from explorer.passes import before_quantizing
from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.passes.simplify.eliminate_dead_code import EliminateDeadCode
from explorer.quantization.corrections.correct_bias import CorrectBias
from explorer.quantization.corrections.round_weights import RoundWeights
from explorer.quantization.simulate import (
    SUFFIX,
    SimulateTensors,
    SimulateWeights,
    switched_weights,
    table_names,
)
from explorer.results.program import Program
from explorer.runtime.native.program import NativeProgram

ALIGNMENT_BYTES = 64
MAX_WORKERS = 8
Place = tuple[int, int]
"""Offset and size in the block of weights, in bytes."""


@dataclass(frozen=True)
class SimulatedProgram:
    """The program and both blocks of its weights; a process of joblib's can be sent one."""

    program: Program
    weights: np.ndarray
    """(bytes,) u8: those of the model."""
    rounded: np.ndarray
    """(bytes,) u8: the same, where weights of products are signed bytes times their scale."""
    tables: Mapping[str, Sequence[int]]
    """By tensor, in the program's order, the offsets of its scale, lowest and highest number."""
    layers: Mapping[str, Sequence[Place]]
    """By tensor, where the weights lie that are multiplied with it."""
    macs: Mapping[str, int]
    """By tensor, the multiply-adds of the products that read it."""
    total_macs: int

    @property
    def tensors(self) -> list[str]:
        return list(self.tables)


def simulated_program(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    returns_logits: bool = False,
    integers_only: bool = False,
    corrections: Sequence[Pass] = (),
    weight_bits: int = 8,
) -> SimulatedProgram:
    """Compiles it for this processor.

    returns_logits: whether outputs are what a softmax at the end reads; integers_only: whether it
    stands for a target without floats, on which more tensors are quantized; corrections: passes
    before the quantization that keep what the program computes; weight_bits: of rounded weights.

    Raises:
        InputError: where nothing can be quantized, or the host computes a part of the model.
    """
    plain = compile_model(model, "cpu", dimensions=dimensions, tuned=False)
    tensors = SimulateTensors(returns_logits, integers_only)
    ahead = (*corrections, tensors)
    floats = _without_rounding(plain, ahead)
    made, rounded = (
        plain.fork(pipeline=_passes(plain, ahead, SimulateWeights(is_rounded, floats, weight_bits)))
        for is_rounded in (False, True)
    )
    if made.built.parts:
        raise InputError(
            "quantization cannot be simulated where the host computes a part of the model",
            hint="explorer compile --no-host says which operations have no compiled form",
        )
    tables, layers, macs = _places(made[SimulateWeights.name].before, made.program)
    if not tables:
        raise InputError("nothing in this model can be quantized: it has no products of floats")
    total = sum(op.macs() for op in _operations(made[SimulateWeights.name].before))
    blocks = made.built.weights, rounded.built.weights
    assert made.program.weights == rounded.program.weights
    return SimulatedProgram(made.program, *blocks, tables, layers, macs, total)


def _without_rounding(plain: Compilation, ahead: Sequence[Pass]) -> Snapshot | None:
    """The program before its weights get names, without the corrections that are only for weights
    that are rounded; None where there are none of these."""
    others = [pass_ for pass_ in ahead if not isinstance(pass_, RoundWeights | CorrectBias)]
    if len(others) == len(ahead):
        return None
    pipeline = _passes(plain, others, SimulateWeights())
    end = next(i for i, p in enumerate(pipeline) if isinstance(p, SimulateWeights)) + 1
    return plain.fork(pipeline=pipeline[:end])[SimulateWeights.name].before


def _passes(plain: Compilation, ahead: Sequence[Pass], weights: SimulateWeights) -> list[Pass]:
    """The target's, with the simulation where a table would quantize, and weights behind fusion."""
    *_, tensors = ahead
    assert isinstance(tensors, SimulateTensors)
    before = before_quantizing(tensors.integers_only)
    passes = [
        p
        for p in default_pipeline(plain.settings, device_for(plain.settings.target))
        if not isinstance(p, tuple(type(pass_) for pass_ in before))
    ]
    first = next(i for i, p in enumerate(passes) if isinstance(p, ComputeInIntegers))
    last = next(i for i, p in enumerate(passes) if isinstance(p, EliminateDeadCode)) + 1
    begun = [*passes[:first], *before, *ahead, *passes[first:last]]
    return [*begun, weights, EliminateDeadCode(), *passes[last:]]


def _places(
    snapshot: Snapshot, program: Program
) -> tuple[dict[str, list[int]], dict[str, list[Place]], dict[str, int]]:
    """Where tables and weights of every tensor lie, and the multiply-adds beside it."""
    function = entry_function(snapshot.program)
    assert isinstance(function, func.FuncOp)
    offsets = {slot.name: slot.offset_bytes for slot in program.weights}
    tables = {
        tensor: [offsets[f"{name}.{table}"] for table in TABLES]
        for tensor, name in table_names(function).items()
        if f"{name}.{TABLES[0]}" in offsets
    }
    layers: dict[str, list[Place]] = {tensor: [] for tensor in tables}
    macs = dict.fromkeys(tables, 0)
    for op, _, _, tensor in switched_weights(function):
        head = f"{identity_of(op)}{SUFFIX}"
        places = [s for s in program.weights if s.name == head or s.name.startswith(f"{head}.")]
        layers[tensor] += [(s.offset_bytes, s.size_bytes) for s in places]
        assert isinstance(op, TopOperation)
        macs[tensor] += op.macs()
    return tables, layers, macs


def _operations(snapshot: Snapshot) -> list[TopOperation]:
    function = entry_function(snapshot.program)
    return [op for op in function.body.block.ops if isinstance(op, TopOperation)]


class Simulator(Closing):
    """A simulated program that runs in this process, several examples at a time."""

    def __init__(self, program: SimulatedProgram, workers: int | None = None):
        self.program = program
        self._block = _aligned(program.weights)
        shared = self._block.view()
        shared.flags.writeable = False  # what is constant is not copied: all read this block
        count = min(workers or os.cpu_count() or 1, MAX_WORKERS)
        self._open = [NativeProgram(program.program, shared, isolated=False) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count)
        self._types: dict[str, QuantizedType | None] = {}
        self.set({})

    def set(self, types: Mapping[str, QuantizedType | None]) -> None:
        """The quantized type of every tensor; one that is None or missing stays float."""
        for tensor in self.program.tables:
            self.change(tensor, types.get(tensor))

    def change(self, tensor: str, kind: QuantizedType | None) -> None:
        """Another type for one tensor, and the weights beside it as it needs them."""
        if tensor in self._types and self._types[tensor] is kind:
            return
        self._types[tensor] = kind
        for offset, number in zip(self.program.tables[tensor], parameters_of(kind), strict=True):
            self._block[offset : offset + 4].view(np.float32)[0] = number
        source = self.program.weights if kind is None else self.program.rounded
        for offset, size in self.program.layers[tensor]:
            self._block[offset : offset + size] = source[offset : offset + size]

    def outputs(self, examples: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
        """For every output what all examples gave: (N, ...) each."""
        count = len(self._open)
        shares = [range(k, len(examples), count) for k in range(count)]
        found: list[list[np.ndarray]] = [[] for _ in examples]

        def run(number: int) -> None:
            for k in shares[number]:
                found[k] = list(self._open[number].run(examples[k]).values())

        list(self._pool.map(run, range(count)))
        return [np.stack(arrays) for arrays in zip(*found, strict=True)]

    def close(self) -> None:
        self._pool.shutdown()
        for program in self._open:
            program.close()


def parameters_of(kind: QuantizedType | None) -> tuple[float, float, float]:
    """Scale, lowest and highest number of `top.simulate_quantization`."""
    if kind is None:
        return UNQUANTIZED
    low, high = integer_limits(kind.storage)
    zero = int(kind.zero_point_array[0])
    return float(kind.scale_array[0]), float(low - zero), float(high - zero)


def _aligned(block: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of `ALIGNMENT_BYTES`."""
    memory = np.empty(block.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    aligned = memory[start : start + block.nbytes]
    aligned[:] = block
    return aligned
