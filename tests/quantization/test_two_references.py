"""A quantized program is compared with its float source and with its own meaning."""

import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.ir.rewriting import Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.linear.convolution import ConvOp
from explorer.tuning.calibration import calibrate

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import CHAIN, source_model


@pytest.fixture(scope="module")
def quantized(tmp_path_factory) -> Compilation:
    model = source_model(tmp_path_factory.mktemp("model"), CHAIN)
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (8, 3, 8, 8)).astype(np.float32)}
    return explorer.compile(model, quantization=calibrate(model, data, "min-max"))


@pytest.fixture(scope="module")
def report(quantized):
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    return quantized.accuracy({"x": x}).report


def test_every_later_pass_and_the_binary_equal_the_quantized_program(quantized, report):
    assert report.passed and report.bit_exact
    assert [p.name for p in report.passes[:-1]] == list(quantized.names)
    names = list(quantized.names)
    for accuracy in report.passes[names.index("compute-in-integers") :]:
        assert accuracy.tensors
        assert all(t.max_relative == 0 for t in accuracy.tensors)


def test_the_distance_from_the_float_model_is_measured_and_judges_nothing(report):
    (output,) = report.float_outputs
    assert 25 < output.sqnr_db < 60 and output.cosine > 0.99
    assert output.max_relative > report.tolerance
    assert next(p.name for p in report.against_float) == "quantize-tensors"
    tensors = {t.tensor for t in report.against_float[0].tensors}
    assert {"r1", "y"} <= tensors


class AddOne(Rule):
    """conv(x, w) {requantization}   =>   the same with one less as its lowest number (wrong)"""

    matches = (ConvOp,)

    def rewrite(self, op, rewriter):
        by = op.get("requantization")
        if by is not None and by.limits[0] == 0:
            rewriter.replace(op, op.altered(requantization=by.with_(limits=(1, by.limits[1]))))


class Planted(RulePass):
    """A wrong pass over integers."""

    name = "planted"
    rules = (AddOne,)


def test_a_wrong_pass_over_integers_is_found(quantized):
    wrong = quantized.insert(Planted(), after="fuse-quantization")
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    accuracy = wrong.accuracy({"x": x})
    assert not accuracy.passed and accuracy.report.bit_exact is False
    fault = accuracy.bisect()
    assert (fault.pass_name, fault.rule) == ("planted", "add-one")


def test_a_wrong_threshold_is_no_fault_but_costs_decibels(quantized, report):
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    narrow = quantized.fork(decisions={"quantize-tensors/threshold/r1": 0.1})
    found = narrow.accuracy({"x": x}).report
    assert found.passed and found.bit_exact
    assert found.float_outputs[0].sqnr_db < report.float_outputs[0].sqnr_db - 6
    first = next(t for t in found.against_float[0].tensors if t.sqnr_db < 15)
    assert first.tensor == "r1"
