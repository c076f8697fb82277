"""Weights alone in blocks: table, pass, check, knobs, files for others, refusals."""

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import explorer
from explorer.cli import main
from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.ir.constants import constant
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.top.linear.matmul_blocks import MatMulBlocksOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.quantization.block_numbers import nearest
from explorer.quantization.table import read_thresholds, write_thresholds

# Sums of at most 64 products in another order.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def mlp(sample_models: Path):
    return explorer.load(sample_models / "digits_mlp.onnx")


@pytest.fixture(scope="module")
def images(sample_models: Path):
    return np.load(sample_models / "digits_test.npz")["images"]


@pytest.fixture(scope="module")
def table(mlp, images):
    return explorer.calibrate(mlp, {"image": images[:40]}, weights="uint4", block=16)


@pytest.fixture(scope="module")
def compiled(mlp, table):
    return explorer.compile(mlp, quantization=table, tuned=False)


@pytest.fixture(scope="module")
def kept(compiled):
    """With the first product's weights left float."""
    return compiled.fork(decisions={f"quantize-weights/mode/{first(compiled)}": "F32"})


@pytest.fixture(scope="module")
def accuracy(compiled, images):
    return compiled.accuracy({"image": images[200:201]})


def products(compiled):
    return [
        op for op in compiled["fuse-quantization"].after.walked if op.name == MatMulBlocksOp.name
    ]


def first(compiled):
    return next(rewrite.site for rewrite in compiled["quantize-weights"].rewrites)


def noise(compiled, images):
    """Of the outputs over some examples that calibration has not seen, against the float model."""
    snapshots = [compiled["quantize-weights"].before, compiled["fuse-quantization"].after]
    pairs = ([meaning(s, image) for s in snapshots] for image in images[200:206, None])
    return sum(np.sum((found - exact) ** 2) for exact, found in pairs)


def meaning(snapshot, image):
    (output,) = outputs_by_name(snapshot.program, snapshot.run({"image": image})).values()
    return output


def test_every_product_unpacks_what_the_pass_wrote(compiled, table):
    """The real weights of the last program are those of the table, bit by bit."""
    pass_, last = compiled["quantize-weights"].after, compiled["fuse-quantization"].after
    dequantized = [op for op in pass_.walked if isinstance(op, DequantizeBlocksOp)]
    assert [op.blocks for op in dequantized] == [table.weights.type_along(0)] * 3
    assert table.corrections is not None
    known = list(table.corrections.blocks.values())
    for op, product, found in zip(dequantized, products(compiled), known, strict=True):
        arrays = [constant(o, pass_.weights) for o in op.operands]
        assert arrays[0].dtype == ml_dtypes.uint4
        real = op.evaluate(*arrays)[0]
        assert np.array_equal(real, found.numbers.real())
        packed = [constant(o, last.weights) for o in product.operands]
        scales, zeros = (a for a in product.parameters(packed))
        assert np.array_equal(product.real_weight(packed[1], scales, zeros, len(real)), real)
        assert packed[1].nbytes * 2 == real.size


def test_check_knows_two_references(accuracy):
    report = accuracy.report
    assert accuracy.passed
    assert report.bit_exact is None and report.quantization.costliest is None
    assert report.against_float[0].name == "quantize-weights"
    assert 15 < report.float_outputs[0].sqnr_db < 60
    assert "weights quantized: outputs from the float's" in accuracy.summary


@pytest.mark.opencl
def test_opencl_computes_the_same(compiled, images):
    inputs = {"image": images[200:201]}
    opencl = compiled.fork(target="opencl")
    (expected,), (found,) = compiled.run(inputs).values(), opencl.run(inputs).values()
    assert np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_gptq_is_better_than_the_nearest_and_says_so_by_layer(compiled, images):
    events = compiled["quantize-weights"].rewrites
    assert all("by GPTQ, sums err" in event.explanation for event in events)
    plain = compiled.fork(decisions={"quantize-weights/rounding": "nearest"})
    assert noise(compiled, images) < noise(plain, images)


