"""What instructions cannot compute: companion functions in C, bit-equal to the integer program."""

import json

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.backends.npu.emitted import read_emitted
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.errors import InputError
from explorer.runtime.npu.simulation import library

BETWEEN = """<ir_version: 9, opset_import: ["" : 17]>
between (float[1,4,6,6] x) => (float[1,4,6,6] y) <
  float[4,4,1,1] w = {1, -2, 3, -4, 2, 2, -1, 1, 0.5, 1, 2, -3, 1, 1, -1, 2}
> {
  a = Conv (x, w)
  b = Softmax <axis = -2> (a)
  c = Conv (b, w)
  y = Softmax <axis = -2> (c)
}"""
"""A softmax between two layers, and one behind them."""


@pytest.fixture(scope="module")
def between(tmp_path_factory):
    path = tmp_path_factory.mktemp("between") / "between.onnx"
    onnx.save(onnx.parser.parse_model(BETWEEN), path)
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (2, 4, 6, 6)).astype(np.float32)}
    table = explorer.calibrate(path, data, method="min-max", corrections=(), arithmetic="integer")
    return path, table, {"x": data["x"][:1]}


def parts_of(c):
    return [(part.function, part.device) for part in c.program.parts]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("machine", ["vta-16", "odd-12x20"])
def test_parts_between_instructions_are_c(between, machine):
    path, table, x = between
    c = explorer.compile(path, machine, quantization=table, inputs=x)
    own = f"main_{machine.replace('-', '_')}"
    assert parts_of(c) == [
        ("main_cpu", "cpu"),
        (own, machine),
        ("main_cpu_2", "cpu"),
        (f"{own}_2", machine),
        ("main_cpu_3", "cpu"),
    ]
    assert "it is over axes [2], along which lie positions" in c.program.parts[2].reason
    assert {device for _, device, _ in c.placed_elsewhere} == {"cpu"}
    assert is_bit_exact(c["place-on-device"].after, c.executable, x)
    assert c.accuracy(x).passed
    assert {e.lane for e in c.profile(x).events if not e.cycles} == {"cpu"}
    counted = c.counted
    assert counted is not None and counted.cycles == counted.predicted_cycles
    c.close()


def test_functions_beside_are_compiled_like_any_program(between):
    path, table, x = between
    c = explorer.compile(path, "odd-12x20", quantization=table, inputs=x)
    assert c.companion is not None
    assert list(c.companion.plans) == ["main_cpu", "main_cpu_2", "main_cpu_3"]
    names = [kernel.name for kernel in c.program.kernels]
    assert len(set(names)) == len(names) >= len(c.companion.program.kernels) > 2
    assert all(c.kernels[kernel.name].steps for kernel in c.companion.program.kernels)
    assert c.program.source.language == "npu"


def test_without_a_compiler_the_host_does_it_and_says_so(between, monkeypatch):
    path, table, x = between
    library()  # the simulator needs a compiler, too
    monkeypatch.setenv("CC", "")
    c = explorer.compile(path, "odd-12x20", quantization=table, inputs=x)
    assert c.companion is None
    assert {device for _, device in parts_of(c)} == {"host", "odd-12x20"}
    assert all("names no C compiler" in reason for _, reason in c.host_operations)
    assert is_bit_exact(c["place-on-device"].after, c.executable, x)
    c.close()


def test_each_part_is_emitted_and_they_run_one_after_the_other(between, tmp_path):
    path, table, x = between
    c = explorer.compile(path, "vta-16", quantization=table, inputs=x)
    out = tmp_path / "out"
    c.backend.emit(c.passes, c.target, out, 4096)
    order = json.loads((out / "parts.json").read_text())["parts"]
    assert [(part["function"], part["device"]) for part in order] == parts_of(c)
    known = c["place-on-device"].after.run(x)
    ran = 0
    for part in order:
        if part["device"] == "vta-16":
            emitted = read_emitted(out / part["function"])
            found, _ = emitted.run({name: known[f"{name}.device"] for name in emitted.inputs})
            for name, array in found.items():
                np.testing.assert_array_equal(array, known[name])
            ran += 1
    assert ran == 2
    with pytest.raises(InputError, match=r"several programs.*main_vta_16_2"):
        read_emitted(out)


