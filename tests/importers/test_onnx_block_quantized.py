"""Weights in blocks of few bits: MatMulNBits and GatherBlockQuantized against onnxruntime."""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import explorer
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.top.linear.matmul_blocks import MatMulBlocksOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.types import static_shape
from explorer.passes.simplify import fold_constants

MICROSOFT = "com.microsoft"
# Sums of at most 48 float32 products in another order.
TOLERANCE = 1e-6


@pytest.fixture
def random():
    return np.random.default_rng(17)


def product(make_model, random, rows=48, bits=4, zeros="", with_bias=False, groups=None, **other):
    """A product with 6 columns in blocks of 16 rows: model, inputs, and its constants."""
    columns, blocks = 6, -(-rows // 16)
    kind = other.get("dtype", np.float32)
    constants = {
        "b": random.integers(0, 256, (columns, blocks, 2 * bits), dtype=np.uint8),
        "scale": random.uniform(0.1, 1, (columns, blocks)).astype(kind),
    }
    if zeros == "packed":
        size = -(-blocks * bits // 8)
        constants["zero"] = random.integers(0, 256, (columns, size), dtype=np.uint8)
    elif zeros:
        constants["zero"] = random.uniform(0, 15, (columns, blocks)).astype(kind)
    if groups is not None:
        constants["groups"] = groups.astype(np.int32)
    if with_bias:
        constants["bias"] = random.standard_normal(columns).astype(kind)
    inputs = {"a": random.standard_normal(other.get("batch", (2, 3)) + (rows,)).astype(kind)}
    names = [n if n in constants else "" for n in ("b", "scale", "zero", "groups", "bias")]
    attributes = {"N": columns, "K": rows, "bits": bits, "block_size": 16}
    if "accuracy_level" in other:
        attributes["accuracy_level"] = other["accuracy_level"]
    node = helper.make_node(
        "MatMulNBits", ["a", *names], ["y"], name="n", domain=MICROSOFT, **attributes
    )
    given = (inputs | constants, {}) if other.get("as_inputs") else (inputs, constants)
    return from_proto(make_model([node], *given, 21, [MICROSOFT])), given[0], constants


@pytest.mark.parametrize("as_inputs", [False, True])
@pytest.mark.parametrize(
    ("bits", "zeros"),
    [(4, ""), (4, "packed"), (4, "floats"), (8, ""), (8, "packed"), (2, ""), (2, "packed")],
)
def test_products_with_weights_of_few_bits(make_model, compare, random, bits, zeros, as_inputs):
    model, inputs, _ = product(make_model, random, 48, bits, zeros, as_inputs=as_inputs)
    assert compare(model, inputs) <= TOLERANCE


@pytest.mark.parametrize("batch", [(), (4,), (2, 1, 3)])
def test_a_last_block_may_be_cut_off(make_model, compare, random, batch):
    model, inputs, _ = product(make_model, random, 40, 4, "packed", True, batch=batch)
    assert compare(model, inputs) <= TOLERANCE


def test_rows_may_say_whose_scale_they_take(make_model, compare, random):
    groups = random.permutation(np.arange(48) // 16)
    model, inputs, _ = product(make_model, random, groups=groups)
    assert compare(model, inputs) <= TOLERANCE


def test_rows_take_the_zero_points_of_their_groups_too(make_model, snapshot, random):
    """onnxruntime takes 8 there, hence the comparison with the formula."""
    groups = random.permutation(np.arange(48) // 16)
    model, inputs, constants = product(make_model, random, 48, 4, "packed", groups=groups)
    program = snapshot(model)
    (y,) = outputs_by_name(program.module, program.run(inputs)).values()
    numbers, zeros = (
        np.stack([packed & 15, packed >> 4], axis=-1).reshape(6, -1).astype(np.float32)
        for packed in (constants["b"], constants["zero"])
    )
    weight = (numbers - zeros[:, groups]) * constants["scale"][:, groups]
    assert np.allclose(y, inputs["a"] @ weight.T, rtol=0, atol=TOLERANCE * np.abs(y).max())


def test_halves_are_rounded_at_the_end(make_model, compare, random):
    """onnxruntime rounds the weights to halves, too: each by 2^-11 at most."""
    model, inputs, _ = product(make_model, random, 48, 4, "packed", dtype=np.float16)
    assert compare(model, inputs) <= 2**-9


def test_a_level_of_accuracy_permits_and_does_not_demand(make_model, snapshot, random):
    results = []
    for level in (0, 4):
        generator = np.random.default_rng(3)
        model, inputs, _ = product(make_model, generator, accuracy_level=level)
        program = snapshot(model)
        results.append(outputs_by_name(program.module, program.run(inputs))["y"])
    assert np.array_equal(*results)


def test_weights_that_the_file_leaves_out_give_the_bias(make_model, compare):
    node = helper.make_node(
        "MatMulNBits",
        ["a", "b", "scale", "", "", "bias"],
        ["y"],
        domain=MICROSOFT,
        N=4,
        K=16,
        block_size=16,
    )
    weights = {
        "b": np.zeros((4, 0, 8), np.uint8),
        "scale": np.zeros((4, 0), np.float32),
        "bias": np.arange(4, dtype=np.float32),
    }
    inputs = {"a": np.ones((2, 16), np.float32)}
    model = from_proto(make_model([node], inputs, weights, 21, [MICROSOFT]))
    assert compare(model, inputs) == 0


def test_other_numbers_of_bits_are_refused_by_name(make_model, snapshot, random):
    model, _, _ = product(make_model, random, bits=3)
    with pytest.raises(UnsupportedError, match="numbers of 3 bits; 2, 4, 8 are supported"):
        snapshot(model)


def test_weights_are_real_numbers_beforehand_unless_they_are_too_many(
    make_model, random, monkeypatch
):
    """Where no product unpacks them (rows have a scale each): either way the same numbers."""
    model, inputs, _ = product(make_model, random, groups=np.arange(48) // 16)
    results = []
    for limit in (1 << 30, 48 * 6 * 4 - 1):
        monkeypatch.setattr(fold_constants, "LARGEST_DEQUANTIZED_BYTES", limit)
        c = explorer.compile(model)
        kinds = [type(op) for op in c["fold-constants"].after.operations.values()]
        assert (DequantizeBlocksOp in kinds) == (limit < 48 * 6 * 4)
        results.append(c.run(inputs)["y"])
    assert np.allclose(*results, rtol=0, atol=TOLERANCE * np.abs(results[0]).max())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zeros", ["", "packed", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_unpack_constant_weights(make_model, random, bits, zeros):
    """Two numbers of at most four bits in a byte; zero points that are whole, or in the middle."""
    model, inputs, _ = product(make_model, random, 48, bits, zeros, with_bias=True)
    c = explorer.compile(model)
    products = [op for op in c["fuse-quantization"].after.walked if isinstance(op, MatMulBlocksOp)]
    if zeros == "floats":  # no whole numbers: real ones are made before
        assert not products
        return
    (op,) = products
    assert static_shape(op.right) == (48 if bits == 8 else 24, 6)
    assert (op.block_zeros is None) == (bits != 2 and not zeros)
    assert (
        c.schedule["matmul_8_bits_1" if bits == 8 else "matmul_4_bits_1"]["schedule"] == "unpacked"
    )
    assert c.accuracy(inputs).passed


def gathered(make_model, data, indices, scale, zero=None, **attributes):
    constants = {"data": data, "scale": scale} | ({} if zero is None else {"zero": zero})
    names = ["data", "indices", "scale", *(["zero"] if zero is not None else [])]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain=MICROSOFT, **attributes)
    inputs = {"indices": indices}
    return from_proto(make_model([node], inputs, constants, 21, [MICROSOFT])), inputs


INDICES = np.array([[0, 3], [2, -1]])


@pytest.mark.parametrize("indices", [INDICES, np.array(1), np.array([0, 7, -9])])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_a_packed_table(make_model, compare, random, bits, has_zeros, indices):
    """Indices outside of it give zeros."""
    data = random.integers(0, 256, (5, 4 * bits), dtype=np.uint8)
    zero = random.integers(0, 256, (5, -(-bits // 4)), dtype=np.uint8) if has_zeros else None
    scale = random.uniform(0.1, 1, (5, 2)).astype(np.float32)
    attributes = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    assert compare(*gathered(make_model, data, indices, scale, zero, **attributes)) == 0


@pytest.mark.parametrize("dtype", [ml_dtypes.uint4, ml_dtypes.int4])
@pytest.mark.parametrize(("gather_axis", "quantize_axis"), [(0, 1), (2, 1), (1, 1), (1, 0)])
def test_slices_of_a_table_of_four_bits(
    make_model, compare, random, dtype, gather_axis, quantize_axis
):
    low = 0 if dtype == ml_dtypes.uint4 else -8
    blocks = [5, 40, 3]
    blocks[quantize_axis] = -(-blocks[quantize_axis] // 16)
    data = random.integers(low, low + 16, (5, 40, 3)).astype(dtype)
    zero = random.integers(low, low + 16, blocks).astype(dtype)
    scale = random.uniform(0.1, 1, blocks).astype(np.float32)
    attributes = {"block_size": 16, "gather_axis": gather_axis, "quantize_axis": quantize_axis}
    assert compare(*gathered(make_model, data, INDICES % 3, scale, zero, **attributes)) == 0
