"""One bit of an emitted program's fields flipped: checks, the decoder or other numbers notice."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import explorer
from explorer.backends.npu.emitted import read_emitted
from explorer.runtime.npu import simulate
from explorer.targets.npu.assembly import line_of
from explorer.targets.npu.encoding import cached_formats, decode

sys.path.insert(0, str(Path(__file__).parents[2] / "runtime" / "npu"))
from npu_flips import flipped, is_behind, is_idle, noticed_by

SHAPE = (1, 2, 4, 4)


def small_network(folder, has_function):
    """Convolution, maximum of windows, function, sum, product, layer normalization and softmax, and
    its input."""
    random = np.random.default_rng(0)

    def weights(name, *shape):
        return numpy_helper.from_array(random.normal(0, 0.5, shape).astype(np.float32), name)

    rows = [
        helper.make_node("LayerNormalization", ["g", "scale", "shift"], ["h"]),
        helper.make_node("Softmax", ["h"], ["z"]),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "filters"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        *([helper.make_node("Sigmoid", ["c"], ["d"])] if has_function else []),
        helper.make_node("Add", ["c", "d" if has_function else "c"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "classes"], ["g" if has_function else "z"]),
        *(rows if has_function else []),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [weights("filters", 5, 2, 3, 3), weights("classes", 20, 3), weights("scale", 3),
         weights("shift", 3)],
    )  # fmt: skip
    path = folder / "small.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path, {"x": random.normal(0, 2, SHAPE).astype(np.float32)}


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """Machine, program and memory of the small network, by the target's name."""

    def of(target):
        folder = tmp_path_factory.mktemp("flips")
        model, inputs = small_network(folder, has_function=not target.startswith("vta"))
        table = explorer.calibrate(model, inputs, method="min-max", corrections=(),
                                   arithmetic="integer")  # fmt: skip
        # What stays on the chip is seen in the end only by what is made of it.
        c = explorer.compile(model, target, quantization=table, decisions={"group-layers": False})
        c.backend.emit(c.passes, c.target, folder / "out", 0)
        made, values = read_emitted(folder / "out"), c["place-on-device"].after.run(inputs)
        memory = np.frombuffer(made.image, np.uint8).copy()
        for name, place in made.inputs.items():
            place.write(memory, values[name], made.machine)
        return made.machine, made.program, memory

    return of


def one_of_each_kind(program, machine):
    """The number of the first instruction of every kind that has the most fields in use."""
    formats, found = cached_formats(machine), {}
    for number, op in enumerate(decode(program, machine)):
        used = sum(not is_idle(op, field.name) for field in formats.of(op.kind).fields)
        if used > found.get(op.kind, (0, 0))[0]:
            found[op.kind] = used, number
    return {kind: number for kind, (_, number) in found.items()}


def unnoticed_flips(machine, program, memory, numbers):
    """Fields that mean something and of which nothing notices the lowest bit nor the highest, and
    what noticed the others. Left out are pads behind all that is read."""
    instructions, formats = decode(program, machine), cached_formats(machine)
    right = simulate(program, memory, machine)
    found, noticed = [], set()
    for number in numbers:
        op = instructions[number]
        for field in formats.of(op.kind).fields:
            if is_idle(op, field.name):
                continue
            for bit in dict.fromkeys((0, field.bits - 1)):
                changed = flipped(program, machine, number, field, bit)
                if by := noticed_by(changed, memory, machine, right):
                    noticed.add(by)
                    break
            else:
                if not is_behind(op, field.name):
                    found.append((number, field.name, line_of(op)))
    return found, noticed


def test_flips_in_one_instruction_of_every_kind_are_noticed(emitted):
    machine, program, memory = emitted("tiny-8")
    numbers = one_of_each_kind(program, machine)
    assert set(numbers) == {kind.kind for kind in cached_formats(machine).kinds}
    found, noticed = unnoticed_flips(machine, program, memory, numbers.values())
    assert found == []
    assert noticed >= {"decoder", "image", "deadlock", "bounds", "unwritten"}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["vta-16", "tiny-8"])
def test_fields_that_mean_nothing_change_nothing(emitted, name):
    """So that what is left out above is no more than what a definition leaves out."""
    machine, program, memory = emitted(name)
    instructions, formats = decode(program, machine), cached_formats(machine)
    right = simulate(program, memory, machine)
    for number in one_of_each_kind(program, machine).values():
        op = instructions[number]
        for field in formats.of(op.kind).fields:
            if is_idle(op, field.name):
                changed = flipped(program, machine, number, field, 0)
                assert noticed_by(changed, memory, machine, right) == "", (number, field.name)
