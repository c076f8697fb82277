"""Operations that are cut out compute what they do in the whole model, in the same reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import explorer
from explorer.accuracy.oracle import random_inputs, reference
from explorer.errors import ModelError
from explorer.importers.onnx.file.reading import from_proto
from explorer.references.interface import Reference, reference_of
from explorer.references.parts import NoPart, Part, plain
from tests.importers.pytorch_models import WEIGHT, Program, number, ref
from verification.conformance.caffe.models import caffemodel

SAMPLES = Path(__file__).parents[2] / "sample_models"
HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


def parts_of(model) -> tuple[list[Part | NoPart], dict[str, np.ndarray]]:
    example = random_inputs(model, 0)
    known = {**model.constants, **example, **reference(model, example)}
    return list(reference_of(model).parts(model, known)), known


@pytest.mark.parametrize("name", ["roundings_int8.tflite", "digits_mlp.onnx"])
def test_a_part_computes_what_it_does_in_the_whole(name):
    model = explorer.load(SAMPLES / name)
    parts, known = parts_of(model)
    assert len(parts) == len(model.nodes)
    for part in parts:
        assert isinstance(part, Part)
        alone = part.model_for(part.inputs)
        assert len(alone.nodes) == 1
        assert {value.name for value in alone.inputs} == set(part.inputs)
        found = reference(alone, part.inputs, part.outputs)
        for output in part.outputs:
            assert np.array_equal(found[output], known[output])


def test_quantizations_of_tensors_come_with_operands():
    parts, _ = parts_of(explorer.load(SAMPLES / "roundings_int8.tflite"))
    first = parts[0]
    assert isinstance(first, Part)
    data = first.operands[0]
    assert data is not None and data.steps is not None and first.result is not None
    assert data.steps.zero_point.item() == -128
    assert first.attributes["result_type"] == "int8"


def test_what_a_branch_reads_from_outside_is_an_input():
    text = """g (float[2] x, bool c) => (float[2] y) { z = Relu(x) y = If(c)
    <then_branch = a () => (float[2] p) { p = Neg(z) },
     else_branch = b () => (float[2] q) { q = Abs(z) }> }"""
    parts, known = parts_of(from_proto(parser.parse_model(f"{HEAD} {text}")))
    branch = parts[-1]
    assert isinstance(branch, Part) and set(branch.inputs) == {"c", "z"}
    found = reference(branch.model_for(branch.inputs), branch.inputs, ["y"])
    assert np.array_equal(found["y"], known["y"])


def test_sizes_that_are_computed_become_constants():
    text = """g (float[2,3] x) => (float[a] y) <int64[1] one = {-1}>
    { s = Identity(one) y = Reshape(x, s) }"""
    parts, _ = parts_of(from_proto(parser.parse_model(f"{HEAD} {text}")))
    last = parts[-1]
    assert isinstance(last, Part) and set(last.inputs) == {"x"}


def test_operations_of_one_form_differ_in_nothing_that_counts():
    text = """g (float[2,3] x) => (float[2,3] y)
    { a = Relu(x) b = Relu(a) c = LeakyRelu<alpha = 0.1>(b) y = LeakyRelu<alpha = 0.2>(c) }"""
    parts, _ = parts_of(from_proto(parser.parse_model(f"{HEAD} {text}")))
    forms = [part.form for part in parts if isinstance(part, Part)]
    assert forms[0] == forms[1] and len(set(forms)) == 3


def test_what_is_no_tensor_of_numbers_is_left_out_with_a_reason():
    text = """g (float[2] x) => (float[2] y) <int64 n = {0}>
    { s = SequenceConstruct(x) y = SequenceAt(s, n) }"""
    parts, _ = parts_of(from_proto(parser.parse_model(f"{HEAD} {text}")))
    assert all(isinstance(part, NoPart) for part in parts)
    assert all("no tensor of numbers" in part.reason for part in parts if isinstance(part, NoPart))


def test_a_format_without_parts_says_so():
    class Bare(Reference):
        pass

    model = explorer.load(SAMPLES / "digits_mlp.onnx")
    with pytest.raises(ModelError, match="not cut out"):
        list(Bare().parts(model, {}))


@pytest.mark.parametrize("name", ["LEAKY_RELU", "LeakyRelu", "aten.leaky_relu.default"])
def test_formats_share_names_of_operators(name):
    assert plain(name) == "leakyrelu"


def assert_parts_compute_the_whole(parts, known):
    """To the last bit: the reference runs the same kernels on the same numbers."""
    for part in parts:
        assert isinstance(part, Part), part.reason
        alone = part.model_for(part.inputs)
        found = reference(alone, part.inputs, part.outputs)
        for output in part.outputs:
            assert np.array_equal(found[output], known[output])


CAFFE = """
input: "data" input_shape { dim: 1 dim: 3 dim: 6 dim: 6 }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
        convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "s" type: "Softmax" bottom: "c" top: "s" }