def test_a_fork_changes_one_layer(compiled, kept, images):
    """Its bits, its block, or leaves it float; what GPTQ found for others stays."""
    name = first(compiled)
    knobs = {knob.address: knob for knob in compiled.knobs}
    assert knobs[f"quantize-weights/mode/{name}"].value == "UINT4"
    assert knobs[f"quantize-weights/block/{name}"].value == 16
    assert knobs[f"quantize-weights/rounding/{name}"].value == "gptq"
    wider = compiled.fork(decisions={f"quantize-weights/mode/{name}": "INT8"})
    assert [op.get("bits") for op in products(wider)] == [8, 4, 4]
    reasons = [event.explanation for event in wider["quantize-weights"].rewrites]
    assert "what GPTQ found is uint4 in blocks of 16" in reasons[0] and "by GPTQ" in reasons[1]
    longer = compiled.fork(decisions={f"quantize-weights/block/{name}": 64})
    assert [op.get("block") for op in products(longer)] == [64, 16, 16]
    assert len(products(kept)) == 2
    inputs = {"image": images[200:201]}
    (found,) = kept.run(inputs).values()
    expected = meaning(kept["fuse-quantization"].after, inputs["image"])
    assert np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("mode", "INT3", "cannot be 'INT3'"),
        ("mode", "INT16", "cannot be 'INT16'"),
        ("block", 7, "a scale for every 7"),
        ("rounding", "up", "cannot be 'up'"),
    ],
)
def test_decisions_that_mean_nothing_are_refused(compiled, kind, value, message):
    with pytest.raises(InputError, match=message):
        compiled.fork(decisions={f"quantize-weights/{kind}/{first(compiled)}": value})


def test_tables_are_read_as_they_were_written(table, tmp_path):
    path = tmp_path / "net.table"
    write_thresholds(path, table)
    assert "# weights uint4 16" in path.read_text()
    read = read_thresholds(path)
    assert read.digest == table.digest
    assert replace(read, weights=replace(read.weights, block=32)).digest != table.digest
    known, found = (t.corrections.blocks for t in (table, read))
    assert list(known) == list(found)
    for name in known:
        assert np.array_equal(known[name].numbers.real(), found[name].numbers.real())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# weights int5 32\n", "weights cannot be 'int5'"),
        ("# weights int4\n", "is no type and no number"),
        ("# weights int4 31\n", "a scale for every 31"),
        ("# weights int4 32\nx 1 -1 1\n", "weights alone take no thresholds"),
    ],
)
def test_tables_of_weights_that_are_none_are_refused(tmp_path, text, message):
    path = tmp_path / "bad.table"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_thresholds(path)
    assert caught.value.file == str(path)


def test_modes_of_a_quantization_table_name_products(mlp, table, compiled):
    name = first(compiled)
    mixed = explorer.compile(mlp, quantization=table, modes={name: "INT8"}, tuned=False)
    assert [op.get("bits") for op in products(mixed)] == [8, 4, 4]
    with pytest.raises(InputError, match="none of the 1 tensors of the table"):
        explorer.compile(mlp, quantization=table, modes={"fc": "INT8"}, tuned=False)


def test_another_models_table_and_models_without_products_are_refused(table, sample_models):
    with pytest.raises(InputError, match="made for another file"):
        explorer.compile(sample_models / "digits_cnn.onnx", quantization=table)
    with pytest.raises(InputError, match="gptq rounds by what weights are multiplied with"):
        explorer.calibrate(sample_models / "digits_mlp.onnx", weights="int4", rounding="gptq")
    with pytest.raises(InputError, match="thresholds come from data"):
        explorer.calibrate(sample_models / "digits_mlp.onnx")


def test_weights_that_gptq_did_not_see_get_the_nearest(mlp, table, images):
    """A record for other weights is not applied: the event says why."""
    assert table.corrections is not None
    blocks = {n: replace(b, weights="0" * 16) for n, b in table.corrections.blocks.items()}
    other = replace(table, corrections=replace(table.corrections, blocks=blocks))
    c = explorer.compile(mlp, quantization=other, tuned=False)
    for event in c["quantize-weights"].rewrites:
        assert event.explanation.endswith(
            "each is the nearest: what GPTQ found is for other weights"
        )


