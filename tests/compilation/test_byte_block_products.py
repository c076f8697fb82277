"""Rows as bytes in blocks, times weights in blocks: integers per block, as onnxruntime has them."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name
from explorer.targets import load_target

DECISION = "compute-in-integers/rows"
# Sums of at most 16 blocks in another order, and in float32 instead of float64.
TOLERANCE = 2e-6


def product(rows, depth, columns, bits, block, has_zeros=False, level=4):
    """A product of `rows` rows with weights in blocks, bias and relu follow."""
    generator = np.random.default_rng(7)
    blocks = -(-depth // block)
    constants = {
        "b": generator.integers(0, 256, (columns, blocks, block * bits // 8), dtype=np.uint8),
        "scale": generator.uniform(0.1, 1, (columns, blocks)).astype(np.float32),
        "bias": generator.standard_normal(columns).astype(np.float32),
    }
    constants["b"][0], constants["b"][-1] = 255, 0  # the largest sums there are
    if has_zeros:
        shape = (columns, -(-blocks * bits // 8))
        constants["zero"] = generator.integers(0, 256, shape, dtype=np.uint8)
    names = ["x", "b", "scale", "zero" if has_zeros else "", "", "bias"]
    sizes = {"N": columns, "K": depth, "bits": bits, "block_size": block}
    levels = {} if level is None else {"accuracy_level": level}
    graph = helper.make_graph(
        [
            helper.make_node(
                "MatMulNBits", names, ["sums"], domain="com.microsoft", **sizes, **levels
            ),
            helper.make_node("Relu", ["sums"], ["y"]),
        ],
        "product",
        [helper.make_tensor_value_info("x", 1, (rows, depth))],
        [helper.make_tensor_value_info("y", 1, (rows, columns))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    x = generator.standard_normal((rows, depth)).astype(np.float32)
    x[0, :block], x[-1, -1] = 0, 100  # a block of zeros, and one with a number that is far out
    return model, {"x": x}


def by_onnxruntime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(["y"], inputs)[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "bits", "block", "has_zeros"),
    [
        (1, 64, 83, 4, 16, True),  # whole tiles, whole vectors, narrow ones, single columns
        (7, 64, 40, 4, 32, False),  # a tile of rows, and one that is left
        (2, 64, 5, 8, 16, True),
        (9, 32, 16, 8, 32, False),  # a single block
        (1, 16, 3, 4, 16, True),  # fewer columns than any vector
    ],
)
def test_kernels_multiply_what_the_meaning_says(
    rows, depth, columns, bits, block, has_zeros, lanes
):
    model, inputs = product(rows, depth, columns, bits, block, has_zeros)
    target = load_target("cpu", {"vector_floats": lanes})
    c = explorer.compile(from_proto(model), target, tuned=False, decisions={DECISION: "int8"})
    by_kernel = {name: choices["schedule"] for name, choices in c.schedule.items()}
    assert by_kernel[f"matmul_{bits}_bits_by_8_1"] == "dot"
    snapshot = c["eliminate-dead-code"].after
    expected = outputs_by_name(snapshot.program, snapshot.run(inputs))["y"]
    found = c.run(inputs)["y"]
    assert np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def error_bound(model, inputs, block):
    """Of products of rows that are rounded: a number errs by half a step of its block's scale."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    columns = constants["scale"].shape[0]
    packed = constants["b"].reshape(columns, -1)
    numbers = np.stack([packed & 15, packed >> 4], axis=-1).reshape(columns, -1)
    scales = np.repeat(constants["scale"], block, axis=1)
    weight = np.abs((numbers - 8.0) * scales)
    blocks = inputs["x"].reshape(len(inputs["x"]), -1, block)
    step = np.repeat(np.abs(blocks).max(axis=-1) / 127, block, axis=1)
    return (step / 2) @ weight.T


