"""From a module of launches and kernels to what a device runs: source text, offsets, weights.

    module at level memory, MemoryPlan   ->   Program(source, launches, ports, taps) and weights

Code generation translates decisions and makes none: offsets come from the memory plan, kernels
are printed as they are scheduled. Any level from kernels on can be built: compute definitions are
lowered to textbook loops first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue

from explorer.ir.deferred import ArrayForm, Deferred
from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.evaluation import entry_function
from explorer.ir.functions.calls import only_device_function, returned_values
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.layout import haloed_shape, physical_shape, rounded_channels
from explorer.ir.operation import identity_of
from explorer.ir.origins import sources_of
from explorer.ir.program import Snapshot
from explorer.ir.sizes.ranges import open_size_of
from explorer.ir.structure import value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import element_type_of, layout_of, numpy_dtype, static_shape
from explorer.ir.weights import Weights
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.languages import print_kernel
from explorer.kernels.printing.printer import PrintedKernel
from explorer.kernels.program.translation_unit import emit_program
from explorer.memory.planning import buffer_bytes
from explorer.results import (
    Argument,
    KernelRecord,
    Launch,
    OpenDimension,
    PhaseRecord,
    Port,
    Program,
    ScheduleStep,
    SourceText,
    WeightSlot,
)
from explorer.results.program import Chain, ProgramMemory, Tap

ALIGNMENT_BYTES = 64
PACKED_LEVELS = ("scheduled", "memory")


@dataclass(frozen=True)
class BuiltProgram:
    """A program and the block of weights that it reads."""

    program: Program
    packed: Deferred
    parts: Mapping[str, BuiltProgram] = field(default_factory=dict)
    """By the function's name, where there are several; then this is the sum of them."""
    host: HostFunction | None = None
    """What the host runs in the place of a program; only of a part."""

    @property
    def weights(self) -> np.ndarray:
        """The block: constant bytes, every weight at its offset. Waits until it is packed."""
        return self.packed.array()


class SharedBlock(Protocol):
    """A block of weights that several programs read."""

    @property
    def size_bytes(self) -> int: ...

    def place(self, size_bytes: int, content: Callable[[], np.ndarray]) -> int:
        """The offset of a weight in the block."""
        ...

    def first(self, size_bytes: int) -> np.ndarray:
        """The first bytes of the block, constant."""
        ...


@dataclass(frozen=True)
class KernelText:
    source: SourceText
    phases: tuple[PhaseRecord, ...]


@dataclass(frozen=True)
class ProgramText:
    """What a device is given to build, and where each kernel's own text is shown."""

    source: SourceText
    kernels: Mapping[str, KernelText]
    chain: Chain | None = None


MakeText = Callable[[Mapping[str, func.FuncOp], Sequence[Launch], int | None], ProgramText]
"""From kernels of loops by name, in order, and the launches; the number is where in the arena the
size of an open dimension lies."""

PrintOne = Callable[[str, func.FuncOp, str, bool], PrintedKernel]
"""From a language, a kernel of loops, its name and whether it may be chained."""


def build_program(
    snapshot: Snapshot,
    offsets: Mapping[str, int],
    arena_bytes: int,
    target: str,
    language: str | MakeText,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    steps: Mapping[str, Sequence[ScheduleStep]] | None = None,
    function: func.FuncOp | None = None,
    memories: Sequence[ProgramMemory] = (),
    spaces: Mapping[str, str] | None = None,
    block: SharedBlock | None = None,
) -> BuiltProgram:
    """Prints every kernel of a device function and lays out its launches.

    `language`: the name of a printed one, or what makes the text of a backend of one's own.
    `function`: by default the only one on a device. `offsets`: of every value and scratch buffer
    by name, in bytes. `input_names` and `output_names` are the ports' names in order (default: the
    values' own). `steps`: those of every kernel's schedule, for the records. `memories`, `spaces`:
    the target's, where it has several, and in which one every value and scratch buffer lies.
    `block`: where the weights lie that earlier programs have; by default there are none.
    """
    if function is None:
        function = only_device_function(snapshot.program)
    make_text = printed_in(language) if isinstance(language, str) else language
    builder = _Builder(snapshot, function, offsets, spaces or {}, block)
    launches = [builder.launch(op) for op in builder.launches]
    packed = builder.pack_weights()  # while the kernels are printed
    used = {launch.kernel for launch in launches}
    kernels = {name: builder.lowered(name) for name in builder.kernels if name in used}
    arena_bytes = max(arena_bytes, ALIGNMENT_BYTES)
    size = builder.open_dimension(arena_bytes)
    size_offset = None
    if size is not None:
        size_offset = size.offset_bytes
        arena_bytes = size.offset_bytes + ALIGNMENT_BYTES
    text = make_text(kernels, launches, size_offset)
    program = Program(
        target=target,
        source=text.source,
        kernels=tuple(
            builder.kernel_record(name, kernel, launches, (steps or {}).get(name, ()))
            for name, kernel in text.kernels.items()
        ),
        launches=tuple(launches),
        inputs=builder.ports(list(function.body.block.args), input_names, builder.rows("inputs")),
        outputs=builder.ports(builder.results, output_names, builder.rows("outputs")),
        taps=tuple(builder.taps()),
        weights=tuple(builder.weight_slots.values()),
        arena_bytes=arena_bytes,
        memories=tuple(memories),
        weights_bytes=packed.form.size_bytes,
        size=size,
        chain=text.chain,
    )
    return BuiltProgram(program, packed)


