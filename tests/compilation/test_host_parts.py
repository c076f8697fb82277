"""Models with parts that the host runs: right numbers, shown as what they are."""

from dataclasses import dataclass, field
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.errors import UnsupportedError
from explorer.importers import SourceModel
from explorer.runtime.host import HostProgram
from explorer.runtime.parts import PartsProgram

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of at most 36 products in another order, and rounding in two libraries.
TOLERANCE = 2e-6


@dataclass(frozen=True)
class Case:
    graph: str
    runs: tuple[dict[str, np.ndarray], ...]
    weights: dict[str, np.ndarray] = field(default_factory=dict)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES = {
    "nonzero": Case(
        """nonzero (float[3,4] x) => (float[k] y, int64[2,k] i) {
          i = NonZero (x)
          t = Transpose <perm = [1, 0]> (i)
          y = GatherND (x, t)
        }""",
        ({"x": numbers(3, 4)}, {"x": np.maximum(numbers(3, 4), 0)}, {"x": np.zeros((3, 4), "f")}),
    ),
    "suppression": Case(
        """suppression (float[1,6,4] b, float[1,1,6] s) => (float[k,4] y)
        <int64 most, float overlap, float least, int64[1] two, int64[1] three, int64[1] one> {
          k = NonMaxSuppression (b, s, most, overlap, least)
          last = Slice (k, two, three, one)
          j = Squeeze (last, one)
          flat = Squeeze (b)
          y = Gather (flat, j)
        }""",
        tuple(
            {"b": np.sort(numbers(1, 6, 4, seed=n), -1)[..., [0, 1, 2, 3]], "s": numbers(1, 1, 6)}
            for n in (1, 2)
        ),
        {
            "most": np.int64(3),
            "overlap": np.float32(0.3),
            "least": np.float32(-1),
            "two": whole(2),
            "three": whole(3),
            "one": whole(1),
        },
    ),
    "range": Case(
        """range (int64 s, int64 l, int64 d) => (float[k] y) <float c> {
          r = Range (s, l, d)
          f = Cast <to = 1> (r)
          y = Mul (f, c)
        }""",
        tuple(dict(zip("sld", map(np.int64, v), strict=True)) for v in ((0, 5, 1), (9, 0, -4))),
        {"c": np.float32(0.5)},
    ),
    "expand": Case(
        """expand (float[1,4] x, int64[2] s) => (float[a,b] y) {
          e = Expand (x, s)
          y = Relu (e)
        }""",
        tuple({"x": numbers(1, 4), "s": whole(n, 4)} for n in (1, 3)),
    ),
    "filled": Case(
        """filled (float[1,4] x, int64[2] s) => (float[a,b] y) {
          e = ConstantOfShape <value = float[1] {2.0}> (s)
          y = Add (e, x)
        }""",
        tuple({"x": numbers(1, 4), "s": whole(n, 4)} for n in (2, 5)),
    ),
    "sliced": Case(
        """sliced (float[8,4] x, int64[1] s, int64[1] e) => (float[a,4] y) {
          t = Slice (x, s, e)
          y = Relu (t)
        }""",
        tuple({"x": numbers(8, 4), "s": whole(a), "e": whole(b)} for a, b in ((2, 5), (-3, 99))),
    ),
    "padded": Case(
        "padded (float[3,4] x, int64[4] p) => (float[a,b] y) { y = Pad (x, p) }",
        tuple({"x": numbers(3, 4), "p": whole(*p)} for p in ((0, 1, 2, 0), (0, 0, 0, 0))),
    ),
    "reshaped": Case(
        "reshaped (float[3,4] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }",
        tuple({"x": numbers(3, 4), "s": whole(*s)} for s in ((2, -1), (12, 1))),
    ),
    "different": Case(
        "different (float[8] x) => (float[k] y, int64[k] n) { y, a, b, n = Unique (x) }",
        ({"x": np.array([2, 1, 2, 2, 5, 1, 0, 0], np.float32)}, {"x": numbers(8)}),
    ),
    "compressed": Case(
        "compressed (float[4,2] x, bool[4] c) => (float[k,2] y) { y = Compress <axis = 0> (x, c) }",
        tuple({"x": numbers(4, 2), "c": np.array(c, bool)} for c in ((1, 0, 1, 1), (0, 0, 0, 0))),
    ),
    "counted_loop": Case(
        """counted_loop (float[3] x, int64 n) => (float[3] z) <bool go, float one> {
          y = Loop (n, go, x) <body = body (int64 i, bool c, float[3] s) => (bool d, float[3] t) {
            t = Add (s, one)
            d = Identity (c)
          }>
          z = Relu (y)
        }""",
        tuple({"x": numbers(3), "n": np.int64(n)} for n in (0, 3)),
        {"go": np.bool_(True), "one": np.float32(1)},
    ),
    "searching_loop": Case(
        """searching_loop (float[3] x, float most) => (float[3] y, float[k,3] rows)
        <bool go, float one> {
          y, rows = Loop (, go, x) <body = body (int64 i, bool c, float[3] s)
              => (bool d, float[3] t, float[3] row) {
            t = Add (s, one)
            total = ReduceSum <keepdims = 0> (t)
            d = Less (total, most)
            row = Identity (t)
          }>
        }""",
        tuple({"x": numbers(3), "most": np.float32(most)} for most in (4, 20)),
        {"go": np.bool_(True), "one": np.float32(1)},
    ),
    "branches": Case(
        """branches (float[4,2] x, bool c) => (float[k,2] z) <int64[1] zero, int64[1] two> {
          r = Relu (x)
          y = If (c) <then_branch = a () => (float[4,2] p) { p = Identity (r) },
                      else_branch = b () => (float[2,2] q) { q = Slice (r, zero, two) }>
          z = Neg (y)
        }""",
        tuple({"x": numbers(4, 2), "c": np.bool_(c)} for c in (True, False)),
        {"zero": whole(0), "two": whole(2)},
    ),
    "division": Case(
        """division (int64[4] q, int64[4] d, bool c) => (int64[4] y) {
          y = If (c) <then_branch = a () => (int64[4] p) { p = Div (q, d) },
                      else_branch = b () => (int64[4] r) { r = Identity (q) }>
        }""",
        (
            {"q": whole(7, 8, 9, 10), "d": whole(2, 3, 4, 5), "c": np.bool_(True)},
            {"q": whole(7, 8, 9, 10), "d": whole(0, 0, 0, 0), "c": np.bool_(False)},
        ),
    ),
}

