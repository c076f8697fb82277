"""Small machines for tests, and the meaning of instructions in NumPy, one number at a time."""

from __future__ import annotations

import math

import numpy as np

from explorer.ir.requantization import (
    FixedPoint,
    Requantization,
    multiplied,
)
from explorer.targets import load_target
from explorer.targets.npu.encoding import decode_micro, encode_micro
from explorer.targets.npu.instructions import (
    EXPONENTIALS,
    Load,
    MicroOperation,
    Multiply,
    Store,
    Vector,
)
from explorer.targets.npu.machine import describe

ONE_QUEUE = {
    "queues": {
        "all": {
            "loads": ["activations", "weights", "micro_operations", "accumulators", "tables"],
            "stores": ["accumulators"],
            "engines": ["matrix", "vector"],
        }
    }
}


def machine(name="odd-12x20", **overrides):
    return describe(load_target(name, overrides))


def in_order(name="odd-12x20", **overrides):
    """The machine with one queue, so that instructions run in the order in which they stand."""
    queue = dict(ONE_QUEUE["queues"]["all"])
    if not load_target(name).engine("vector").table_entries:
        queue["loads"] = queue["loads"][:-1]
    return machine(name, queues={"all": queue}, **overrides)


def tile_image(machine):
    """Global memory for `tiles`: one micro-operation per buffer, and numbers."""
    micro = encode_micro([MicroOperation(), MicroOperation(source=64)], machine)
    return micro.ljust(65536, b"\1")


def tiles(count, buffers):
    """Loads and multiplications of VTA in turn, of as many buffers; then the sums are stored."""
    program = [
        Load(memory="micro_operations", scratchpad_address=0, global_address=0, x_size=2),
        Load(memory="weights", scratchpad_address=0, global_address=0, x_size=1),
    ]
    for tile in range(count):
        waits = tile >= buffers  # for the buffer to be free again
        at = 64 * (tile % buffers)
        program.append(Load(memory="activations", scratchpad_address=at, global_address=0,
                            x_size=64, pop_after=waits, push_after=True))  # fmt: skip
        buffer = tile % buffers
        micro = {"micro_begin": buffer, "micro_end": buffer + 1}
        if tile == 0:
            program.append(Multiply(**micro, reset=True))
        program.append(Multiply(**micro, outer=64, inner=3, source_outer=1, pop_before=True,
                                push_before=tile + buffers < count))  # fmt: skip
    program.append(Vector(operation="add", use_immediate=True, micro_begin=0, micro_end=1,
                          push_after=True))  # fmt: skip
    program.append(Store(memory="outputs", scratchpad_address=0, global_address=2048, x_size=1,
                         pop_before=True))  # fmt: skip
    return program


def unpack(data, bits):
    """Signed numbers of 4, 8, 16 or 32 bits out of bytes, the low half of a byte first."""
    data = np.frombuffer(bytes(data), np.uint8)
    if bits == 4:
        nibbles = np.stack([data & 15, data >> 4], axis=-1).reshape(-1).astype(np.int64)
        return nibbles - 16 * (nibbles > 7)
    return data.view(f"<i{bits // 8}").astype(np.int64)


def pack(numbers, bits):
    numbers = np.asarray(numbers, np.int64)
    if bits == 4:
        nibbles = (numbers & 15).reshape(-1, 2)
        return (nibbles[:, 0] | nibbles[:, 1] << 4).astype(np.uint8).tobytes()
    return (numbers & ((1 << bits) - 1)).astype(f"<u{bits // 8}").tobytes()


