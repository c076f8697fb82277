"""Files that onnxruntime saved (`optimized_model_filepath`) equal the models that they came from.

At every level; with blocks of 8 channels and of 16, whatever this machine makes. Tolerance: 1e-5
of the largest number. onnxruntime folds and fuses, so that its own deviation is of that kind.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.accuracy.metrics import tensor_error
from explorer.accuracy.oracle import random_inputs
from explorer.errors import ExplorerError
from explorer.importers.model import bind_dimensions
from explorer.importers.onnx import OnnxContent, from_proto, load, to_top
from explorer.importers.onnx.block_size import find_block_size, implied_by_weights
from explorer.importers.onnx.program.blocks import NCHWC, unblocked
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.origins import origin_of
from explorer.ir.program import Snapshot
from explorer.ir.structure import operations

saving = SimpleNamespace(**run_path(str(Path(__file__).with_name("saving.py"))))

TOLERANCE = 1e-5
SAMPLES = sorted((Path(__file__).parents[2] / "sample_models").glob("*.onnx"))
UNKNOWN = {"n": 2, "h_a": 5, "h_b": 5, "w_a": 7, "w_b": 7}


def drawn(model: onnx.ModelProto | Path, dimensions: dict | None = None) -> dict[str, np.ndarray]:
    source = load(model) if isinstance(model, Path) else from_proto(model)
    return random_inputs(source, 1, dimensions)


def error(found: dict[str, np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest, in parts of the largest number."""
    pairs = zip(found.items(), expected, strict=True)
    return max(tensor_error(name, "", array, its).max_relative for (name, array), its in pairs)


def imported(proto: onnx.ModelProto, dimensions: dict | None = None) -> Snapshot:
    return Snapshot(*to_top(from_proto(proto), dimensions))


