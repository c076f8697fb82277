"""Programs with parts on the host start without compiling, too."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from explorer.cli import main
from explorer.runtime.cache.folder import open_cache
from explorer.runtime.host import HostProgram
from explorer.runtime.parts import PartsProgram
from explorer.session import Session, start

FOUND = """<ir_version: 9, opset_import: ["" : 17]>
found (float[1,1,10,10] x) => (float[k] y)
  <float[1,1,3,3] w = {1, 0, -1, 2, 0, -2, 1, 0, -1}, float[1] half = {0.5}> {
  c = Conv <pads = [1, 1, 1, 1]> (x, w)
  r = Relu (c)
  i = NonZero (r)
  t = Transpose <perm = [1, 0]> (i)
  g = GatherND (r, t)
  y = Add (g, half)
}"""
SIZED = """<ir_version: 9, opset_import: ["" : 17]>
sized (float[512,64] x, bool[512] c) => (float[k,64] y) {
  r = Relu (x)
  p = Compress <axis = 0> (r, c)
  y = MatMul (p, w)
}"""
X = np.random.default_rng(0).normal(size=(1, 1, 10, 10)).astype(np.float32)


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("nothing was to be read or compiled")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(FOUND), str(path))
    return path


def test_parts_start_from_what_is_kept_with_the_same_numbers(place, model, monkeypatch):
    with start(model, isolated=False) as compiled:
        assert not compiled.is_kept
        expected, taps = compiled.executable.run_with_taps({"x": X})
    monkeypatch.setattr("explorer.importers.load", forbidden)
    monkeypatch.setattr("explorer.compilation.compile_model", forbidden)
    with start(model, isolated=False) as started:
        assert started.is_kept
        assert [(p.function, p.device) for p in started.program.parts] == [
            ("main_cpu", "cpu"),
            ("main_host", "host"),
        ]
        found, again = started.executable.run_with_taps({"x": X})
        np.testing.assert_array_equal(found["y"], expected["y"])
        assert again.keys() == taps.keys()
        for key, value in taps.items():
            np.testing.assert_array_equal(again[key], value)
        lanes = {event.lane for event in started.executable.profile({"x": X}, 2).events}
        assert "host" in lanes
    with Session(model, isolated=False) as opened:
        np.testing.assert_array_equal(opened(X)["y"], expected["y"])
        assert opened.calls[0].event == "started"


def test_sizes_that_come_again_are_compiled_for_behind_a_kept_start(place, tmp_path):
    rng = np.random.default_rng(0)
    w, x = (rng.uniform(0, 1, s).astype(np.float32) for s in ((64, 64), (512, 64)))
    model = onnx.parser.parse_model(SIZED)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    path = tmp_path / "sized.onnx"
    onnx.save(model, str(path))
    inputs = {"x": x, "c": np.arange(512) < 400}
    start(path, isolated=False).close()
    with start(path, isolated=False) as started:
        assert started.is_kept and isinstance(started.executable, PartsProgram)
        part = started.executable.executables["main_cpu_sized"]
        assert isinstance(part, HostProgram)
        for compiled in (0, 1, 1):
            found = started.run(inputs)["y"]
            # Sums of 64 products in another order.
            np.testing.assert_allclose(found, x[:400] @ w, rtol=1e-5)
            assert len(part.compiled_sizes) == compiled


def test_parts_are_shipped_and_start_where_there_is_no_compiler(
    place, model, tmp_path, monkeypatch, capsys
):
    bundle = tmp_path / "net.programs"
    assert main(["cache", "export", str(model), "-o", str(bundle)]) == 0
    assert "has to compile" not in capsys.readouterr().err
    with start(model, isolated=False) as compiled:
        expected = compiled.run({"x": X})["y"]
    monkeypatch.setenv("CC", "/nowhere/cc")
    monkeypatch.setattr("explorer.compilation.compile_model", forbidden)
    cache = open_cache(tmp_path / "another")
    with Session(model, isolated=False, cache=cache, programs=bundle) as opened:
        np.testing.assert_array_equal(opened(X)["y"], expected)
        assert opened.calls[0].event == "started"


def test_what_the_host_runs_is_not_shipped_without_its_text(place, model, tmp_path, capsys):
    bundle = tmp_path / "net.programs"
    assert main(["cache", "export", str(model), "-o", str(bundle), "--without-source"]) == 2
    assert "what the host runs is text" in capsys.readouterr().err
    assert not bundle.exists()


def test_explain_says_of_a_program_with_parts_whether_it_is_kept(place, model, capsys):
    assert main(["cache", "explain", str(model)]) == 1
    assert "would be built" in capsys.readouterr().out
    start(model, isolated=False).close()
    assert main(["cache", "explain", str(model)]) == 0
    assert "starts without compiling" in capsys.readouterr().out


def test_a_node_that_the_host_imports_in_a_run_is_kept_with_the_text(place, tmp_path):
    path = tmp_path / "best.onnx"
    text = """<ir_version: 9, opset_import: ["" : 17]>
    best (float[1,1,10,10] x, int64[1] k) => (float[1,1,10,n] y)
      <float[1,1,3,3] w = {1, 0, -1, 2, 0, -2, 1, 0, -1}> {
      c = Conv <pads = [1, 1, 1, 1]> (x, w)
      y, i = TopK (c, k)
    }"""
    onnx.save(onnx.parser.parse_model(text), str(path))
    made = []
    for is_kept in (False, True):
        with start(path, isolated=False) as started:
            assert started.is_kept == is_kept
            made.append([started.run({"x": X, "k": np.array([k])})["y"] for k in (3, 4)])
    assert [array.shape[-1] for array in made[1]] == [3, 4]
    for compiled, kept in zip(*made, strict=True):
        np.testing.assert_array_equal(kept, compiled)


def test_what_the_host_runs_altogether_starts_without_compiling_too(place, tmp_path, capsys):
    path = tmp_path / "all.onnx"
    text = """<ir_version: 9, opset_import: ["" : 17]>
    all (float[8] x) => (int64[1,k] y) { y = NonZero (x) }"""
    onnx.save(onnx.parser.parse_model(text), str(path))
    x = np.array([0, 1, 0, 2, 0, 0, 0, 3], np.float32)
    for is_kept in (False, True):
        with start(path, isolated=False) as started:
            assert started.is_kept == is_kept
            assert [part.device for part in started.program.parts] == ["host"]
            np.testing.assert_array_equal(started.run({"x": x})["y"], [[1, 3, 7]])
    with Session(path, isolated=False) as opened:
        np.testing.assert_array_equal(opened(x)["y"], [[1, 3, 7]])
        assert opened.calls[0].event == "started"
    assert main(["cache", "explain", str(path)]) == 0
    assert "what the host runs is kept" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
