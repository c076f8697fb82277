"""Loops over an open length: one program equals onnxruntime for every number of iterations."""

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import explorer
from explorer.errors import InputError, RangeError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import entry_function
from explorer.ir.open_sizes import sizes_of_function

sizes = SimpleNamespace(**run_path(str(Path(__file__).with_name("test_keep_sizes.py"))))
HIDDEN = 3
CALLS = [{"b": 3, "s": 6}, {"b": 1, "s": 1}, {"b": 2, "s": 4}]
HEADER = '<ir_version: 9, opset_import: ["": 17]> g '


def numbers(count: int, scale: float) -> str:
    return ",".join(f"{scale * np.sin(n + 1):.4f}" for n in range(count))


def layer(kind: str, direction: str, lengths: bool = False, **more: object) -> str:
    """A recurrent layer over (s, b, 2) with all of its results."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    d = 2 if direction == "bidirectional" else 1
    rows = gates * HIDDEN
    weights = (
        f"<float[{d},{rows},2] w = {{{numbers(d * rows * 2, 0.7)}}}, "
        f"float[{d},{rows},{HIDDEN}] r = {{{numbers(d * rows * HIDDEN, 0.6)}}}, "
        f"float[{d},{2 * rows}] k = {{{numbers(d * 2 * rows, 0.3)}}}>"
    )
    attributes = "".join(f", {name} = {value}" for name, value in more.items())
    given = ", int64[b] n" if lengths else ""
    called = "Cast <to = 6> (n)" if lengths else ""
    cast = f"l = {called}" if lengths else ""
    states = "y, h, c" if kind == "LSTM" else "y, h"
    outputs = f"float[s,{d},b,{HIDDEN}] y, float[{d},b,{HIDDEN}] h"
    outputs += f", float[{d},b,{HIDDEN}] c" if kind == "LSTM" else ""
    return (
        f"(float[s,b,2] x, float[{d},b,{HIDDEN}] h0{given}) => ({outputs}) {weights} {{ {cast} "
        f'{states} = {kind} <hidden_size = {HIDDEN}, direction = "{direction}"{attributes}> '
        f"(x, w, r, k, {'l' if lengths else ''}, h0) }}"
    )


SCAN = """(float[s,b,2] x, float[b,2] h0) => (float[b,2] h, float[s,b,2] y, float[b,s,2] z) {
  h, y, z = Scan <num_scan_inputs = 2, scan_input_directions = [%d, %d],
    scan_output_directions = [%d, %d], scan_output_axes = [0, 1], body = body
    (float[b,2] a, float[b,2] u, float[b,2] v) => (float[b,2] n, float[b,2] o, float[b,2] p)
    { half = Constant <value_float = 0.5> ()  t = Mul (a, half)  q = Add (t, u)  n = Tanh (q)
      o = Sub (n, v)  p = Exp (n) }> (h0, x, x)
}"""
LOOP = """(float[s,b] x) => (float[b] t, int64 k, float[s,b] y) <int64[1] rows = {0}> {
  first = Constant <value_int = 0> ()  d = Shape (x)  n = Gather <axis = 0> (d, first)
  go = Constant <value = bool {1}> ()  two = Constant <value_int = 2> ()
  total = ReduceSum <keepdims = 0> (x, rows)  zero = Sub (total, total)
  t, k, y = Loop <body = body (int64 i, bool c, float[b] a, int64 m) =>
    (bool e, float[b] o, int64 l, float[b] row)
    { e = Identity (c)  xi = Gather <axis = 0> (x, i)  o = Add (a, xi)  mm = Mul (m, two)
      l = Add (mm, i)  f = Cast <to = 1> (l)  row = Mul (o, f) }> (n, go, zero, two)
}"""
BRANCH = """(float[b,s] x) => (float[b,s] y) {
  one = Constant <value_int = 1> ()  d = Shape (x)  n = Gather <axis = 0> (d, one)
  three = Constant <value_int = 3> ()  c = Greater (n, three)
  y = If (c) <then_branch = t () => (float[b,s] p) { p = Exp (x) },
              else_branch = f () => (float[b,s] q) { q = Neg (x) }>
}"""
COUNTED = """first = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()
  d = Shape (x)  n = Gather <axis = 0> (d, first)  go = Constant <value = bool {1}> ()
  l = Sub (n, one)  rows = Constant <value_ints = [0]> ()"""
FORWARD_AND_BACK = f"""(float[s,b] x, float[b] h) => (float[b] t, float[r,b] y) {{ {COUNTED}
  t, y = Loop <body = body (int64 i, bool c, float[b] a) => (bool e, float[b] o, float[b] w)
    {{ e = Identity (c)  j = Sub (l, i)  xj = Gather <axis = 0> (x, j)  p = Add (a, xj)
      xi = Gather <axis = 0> (x, i)  o = Mul (p, xi)  w = Neg (o) }}> (n, go, h) }}"""
WHOLE = f"""(float[s,b] x, float[s,b] h) => (float[s,b] t, float[r,b] y) {{ {COUNTED}
  t, y = Loop <body = body (int64 i, bool c, float[s,b] a) => (bool e, float[s,b] o, float[b] w)
    {{ e = Identity (c)  xi = Gather <axis = 0> (x, i)  o = Add (a, xi)
      q = Softmax <axis = 0> (o)  w = ReduceSum <keepdims = 0> (q, rows) }}> (n, go, h) }}"""
UNTIL = f"""(float[s,b] x, float[b] h) => (float[b] t) {{ {COUNTED}
  two = Constant <value_float = 2.0> ()
  t = Loop <body = body (int64 i, bool c, float[b] a) => (bool e, float[b] o)
    {{ xi = Gather <axis = 0> (x, i)  o = Add (a, xi)  z = ReduceSum <keepdims = 0> (o, rows)
      e = Less (z, two) }}> (n, go, h) }}"""
LAYERS = {
    f"{kind} {direction}{' of lengths' if lengths else ''}": layer(kind, direction, lengths)
    for kind in ("LSTM", "GRU", "RNN")
    for direction in ("forward", "reverse", "bidirectional")
    for lengths in (False, True)
}
GRAPHS = {
    **LAYERS,
    "GRU that resets before": layer("GRU", "bidirectional", linear_before_reset=1),
    "Scan": SCAN % (0, 0, 0, 0),
    "Scan backwards": SCAN % (1, 1, 1, 1),
    "Scan backwards, rows in its order": SCAN % (1, 1, 0, 1),
    "Scan in both directions": SCAN % (0, 1, 1, 0),
    "Loop": LOOP,
    "Loop forward and back": FORWARD_AND_BACK,
    "Loop over all rows": WHOLE,
    "Loop until data end it": UNTIL,
    "If": BRANCH,
}


def graph(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


def inputs_of(model: onnx.ModelProto, call: dict[str, int]) -> dict[str, np.ndarray]:
    """Arrays of a call; lengths within its sequence."""
    found = sizes.arrays(model, call)
    if "n" in found:
        found["n"] = np.arange(call["b"], dtype=np.int64) % call["s"] + 1
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_equals_onnxruntime_for_every_number_of_iterations(name: str):
    sizes.compare(graph(GRAPHS[name]), 2e-6, inputs_of)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("batch", [None, 1])
def test_one_compiled_program_serves_all_lengths(batch: int | None, name: str, target: str):
    """Whatever its buffers hold of calls before; with one batch kernels have no loop over it."""
    text = GRAPHS[name] if batch is None else re.sub(r"\bb\b(?=[,\]])", "1", GRAPHS[name])
    model = graph(text)
    ranges = {found.name: (found.lowest, found.highest) for found in sizes.ranges_of(model)}
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in judge.get_outputs()]
    compiled = explorer.compile(from_proto(model), target, dimensions=ranges)
    with compiled.open() as program:
        for call in (CALLS[0], *CALLS, *CALLS[::-1]):
            inputs = inputs_of(model, {**call, "b": batch or call["b"]})
            if call is CALLS[0]:
                whole = {name: np.full_like(a, np.nan) if a.dtype.kind == "f" else a
                         for name, a in inputs.items()}  # fmt: skip
                program.run(whole)
            found = program.run(inputs)
            for output, array in zip(names, judge.run(None, inputs), strict=True):
                np.testing.assert_allclose(found[output], np.asarray(array), 1e-5, 1e-5)


def test_steps_after_a_call_s_last_one_are_skipped():
    """Each step's launches get a number that is 0 in calls without it."""
    model = from_proto(graph(GRAPHS["RNN reverse"]))
    compiled = explorer.compile(model, "cpu", dimensions={"b": 1, "s": (1, 3)})
    found = sizes_of_function(entry_function(compiled["find-extents"].after.program))
    assert found is not None
    runs = [text for _, text in found.numbers if text.startswith("min(1")]
    assert sorted(runs) == ["min(1,max(0,s-2))", "min(1,s-1)"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "(float[b,s] x, int64 n, float[b,s] h) => (float[b,s] y) { go = Constant <value = "
            "bool {1}> ()  y = Loop <body = body (int64 i, bool c, float[b,s] a) => (bool e, "
            "float[b,s] o) { e = Identity (c)  o = Add (a, x) }> (n, go, h) }",
            "data decide how often",
        ),
        (
            "(int64[s,b] x, int64[b] h) => (int64[b] y) { go = Constant <value = bool {1}> () "
            "d = Shape <end = 1> (x)  n = Squeeze (d)  y = Loop <body = body (int64 i, bool c, "
            "int64[b] a) => (bool e, int64[b] o) { e = Identity (c)  xi = Gather <axis = 0> (x, i) "
            "o = Div (a, xi) }> (n, go, h) }",
            "may divide by zero",
        ),
        (LAYERS["LSTM forward"], "300 iterations would become"),
    ],
)
def test_what_data_decide_and_what_is_too_long_is_refused_by_name(text: str, reason: str):
    highest = 300 if "300" in reason else 6
    with pytest.raises(RangeError, match=reason) as caught:
        explorer.compile(from_proto(graph(text)), "cpu", dimensions={"b": 1, "s": (1, highest)})
    assert "top.loop" in str(caught.value)