def computed(program: Snapshot, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return outputs_by_name(program.program, program.run(inputs))


def size_of_blocks(model: onnx.ModelProto) -> int:
    content = from_proto(model).content
    assert isinstance(content, OnnxContent)
    return find_block_size(content)


def counts(program: Snapshot) -> Counter:
    """Operations by name and type of their result; weights are none."""
    found = [op for op in operations(program.program) if op.results and op.name != "top.weight"]
    return Counter((op.name, str(op.results[0].type)) for op in found)


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """A model, and what onnxruntime makes of it at level "all"."""
    model = saving.every_blocked_operator()
    return model, saving.save(model, "all", tmp_path_factory.mktemp("saved") / "all.onnx")


@pytest.mark.parametrize("level", saving.LEVELS)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_saved_sample_model_is_the_model(path: Path, level: str, tmp_path: Path):
    saving.save(path, level, tmp_path / "saved.onnx")
    inputs = drawn(path)
    sizes = bind_dimensions(load(path), {})
    found = Snapshot(*to_top(load(tmp_path / "saved.onnx"), sizes))
    assert error(computed(found, inputs), saving.run(path, inputs)) <= TOLERANCE


def test_every_operator_on_blocked_tensors_is_what_it_was_made_of(
    blocked: tuple[onnx.ModelProto, onnx.ModelProto],
):
    model, saved = blocked
    pools = {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Upsample"}
    assert saving.operators(saved) == {"Conv", "ReorderInput", "ReorderOutput", *pools}
    inputs = drawn(model)
    assert error(computed(imported(saved), inputs), saving.run(model, inputs)) <= TOLERANCE


def test_nothing_of_the_blocks_is_left(blocked: tuple[onnx.ModelProto, onnx.ModelProto]):
    """As many channels as the model has, and no operation that it has not.

    But for a normalization: onnxruntime makes a depthwise convolution of it, which stays one.
    """
    model, saved = blocked
    plain, found = counts(imported(model)), counts(imported(saved))
    assert plain[("top.batch_norm", "tensor<1x32x8x8xf32>")] == 1
    extra = found - plain
    assert extra == {("top.conv", "tensor<1x32x8x8xf32>"): 1}
    assert {name for name, _ in plain - found} <= {"top.batch_norm", "top.reshape", "top.binary"}


@pytest.mark.parametrize("size", [8, 16])
def test_blocks_of_either_size(
    size: int, blocked: tuple[onnx.ModelProto, onnx.ModelProto], snapshot: Callable
):
    model, saved = blocked
    own = size_of_blocks(saved)
    other = saving.relaid(saved, own, size)
    assert size_of_blocks(other) == size
    inputs = drawn(model)
    found, expected = computed(imported(other), inputs), computed(imported(saved), inputs)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("size", [8, 16])
def test_sums_that_onnxruntime_regroups(size: int, tmp_path: Path):
    model = saving.sum_of_unknown_sizes()
    saved = saving.save(model, "all", tmp_path / "saved.onnx")
    assert "Reshape" in {node.op_type for node in saved.graph.node}
    other = saving.relaid(saved, size_of_blocks(saved), size)
    program = imported(other, UNKNOWN)
    assert "top.reshape" not in {name for name, _ in counts(program)}
    inputs = drawn(model, UNKNOWN)
    assert error(computed(program, inputs), saving.run(model, inputs)) <= TOLERANCE


def test_blocked_tensors_are_compared_in_their_usual_order_in_c(tmp_path: Path):
    """Where a value comes from says how the file's tensor is turned into it."""
    model = saving.two_blocked_convolutions()
    saved = saving.save(model, "all", tmp_path / "saved.onnx")
    assert saving.operators(saved) == {"Conv", "ReorderOutput"}
    compiled = explorer.compile(tmp_path / "saved.onnx")
    program = compiled["import"].after.program
    origins = [origin_of(result) for op in operations(program) for result in op.results]
    turned = {origin.tensor for origin in origins if origin is not None and origin.steps}
    assert turned and turned.isdisjoint(output.name for output in model.graph.output)
    inputs = drawn(model)
    report = compiled.accuracy(inputs)
    assert report.passed
    assert turned <= {tensor.tensor for tensor in report.report.passes[0].tensors}
    assert error(compiled.run(inputs), saving.run(model, inputs)) <= TOLERANCE


# -- other numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["QDQ", "QOperator"])
def test_a_quantized_model_is_the_same_program(kind: str, tmp_path: Path):
    """Not compared with onnxruntime, whose 8-bit products saturate on some processors."""
    plain = saving.every_blocked_operator()
    saving.quantize(plain, kind, [drawn(plain)], tmp_path / "quantized.onnx")
    inputs, found = drawn(plain), set()
    expected = computed(imported(onnx.load(tmp_path / "quantized.onnx")), inputs)
    for level in saving.LEVELS:
        saved = saving.save(tmp_path / "quantized.onnx", level, tmp_path / f"{level}.onnx")
        found |= saving.operators(saved, "com.microsoft")
        for name, array in computed(imported(saved), inputs).items():
            np.testing.assert_array_equal(array, expected[name])
    assert {"QLinearConv", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearSigmoid"} <= found
    assert {"QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearLeakyRelu"} <= found


@pytest.mark.parametrize("level", ["extended", "all"])
def test_half_precision_is_computed_where_the_file_says_so(level: str, tmp_path: Path):
    """onnxruntime inserts casts, and lays out what is between: compared with what it made.

    Tolerance: two roundings of half precision.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = convert_float_to_float16(saving.every_blocked_operator())
    saved = saving.save(model, level, tmp_path / "saved.onnx")
    assert bool(saving.operators(saved)) == (level == "all")
    inputs = drawn(model)
    assert error(computed(imported(saved), inputs), saving.run(saved, inputs)) <= 1e-3


# -- how large the blocks are ----------------------------------------------------------------------


def filters(seed: int, *shape: int) -> np.ndarray:
    """Weights whose filters and channels differ in size, as trained ones do."""
    random = np.random.default_rng(seed)
    by_filter, by_channel = (np.exp(random.standard_normal(n)) for n in shape[:2])
    numbers = random.standard_normal(shape) * by_filter[:, None, None, None]
    return (numbers * by_channel[:, None, None]).astype(np.float32)


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("shape", [(32, 64, 1, 1), (64, 32, 3, 3), (64, 3, 5, 5)])
def test_trained_weights_tell_their_blocks(size: int, shape: tuple[int, ...]):
    stored = [saving.blocked_filters(filters(seed, *shape), size) for seed in range(3)]
    assert implied_by_weights(stored) == size
    np.testing.assert_array_equal(unblocked(stored[0], size), filters(0, *shape))


def test_weights_without_order_tell_nothing():
    random = np.random.default_rng(0)
    for _ in range(20):
        drawn_ones = [random.standard_normal((32, 32, 3, 3)).astype(np.float32) for _ in range(3)]
        assert implied_by_weights(drawn_ones) is None
    assert implied_by_weights([np.ones((32, 32, 3, 3), np.float32)]) is None


# -- what does not fit -----------------------------------------------------------------------------


def damaged(saved: onnx.ModelProto, change: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(saved)
    change(copy)
    return copy


def _cut_weight(model: onnx.ModelProto) -> None:
    (node, *_) = [n for n in model.graph.node if n.domain == NCHWC and n.op_type == "Conv"]
    (tensor,) = [t for t in model.graph.initializer if t.name == node.input[1]]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:-3], tensor.name))


def _insert_softmax(model: onnx.ModelProto) -> None:
    (node, *_) = [n for n in model.graph.node if n.op_type == "ReorderOutput"]
    blocked = node.input[0]
    node.input[0] = "soft"
    model.graph.node.append(helper.make_node("Softmax", [blocked], ["soft"], name="soft", axis=3))


def _take_operands(model: onnx.ModelProto) -> None:
    (node, *_) = [n for n in model.graph.node if n.domain == NCHWC and n.op_type == "Conv"]
    del node.input[:]


def _join_with_itself(model: onnx.ModelProto) -> None:
    """A sum of what was joined and one of its parts, which has fewer channels."""
    (node,) = [n for n in model.graph.node if n.op_type == "Concat"]
    node.output[0], joined = "joined", node.output[0]
    add = helper.make_node("Add", ["joined", node.input[0]], [joined], name="sum")
    model.graph.node.insert(list(model.graph.node).index(node) + 1, add)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_cut_weight, "neither 8 nor 16"),
        (_insert_softmax, "Softmax soft reads"),
        (_take_operands, "operand 0 is missing"),
        (_join_with_itself, "channels in blocks"),
    ],
)
def test_files_that_cannot_be_so_are_refused(
    change: Callable, words: str, blocked: tuple[onnx.ModelProto, onnx.ModelProto]
):
    _, saved = blocked
    with pytest.raises(ExplorerError) as caught:
        imported(damaged(saved, change))
    assert words in str(caught.value)
