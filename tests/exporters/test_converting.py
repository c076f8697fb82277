"""Models of other formats written as ONNX: onnxruntime computes what the file's own kernels do."""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import explorer
from explorer.errors import UnsupportedError

sys.path.insert(0, str(Path(__file__).parents[1] / "importers"))
from tflite_cases import CASES, result_names, whole_inputs, whole_model

from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of, one_operator

ROUNDED = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "SOFTMAX",
    "QUANTIZE float32", "CONCATENATION", "AVERAGE_POOL_2D", "BATCH_MATMUL", "TRANSPOSE_CONV",
)  # fmt: skip
"""What onnxruntime computes in floats and rounds once; all else is equal to the bit."""
PAIRS = ("SOFTMAX", "QUANTIZE float32")
"""What stays floats and rounded once in an exact file, too."""


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = session.run(None, inputs)
    return dict(zip([o.name for o in session.get_outputs()], found, strict=True))


@pytest.fixture(scope="module")
def every_case(tmp_path_factory):
    """All exact operators of TFLite side by side: what onnxruntime and what the program answer."""
    path = tmp_path_factory.mktemp("tflite") / "whole.tflite"
    path.write_bytes(whole_model())
    inputs, written = whole_inputs(), path.with_suffix(".onnx")
    made = explorer.convert(path, written)
    onnx.checker.check_model(onnx.load(written), full_check=True)
    return path, run(made, inputs), explorer.interpret(path, inputs)


@pytest.fixture(scope="module")
def every_exact_case(every_case):
    path, _, expected = every_case
    return run(explorer.convert(path, integers="exact"), whole_inputs()), expected


@pytest.mark.parametrize("case", CASES)
def test_integers_of_onnxruntime_are_at_most_a_step_apart(every_case, case):
    _, found, expected = every_case
    name = result_names()[case]
    ours, theirs = expected[name], found[name]
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if ours.dtype.kind == "f":
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)
        return
    apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
    assert apart.max() <= (1 if case.startswith(ROUNDED) else 0)
    # Roundings part in few elements only: one that was left out would in half of them.
    assert np.count_nonzero(apart) <= 0.05 * apart.size


def test_the_file_holds_pairs_and_tables(every_case):
    path, *_ = every_case
    model = onnx.load(path.with_suffix(".onnx"))
    operators = {node.op_type for node in model.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "Gemm", "Gather"} <= operators
    # Filters are unsigned unless asked: onnxruntime multiplies those exactly everywhere.
    filters = {node.input[1] for node in model.graph.node if node.op_type == "ConvInteger"}
    kinds = {
        t.data_type for t in model.graph.initializer if len(t.dims) == 4 and t.name not in filters
    }
    assert onnx.TensorProto.UINT8 in kinds and onnx.TensorProto.INT8 not in kinds


def test_what_onnx_has_no_form_for_is_named_all_at_once(tmp_path):
    tensors = [
        TensorOf(name=name, shape=(4,), element_type=kind)
        for name, kind in (("a", "float32"), ("b", "int32"), ("c", "float32"))
    ]
    bits = [
        OperatorOf(kind="BITCAST", inputs=[place], outputs=[place + 1], options="BitcastOptions")
        for place in (0, 1)
    ]
    path = tmp_path / "bits.tflite"
    path.write_bytes(model_of(tensors, bits, [0], [2]))
    with pytest.raises(UnsupportedError, match="2 operations cannot be written") as refused:
        explorer.convert(path)
    assert [p.count("BITCAST_") for p in refused.value.problems] == [1, 1]
    assert refused.value.file == str(path)


@pytest.mark.parametrize("case", CASES)
def test_exact_integers_of_onnxruntime_are_the_program_s(every_exact_case, case):
    found, expected = every_exact_case
    name = result_names()[case]
    ours, theirs = expected[name], found[name]
    if case.startswith(PAIRS):
        assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max() <= 1
    elif ours.dtype.kind == "f":
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)
    else:
        np.testing.assert_array_equal(theirs, ours)


def test_a_batch_is_one_where_nobody_says_it(tmp_path):
    path = tmp_path / "open.tflite"
    path.write_bytes(
        one_operator(
            "RELU",
            [TensorOf(name="x", shape=(1, 4), signature=(-1, 4))],
            [TensorOf(name="y", shape=(1, 4), signature=(-1, 4))],
        )
    )
    (x,) = explorer.convert(path).graph.input
    assert [d.dim_value for d in x.type.tensor_type.shape.dim] == [1, 4]
