"""One program for a range of sizes: equal to onnxruntime at each, built once."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

import explorer
from explorer.accuracy.oracle import reference
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.runtime.compilers import compile_shared_library
from explorer.runtime.executable import Executable
from explorer.runtime.native.program import NativeProgram

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of some hundred products in another order, and rounding in two libraries.
TOLERANCE = 4e-6
SIZES = (8, 1, 3, 8, 2)

CONVOLUTIONS = """
convolutions (float[batch,3,9,9] x) => (float[batch,10] y)
<float[32,3,3,3] w1, float[32] b1, float[32,1,3,3] w2, float[32] b2, float[32,10] w3,
 int64[2] flat> {
  c1 = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv <pads = [1,1,1,1], group = 32> (r1, w2, b2)
  s = Add (c2, r1)
  p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (s)
  g = GlobalAveragePool (p)
  f = Reshape (g, flat)
  m = MatMul (f, w3)
  y = Softmax <axis = 1> (m)
}
"""

ATTENTION = """
attention (int64[batch,6] ids) => (float[batch,6,16] y)
<float[40,16] table, float[6,16] positions, float[16,16] wq, float[16,16] wk, float[16,16] wv,
 float[16] scale, float[16] shift, int64[4] heads, int64[3] joined> {
  e = Gather (table, ids)
  x = Add (e, positions)
  n = LayerNormalization <axis = -1> (x, scale, shift)
  q0 = MatMul (n, wq)
  k0 = MatMul (n, wk)
  v0 = MatMul (n, wv)
  q1 = Reshape (q0, heads)
  k1 = Reshape (k0, heads)
  v1 = Reshape (v0, heads)
  q = Transpose <perm = [0,2,1,3]> (q1)
  k = Transpose <perm = [0,2,3,1]> (k1)
  v = Transpose <perm = [0,2,1,3]> (v1)
  s = MatMul (q, k)
  a = Softmax <axis = -1> (s)
  o = MatMul (a, v)
  o1 = Transpose <perm = [0,2,1,3]> (o)
  o2 = Reshape (o1, joined)
  y = Add (o2, x)
}
"""
ARRAYS = {
    "flat": np.array([-1, 32], np.int64),
    "heads": np.array([0, 6, 2, 8], np.int64),
    "joined": np.array([0, 6, 16], np.int64),
}


@pytest.fixture(scope="module", params=["convolutions", "attention"])
def model(request, tmp_path_factory):
    text = CONVOLUTIONS if request.param == "convolutions" else ATTENTION
    return sources.source_model(tmp_path_factory.mktemp("range"), text, **ARRAYS)


@pytest.fixture(scope="module")
def compiled(model) -> Compilation:
    return explorer.compile(model, "cpu", dimensions={"batch": (1, 8)})


def worst(compilation: Compilation, size: int, outputs, inputs) -> float:
    names = [o.name for o in compilation.model.outputs]
    expected = reference(compilation.model, inputs, names)
    assert {n: outputs[n].shape for n in names} == {n: expected[n].shape for n in names}
    assert outputs[names[0]].shape[0] == size
    errors = [np.max(np.abs(outputs[n] - expected[n])) / np.max(np.abs(expected[n])) for n in names]
    return float(max(errors))


def run_at_all_sizes(compilation: Compilation, executable: Executable) -> None:
    for size in SIZES:
        inputs = compilation.example_inputs(size, {"batch": size})
        assert worst(compilation, size, executable.run(inputs), inputs) < TOLERANCE


def test_one_library_serves_all_sizes(compiled, tmp_path):
    built = []

    def build(source: str) -> Path:
        built.append(source)
        return compile_shared_library(source, tmp_path)

    program = NativeProgram(compiled.built.program, compiled.built.weights, build=build)
    with program as executable:
        run_at_all_sizes(compiled, executable)
    assert len(built) == 1


@pytest.mark.sampled(1)
@pytest.mark.opencl
def test_one_opencl_program_serves_all_sizes(model):
    compilation = explorer.compile(model, "opencl", dimensions={"batch": (1, 8)})
    with compilation.open() as executable:
        run_at_all_sizes(compilation, executable)


def test_rows_of_an_earlier_run_change_nothing(compiled):
    """Bit by bit: what stands behind the rows of a smaller size takes no part in them."""
    with compiled.open() as executable:
        inputs = compiled.example_inputs(0, {"batch": 8})
        full = executable.run(inputs)
        poison = {
            name: np.full_like(array, np.nan if array.dtype.kind == "f" else array.max())
            for name, array in inputs.items()
        }
        executable.run(poison)
        for size in (1, 3, 7):
            part = executable.run({name: array[:size] for name, array in inputs.items()})
            for name, array in part.items():
                np.testing.assert_array_equal(array, full[name][:size])


def test_at_the_largest_size_it_is_the_program_for_that_size(model, compiled):
    fixed = explorer.compile(model, "cpu", dimensions={"batch": 8})
    inputs = fixed.example_inputs(5)
    ours, theirs = compiled.run(inputs), fixed.run(inputs)
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert compiled.memory.peak_bytes == fixed.memory.peak_bytes


def test_loops_over_rows_end_with_the_size(compiled):
    clipped = [r.site for r in compiled["clip-loops"].rewrites if r.applied]
    assert clipped
    text = "\n".join(compiled.program.source.lines)
    assert "size_batch" in text
    assert all(not r.applied or r.site in compiled.kernels for r in compiled["clip-loops"].rewrites)


@pytest.mark.sampled(1)
def test_accuracy_compares_the_largest_and_the_smallest_size(compiled):
    accuracy = compiled.accuracy()
    assert accuracy.passed
    labels = [error.tensor for error in accuracy.report.outputs]
    assert labels == ["y", "y (batch = 1)"]


def test_accuracy_at_a_size_of_ones_own(compiled):
    accuracy = compiled.accuracy(compiled.example_inputs(1, {"batch": 3}))
    assert accuracy.passed
    assert [error.operation for error in accuracy.report.outputs] == ["output:y"]
    assert len(accuracy.report.passes[0].tensors) > 5


def test_a_size_outside_of_the_range_is_refused(compiled):
    with pytest.raises(InputError, match=r"batch is 9 in input .* compiled for 1 to 8"):
        compiled.run(compiled.example_inputs(0, {"batch": 9}))


def test_forks_knobs_and_traces_carry_the_range(compiled, tmp_path):
    knob = next(k for k in compiled.knobs if k.address == "dimensions/batch")
    assert knob.value == "1..8"
    narrower = compiled.fork(decisions={"dimensions/batch": "2..4"})
    assert narrower.program.size is not None
    assert (narrower.program.size.lowest, narrower.program.size.highest) == (2, 4)
    assert "batch = 2..4" in narrower.label
    fixed = narrower.fork(dimensions={"batch": 2})
    assert fixed.program.size is None
    assert "keep-range" not in fixed.names
    saved = explorer.open(compiled.save(tmp_path / "range.nnx"))
    program = saved.trace().program
    assert program is not None
    assert program.size == compiled.program.size


@pytest.mark.parametrize("sizes", [(0, 3), (3, 2), (1, 2, 3), "1..3", (1.0, 2)])
def test_what_is_no_range_is_refused(model, sizes):
    with pytest.raises(InputError, match="dimension 'batch' cannot"):
        explorer.compile(model, "cpu", dimensions={"batch": sizes})


def test_a_model_that_mixes_its_rows_is_refused_by_name(tmp_path):
    text = """
    mixing (float[1,2,batch,4] x) => (int64[1,2,1,4] y) {
      y = ArgMax <axis = 2, select_last_index = 1> (x) }
    """
    model = sources.source_model(tmp_path, text)
    with pytest.raises(InputError, match=r"batch.*top.arg argmax1: of equal elements") as error:
        explorer.compile(model, "cpu", dimensions={"batch": (1, 8)})
    assert "--dim batch=8" in error.value.hint


def test_a_fixed_batch_in_a_reshape_is_a_constraint(tmp_path):
    text = """
    fixed (float[batch,4] x) => (float[2,2] y) <int64[2] shape> { y = Reshape (x, shape) }
    """
    model = sources.source_model(tmp_path, text, shape=np.array([2, 2], np.int64))
    compiled = explorer.compile(model, "cpu")
    assert [c.text for c in compiled.constraints] == ["batch == 1"]
    assert compiled.to_frame("constraints") is not None
    with pytest.raises(InputError, match="batch = 2, but the model needs batch == 1"):
        explorer.compile(model, "cpu", dimensions={"batch": 2})
    with pytest.raises(InputError, match="the range holds batch = 2"):
        explorer.compile(model, "cpu", dimensions={"batch": (1, 2)})
