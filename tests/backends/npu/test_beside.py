"""What instructions cannot compute: C functions beside them, bit-equal to the integer program."""

import json

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.backends.npu.emitted import read_emitted
from explorer.compilation.bits import is_bit_exact
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
    assert c.beside is not None
    assert list(c.beside.plans) == ["main_cpu", "main_cpu_2", "main_cpu_3"]
    names = [kernel.name for kernel in c.program.kernels]
    assert len(set(names)) == len(names) >= len(c.beside.program.kernels) > 2
    assert all(c.kernels[kernel.name].steps for kernel in c.beside.program.kernels)
    assert c.program.source.language == "npu"


def test_without_a_compiler_the_host_does_it_and_says_so(between, monkeypatch):
    path, table, x = between
    library()  # the simulator needs a compiler, too
    monkeypatch.setenv("CC", "")
    c = explorer.compile(path, "odd-12x20", quantization=table, inputs=x)
    assert c.beside is None
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
