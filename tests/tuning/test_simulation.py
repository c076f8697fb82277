"""Simulated quantization: one program, whose thresholds and weights are switched while it runs."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.ir.top.quantization.simulated import UNQUANTIZED
from explorer.quantization.methods import Range
from explorer.quantization.quantize_tensors import INT16, type_of
from explorer.quantization.table import Threshold, ThresholdTable
from explorer.tuning.refining import MIN_GAIN, Measured, affordable, is_better, kind_of, measured
from explorer.tuning.simulation import (
    Simulator,
    parameters_of,
    simulated_program,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

PRODUCT = """
product (float[1,6] x) => (float[1,3] y)
<float[6,4] w1, float[4,3] w2> {
  p = MatMul (x, w1)
  r = Relu (p)
  l = MatMul (r, w2)
  y = Softmax <axis = -1> (l)
}
"""
X, R = Range(-2.0, 1.0), Range(0.0, 1.5)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), PRODUCT)


@pytest.fixture(scope="module")
def examples():
    numbers = np.random.default_rng(0).normal(size=(20, 1, 6)).astype(np.float32)
    return [{"x": array} for array in numbers]


@pytest.fixture(scope="module")
def simulator(model):
    with Simulator(simulated_program(model, returns_logits=True), workers=2) as simulator:
        yield simulator


def weights(model):
    import onnx
    from onnx import numpy_helper

    found = {i.name: i for i in onnx.load(model.path).graph.initializer}
    return [numpy_helper.to_array(found[name]).astype(np.float64) for name in ("w1", "w2")]


def rounded(array, low, high):
    """Bytes from low to high, whose zero point is a whole number."""
    scale = (high - low) / 255
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(array / scale) + zero, 0, 255) - zero) * scale


def rounded_weight(array):
    scale = np.abs(array).max(axis=0) / 127
    return np.rint(array / scale) * scale


def by_hand(model, examples, x=None, r=None):
    """The operand of the softmax; a range for each tensor that is quantized."""
    w1, w2 = weights(model)
    value = np.stack([e["x"] for e in examples]).astype(np.float64)
    if x is not None:
        value, w1 = rounded(value, x.low, x.high), rounded_weight(w1)
    value = np.maximum(value @ w1, 0)
    if r is not None:
        value, w2 = rounded(value, r.low, r.high), rounded_weight(w2)
    return value @ w2


@pytest.mark.parametrize(("x", "r"), [(None, None), (X, None), (None, R), (X, R)])
def test_a_switched_tensor_is_rounded_and_so_are_the_weights_beside_it(
    model, simulator, examples, x, r
):
    chosen = {"x": x, "r": r}
    simulator.set({name: kind_of(c) if c is not None else None for name, c in chosen.items()})
    (found,) = simulator.outputs(examples)
    # f32 may round a number to the other side of a tie: none of these is one.
    assert found == pytest.approx(by_hand(model, examples, x, r), abs=2e-6)


@pytest.mark.parametrize(
    "ending",
    [
        "h = Cast <to = 10> (y) r16 = Reshape (h, shape)",
        "m = Reshape (y, shape) h = Transpose <perm = [1, 0, 2]> (m) r16 = Cast <to = 10> (h)",
    ],
)
def test_logits_are_found_behind_moves_and_casts_of_the_probabilities(tmp_path, ending, examples):
    graph = PRODUCT.replace("(float[1,3] y)", "(float16[3,1,1] r16)")
    graph = graph.replace("w2> {", "w2, int64[3] shape> {").replace("(l)\n", f"(l)\n  {ending}\n")
    shape = [3, 1, 1] if ending.startswith("h") else [1, 3, 1]
    model = source_model(tmp_path, graph, shape=np.array(shape))
    with Simulator(simulated_program(model, returns_logits=True), workers=1) as simulator:
        simulator.set({})
        (found,) = simulator.outputs(examples)
    exact = by_hand(model, examples)
    assert found.reshape(exact.shape) == pytest.approx(exact, abs=2e-6)


def test_a_softmax_whose_result_something_computes_with_is_no_end(tmp_path, examples):
    graph = PRODUCT.replace("(float[1,3] y)", "(float[1,3] z)").replace(
        "(l)\n", "(l) z = Neg (y)\n"
    )
    model = source_model(tmp_path, graph)
    with Simulator(simulated_program(model, returns_logits=True), workers=1) as simulator:
        simulator.set({})
        (found,) = simulator.outputs(examples)
    assert found.sum(axis=-1) == pytest.approx(-1, abs=1e-6)


def test_switching_back_gives_the_very_same_numbers(simulator, examples):
    simulator.set({})
    (before,) = simulator.outputs(examples)
    simulator.change("r", kind_of(R))
    assert not np.array_equal(simulator.outputs(examples)[0], before)
    simulator.change("r", None)
    assert np.array_equal(simulator.outputs(examples)[0], before)


def test_the_simulation_tells_what_the_integer_program_computes(model, examples):
    import explorer

    ranges = {"x": X, "r": R}
    table = ThresholdTable({n: Threshold(n, c.threshold, c.low, c.high) for n, c in ranges.items()})
    integers = explorer.compile(model, quantization=table, tuned=False)
    exact = [np.stack([e["y"] for e in map(explorer.compile(model).run, examples)])]
    real = [np.stack([integers.run(example)["y"] for example in examples])]
    with Simulator(simulated_program(model), workers=1) as simulator:
        simulator.set({name: kind_of(chosen) for name, chosen in ranges.items()})
        simulated = simulator.outputs(examples)
    assert decibels(noise_to_signal(simulated, real)) > 60
    assert decibels(noise_to_signal(simulated, exact)) < 50


def test_places_of_weights_and_tables_differ_between_tensors(simulator):
    program = simulator.program
    assert program.tensors == ["x", "r"]
    assert program.macs == {"x": 24, "r": 12}
    places = [place for found in program.layers.values() for place in found]
    assert len(set(places)) == 2


def test_parameters_are_those_of_the_type():
    kind = type_of(Threshold("x", 2.0, -1.0, 2.0))
    scale, low, high = parameters_of(kind)
    assert (low, high) == (-85, 170)
    assert scale == pytest.approx(3 / 255)
    assert parameters_of(type_of(Threshold("x", 2.0, -1.0, 2.0), INT16))[1:] == (-32768, 32767)
    assert parameters_of(None) == UNQUANTIZED


@pytest.mark.parametrize(
    ("macs", "examples", "expected"),
    [
        (36, 100, (64, 12)),
        (5 * 10**9, 100, (8, 2)),  # 20 runs for each of both tensors
        (5 * 10**9, 3, (3, 2)),
        (10**12, 100, (8, 0)),
    ],
)
def test_large_programs_try_fewer_ranges_not_fewer_examples(simulator, macs, examples, expected):
    assert affordable(replace(simulator.program, total_macs=macs), examples) == expected


def test_noise_counts_all_examples_and_large_errors_alike():
    exact = np.array([[1.0], [1.0]])
    found = measured([exact + np.array([[0.1], [0.001]])], [exact])
    together = (0.1**2 + 0.001**2) / 2
    assert found.noise == pytest.approx(np.sqrt(together * 0.1 * 0.001))


def test_a_change_that_helps_few_examples_is_chance():
    before = Measured(np.zeros(16), 1.0)
    gain = 1 - 2 * MIN_GAIN
    assert is_better(Measured(np.full(16, -0.1), gain), before)
    mixed = np.tile([-0.3, 0.28], 8)
    assert not is_better(Measured(mixed, gain), before)
    assert not is_better(Measured(np.full(16, -0.1), 1 - MIN_GAIN / 2), before)
