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
