"""Whole networks on simulated NPUs: bit-equal behind every pass and on the device."""

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import explorer
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.errors import UnsupportedError
from explorer.ir.inspection.printing import parse
from explorer.results.coverage import level_coverages
from explorer.views.catalog.timeline import profile as profile_view
from explorer.views.renderers.text import text_of


@pytest.mark.parametrize("target", ["vta-16", "odd-12x20"])
def test_every_level_and_the_program_give_the_integer_programs_bits(compiled, digits, target):
    c = compiled(target)
    levels = ["tiled", "tiled", "addressed", "instructions"]
    assert [r.after.level for r in c.passes[-4:]] == levels
    accuracy = c.accuracy(digits[2])
    assert accuracy.report.bit_exact
    assert accuracy.passed, accuracy.summary


def test_text_of_every_level_is_read_back(compiled):
    for result in compiled("odd-12x20").passes[-4:]:
        module = parse(result.after.dump())
        again = type(result.after)(module, result.after.weights, result.after.level)
        assert again.dump() == result.after.dump()


def test_instructions_belong_to_nodes_of_the_model(compiled):
    c = compiled("odd-12x20")
    program = c.program
    convolutions = [launch for launch in program.launches if launch.operation.startswith("conv")]
    assert [launch.sources[0] for launch in convolutions] == [
        "/stage1/conv1", "/stage1/conv2", "/stage2/conv1",
    ]  # fmt: skip
    lines = dict(zip(program.source.owners, program.source.lines, strict=True))
    assert lines[(convolutions[0].operation,)].startswith("store outputs")


def test_every_instruction_leads_to_its_operation(compiled):
    coverages = {found.level: found for found in level_coverages(compiled("odd-12x20").trace())}
    assert coverages["source"].linkable == coverages["source"].linked > 100


def test_tensors_share_global_memory(compiled):
    plan = compiled("odd-12x20").memory
    assert plan.optimal and plan.peak_bytes < plan.total_bytes


def test_cycles_are_those_that_were_predicted(compiled, digits):
    for target in ("vta-16", "odd-12x20"):
        c = compiled(target)
        c.run(digits[2])
        found = c.counted
        assert found.cycles == found.predicted_cycles
        (own,) = [part for part in c.program.parts if part.device == target]
        assert len(found.layers) == len(own.program.launches)
        assert 0 < found.utilization < 1


def test_what_the_host_runs_is_said_with_the_reason(compiled):
    c = compiled("vta-16")
    operations, reasons = zip(*c.host_operations, strict=True)
    assert set(reasons) == {"it reads or makes floats"}
    assert [c.final.operations[name].name for name in operations] == [
        "top.quantize", "top.dequantize",
    ]  # fmt: skip


def test_a_float_model_is_to_be_quantized_first(digits):
    with pytest.raises(UnsupportedError, match="nothing in this model is quantized"):
        explorer.compile(digits[0], "mac-128")


def test_events_say_what_every_queue_did_and_waited_for(compiled, digits):
    c = compiled("vta-16")
    c.run(digits[2])
    profile = c.profile(digits[2])
    events = [event for event in profile.events if event.cycles]
    assert {event.lane for event in events} == {"load", "compute", "store"}
    counted = c.counted
    assert max(event.end_cycle for event in events) == counted.cycles
    assert sum(e.cycles for e in events) == sum(cycles for _, cycles in counted.busy_cycles)
    assert sum(e.waited_cycles for e in events) == sum(count for *_, count in counted.stalls)
    text = text_of(profile_view(profile), 100)
    assert f"{counted.cycles:,} cycles on" in text and "most of all for token" in text


def small(tmp_path, nodes, shape, **weights):
    """A model of the nodes from x to y, its table of thresholds, and its input; `to` is no
    weight's, and `zeros` are zeros."""
    random = np.random.default_rng(0)
    constants = [
        numpy_helper.from_array(
            np.array(size)
            if name == "to"
            else random.normal(0, name != "zeros", size).astype(np.float32),
            name,
        )
        for name, size in weights.items()
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
        for name, size in (("x", shape), ("y", None))
    ]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    path = tmp_path / "small.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = {"x": random.normal(0, 1, shape).astype(np.float32)}
    examples = x if shape[0] == 1 else {"x": x["x"][None]}
    table = explorer.calibrate(path, examples, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    return path, table, x


def checked(c, x):
    """Bit-equal behind every pass and on the device, in the predicted cycles."""
    assert c.accuracy(x).report.bit_exact
    c.run(x)
    assert c.counted.cycles == c.counted.predicted_cycles
    assert {reason for _, reason in c.host_operations} == {"it reads or makes floats"}


def test_results_in_pieces_are_part_of_a_network(tmp_path):
    """Of a transposed convolution: zeros between rows and columns, then a convolution."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    path, table, x = small(tmp_path, [node], (1, 3, 3, 4), w=(3, 2, 3, 3))
    c = explorer.compile(path, "odd-12x20", quantization=table)
    assert any("3.layer.placement" in line for line in c["tile-layers"].after.text.lines)
    checked(c, x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["odd-12x20", "vta-16"])
def test_channels_that_become_columns_with_zeros_between_are_part_of_a_network(tmp_path, target):
    """A decoder's first layers: each position is one by itself."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Reshape", ["a", "to"], ["b"]),
        helper.make_node("ConvTranspose", ["b", "w2"], ["y"], strides=[2]),
    ]
    path, table, x = small(tmp_path, nodes, (1, 6), w1=(6, 20), w2=(5, 3, 2), to=[1, 5, 4])
    checked(explorer.compile(path, target, quantization=table), x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["vta-16", "tiny-8"])
