"""Whole networks on simulated NPUs: bit-equal behind every pass and on the device."""

import functools

import numpy as np
import pytest

import explorer
from explorer.ir.inspection.printing import parse


@pytest.fixture(scope="module")
def digits(sample_models):
    """digits_cnn, its table of thresholds, and a digit."""
    model = sample_models / "digits_cnn.onnx"
    images = np.load(sample_models / "digits_test.npz")["images"]
    table = explorer.calibrate(model, {"image": images[:20]}, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    return model, table, {"image": images[200:201]}


@pytest.fixture(scope="module")
def compiled(digits):
    @functools.cache
    def of(target):
        return explorer.compile(digits[0], target, quantization=digits[1])

    return of


@pytest.mark.parametrize("target", ["vta-16", "odd-12x20"])
def test_every_level_and_the_program_give_the_integer_programs_bits(compiled, digits, target):
    c = compiled(target)
    assert [r.after.level for r in c.passes[-3:]] == ["tiled", "addressed", "instructions"]
    accuracy = c.accuracy(digits[2])
    assert accuracy.report.bit_exact
    assert accuracy.passed, accuracy.summary


def test_text_of_every_level_is_read_back(compiled):
    for result in compiled("odd-12x20").passes[-3:]:
        module = parse(result.after.dump())
        again = type(result.after)(module, result.after.weights, result.after.level)
        assert again.dump() == result.after.dump()


def test_instructions_belong_to_nodes_of_the_model(compiled):
    c = compiled("odd-12x20")
    program = c.program
    convolutions = [launch for launch in program.launches if launch.operation.startswith("conv")]
    assert [launch.sources[0] for launch in convolutions] == [
        "/stage1/conv1", "/stage1/conv2", "/stage2/conv1",
    ]  # fmt: skip
    lines = dict(zip(program.source.owners, program.source.lines, strict=True))
    assert lines[(convolutions[0].operation,)].startswith("store outputs")


def test_tensors_share_global_memory(compiled):
    plan = compiled("odd-12x20").memory
    assert plan.optimal and plan.peak_bytes < plan.total_bytes