def printed_in(
    language: str, is_chained: bool = True, print_one: PrintOne = print_kernel
) -> MakeText:
    """All kernels in one translation unit of a printed language; `is_chained` as in printing."""

    def make(
        kernels: Mapping[str, func.FuncOp], launches: Sequence[Launch], size_offset: int | None
    ) -> ProgramText:
        printed = [print_one(language, k, name, is_chained) for name, k in kernels.items()]
        emitted = emit_program(language, printed, launches, size_offset=size_offset)
        texts = {p.name: KernelText(p.source, p.phases) for p in printed}
        return ProgramText(emitted.source, texts, emitted.chain)

    return make


class _Builder:
    def __init__(
        self,
        snapshot: Snapshot,
        function: func.FuncOp,
        offsets: Mapping[str, int],
        spaces: Mapping[str, str],
        block: SharedBlock | None,
    ):
        self.snapshot = snapshot
        self.function = function
        self.offsets = offsets
        self.spaces = spaces
        self.is_packed = snapshot.level in PACKED_LEVELS
        self.kernels = snapshot.kernels
        self.launches = [op for op in function.body.block.ops if isinstance(op, LaunchOp)]
        last = function.body.block.last_op
        assert isinstance(last, ReturnOp)
        self.results = list(last.operands)
        self.weight_slots: dict[str, WeightSlot] = {}
        self.weights_end = 0
        self.block = block
        self.size = open_size_of(function, snapshot.program)

    # -- the open dimension ----------------------------------------------------------------------
    def open_dimension(self, arena_bytes: int) -> OpenDimension | None:
        """The dimension whose size is given at run time; it lies behind everything else."""
        if self.size is None:
            return None
        offset = -(-arena_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        kept = self.size.range
        return OpenDimension(kept.name, kept.lowest, kept.highest, offset)

    def rows(self, side: str) -> tuple[int, ...]:
        """Rows per unit of the open dimension, of every input or output."""
        if self.size is None:
            return ()
        return self.size.inputs if side == "inputs" else self.size.outputs

    # -- kernels ---------------------------------------------------------------------------------
    def lowered(self, name: str) -> func.FuncOp:
        """A kernel as loops."""
        kernel = self.kernels[name]
        if any(isinstance(op, GenericOp) for op in kernel.body.block.ops):
            kernel = lower_to_loops(kernel)
        return kernel

    def kernel_record(
        self,
        name: str,
        text: KernelText,
        launches: Sequence[Launch],
        steps: Sequence[ScheduleStep],
    ) -> KernelRecord:
        users = [op for op in self.launches if op.kernel.data == name]
        sizes = next(launch for launch in launches if launch.kernel == name).arguments
        kind = self.kernels[name].attributes["kernel.kind"]
        return KernelRecord(
            name=name,
            kind=str(kind.data),  # pyright: ignore[reportAttributeAccessIssue]
            operations=tuple(identity_of(op) for op in users),
            flops=2 * users[0].macs(),
            bytes_moved=sum(a.size_bytes for a in sizes if a.role != "scratch"),
            steps=tuple(steps),
            phases=text.phases,
            source=text.source,
        )

    # -- launches --------------------------------------------------------------------------------
    def launch(self, op: LaunchOp) -> Launch:
        operands, results = iter(op.operands), iter(op.results)
        arguments: list[Argument] = []
        scratch = 0
        for argument in kernel_arguments(self.kernels[op.kernel.data]):
            size = memref_bytes(argument.type)
            if argument.role == "scratch":
                name = f"{identity_of(op)}/scratch_{scratch}"
                space = self.spaces.get(name, "arena")
                scratch += 1
                arguments.append(
                    Argument(argument.name, space, self.offsets[name], size, "scratch")
                )
                continue
            value = next(results) if argument.role == "output" else next(operands)
            owner = value.owner
            if isinstance(owner, WeightOp):
                slot = self._weight_slot(owner.weight.data)
                arguments.append(
                    Argument(argument.name, "weights", slot.offset_bytes, size, argument.role)
                )
                continue
            offset = self.offsets[value_name(value)]
            if layout_of(value).pitch:  # its last plane ends with its own rows
                size = buffer_bytes(value, self.is_packed)
            space = self.spaces.get(value_name(value), "arena")
            arguments.append(Argument(argument.name, space, offset, size, argument.role))
        return Launch(identity_of(op), op.kernel.data, tuple(arguments), sources_of(op))

    def _weight_slot(self, name: str) -> WeightSlot:
        if name not in self.weight_slots:
            weights, offset = self.snapshot.weights, self.weights_end
            size = weights.form(name).size_bytes
            if self.block is not None:
                offset = self.block.place(size, lambda: weights[name])
            self.weight_slots[name] = WeightSlot(name, offset, size)
            self.weights_end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return self.weight_slots[name]

    def pack_weights(self) -> Deferred:
        """One constant block of bytes with every weight at its offset."""
        weights: Weights = self.snapshot.weights
        slots = tuple(self.weight_slots.values())
        block = self.block
        size_bytes = max(self.weights_end, ALIGNMENT_BYTES) if block is None else block.size_bytes
        form = ArrayForm((size_bytes,), np.dtype(np.uint8))
        if block is not None:
            return Deferred(form, lambda: block.first(size_bytes))
        return weights.later(form, lambda: packed_block(weights, slots, size_bytes))

    # -- values ----------------------------------------------------------------------------------
    def ports(
        self, values: Sequence[SSAValue], names: Sequence[str], rows: Sequence[int] = ()
    ) -> tuple[Port, ...]:
        chosen = list(names) or [value_name(v) for v in values]
        ports = []
        for name, value, count in zip(chosen, values, rows or [0] * len(values), strict=True):
            shape, dtype = static_shape(value), numpy_dtype(element_type_of(value))
            offset = self.offsets[value_name(value)]
            size_bytes = prod(shape) * dtype.itemsize
            ports.append(
                Port(
                    name=name,
                    element_type=dtype.name,
                    shape=shape,
                    offset_bytes=offset,
                    size_bytes=size_bytes,
                    rows=count,
                )
            )
        return tuple(ports)

    def taps(self) -> list[Tap]:
        taps = []
        results = [
            (s, i, r) for s, op in enumerate(self.launches) for i, r in enumerate(op.results)
        ]
        for step, index, value in results:
            shape, layout = static_shape(value), layout_of(value)
            if layout.pitch:
                continue  # a band of rows, which is read with the whole
            buffer_shape = physical_shape(shape, layout)
            block = layout.block
            if not self.is_packed and not layout.is_plain:
                rounded = (shape[0], rounded_channels(shape[1], layout), *shape[2:])
                buffer_shape, block = haloed_shape(rounded, layout), 0
            dtype = numpy_dtype(element_type_of(value))
            taps.append(
                Tap(
                    operation=identity_of(self.launches[step]),
                    result=index,
                    step=step,
                    offset_bytes=self.offsets[value_name(value)],
                    size_bytes=prod(buffer_shape) * dtype.itemsize,
                    element_type=dtype.name,
                    shape=buffer_shape,
                    logical_shape=shape,
                    block=block,
                    halo=layout.halo,
                )
            )
        return taps


def packed_block(
    weights: Mapping[str, np.ndarray], slots: Sequence[WeightSlot], size_bytes: int
) -> np.ndarray:
    """Constant bytes with every weight at its slot's offset."""
    block = aligned_zeros(size_bytes)
    for slot in slots:
        array = weights[slot.name]
        place = block[slot.offset_bytes : slot.offset_bytes + slot.size_bytes]
        place.view(array.dtype).reshape(array.shape)[...] = array
    block.flags.writeable = False
    return block


def aligned_zeros(size_bytes: int) -> np.ndarray:
    """Bytes that begin at a multiple of the alignment: a program can read them where they lie."""
    memory = np.zeros(size_bytes + ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + size_bytes]


def memref_bytes(kind: object) -> int:
    assert isinstance(kind, MemRefType)
    return prod(kind.get_shape()) * numpy_dtype(kind.element_type).itemsize


def host_ports(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """Names of the inputs and of the returned values in the entry function, in order."""
    inputs = [value_name(a) for a in entry_function(snapshot.program).body.block.args]
    return inputs, [value_name(value) for value in returned_values(snapshot.program)]