def test_filters_of_zeros_are_a_layer(tmp_path, target):
    """Their scale is so small that no shift makes it: the sums are made zero instead."""
    nodes = [
        helper.make_node("Conv", ["x", "zeros"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["y"]),
    ]
    path, table, x = small(tmp_path, nodes, (1, 5, 3, 4), zeros=(5, 5, 1, 1))
    checked(explorer.compile(path, target, quantization=table), x)


def test_what_the_vector_engine_lacks_is_said_of_rows_that_are_turned_too(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]),
             helper.make_node("Softmax", ["a"], ["y"], axis=1)]  # fmt: skip
    path, table, _ = small(tmp_path, nodes, (1, 5, 6), w=(6, 7))
    c = explorer.compile(path, "vta-16", quantization=table)
    reasons = {
        reason for _, _, reason in c.placed_elsewhere if "reads or makes floats" not in reason
    }
    assert {reason.rpartition(": ")[2] for reason in reasons} == {
        "its vector engine has no softmax"
    }


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    """A network of three pictures at once: windows with padding, a residual, means, products."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[2, 0, 0, 2], group=5),
        helper.make_node("Add", ["b", "c"], ["d"]),
        helper.make_node("Add", ["d", "shift"], ["e"]),
        helper.make_node("GlobalAveragePool", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("MatMul", ["g", "w3"], ["h"]),
        helper.make_node("Flatten", ["e"], ["i"]),
        helper.make_node("MatMul", ["i", "w4"], ["j"]),
        helper.make_node("Add", ["h", "j"], ["y"]),
    ]
    return small(tmp_path_factory.mktemp("batch"), nodes, (3, 2, 6, 4), w1=(5, 2, 3, 3),
                 w2=(5, 1, 3, 3), shift=(1, 5, 3, 2), w3=(5, 7), w4=(30, 7))  # fmt: skip


def test_pictures_of_a_batch_are_computed_one_below_the_other(batch):
    path, table, x = batch
    checked(explorer.compile(path, "odd-12x20", quantization=table), x)


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["vta-16", "vta-32", "edge-64", "tiny-8", "mac-128"])
def test_pictures_of_a_batch_on_the_other_machines(batch, target):
    path, table, x = batch
    checked(explorer.compile(path, target, quantization=table), x)


ONCE = """<ir_version: 9, opset_import: ["" : 17]>
once (float[1,16,33,32] x) => (y) <int64[4] shape = {2, 16, 31, 31}> {
  w = ConstantOfShape <value = float[1] {0.25}> (shape)
  y = Conv (x, w)
}"""
"""Weights of 246,016 bytes, which vta-16 holds once."""


def test_a_layer_of_which_one_tile_fits_runs_without_a_second_buffer(tmp_path):
    save(onnx.parser.parse_model(ONCE), path := tmp_path / "once.onnx")
    x = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 16, 33, 32)).astype(np.float32)}
    table = explorer.calibrate(path, x, method="min-max", corrections=(), arithmetic="integer")
    c = explorer.compile(path, "vta-16", quantization=table)
    c.run(x)
    counted = c.counted
    assert is_bit_exact(c["place-on-device"].after, c.executable, x)
    c.close()
    assert {reason for _, reason in c.host_operations} == {"it reads or makes floats"}
    assert counted is not None and counted.cycles == counted.predicted_cycles
    (event,) = [e for e in c["tile-layers"].events if e.rule == "tile"]
    assert "1 weight buffer" in event.explanation
    ruled = explorer.compile(
        path, "vta-16", quantization=table, decisions={"tile-layers/search": "none"}
    )
    (event,) = [e for e in ruled["tile-layers"].events if e.rule == "tile"]
    assert "1 weight buffer, 1 sum buffer; nothing is loaded ahead: conv3 does" in event.explanation
    assert "2 times, takes 492032 bytes of weights, which has 262144" in event.explanation
