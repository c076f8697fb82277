"""The backend of docs/adding-a-backend.md: it interprets scheduled loops, one after the other."""

import time

import numpy as np
from xdsl.dialects.builtin import VectorType

from explorer.backends.interface import Backend
from explorer.backends.kernel_path import processor_machine
from explorer.backends.records import MeasuredOn
from explorer.errors import UnsupportedError
from explorer.ir.inspection.printing import parse, show
from explorer.ir.structure import kernel_functions
from explorer.ir.types import numpy_dtype
from explorer.kernels.program.build import KernelText, ProgramText
from explorer.results import PhaseRecord, ProfileRecord, SourceText
from explorer.runtime.cache import ProgramKey
from explorer.runtime.executable import check_inputs
from explorer.runtime.profiles import median_events


def run_block(block, known):
    """Every operation in turn; `known` has the values so far."""
    for op in block.ops:
        if op.name in ARITHMETIC:
            known[op.results[0]] = ARITHMETIC[op.name](*(known[o] for o in op.operands))
        elif op.name in MEANINGS:
            MEANINGS[op.name](op, known)
        else:
            raise UnsupportedError(f"the toy backend has no meaning of {op.name}")


def run_loop(op, known):
    places = [known[o] for o in op.operands]
    (first,) = op.lowerBoundMap.data.eval(places[: len(op.lowerBoundOperands)], [])
    (last,) = op.upperBoundMap.data.eval(places[len(op.lowerBoundOperands) :], [])
    for index in range(first, last, op.step.value.data):
        known[op.body.block.args[0]] = index
        run_block(op.body.block, known)


def place(op, known):
    """The subscripts of a load or store; of a vector, those of its first element."""
    return tuple(op.map.data.eval([known[index] for index in op.indices], []))


def load(op, known):
    known[op.results[0]] = np.copy(known[op.memref][place(op, known)])


def store(op, known):
    known[op.memref][place(op, known)] = known[op.value]


def row(op, known, lanes):
    *outer, first = place(op, known)
    return known[op.memref][tuple(outer)][first : first + lanes]


def load_vector(op, known):
    known[op.results[0]] = np.copy(row(op, known, op.results[0].type.get_shape()[0]))


def store_vector(op, known):
    row(op, known, op.value.type.get_shape()[0])[...] = known[op.value]


def allocate(op, known):
    """An array of registers, of which each may be a vector."""
    shape, element = op.memref.type.get_shape(), op.memref.type.element_type
    if isinstance(element, VectorType):
        shape, element = (*shape, *element.get_shape()), element.element_type
    known[op.memref] = np.zeros(shape, numpy_dtype(element))


def constant(op, known):
    kind = op.result.type
    dtype = np.dtype(np.int64) if "index" in str(kind) else numpy_dtype(kind)
    known[op.result] = dtype.type(op.value.value.data)


def broadcast(op, known):
    known[op.results[0]] = np.full(op.results[0].type.get_shape(), known[op.operands[0]])


def in_turn(left, right):
    """a0, b0, a1, b1, ..."""
    return np.stack([left, right], axis=-1).reshape(-1)


ARITHMETIC = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "loop.interleave_low": lambda left, right: in_turn(left, right)[: len(left)],
    "loop.interleave_high": lambda left, right: in_turn(left, right)[len(left) :],
}
MEANINGS = {
    "affine.for": run_loop,
    "affine.load": load,
    "affine.store": store,
    "affine.vector_load": load_vector,
    "affine.vector_store": store_vector,
    "memref.alloca": allocate,
    "arith.constant": constant,
    "vector.broadcast": broadcast,
    "affine.yield": lambda op, known: None,
    "func.return": lambda op, known: None,
}


class Interpreted:
    """A program in the memory of this process."""

    def __init__(self, program, weights):
        self.program = program
        self.kernels = kernel_functions(parse("\n".join(program.source.lines)))
        self.spaces = {"arena": np.zeros(program.arena_bytes, np.uint8), "weights": weights}

    def run(self, inputs):
        return self.run_with_taps(inputs)[0]

    def run_with_taps(self, inputs, fed=None):
        taps = {}

        def read(number):
            for tap in (t for t in self.program.taps if t.step == number):
                key, value = (tap.operation, tap.result), self.view("arena", tap)
                taps[key] = value.copy()
                value[...] = (fed or {}).get(key, value)

        self.launch_all(inputs, read)
        return {p.name: self.view("arena", p).copy() for p in self.program.outputs}, taps

    def profile(self, inputs, repeats=20):
        stamps = [self.launch_all(inputs) for _ in range(repeats)]
        seconds = float(np.median([run[-1] - run[0] for run in stamps])) * 1e-9
        events = median_events(self.program, stamps, lane="toy")
        return ProfileRecord(
            device="a toy", threads=1, repeats=repeats, milliseconds=seconds * 1e3, events=events
        )

    def time(self, inputs, repeats=20):
        stamps = [self.launch_all(inputs) for _ in range(repeats + 1)]
        return [(run[-1] - run[0]) * 1e-9 for run in stamps[1:]]

    def close(self):
        self.kernels = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def launch_all(self, inputs, after=lambda number: None):
        """Start and end of every launch, in nanoseconds."""
        arrays = check_inputs(self.program, inputs)
        for port, array in zip(self.program.inputs, arrays, strict=True):
            self.view("arena", port)[...] = array
        stamps = []
        for number, launch in enumerate(self.program.launches):
            function = self.kernels[launch.kernel]
            stamps.append(time.perf_counter_ns())
            run_block(function.body.block, self.arguments(function, launch))
            stamps.append(time.perf_counter_ns())
            after(number)
        return stamps

    def arguments(self, function, launch):
        known = {}
        for value, argument in zip(function.body.block.args, launch.arguments, strict=True):
            end = argument.offset_bytes + argument.size_bytes
            data = self.spaces[argument.space][argument.offset_bytes : end]
            dtype = numpy_dtype(value.type.element_type)
            known[value] = data.view(dtype).reshape(value.type.get_shape())
        return known

    def view(self, space, value):
        """The array of a port or tap, where it lies."""
        data = self.spaces[space][value.offset_bytes : value.offset_bytes + value.size_bytes]
        return data.view(value.element_type).reshape(value.shape)


class ToyBackend(Backend):
    name = "toy"
    title = "loops"
    suffix = "mlir"

    def machine(self, target, device, lanes):
        return processor_machine("c", self.core(target), lanes)

    def text(self, kernels, launches, size_offset=None, is_chained=True):
        """The kernels' IR, below one another, and each for itself."""
        texts = {name: show(kernel, tags_by_location=True) for name, kernel in kernels.items()}
        lines = [line for text in texts.values() for line in text.lines]
        owners = [owner for text in texts.values() for owner in text.owners]
        source = SourceText("mlir", ("builtin.module {", *lines, "}"), ((), *owners, ()))
        return ProgramText(
            source,
            {name: KernelText(text, (PhaseRecord(name, 1),)) for name, text in texts.items()},
        )

    def open(self, built, device, opening):
        return Interpreted(built.program, built.weights)

    def key(self, program, device, name):
        source = "\n".join(program.source.lines)
        return ProgramKey(
            language=self.name,
            source=source,
            options=(),
            compiler="an interpreter",
            device="this process",
            name=name,
        )

    def measured_on(self, device, threads):
        return MeasuredOn(device="this process", compiler="an interpreter", threads=1)


BACKEND = ToyBackend()