MIXED = """
mixed (float[1,1,10,10] x) => (float[k,5] y, float[100,5] all)
<float[4,1,3,3] w, float[4,5] w2, float least, int64[1] flat, int64[2] rows, int64[1] first> {
  c = Conv <pads = [1, 1, 1, 1]> (x, w)
  r = Relu (c)
  m = ReduceMax <axes = [1], keepdims = 0> (r)
  v = Reshape (m, flat)
  g = Greater (v, least)
  i = NonZero (g)
  j = Squeeze (i, first)
  f = Reshape (r, rows)
  t = Transpose <perm = [1, 0]> (f)
  p = Gather (t, j)
  y = MatMul (p, w2)
  all = MatMul (t, w2)
}
"""
MIXED_WEIGHTS = {
    "least": np.float32(0.8),
    "flat": whole(100),
    "rows": whole(4, 100),
    "first": whole(0),
}


def expected(model: SourceModel, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    return dict(
        zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True)
    )


def assert_right(compilation: Compilation, inputs: dict[str, np.ndarray]) -> None:
    inputs = {name: np.asarray(array) for name, array in inputs.items()}
    made = compilation.run(inputs)
    for name, array in expected(compilation.model, inputs).items():
        assert made[name].dtype == array.dtype
        np.testing.assert_allclose(made[name], array, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    model = sources.source_model(tmp_path_factory.mktemp("mixed"), MIXED, **MIXED_WEIGHTS)
    compilation = explorer.compile(model)
    yield compilation
    compilation.close()


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_data_decide_are_right_for_all_data(name: str, tmp_path: Path):
    case = CASES[name]
    model = sources.source_model(tmp_path, case.graph, **case.weights)
    compilation = explorer.compile(model)
    assert any(part.device == "host" and part.reason for part in compilation.program.parts)
    for inputs in case.runs:
        assert_right(compilation, inputs)
    compilation.close()


def test_the_rest_is_compiled(mixed: Compilation):
    parts = [(part.function, part.device) for part in mixed.program.parts]
    assert parts == [("main_cpu", "cpu"), ("main_host", "host"), ("main_cpu_sized", "host")]
    assert {"conv_3x3_1", "matmul_1"} <= {k.name for k in mixed.program.kernels}
    assert isinstance(mixed.executable, PartsProgram)
    for seed in range(3):
        assert_right(mixed, {"x": numbers(1, 1, 10, 10, seed=seed)})


def test_every_pass_and_the_binary_are_checked(mixed: Compilation):
    accuracy = mixed.accuracy()
    assert accuracy.passed, str(accuracy)
    last = accuracy.report.passes[-1]
    assert {"i", "j", "p", "y"} <= {tensor.tensor for tensor in last.tensors}


def test_an_error_of_the_host_is_found(mixed: Compilation):
    """The check reads and replaces what the host makes, too: a wrong reference is noticed."""
    inputs = mixed.example_inputs()
    golden = dict(expected(mixed.model, inputs))
    golden["y"] = golden["y"] + 1
    assert not mixed.accuracy(inputs, golden=golden).passed


def test_a_profile_has_the_operations_of_the_host(mixed: Compilation):
    profile = mixed.profile(repeats=2)
    lanes = {event.operation: event.lane for event in profile.events}
    assert lanes["nonzero1"] == "host"
    assert {lane for operation, lane in lanes.items() if "conv" in operation} == {"cpu"}
    ends = [event.end_ns for event in profile.events]
    assert ends == sorted(ends)


def test_the_graph_says_where_an_operation_runs_and_why(mixed: Compilation):
    nodes = {node.id: node for node in mixed.final.graph.nodes}
    assert nodes["nonzero1"].device == "host"
    assert ("on the host", "what it reads decides how large its result is (1x?)") in (
        nodes["nonzero1"].attributes
    )
    assert nodes["matmul2"].device == "cpu"
    assert not any(name == "on the host" for name, _ in nodes["matmul2"].attributes)


def test_a_trace_keeps_the_parts_and_their_reasons(mixed: Compilation, tmp_path: Path):
    saved = explorer.open(mixed.save(tmp_path / "mixed.nnx")).trace()
    assert saved.program == mixed.program
    reasons = [part.reason for part in saved.program.parts if part.device == "host"]
    assert len(reasons) == 2 and all("size" in reason or "large" in reason for reason in reasons)
    assert saved.snapshots[-1].graph == mixed.final.graph


def test_the_memory_plan_is_of_what_the_device_runs(mixed: Compilation):
    assert list(mixed.plans) == ["main_cpu"]
    assert "nonzero1" not in {v for p in mixed.memory.placements for v in p.buffer.values}


def test_a_fork_changes_the_part_of_the_device(mixed: Compilation):
    fork = mixed.fork(layout="plain")
    assert_right(fork, {"x": numbers(1, 1, 10, 10)})
    assert fork.passes[5] is mixed.passes[5]
    fork.close()


def test_without_host_parts_the_model_is_refused_as_ever(mixed: Compilation):
    with pytest.raises(UnsupportedError, match="4 operations have no compiled form") as raised:
        explorer.compile(mixed.model, host=False)
    assert "nonzero1 (from " in str(raised.value)
    with pytest.raises(UnsupportedError, match="have no compiled form"):
        mixed.fork(host=False)


def test_a_model_without_host_parts_is_one_program(tmp_path: Path):
    model = sources.source_model(tmp_path, sources.CHAIN)
    with_host, without = explorer.compile(model), explorer.compile(model, host=False)
    assert with_host.program == without.program
    assert with_host.program.parts == ()
    assert with_host.final.text == without.final.text


PRODUCT = """
product (float[512,64] x, bool[512] c) => (float[k,64] y) <float[64,64] w> {
  p = Compress <axis = 0> (x, c)
  y = MatMul (p, w)
}
"""


LOOPING = """
looping (float[64,128] x, int64 n) => (float[64,128] y) <float[128,128] w, bool go> {
  s = Relu (x)
  y = Loop (n, go, s) <body = body (int64 i, bool c, float[64,128] a)
      => (bool d, float[64,128] b) {
    p = MatMul (a, w)
    q = Tanh (p)
    b = Add (q, s)
    d = Identity (c)
  }>
}
"""


def test_the_body_of_a_loop_of_the_host_is_compiled_when_it_runs_often(tmp_path: Path):
    weight = numbers(128, 128, seed=1) / 16
    constants = {"w": weight, "go": np.bool_(True)}
    compilation = explorer.compile(sources.source_model(tmp_path, LOOPING, **constants))
    executable = compilation.executable
    assert isinstance(executable, PartsProgram)
    part = executable.executables["main_host"]
    assert isinstance(part, HostProgram) and part.regions is not None
    start = np.maximum(x := numbers(64, 128), 0)
    for count, compiled in ((5, 0), (20, 1), (0, 1), (5, 1)):
        expected = start
        for _ in range(count):
            expected = np.tanh(expected @ weight) + start
        found = compilation.run({"x": x, "n": np.array(count)})["y"]
        # Sums of 128 products in another order, and what becomes of that in 20 iterations.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
        (programs,) = part.regions.programs.values()
        assert len(programs.compiled) == compiled
    compilation.close()


def test_products_are_compiled_for_sizes_that_come_again(tmp_path: Path):
    weight = numbers(64, 64, seed=1)
    compilation = explorer.compile(sources.source_model(tmp_path, PRODUCT, w=weight))
    executable = compilation.executable
    assert isinstance(executable, PartsProgram)
    part = executable.executables["main_cpu_sized"]
    assert isinstance(part, HostProgram)
    x = numbers(512, 64)
    often, once, few = np.arange(512) < 400, np.arange(512) < 300, np.arange(512) < 5
    for condition, compiled in ((often, 0), (once, 0), (often, 1), (few, 1), (few, 1), (often, 1)):
        inputs = {"x": x, "c": condition}
        found, right = compilation.run(inputs)["y"], x[condition] @ weight
        # Sums of 64 products in another order.
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-5 * np.abs(right).max())
        assert len(part.compiled_sizes) == compiled
    assert any("not worth compiling" in reason for reason in part.refused.values())
    compilation.close()
