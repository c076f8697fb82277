"""Products with weights in blocks: C and OpenCL unpack them in registers, as their meaning says."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

BLOCK = 16
# Sums of at most 48 products in another order.
TOLERANCE = 2e-6


def product(rows, depth, columns, bits, has_zeros):
    """A product of `rows` rows with weights in blocks of 16, bias and relu behind."""
    generator = np.random.default_rng(7)
    blocks = -(-depth // BLOCK)
    constants = {
        "b": generator.integers(0, 256, (columns, blocks, 2 * bits), dtype=np.uint8),
        "scale": generator.uniform(0.1, 1, (columns, blocks)).astype(np.float32),
        "bias": generator.standard_normal(columns).astype(np.float32),
    }
    if has_zeros:
        shape = (columns, -(-blocks * bits // 8))
        constants["zero"] = generator.integers(0, 256, shape, dtype=np.uint8)
    names = ["x", "b", "scale", "zero" if has_zeros else "", "", "bias"]
    sizes = {"N": columns, "K": depth, "bits": bits, "block_size": BLOCK}
    graph = helper.make_graph(
        [
            helper.make_node("MatMulNBits", names, ["sums"], domain="com.microsoft", **sizes),
            helper.make_node("Relu", ["sums"], ["y"]),
        ],
        "product",
        [helper.make_tensor_value_info("x", 1, (rows, depth))],
        [helper.make_tensor_value_info("y", 1, (rows, columns))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    return model, {"x": generator.standard_normal((rows, depth)).astype(np.float32)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "bits", "has_zeros", "schedule"),
    [
        (1, 48, 43, 4, True, "unpacked"),  # whole tiles, whole vectors, narrow ones, single columns
        (7, 32, 24, 4, False, "unpacked"),  # a tile of rows, and one that is left
        (2, 48, 5, 8, True, "unpacked"),
        (3, 8, 16, 8, False, "unpacked"),  # a single block, cut off
        (2, 37, 20, 4, True, "unpacked"),  # a cut-off block, its last row with half a byte
        (9, 13, 12, 4, False, "unpacked"),  # nothing but such a block
    ],
)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_kernels_multiply_what_the_meaning_says(
    rows, depth, columns, bits, has_zeros, schedule, target
):
    model, inputs = product(rows, depth, columns, bits, has_zeros)
    c = explorer.compile(model, target, tuned=False)
    (name,) = c.schedule
    if target == "cpu":
        assert c.schedule[name]["schedule"] == schedule
    snapshot = c["eliminate-dead-code"].after
    expected = outputs_by_name(snapshot.program, snapshot.run(inputs))["y"]
    found = c.run(inputs)["y"]
    assert np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_tiles_of_the_schedule_are_choices():
    model, inputs = product(3, 32, 64, 4, True)
    c = explorer.compile(model, tuned=False)
    (name,) = c.schedule
    d = c.fork(schedule={name: {"rows": 2, "vectors": 3}})
    assert (d.schedule[name]["rows"], d.schedule[name]["vectors"]) == (2, 3)
    assert np.allclose(c.run(inputs)["y"], d.run(inputs)["y"], rtol=0, atol=1e-4)


def test_two_numbers_of_four_bits_take_a_byte():
    """In memory: weights, and a scale for every block."""
    sizes = {bits: product(1, 48, 32, bits, False)[0] for bits in (4, 8)}
    weights = {
        bits: explorer.compile(model, tuned=False).program.weights_bytes
        for bits, model in sizes.items()
    }
    assert weights[8] - weights[4] == 48 * 32 // 2