layer { name: "e" type: "Eltwise" bottom: "s" bottom: "c" top: "e" }
"""


def test_layers_of_caffe_are_nets_of_their_own(tmp_path):
    """Also one that is written over its operand."""
    pytest.importorskip("cv2", reason="OpenCV judges here: the extra caffe")
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    (tmp_path / "net.prototxt").write_text(CAFFE)
    blobs = {"c": [weight, np.zeros(4, np.float32)]}
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(blobs))
    parts, known = parts_of(explorer.load(tmp_path / "net.prototxt"))
    assert [part.operator for part in parts] == ["Convolution", "ReLU", "Softmax", "Eltwise"]
    assert_parts_compute_the_whole(parts, known)


def exported(tmp_path):
    """A sum, its softmax, a view of a size that is computed, and a write."""
    program = Program({"x": ("float32", [2, 6])}, {"w": WEIGHT[:1, :3].repeat(2, 1)})
    total = program.call(
        "aten.add.Tensor", {"self": ref("x"), "other": ref("p_w")}, "float32", [2, 6]
    )
    soft = program.call(
        "aten.softmax.int", {"self": ref(total), "dim": {"as_int": -1}}, "float32", [2, 6]
    )
    size = program.call("aten.sym_size.int", {"self": ref("x"), "dim": {"as_int": 0}})
    given = {"self": ref(soft), "size": {"as_sym_ints": [number(size)["as_sym_int"],
                                                         {"as_int": 6}]}}  # fmt: skip
    viewed = program.call("aten.view", given, "float32", [2, 6])
    copied = program.call("aten.clone", {"self": ref(viewed)}, "float32", [2, 6])
    written = program.call(
        "aten.add_.Tensor", {"self": ref(copied), "other": ref("x")}, "float32", [2, 6]
    )
    return explorer.load(program.write(tmp_path / "net.pt2", [written]))


def test_calls_of_pytorch_are_programs_of_their_own(tmp_path):
    pytest.importorskip("torch", reason="PyTorch judges here: the extra pytorch")
    parts, known = parts_of(exported(tmp_path))
    operators = [part.operator for part in parts]
    assert operators == ["aten.add.Tensor", "aten.softmax.int", "aten.view", "aten.clone",
                         "aten.add_.Tensor"]  # fmt: skip
    assert_parts_compute_the_whole(parts, known)


def test_calls_of_pytorch_are_computed_in_float64(tmp_path):
    pytest.importorskip("torch", reason="PyTorch judges here: the extra pytorch")
    parts, _ = parts_of(exported(tmp_path))
    part = next(p for p in parts if isinstance(p, Part) and p.operator == "aten.softmax.int")
    assert part.exact is not None
    x = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    (found,) = part.exact({next(iter(part.inputs)): x}).values()
    powers = np.exp(x.astype(np.float64))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-14)