def test_a_file_for_others_holds_blocks(mlp, table, compiled, images):
    """onnxruntime computes it; read back, it is the same program."""
    model = compiled.to_onnx()
    nodes = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    assert len(nodes) == 3
    options = onnxruntime.SessionOptions()
    # By itself it would quantize what is multiplied with such weights to bytes.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    inputs = {"image": images[200:201]}
    (expected,) = session.run(None, inputs)
    (found,) = compiled.run(inputs).values()
    assert np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())
    again = explorer.compile(from_proto(model), tuned=False)
    snapshots = [c["fuse-quantization"].after for c in (compiled, again)]
    for own, other in zip(*(products(c) for c in (compiled, again)), strict=True):
        assert {k: str(v) for k, v in own.properties.items()} == {
            k: str(v) for k, v in other.properties.items()
        }
        for a, b in zip(own.operands[1:], other.operands[1:], strict=True):
            arrays = [constant(o, s.weights) for o, s in zip((a, b), snapshots, strict=True)]
            assert np.array_equal(*arrays)
    results = [next(iter(outputs_by_name(s.program, s.run(inputs)).values())) for s in snapshots]
    assert np.array_equal(*results)


def test_commands_make_and_use_a_table(sample_models, images, tmp_path, capsys):
    model, path = str(sample_models / "digits_mlp.onnx"), tmp_path / "net.table"
    np.savez(tmp_path / "one.npz", image=images[200:201])
    assert (
        main(["calibrate", model, "--weights-only", "int8", "--block", "32", "-o", str(path)]) == 0
    )
    assert "weights as int8 in blocks of 32, by nearest; wrote" in capsys.readouterr().out
    given = ["--quantize", str(path), "--input", str(tmp_path / "one.npz")]
    assert main(["check", model, *given, "--min-sqnr", "30"]) == 0
    assert "weights alone" in capsys.readouterr().out
    written = tmp_path / "net.onnx"
    assert main(["quantize", model, "--table", str(path), "-o", str(written)]) == 0
    out = capsys.readouterr().out
    assert "3 weights quantized; wrote" in out and "25.3 KiB: 3 by nearest" in out
    assert main(["calibrate", model, "-o", str(path)]) == 2
    assert "one of --data and --cases is required" in capsys.readouterr().err


def test_every_product_says_what_its_weights_became_and_cost(compiled, accuracy):
    """In the record, by the product; and what each costs by itself is that of its weights."""
    blocks, before = compiled.quantization.blocks, compiled["quantize-weights"].before
    sites = [rewrite.site for rewrite in compiled["quantize-weights"].rewrites]
    assert [b.operation for b in blocks] == sites
    assert {(b.mode, b.block, b.rounding) for b in blocks} == {("UINT4", 16, "gptq")}
    array = constant(before.operations[sites[0]].operands[1], before.weights)
    assert blocks[0].float_bytes == array.nbytes
    assert blocks[0].size_bytes == sum(a.nbytes for a in packed_parameters(compiled))
    # GPTQ moves weights off the nearest: that makes them worse, and sums better.
    assert all(b.weights_db < b.nearest_db and b.sums_gain_db > 0 for b in blocks)
    report = accuracy.report
    layers = report.quantization.layers
    assert [layer.operation for layer in layers] == sites
    assert all(la.activations_db is None and la.both_db == la.weights_db for la in layers)
    # The first product reads the input itself: in the program it errs as by itself.
    (behind,) = [e for e in report.against_float[0].tensors if e.tensor == layers[0].tensor]
    assert layers[0].both_db == pytest.approx(behind.sqnr_db, abs=1e-3)


def test_the_view_lists_products_with_their_rounding(compiled, kept, accuracy):
    assert accuracy.passed  # what it says of decibels comes from there
    text = str(compiled.view("quantization"))
    assert "KiB instead of 25.3 KiB: 3 by gptq" in text
    rows = [line.split()[:4] for line in text.splitlines()]
    assert ["dense1", "UINT4", "16", "gptq"] in rows and "sums better by" in text
    assert "2 by gptq, 1 float" in str(kept.view("quantization"))
    assert "stay float" in str(kept.view("quantization"))


def packed_parameters(compiled):
    """Numbers of the first product as they lie in memory, and their parameters."""
    product, snapshot = products(compiled)[0], compiled["fuse-quantization"].after
    arrays = [constant(operand, snapshot.weights) for operand in product.operands]
    return [arrays[1], *(a for a in product.parameters(arrays) if a is not None)]


def test_gptq_moves_weights_of_every_product_off_the_nearest(compiled, table):
    assert table.corrections is not None
    before = compiled["quantize-weights"].before
    for name, found in table.corrections.blocks.items():
        array = constant(before.operations[name].operands[1], before.weights)
        assert array is not None
        plain = nearest(array, found.numbers.form)
        assert found.error_after < found.error
        assert np.any(plain.numbers != found.numbers.numbers)