@pytest.mark.parametrize(("rows", "depth", "block"), [(1, 128, 32), (5, 64, 16)])
def test_results_are_those_of_onnxruntime_with_accuracy_level_4(rows, depth, block):
    """The same bytes are multiplied: both differ by the order of float sums alone, and are
    within half a step for each number from the exact product."""
    model, inputs = product(rows, depth, 48, 4, block)
    c = explorer.compile(from_proto(model), tuned=False)
    found = c.fork(decisions={DECISION: "stated"}).run(inputs)["y"]
    theirs = by_onnxruntime(model, inputs)
    assert np.allclose(found, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
    error = np.abs(found - c.run(inputs)["y"])
    assert np.all(error <= error_bound(model, inputs, block) * (1 + 1e-5))
    assert error.max() > 0


def test_no_rows_is_rounded_by_itself_and_stated_means_what_the_file_permits():
    knobs = {}
    for level in (None, 1, 4):
        model, _ = product(1, 32, 16, 4, 16, level=level)
        for value in (None, "stated"):
            decisions = {} if value is None else {DECISION: value}
            c = explorer.compile(from_proto(model), tuned=False, decisions=decisions)
            (knob,) = [k for k in c.knobs if k.address.startswith(f"{DECISION}/")]
            knobs[level, value] = (knob.value, knob.why.split("; ")[1])
            names = {op.name for op in c["fuse-quantization"].after.walked}
            assert ("top.quantize_blocks" in names) == (knob.value == "int8")
    assert knobs == {
        (None, None): ("float", "the file states no accuracy_level"),
        (None, "stated"): ("float", "the file states no accuracy_level"),
        (1, None): ("float", "the file states accuracy_level = 1"),
        (1, "stated"): ("float", "the file states accuracy_level = 1"),
        (4, None): ("float", "the file states accuracy_level = 4"),
        (4, "stated"): ("int8", "the file states accuracy_level = 4"),
    }


def test_products_of_one_operand_share_its_bytes():
    model, _ = product(1, 32, 16, 4, 16)
    second = helper.make_node("MatMulNBits", ["x", "b", "scale"], ["other"], domain="com.microsoft")
    second.attribute.extend(model.graph.node[0].attribute)
    model.graph.node.append(second)
    model.graph.output.append(helper.make_tensor_value_info("other", 1, (1, 16)))
    c = explorer.compile(from_proto(model), tuned=False, decisions={DECISION: "int8"})
    names = [op.name for op in c["fuse-quantization"].after.walked]
    assert names.count("top.quantize_blocks") == 1
    assert names.count("top.matmul_blocks") == 2


@pytest.mark.parametrize(
    ("depth", "target", "reason"),
    [
        (40, "cpu", "40 rows of .* are no whole blocks of 16"),
        (32, "cortex-m4", "the target's kernels do not multiply bytes in blocks"),
    ],
)
def test_what_cannot_be_bytes_stays_float_and_is_refused_by_its_own_address(depth, target, reason):
    model = from_proto(product(1, depth, 8, 4, 16)[0])
    c = explorer.compile(model, target, tuned=False, decisions={DECISION: "int8"})
    (knob,) = [k for k in c.knobs if k.address.startswith(f"{DECISION}/")]
    assert knob.choices == ("float",)
    declined = [r for r in c["compute-in-integers"].rewrites if r.rule == "quantize-rows"]
    assert [r.applied for r in declined] == [False]
    with pytest.raises(InputError, match=reason):
        c.fork(decisions={DECISION: None, knob.address: "int8"})


def test_another_value_is_refused():
    model = from_proto(product(1, 32, 8, 4, 16)[0])
    with pytest.raises(InputError, match="cannot be 'int4'"):
        explorer.compile(model, tuned=False, decisions={DECISION: "int4"})


def test_check_holds_passes_to_the_bytes_and_reports_the_error():
    model, inputs = product(2, 64, 16, 4, 32)
    c = explorer.compile(from_proto(model), tuned=False, decisions={DECISION: "stated"})
    report = c.accuracy(inputs)
    assert report.passed
    assert "rows as bytes in blocks" in str(report)
    (output,) = report.report.float_outputs
    exact = explorer.compile(from_proto(model), tuned=False).run(inputs)["y"]
    error = c.run(inputs)["y"] - exact
    expected = 10 * np.log10(np.sum(exact**2) / np.sum(error**2))
    assert abs(output.sqnr_db - expected) < 0.1


def test_rows_are_a_lever_of_time_and_decibels_with_a_prediction():
    model = from_proto(product(1, 256, 256, 4, 32)[0])
    c = explorer.compile(model, tuned=False)
    by_quantity = {}
    for quantity in ("seconds", "sqnr_db", "cycles", "peak_bytes"):
        found = c.levers(quantity).levers
        rows = [lever for lever in found if lever.address.startswith(f"{DECISION}/")]
        by_quantity[quantity] = [lever.options[0] for lever in rows]
    assert [len(options) for options in by_quantity.values()] == [1, 1, 0, 0]
    (faster,) = by_quantity["seconds"]
    assert faster.value == "int8" and faster.change < 0