@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_states_of_one_size_are_remembered_from_chunk_to_chunk(isolated: bool):
    """Chunks of any length, judged by onnxruntime with the states handed on."""
    model = graph(re.sub(r"\bb\b(?=[,\]])", "1", GRAPHS["GRU forward"]))
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"s": (1, 4)}, states="h0=h")
    h = np.zeros((1, 1, HIDDEN), np.float32)
    random = np.random.default_rng(2)
    with compiled.open(isolated=isolated, remembers=True) as program:
        for length in (4, 1, 3, 1):
            x = random.standard_normal((length, 1, 2)).astype(np.float32)
            y, h = judge.run(None, {"x": x, "h0": h})
            found = program.run({"x": x})
            np.testing.assert_allclose(found["y"], np.asarray(y), 1e-5, 1e-6)
            np.testing.assert_allclose(program.state()["h0"], np.asarray(h), 1e-5, 1e-6)
        other = program.fork()
        program.reset()
        x = np.ones((2, 1, 2), np.float32)
        y, _ = judge.run(None, {"x": x, "h0": np.zeros_like(h)})
        np.testing.assert_allclose(program.run({"x": x})["y"], np.asarray(y), 1e-5, 1e-6)
        y, _ = judge.run(None, {"x": x, "h0": h})
        np.testing.assert_allclose(other.run({"x": x})["y"], np.asarray(y), 1e-5, 1e-6)
        with pytest.raises(InputError, match=r"s is 5 in the inputs"):
            program.run({"x": np.ones((5, 1, 2), np.float32)})
        other.close()


def test_states_with_an_open_size_are_refused_by_name():
    model = from_proto(graph(GRAPHS["RNN forward"]))
    compiled = explorer.compile(model, "cpu", dimensions={"b": (1, 2), "s": (1, 2)}, states="h0=h")
    with pytest.raises(InputError, match="the state `h0` has an open size: its axis 1 is b"):
        compiled.open(isolated=False, remembers=True)
