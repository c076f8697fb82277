"""Sums, products and maxima of two tensors at the end of the convolution that makes one of them."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
from chains import TARGETS, chain, measured

import explorer
from explorer.backends.npu.grouping import GroupLayers, _Kept
from explorer.backends.npu.lowered import LoweredLayers
from explorer.errors import InputError
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import from_attribute, identity_of
from explorer.ir.structure import operations
from explorer.targets import load_target

PASS = "combine-layers"


def names(snapshot, target):
    (function,) = functions_on(snapshot.program, target)
    return {identity_of(op): op for op in function.body.block.ops if isinstance(op, LayerOp)}


@pytest.mark.parametrize("target", ["edge-64", "tiny-8", "mac-128", "vta-16"])
def test_layers_that_are_combined_change_no_number_and_take_fewer_cycles(residual, target):
    c, together, outputs = residual(target)
    _, apart, expected = residual(target, **{PASS: False})
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert together.cycles < apart.cycles and len(together.layers) < len(apart.layers)
    applied = [event for event in c[PASS].events if event.applied]
    before, after = (names(getattr(c[PASS], when), target) for when in ("before", "after"))
    gone = before.keys() - after.keys()
    makers = {event.explanation.partition(":")[0] for event in applied}
    assert applied and makers == gone and len(makers) == len(applied)
    for event in applied:
        made, op = before[event.explanation.partition(":")[0]], after[event.site]
        assert op.name == "npu.convolution" and before[event.site].name == "npu.elementwise"
        assert op.macs() == made.macs() and op.get("inputs") == made.get("inputs") + 1


@pytest.mark.parametrize("level", [PASS, "lay-out-constants", "emit-instructions"])
def test_every_level_with_combined_layers_is_executed(residual, level):
    c, _, _ = residual("mac-128")
    after, top = c[level].after, c["place-on-device"].after
    x = {"x": np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)}
    values, expected = after.run(x), top.run(x)
    for name in after.quantized & expected.keys():
        np.testing.assert_array_equal(values[name], expected[name])


def test_one_sum_can_stay_a_layer_of_its_own(residual):
    c, together, _ = residual("tiny-8")
    site = next(event.site for event in c[PASS].events if event.applied)
    c, apart, _ = residual("tiny-8", **{f"{PASS}/combine/{site}": False})
    (event,) = [event for event in c[PASS].events if event.site == site]
    assert event.reason == "declined by an override"
    assert len(apart.layers) > len(together.layers)
    assert names(c[PASS].after, "tiny-8")[site].name == "npu.elementwise"


def test_tiles_of_combined_layers_are_knobs(residual):
    c, found, _ = residual("tiny-8")
    site = next(event.site for event in c[PASS].events if event.applied)
    knobs = {knob.address: knob for knob in c.knobs}
    assert knobs[f"{PASS}/{site}/rows"].value in knobs[f"{PASS}/{site}/rows"].choices
    searched = {record.layer for record in found.searches}
    assert searched == {layer.operation for layer in found.layers}
    decision = {f"{PASS}/{site}/rows": 3}
    c, _, _ = residual("tiny-8", **decision)
    op = names(c["group-layers"].after, "tiny-8")[site]
    assert from_attribute(op.tiles)["rows"] == 3 and op.name == "npu.convolution"
    with pytest.raises(InputError, match="rows = 99"):
        residual("tiny-8", **{f"{PASS}/{site}/rows": 99})


def test_decided_tiles_keep_layers_apart(residual):
    c, _, _ = residual("tiny-8")
    event = next(event for event in c[PASS].events if event.applied)
    made = event.explanation.partition(":")[0]
    c, _, _ = residual("tiny-8", **{f"tile-layers/{made}/rows": 3})
    (event,) = [one for one in c[PASS].events if one.site == event.site]
    assert event.reason == f"the tiles of {made} are decided"


def test_what_takes_more_cycles_stays_apart_unless_a_decision_says_so(tmp_path, monkeypatch):
    """What the program would take is asked of the pass that runs next."""
    model = chain(tmp_path, count=3)
    plain = GroupLayers.program_cycles

    def cycles(self, function, rewriter, options):
        kinds = [op.name for op in function.body.block.ops]
        return plain(self, function, rewriter, options) + 10**6 * ("npu.elementwise" not in kinds)

    monkeypatch.setattr(GroupLayers, "program_cycles", cycles)
    c, _, _ = measured(model, "tiny-8")
    events = c[PASS].events
    assert events and all("the program would take" in event.reason for event in events)
    decisions = {f"{PASS}/combine/{events[0].site}": True}
    c, _, _ = measured(model, "tiny-8", **decisions)
    assert c[PASS].events[0].applied


def graph(folder, nodes, weights, channels=8):
    """A quantized model of given nodes from x to y."""
    shape = (1, channels, 6, 6)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    arrays = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    made = helper.make_graph(nodes, "sums", inputs, outputs, arrays)
    path = folder / "sums.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = {"x": np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)}
    table = explorer.calibrate(path, x, method="min-max", corrections=(), arithmetic="integer")
    return path, table, x


def test_declined_matches_have_reasons(tmp_path):
    random = np.random.default_rng(2)
    data = {f"w{i}": random.normal(0, 0.3, (8, 8, 1, 1)).astype(np.float32) for i in range(3)}
    conv, node = (lambda i, x, y: helper.make_node("Conv", [x, f"w{i}"], [y])), helper.make_node
    nodes = [
        conv(0, "x", "a"), conv(1, "a", "b"),
        node("Add", ["b", "a"], ["c"]),  # taken: b is read once
        node("Add", ["c", "a"], ["d"]),  # c holds another tensor already, a is read three times
        conv(2, "d", "e"), node("Sigmoid", ["d"], ["s"]), node("Add", ["e", "s"], ["y"]),
    ]  # fmt: skip
    c, _, _ = measured(graph(tmp_path, nodes, data), "tiny-8")
    reasons = [event.reason for event in c[PASS].events]
    assert reasons[0] == "" and "combines it with another tensor" in reasons[1]
    assert "is made after" in reasons[2]
    kinds = [op.name for op in operations(c[PASS].after.program)]
    assert kinds.count("npu.elementwise") == 2


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", [*TARGETS, "vta-16", "vta-32"])
def test_chains_are_equal_combined_and_apart(tmp_path, target, seed):
    random = np.random.default_rng(100 + seed)
    model = chain(tmp_path, seed, int(random.integers(3, 40)), int(random.integers(5, 20)), 6)
    _, together, outputs = measured(model, target)
    _, apart, expected = measured(model, target, **{PASS: False})
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert together is not None and apart is not None and together.cycles <= apart.cycles


def test_groups_that_were_found_while_combining_are_found_again(tmp_path, monkeypatch):
    """In as few searches as there are programs, and the program is the same without a memory."""
    searched = []
    best = _Kept.best

    def counted(kept, candidates):
        searched.append(len(kept.layers))
        return best(kept, candidates)

    class Forgetful(dict):
        def __contains__(self, text):
            return False

    def forget(lowered):
        begin(lowered)
        lowered.groups = Forgetful()

    monkeypatch.setattr(_Kept, "best", counted)
    model = chain(tmp_path, count=2)
    c, found, outputs = measured(model, "tiny-8")
    begin = LoweredLayers.__post_init__
    monkeypatch.setattr(LoweredLayers, "__post_init__", forget)
    again, other, expected = measured(model, "tiny-8")
    assert len(searched) == 2 + 3 and len(set(searched)) == 2
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert c.final.dump() == again.final.dump() and found.cycles == other.cycles


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_a_decoder_costs_no_cycles(tmp_path, seed):
    """Which layers are combined depends on whether their weights are coded."""
    random = np.random.default_rng(100 + seed)
    model = chain(tmp_path, seed, int(random.integers(3, 40)), int(random.integers(5, 20)), 6)
    found = [
        measured(model, load_target("mac-128", {"engines.dma.decoder": decoder}))
        for decoder in ("rice", "none")
    ]
    (_, coded, outputs), (_, plain, expected) = found
    np.testing.assert_array_equal(outputs["y"], expected["y"])
    assert coded.cycles <= plain.cycles
