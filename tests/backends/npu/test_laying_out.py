"""Constants are laid out by a pass of their own, once: what it made is what the program reads."""

import numpy as np

import explorer
from explorer.ir.dialects.npu import InstructionsOp, LayerOp
from explorer.ir.operation import from_attribute, identity_of
from explorer.ir.structure import operations
from explorer.npu.program.ir_layers import laid_out_in, layer_in
from explorer.targets import load_target


def layers_of(snapshot, kind):
    return {identity_of(op): op for op in operations(snapshot.program) if isinstance(op, kind)}


def test_weights_lie_in_blocks_of_the_array(compiled):
    """Of 12 rows and 20 columns, of each tap those of one column side by side."""
    c = compiled("odd-12x20")
    snapshot = c["lay-out-constants"].after
    op = next(iter(layers_of(snapshot, LayerOp).values()))
    layer, laid_out = layer_in(op, snapshot.weights), laid_out_in(op, snapshot.weights)
    outputs, inputs, height, width = layer.weights.shape
    assert outputs <= 20 and inputs <= 12
    found = laid_out["weights"].view(np.int8).reshape(height, width, 20, 12)
    np.testing.assert_array_equal(
        found[:, :, :outputs, :inputs], layer.weights.transpose(2, 3, 0, 1)
    )
    assert not found[:, :, outputs:].any() and not found[..., inputs:].any()


def test_no_pass_before_has_them_and_the_one_behind_takes_them_over(compiled):
    c = compiled("odd-12x20")
    tiled = c["tile-layers"].after
    assert not any(laid_out_in(op, tiled.weights) for op in layers_of(tiled, LayerOp).values())
    addressed, emitted = c["assign-addresses"].after, c["emit-instructions"].after
    layers, programs = layers_of(addressed, LayerOp), layers_of(emitted, InstructionsOp)
    assert set(layers) == set(programs)
    compared = 0
    for name, op in layers.items():
        start, places = programs[name].get("constants_offset"), from_attribute(op.places)
        image = emitted.weights[programs[name].operands[-1].owner.weight.data]
        for constant, data in laid_out_in(op, addressed.weights).items():
            offset, size = places[constant]
            np.testing.assert_array_equal(image[offset - start : offset - start + size], data)
            compared += 1
    assert compared >= 10


def test_the_pass_says_what_it_laid_out(compiled):
    rewrites = compiled("vta-16")["lay-out-constants"].rewrites
    assert any("weights as" in str(rewrite) for rewrite in rewrites)


def test_coded_weights_take_fewer_bytes_of_memory_and_of_traffic(digits, compiled):
    model, table, x = digits
    fields = {"engines.dma.decoder": "none"}
    plain = explorer.compile(model, load_target("mac-128", fields), quantization=table)
    coded = compiled("mac-128")
    assert coded.accuracy(x).report.bit_exact  # after every pass, and in the program
    run = coded.counted
    assert run.cycles == run.predicted_cycles
    moved, decoded = run.coded_weights
    assert 0 < moved < decoded
    assert run.bound_bytes <= run.bytes and run.bound_cycles <= run.cycles
    assert all(layer.least_cycles <= layer.cycles for layer in run.layers)
    plain.run(x)
    assert plain.counted.coded_weights == (0, 0)
    sizes = [
        sum(data.nbytes for name, data in c["lay-out-constants"].after.weights.items()
            if name.endswith(".weights.laid_out"))
        for c in (coded, plain)
    ]  # fmt: skip
    assert sizes[0] < sizes[1]
