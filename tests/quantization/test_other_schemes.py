"""Models that arrive quantized, on targets that scale integers in another way than their files."""

import math
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.compilation.checking_quantized import CHOOSE
from explorer.importers.tflite.file.reading import read
from explorer.ir.origins import Origin
from explorer.ir.rewriting import Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.views.verdicts import grounds
from verification.conformance.tflite.models import TensorOf, one_operator


@pytest.fixture(scope="module")
def model(sample_models):
    return sample_models / "roundings_int8.tflite"


@pytest.fixture(scope="module")
def on_tiny(model):
    return explorer.compile(model, "tiny-8")


def test_the_scheme_of_the_file_is_held_to_the_source(model):
    c = explorer.compile(model)
    report = c.accuracy().report
    c.close()
    assert report.passed and report.rests_on == "end_to_end"
    assert not report.integers_from and report.bit_exact is None


def test_another_scheme_is_right_but_for_ties_and_bit_exact_from_there_on(on_tiny):
    report = on_tiny.accuracy().report
    assert report.passed and report.bit_exact
    assert report.integers_from == "compute-in-integers"
    names = [accuracy.name for accuracy in report.passes]
    assert names == [*on_tiny.names, "binary on tiny-8"]
    chosen = names.index("compute-in-integers")
    tensors = {t.tensor for t in report.isolated[chosen - 1].tensors}
    for accuracy in (*report.passes[names.index("fuse-quantization") :], *report.isolated[-1:]):
        assert {t.tensor for t in accuracy.tensors} >= tensors
        assert all(t.max_relative == 0 for t in accuracy.tensors)
    words = "\n".join(grounds(report))
    assert "instead of the file's doubling high multiply" in words
    assert "outputs against the source model's (not judged)" in words


def test_coarser_scales_are_reported_as_what_passes_are_held_to(model):
    c = explorer.compile(model, "vta-16")
    report = c.accuracy().report
    c.close()
    assert report.passed and report.bit_exact and report.integers_from == "round-scales"
    # Outputs that are stored as integers are compared in the numbers that they stand for.
    output = report.float_outputs[0]
    assert not output.bit_by_bit and math.isfinite(output.max_relative)
    assert "scales are powers of two" in "\n".join(grounds(report))


class LessRange(Rule):
    """conv(x, w) {requantization}   =>   the same with one less as its highest number (wrong)"""

    matches = (ConvOp,)

    def rewrite(self, op, rewriter):
        by = op.get("requantization")
        if by is not None and by.limits[1] == 127:
            rewriter.replace(op, op.altered(requantization=by.with_(limits=(by.limits[0], 90))))


class HigherZero(Rule):
    """requantize(x) {by}   =>   the same with one more as its lowest number (wrong)"""

    matches = (RequantizeOp,)

    def rewrite(self, op, rewriter):
        if op.by.limits[0] == -128:
            by = op.by.with_(limits=(-127, op.by.limits[1]))
            rewriter.replace(op, RequantizeOp.make([op.input], by=by))


def planted(rule):
    """A wrong pass of one rule."""
    return type("Planted", (RulePass,), {"name": "planted", "rules": (rule,)})()


@pytest.mark.parametrize(
    ("rule", "after"), [(LessRange, "fuse-quantization"), (HigherZero, "fold-constants")]
)
def test_a_wrong_pass_is_no_tie_before_and_behind_the_choice(on_tiny, rule, after):
    accuracy = on_tiny.insert(planted(rule), after=after).accuracy()
    assert not accuracy.passed
    fault = accuracy.bisect()
    assert (fault.pass_name, fault.rule) == ("planted", rule().name)


def test_a_scheme_that_truncates_is_no_matter_of_ties(on_tiny):
    wrong = on_tiny.fork(decisions={"target/requantization.rounding": "down"})
    accuracy = wrong.accuracy()
    assert not accuracy.passed
    fault = accuracy.bisect()
    assert (fault.pass_name, fault.rule) == ("compute-in-integers", CHOOSE)


@pytest.mark.sweep
def test_a_scheme_that_rounds_twice_is_a_step_off_in_many_places():
    """Sums in steps of 0.35 of the result's: half of one bit is rounded after the product."""
    random = np.random.default_rng(5)
    x = TensorOf(name="x", shape=(1, 32, 32, 4), element_type="int8", scales=[0.05], zeros=[3])
    w = TensorOf(name="w", shape=(1, 1, 1, 4), element_type="int8", scales=[0.02], zeros=[0],
                 data=random.integers(-9, 10, (1, 1, 1, 4)).astype(np.int8), axis=3)  # fmt: skip
    y = replace(x, name="y", scales=[0.05 * 0.02 / 0.35], zeros=[0])
    values = {"StrideW": 1, "StrideH": 1, "DepthMultiplier": 1}
    content = one_operator("DEPTHWISE_CONV_2D", [x, w], [y], "DepthwiseConv2DOptions", values)
    inputs = {"x": random.integers(-60, 60, (1, 32, 32, 4)).astype(np.int8)}
    c = explorer.compile(read(memoryview(content), "twice"), "tiny-8")
    report = c.accuracy(inputs).report
    c.close()
    assert report.passed and report.bit_exact
    chosen = next(p for p in report.isolated if p.name == "compute-in-integers")
    assert sum(tie.elements for tie in chosen.near_ties) > 0.02 * 32 * 32 * 4


def test_moves_of_an_origin_are_undone():
    source = np.arange(24).reshape(2, 3, 4)
    moved = Origin("x", (("permute", (2, 0, 1)), ("reshape", (8, 3)), ("permute", (1, 0))))
    np.testing.assert_array_equal(moved.undone(moved.apply(source), (2, 3, 4)), source)
    cut = moved.then("slice", (0, 0, 2))
    assert cut.undone(cut.apply(source), (2, 3, 4)) is None
    assert moved.undone(np.zeros((3, 9)), (2, 3, 4)) is None