def wrapped(number, bits):
    return (int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


class Reference:
    """Executes instructions in the order in which they stand, by their definition."""

    def __init__(self, machine, image):
        self.machine, self.image = machine, bytearray(image)
        self.pads = [bytearray(m.size_bytes) for m in machine.scratchpads]

    def bits(self, content):
        return {
            "weights": self.machine.weight_bits,
            "activations": self.machine.input_bits,
            "gathered": self.machine.input_bits,
            "diagonals": self.machine.weight_bits,
            "micro_operations": 8,
            "tables": 8,
        }.get(content, self.machine.accumulator_bits)

    def get(self, content, index):
        space = self.machine.by_content[content]
        assert 0 <= index < space.depth
        start = index * space.element_bytes
        return self.pads[space.memory][start : start + space.element_bytes]

    def put(self, content, index, data):
        space = self.machine.by_content[content]
        assert 0 <= index < space.depth and len(data) == space.element_bytes
        start = index * space.element_bytes
        self.pads[space.memory][start : start + space.element_bytes] = data

    def run(self, instructions):
        for instruction in instructions:
            getattr(self, instruction.kind)(instruction)

    def finish(self, op):
        pass

    def load(self, op):
        if not op.x_size:
            return
        space = self.machine.by_content[op.memory]
        count = space.element_bytes * 8 // self.bits(op.memory)
        padding = pack([op.pad_value] * count, self.bits(op.memory))
        at = op.scratchpad_address
        for y in range(-op.y_pad_before, op.y_size + op.y_pad_after):
            for x in range(-op.x_pad_before, op.x_size + op.x_pad_after):
                data = padding
                if 0 <= y < op.y_size and 0 <= x < op.x_size:
                    start = (
                        op.global_address + y * op.x_stride + x * op.x_step
                    ) * space.global_bytes
                    data = self.other_end(op)[start : start + space.global_bytes]
                    if op.memory == "widened":
                        data = pack(unpack(data, self.machine.input_bits), self.bits("widened"))
                    if op.memory == "diagonals":
                        data = self.expanded(data)
                self.put(op.memory, at, data)
                at += 1

    def expanded(self, data):
        """[block of rows, column, row] with the numbers where column and row are the same."""
        rows, columns = self.machine.rows, self.machine.columns
        found = np.zeros((columns // rows, columns, rows), np.int64)
        for column, number in enumerate(unpack(data, self.machine.weight_bits)):
            found[column // rows, column, column % rows] = number
        return pack(found.reshape(-1), self.machine.weight_bits)

    def store(self, op):
        space = self.machine.by_content[op.memory]
        for y in range(op.y_size):
            for x in range(op.x_size):
                data = self.get(op.memory, op.scratchpad_address + y * op.x_size + x)
                if op.memory == "outputs":
                    data = pack(unpack(data, self.bits("outputs")), self.machine.input_bits)
                start = (op.global_address + y * op.x_stride + x * op.x_step) * space.global_bytes
                self.other_end(op)[start : start + space.global_bytes] = data

    def other_end(self, op):
        """Global memory, or the scratchpad of activations."""
        inside = self.machine.by_content["activations"].memory
        return self.pads[inside] if op.on_chip else self.image

    def steps(self, op):
        if op.micro_end <= op.micro_begin:
            return
        data = b"".join(
            self.get("micro_operations", k) for k in range(op.micro_begin, op.micro_end)
        )
        for i in range(op.outer):
            for j in range(op.inner):
                for micro in decode_micro(data, self.machine):
                    yield (
                        micro.destination + i * op.destination_outer + j * op.destination_inner,
                        micro.source + i * op.source_outer + j * op.source_inner,
                        micro.weight,
                        i,
                        j,
                        micro.first,
                    )

    def sums(self, index):
        return unpack(self.get("accumulators", index), self.machine.accumulator_bits)

    def put_sums(self, index, numbers):
        bits = self.machine.accumulator_bits
        self.put("accumulators", index, pack([wrapped(n, bits) for n in numbers], bits))

    def multiply(self, op):
        m, held = self.machine, self.machine.rows_per_element
        for destination, source, weight, i, j, first in self.steps(op):
            weight += i * op.weight_outer + j * op.weight_inner
            replaces = op.replace and first
            for b in range(op.batch):
                at = destination + b * op.destination_step
                if op.reset or replaces:
                    self.put_sums(at, np.zeros(m.columns * held, np.int64))
                if op.reset:
                    continue
                x = unpack(self.get("activations", source + b * op.source_step), m.input_bits)
                w = unpack(self.get("weights", weight), m.weight_bits)
                product = x.reshape(held, m.rows) @ w.reshape(m.columns, m.rows).T
                self.put_sums(at, self.sums(at) + product.reshape(-1))

    def vector(self, op):
        for destination, source, *_ in self.steps(op):
            x = self.sums(destination)
            y = np.full_like(x, op.immediate) if op.use_immediate else self.sums(source)
            self.put_sums(
                destination, [computed(op.operation, *pair) for pair in zip(x, y, strict=True)]
            )

    def table(self, op):
        entries = self.machine.vector.table_entries
        for destination, source, *_ in self.steps(op):
            table = unpack(self.get("tables", op.table), self.machine.table_bits)
            index = np.clip(self.sums(source) + entries // 2, 0, entries - 1)
            self.put_sums(destination, table[index])

    def requantize(self, op):
        how = Requantization(self.machine.scheme, self.machine.rounding)
        for destination, source, *_ in self.steps(op):
            shifts = np.clip(self.sums(source + 1), 0, 62)
            factors = FixedPoint(self.sums(source), shifts)
            if how.scheme == "shift":
                factors = FixedPoint(np.ones_like(shifts), shifts)
            if op.biased:
                self.put_sums(destination, self.sums(destination) + self.sums(source + 2))
            value = multiplied(self.sums(destination), factors, how)
            value = value + op.offset
            self.put_sums(destination, value if op.wide else np.clip(value, op.low, op.high))

    def softmax(self, op):
        """In whole numbers of any size, cut to 64 and 32 bits where the definition says so."""
        m = self.machine
        length = (op.count - 1) * m.columns + min(op.valid, m.columns)
        for destination, source, *_ in self.steps(op) if op.count else ():
            constants = [
                self.sums(source + k).tolist() for k in range(m.row_constants(op.kind, op.count))
            ]
            multiplier, shift = constants[0][0], min(max(constants[1][0], 0), 62)
            exponentials = [n for element in constants[2:] for n in element][:EXPONENTIALS]
            ends = [self.sums(destination + k * op.step) for k in range(op.count)]
            greatest = max((n for element in [np.concatenate(ends).tolist()[:length]]
                            for n in element), default=0)  # fmt: skip

            def exponential(k, i, greatest=greatest, exponentials=exponentials, at=destination):
                distance = greatest - int(self.sums(at + k * op.step)[i])
                return exponentials[min(max(distance, 0), EXPONENTIALS - 1)]

            places = [divmod(index, m.columns) for index in range(length)]
            reciprocal = 2**60 // max(sum(exponential(k, i) for k, i in places), 1)
            for k, i in places:
                product = exponential(k, i) * reciprocal + 2**29
                share = wrapped(wrapped(product, 64) >> 30, 32)
                value = share * multiplier
                value = (value + (2**shift >> 1) >> shift) + op.offset
                numbers = self.sums(destination + k * op.step)
                numbers[i] = min(max(value, op.low), op.high)
                self.put_sums(destination + k * op.step, numbers)

    def normalize(self, op):
        """As `softmax` does; roots by the standard library."""
        m = self.machine
        length = (op.count - 1) * m.columns + min(op.valid, m.columns)
        places = [divmod(index, m.columns) for index in range(length)]

        def whole(low, high):
            return int(high) << 32 | int(low) % 2**32

        for destination, source, *_ in self.steps(op) if op.count else ():
            x = [int(self.sums(destination + k * op.step)[i]) for k, i in places]
            total = sum(x) if op.centered else 0
            epsilon = whole(self.sums(source)[0], self.sums(source + 1)[0])
            spread = wrapped(length * sum(n * n for n in x) - total**2 + epsilon, 64)
            spread = min(max(spread, 1), 2**62 - 1)
            halves = next(j for j in range(31) if spread << 2 * j >= 2**60)
            reciprocal = 2**61 // math.isqrt(spread << 2 * halves)
            below = next(j for j in range(64) if 4**j >= length)
            shift = 31 + below - halves
            for k, i in places:
                numbers = self.sums(destination + k * op.step)
                product = wrapped(length * int(numbers[i]) - total, 64) * reciprocal
                unit = wrapped(product + 2 ** (shift - 1), 64) >> shift
                lists = (source + 2 + each * op.count + k for each in range(3))
                factor, low, high = (self.sums(at)[i] for at in lists)
                value = wrapped(unit * int(factor) + whole(low, high) + (2**op.shift >> 1), 64)
                value = wrapped((value >> op.shift) + op.offset, 64)
                numbers[i] = min(max(value, op.low), op.high)
                self.put_sums(destination + k * op.step, numbers)


def computed(operation, x, y):
    x, y = int(x), int(y)
    if operation == "shift_right":
        return x >> min(y, 31) if y >= 0 else (x << -y if y >= -31 else 0)
    return {"minimum": min(x, y), "maximum": max(x, y), "add": x + y, "multiply": x * y}[operation]


__all__ = ["Reference", "in_order", "machine", "pack", "tile_image", "tiles", "unpack"]