TOO_LARGE = """<ir_version: 9, opset_import: ["" : 17]>
too_large (float[1,16,33,34] x) => (y) <int64[4] shape = {2, 16, 33, 33}> {
  w = ConstantOfShape <value = float[1] {0.25}> (shape)
  y = Conv (x, w)
}"""
NOT_QUANTIZED = """<ir_version: 9, opset_import: ["" : 17]>
floats (float[1,2,4,4] x) => (y) { y = Relu (x) }"""


@pytest.mark.parametrize("text", [TOO_LARGE, NOT_QUANTIZED], ids=["too large", "floats"])
@pytest.mark.parametrize("compiler", ["C", "no C"])
def test_a_network_of_which_nothing_fits_runs_elsewhere(tmp_path, monkeypatch, text, compiler):
    model = onnx.parser.parse_model(text)
    onnx.save(model, path := tmp_path / "m.onnx")
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = {"x": np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)}
    table = explorer.calibrate(path, x, method="min-max", corrections=(), arithmetic="integer")
    if compiler == "no C":
        monkeypatch.setenv("CC", "")
    c = explorer.compile(path, "vta-16", quantization=table, inputs=x)
    assert c.is_all_elsewhere and c.counted is None and not c.plans
    assert {device for _, device in parts_of(c)} == {"cpu" if compiler == "C" else "host"}
    first, again = c.run(x), c.run(x)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert is_bit_exact(c["place-on-device"].after, c.executable, x)
    assert c.accuracy(x).passed
    assert {event.lane for event in c.profile(x, repeats=2).events} <= {"cpu", "host"}
    c.save(tmp_path / "c.nnx")
    saved = explorer.open(tmp_path / "c.nnx").trace().program
    assert saved is not None and len(saved.parts) == len(c.program.parts)
    with pytest.raises(InputError, match="runs no part of this model"):
        c.backend.emit(c.passes, c.target, tmp_path / "out", 0)
    c.close()


SPLIT = """<ir_version: 9, opset_import: ["" : 17]>
split (float[1,3,12,12] x, float[140,3,1,1] w, float[5,70,1,1] v) => (float y, float z)
<
  int64[3] groups = {70, 2, 144}, int64[5] halves = {2, 1, 70, 12, 12},
  int64[4] picture = {1, 70, 12, 12}, int64[1] one = {1}, int64[1] two = {2}, int64[1] zero = {0}
> {
  a = Conv (x, w)
  b = Reshape (a, groups)
  c = Transpose <perm = [1, 0, 2]> (b)
  d = Reshape (c, halves)
  y = Softmax <axis = 3> (d)
  e = Slice (d, one, two, zero)
  f = Reshape (e, picture)
  z = Conv (f, v)
}"""
"""Shuffled channels of which a function of the host reads both halves, and a layer the second."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("machine", ["vta-16", "odd-12x20"])
def test_what_is_no_layer_without_what_it_read_through_goes_elsewhere(machine, tmp_path):
    """From the picture the second half are channels; from the halves, as the other reads them,
    positions."""
    model = onnx.parser.parse_model(SPLIT)
    random = np.random.default_rng(0)
    for value in list(model.graph.input)[1:]:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = random.normal(0, 1, shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)
    onnx.save(model, tmp_path / "split.onnx")
    data = {"x": random.uniform(-1, 1, (2, 3, 12, 12)).astype(np.float32)}
    table = explorer.calibrate(tmp_path / "split.onnx", data, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    x = {"x": data["x"][:1]}
    c = explorer.compile(tmp_path / "split.onnx", machine, quantization=table, inputs=x)
    assert is_bit_exact(c["place-on-device"].after, c.executable, x)
    assert c.accuracy(x).passed
    reasons = {name: reason for name, _, reason in c.placed_elsewhere}
    assert any("between channels and positions" in reason for reason in reasons.values())
    assert not [name for name in reasons if name.startswith("conv")]
    c.close()
