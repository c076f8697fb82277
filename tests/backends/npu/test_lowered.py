"""An operation is lowered once from placement to instructions, and nothing is read back."""

from collections import Counter

import numpy as np
import pytest

import explorer
from explorer.backends.npu import lowered as module
from explorer.backends.npu import network
from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.reach import reach_of
from explorer.backends.npu.unfolding import BY_HOST, MAX_SEARCHED
from explorer.ir.dialects.npu import InstructionsOp, LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import LinesAttr, identity_of, set_identity, to_attribute
from explorer.ir.structure import operations
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.weights import Weights
from explorer.npu.layers.fields import described
from explorer.npu.search.equal import SearchedLayers
from explorer.targets import load_target
from explorer.targets.npu.machine import describe

COUNTED = ("read_operation", "layer_in", "tile_as")


@pytest.fixture
def counts(monkeypatch):
    """How often each step is done."""
    found = Counter()

    def counting(name, original):
        def counted(*arguments, **others):
            found[name] += 1
            return original(*arguments, **others)

        return counted

    for name in COUNTED:
        monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    monkeypatch.setattr(network, "assemble", counting("assemble", network.assemble))
    of = counting("searched", SearchedLayers.of)
    monkeypatch.setattr(SearchedLayers, "of", of)
    return found


def layers_of(snapshot):
    return [op for op in operations(snapshot.program) if isinstance(op, LayerOp)]


@pytest.mark.parametrize("target", ["vta-16", "odd-12x20"])
def test_every_layer_is_lowered_once_and_none_is_read_from_its_attributes(digits, counts, target):
    model, table, given = digits
    c = explorer.compile(model, target, quantization=table)
    c.run(given)
    count = len(layers_of(c["tile-layers"].after))
    assert count == 7
    choices = [knob.choices for knob in c.knobs if knob.address.startswith("unfold-inputs/unfold/")]
    forms = [text for one in choices for text in one if text != "none"]
    written = min(sum(text.endswith(BY_HOST) for text in forms), MAX_SEARCHED)
    moving = min(sum(not text.endswith(BY_HOST) for text in forms), MAX_SEARCHED)
    assert len(choices) == 1 and written
    assert dict(counts) == {"read_operation": count, "searched": count + written + 2 * moving}


def test_what_was_kept_is_what_a_reading_of_its_own_gives(digits, monkeypatch):
    """Also of copies of operations, which placement asks for."""
    model, table, _ = digits
    original, kept = LoweredLayers.of, []

    def compared(self, op, weights):
        found = original(self, op, weights)
        fresh = module.read_operation(op, weights, self.machine)
        for one, other in zip(found, fresh, strict=True):
            left, right = described(one.read.layer), described(other.layer)
            assert (left.kind, left.fields) == (right.kind, right.fields)
            assert {*left.arrays} == {*right.arrays}
            for name, array in left.arrays.items():
                np.testing.assert_array_equal(array, right.arrays[name])
            assert one.read.reads == other.reads and one.read.result == other.result
        kept.append(identity_of(op))
        return found

    monkeypatch.setattr(LoweredLayers, "of", compared)
    explorer.compile(model, "vta-16", quantization=table)
    assert len(kept) > 2 * len(set(kept)) > 12


def test_instructions_of_the_compiler_are_those_that_their_text_says(compiled):
    snapshot = compiled("odd-12x20")["emit-instructions"].after
    machine = describe(load_target("odd-12x20"))
    (function,) = functions_on(snapshot.program, "odd-12x20")
    made = network.network_of(function, snapshot.weights, machine)
    for op in operations(snapshot.program):
        if isinstance(op, InstructionsOp):
            assert isinstance(op.lines, LinesAttr)
            op.properties["lines"] = to_attribute(op.texts)
    read = network.network_of(function, snapshot.weights, machine)
    assert read.instructions == made.instructions and read.program == made.program


def test_tiles_that_were_changed_are_read_from_the_operation(compiled):
    c = compiled("odd-12x20")
    snapshot = c["tile-layers"].after
    op = layers_of(snapshot)[0].clone()
    kept = LoweredLayers(describe(load_target("odd-12x20")))
    first = kept.layer_of(op, snapshot.weights)
    assert kept.layer_of(op, snapshot.weights) is first
    op.properties["tiles"] = to_attribute({**op.get("tiles"), "rows": 1})
    assert first.tiled.rows > 1
    assert kept.layer_of(op, snapshot.weights).tiled.rows == 1


def test_weights_of_another_compilation_are_not_those_that_were_kept(compiled):
    c = compiled("odd-12x20")
    snapshot = c["tile-layers"].after
    op = layers_of(snapshot)[0]
    kept = LoweredLayers(describe(load_target("odd-12x20")))
    (name,) = (v.owner.weight.data for v in op.operands[1:2])
    others = Weights({n: snapshot.weights[n] * (n != name) for n in snapshot.weights})
    assert kept.layer_of(op, snapshot.weights).layer.weights.any()
    assert not kept.layer_of(op, others).layer.weights.any()


def test_equal_reach_means_equal_names_properties_and_weights(compiled):
    """Copies have that of the original; another padding, name or weight has not."""
    c = compiled("odd-12x20")
    program = c["place-on-device"].after.program
    op = next(op for op in operations(program) if isinstance(op, ConvOp))
    copied = program.clone()
    same = next(o for o in operations(copied) if identity_of(o) == identity_of(op))
    assert reach_of(same).key == reach_of(op).key
    assert len(reach_of(same).values) == len(reach_of(op).values)
    set_identity(same, "another")
    assert reach_of(same).key != reach_of(op).key
    set_identity(same, identity_of(op))
    same.properties["pads"] = to_attribute([0, 0, 2, 2])
    assert reach_of(same).key != reach_of(op).key
    same.properties["pads"] = op.properties["pads"]
    weight = same.operands[1].owner
    weight.properties["weight"] = to_attribute("another")
    assert reach_of(same).key != reach_of(op).key
