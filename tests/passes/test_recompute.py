"""Cheap operations computed again, so that their results live shortly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.errors import InputError
from explorer.importers.onnx.file.reading import from_proto
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, run_pass
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.passes.lower.recompute import Recompute

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))
KIND = "tensor<4x4xf32>"
TEXT = f"""func.func @main(%x : {KIND}) -> ({KIND}) {{
      %w = top.weight() {{weight = "w"}} : {KIND}
      %a = top.unary(%x) {{kind = "exp"}} : {KIND}
      %b = top.matmul(%a, %w) : {KIND}
      %c = top.unary(%b) {{kind = "sin"}} : {KIND}
      %y = top.binary(%c, %a) {{kind = "mul"}} : {KIND}
      top.return(%y)\n}}"""


def passed(decisions: Mapping[str, object], text: str = TEXT):
    working = programs.program(text)
    programs.run_passes(working, [PlaceOnDevice("cpu")])
    inputs = programs.random_inputs(working.snapshot)
    before = working.snapshot.run(inputs)
    result = run_pass(Recompute(), working, RewriteOptions(dict(decisions)))
    after = result.after.run(inputs)
    for name in before.keys() & after.keys():
        np.testing.assert_array_equal(after[name], before[name], name)
    return result


def test_a_late_reader_gets_a_result_of_its_own():
    result = passed({"recompute/again/a": True})
    operations = result.after.operations
    assert operations["y"].operands[1].owner is operations["a1"]
    assert operations["b"].operands[0].owner is operations["a"]
    (event,) = result.rewrites
    assert event.applied and event.site == "a"


def test_without_a_decision_nothing_changes_and_what_may_be_is_a_knob():
    for decisions in ({}, {"recompute/again/a": False}):
        result = passed(decisions)
        assert not result.changed
        knobs = result.artifacts[KNOBS]
        assert isinstance(knobs, tuple)
        assert [(k.address, k.value) for k in knobs] == [("recompute/again/a", False)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [("b", "it is not cheap"), ("c", "only one operation reads c"), ("w", "no operation that a")],
)
def test_what_is_not_cheap_or_read_once_is_refused(value: str, reason: str):
    with pytest.raises(InputError, match=reason):
        passed({f"recompute/again/{value}": True})


def test_what_is_returned_stays():
    text = TEXT.replace(f"({KIND}) {{", f"({KIND}, {KIND}) {{", 1)
    text = text.replace("top.return(%y)", "top.return(%y, %a)")
    with pytest.raises(InputError, match="a is returned"):
        passed({"recompute/again/a": True}, text)


NET = """<ir_version: 8, opset_import: ["": 17]>
  net (float[1, 64] x) => (float[1, 64] y) {
    wide = Expand(x, shape)
    a = Softmax<axis = 0>(wide)
    r = ReduceSum<keepdims = 1>(a, first)
    big = Concat<axis = 0>(r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r)
    s = Softmax<axis = 0>(big)
    t = ReduceSum<keepdims = 1>(s, first)
    m = Mul(wide, t)
    y = ReduceSum<keepdims = 1>(m, first)
  }"""


def test_a_budget_takes_it_where_it_saves_memory():
    proto = onnx.parser.parse_model(NET)
    for name, array in (("shape", [16, 64]), ("first", [0])):
        array = np.array(array, np.int64)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    c = explorer.compile(from_proto(proto))
    knobs = [k.address for k in c.knobs if k.address.startswith("recompute/again/")]
    assert knobs
    d = c.fork(decisions={knobs[0]: True})
    assert d.memory.bound_bytes < c.memory.bound_bytes
    e = c.fork(budget_bytes=d.memory.peak_bytes)
    assert e.memory.peak_bytes <= d.memory.peak_bytes
    assert {step.lever for step in e.memory.fit if step.taken} == {"recompute"}
    inputs = c.example_inputs()
    np.testing.assert_array_equal(e.run(inputs)["y"], c.run(inputs)["y"])
    assert c.fork(decisions=e.decisions()).memory.peak_bytes == e.memory.peak_bytes
