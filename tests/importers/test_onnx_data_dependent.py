"""Nodes whose form only a run decides: one operation each, imported for what they read."""

import re
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import explorer
from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.importers import open_program, read_meanings
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.inspection.printing import dump, parse, show
from explorer.ir.program import Snapshot
from explorer.ir.structure import operations
from explorer.ir.top.data_dependent import DataDependentNodeOp
from explorer.ir.types import shape_of

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of at most 27 products in another order, and rounding in two libraries.
TOLERANCE = 2e-6


@dataclass(frozen=True)
class Case:
    graph: str
    shapes: tuple[tuple[int | str, ...], ...]
    """Of what the operations make, as far as they are known before a run."""
    runs: tuple[dict[str, np.ndarray], ...]
    opset: int = 17


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = np.random.default_rng(0).normal(size=(1, 2, 4, 6)).astype(np.float32)
ANY = ("?", "?", "?", "?")
CASES = {
    "TopK": Case(
        """best (float[1,2,4,6] x, int64[1] k) => (float[1,2,4,n] y, int64[1,2,4,n] i) {
          y, i = TopK (x, k)
        }""",
        (ANY,) * 2,
        tuple({"x": X, "k": whole(k)} for k in (1, 6)),
    ),
    "OneHot": Case(
        """hot (int64[3] i, int64[1] n, float[2] v) => (float[3,k] y) { y = OneHot (i, n, v) }""",
        ((3, "?"),),
        tuple(
            {"i": whole(0, -1, 2), "n": whole(n), "v": np.array([0, 2], np.float32)} for n in (3, 5)
        ),
    ),
    "Tile": Case(
        """tiled (float[1,2,4,6] x, int64[4] n) => (float[a,b,c,d] y) { y = Tile (x, n) }""",
        (ANY,),
        tuple({"x": X, "n": whole(*n)} for n in ((1, 1, 1, 1), (2, 1, 3, 1))),
    ),
    "ReduceSum": Case(
        """sums (float[1,2,4,6] x, int64[2] a) => (float[a,b] y) {
          y = ReduceSum <keepdims = 0> (x, a)
        }""",
        (("?", "?"),),
        tuple({"x": X, "a": whole(*a)} for a in ((0, 1), (3, -2))),
    ),
    "Split": Case(
        """split (float[1,2,4,6] x, int64[2] n) => (float[1,2,4,a] y, float[1,2,4,b] z) {
          y, z = Split <axis = 3> (x, n)
        }""",
        (ANY,) * 2,
        tuple({"x": X, "n": whole(*n)} for n in ((2, 4), (5, 1))),
    ),
}


def assert_right(model, made: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for name, array in zip(names, session.run(None, inputs), strict=True):
        assert made[name].dtype == array.dtype
        np.testing.assert_allclose(made[name], array, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_a_node_is_imported_for_every_contents(name: str, tmp_path: Path):
    case = CASES[name]
    model = sources.source_model(tmp_path, case.graph)
    opened = open_program(model, has_deferred_nodes=True)
    (op,) = (op for op in operations(opened.module) if isinstance(op, DataDependentNodeOp))
    assert op.label() == name.split()[0]
    assert tuple(shape_of(result) for result in op.results) == case.shapes
    snapshot = Snapshot(opened.module, opened.weights)
    for inputs in case.runs * 2:
        made = outputs_by_name(snapshot.program, snapshot.run(inputs))
        assert_right(model, made, inputs)


TILED = """
tiled (float[1,3,8,8] x, int64[4] n) => (float[a,b,c,d] y)
<float[4,3,3,3] w1, float[2,4,3,3] w2> {
  c = Conv <pads = [1, 1, 1, 1]> (x, w1)
  t = Tile (c, n)
  y = Conv <pads = [1, 1, 1, 1]> (t, w2)
}
"""


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    model = sources.source_model(tmp_path_factory.mktemp("tiled"), TILED)
    compilation = explorer.compile(model)
    yield compilation
    compilation.close()


def test_what_stands_around_it_is_compiled(tiled):
    parts = [part.function for part in tiled.program.parts]
    assert parts == ["main_cpu", "main_host", "main_cpu_sized"]
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    for times in ((2, 1), (1, 1), (2, 1)):
        inputs = {"x": x, "n": whole(1, 1, *times)}
        assert_right(tiled.model, tiled.run(inputs), inputs)


def test_it_is_refused_by_name_without_the_host(tiled):
    with pytest.raises(UnsupportedError, match="1 node of tiled cannot be imported") as raised:
        explorer.compile(tiled.model, host=False)
    assert "how often to repeat depends on the inputs" in raised.value.problems[0]


def test_what_no_converter_knows_stays_refused(tmp_path: Path):
    graph = """mode (float[1,2,4,6] x, int64[4] n) => (float[a,b,c,d] z) {
      y = Tile (x, n)
      z = com.example.Unknown (y)
    }"""
    model = sources.source_model(tmp_path, graph)
    with pytest.raises(UnsupportedError, match="1 node of mode cannot be imported") as raised:
        explorer.compile(model)
    assert "Unknown" in raised.value.problems[0]


def test_contents_that_do_not_fit_name_the_node(tmp_path: Path):
    opened = open_program(
        sources.source_model(tmp_path, CASES["TopK"].graph), has_deferred_nodes=True
    )
    with pytest.raises(ExplorerError) as raised:
        Snapshot(opened.module, opened.weights).run({"x": X, "k": whole(7)})
    assert raised.value.node == "topk1"
    assert "cannot be executed" in str(raised.value)


def test_complete_text_holds_the_meaning_and_other_text_its_name(tiled):
    program = tiled.passes[0].after.program
    text = dump(program)
    assert 'meaning = #top.meaning<"Tile ' in text
    shown = "\n".join(show(program).lines)
    assert re.search('meaning = #top.meaning<"Tile [^"]*">', shown)
    with pytest.raises(ModelError, match="only names what a node means"):
        parse(shown)


@pytest.mark.parametrize("name", [*CASES])
def test_a_node_out_of_a_text_computes_what_it_did(tmp_path: Path, name: str):
    case = CASES[name]
    model = sources.source_model(tmp_path, case.graph, opset=case.opset)
    opened = open_program(model, has_deferred_nodes=True)
    module = parse(dump(opened.module))
    inputs = case.runs[0]
    with pytest.raises(ExplorerError, match="has not read"):
        Snapshot(module, opened.weights).run(inputs)
    read_meanings(module)
    assert dump(module) == dump(opened.module)
    for inputs in case.runs:
        expected = Snapshot(opened.module, opened.weights).run(inputs)
        found = Snapshot(module, opened.weights).run(inputs)
        assert found.keys() == expected.keys()
        for value, array in expected.items():
            np.testing.assert_array_equal(found[value], array)


@pytest.mark.parametrize(
    "content", ["", "no base 64!", "AAAA", "CAo=", '", "'], ids=lambda content: repr(content)
)
def test_a_meaning_that_is_none_is_refused(tiled, content: str):
    whole = dump(tiled.passes[0].after.program)
    damaged = re.sub(r'(top.meaning<"[^"]*", "onnx", ")[^"]*"', rf'\g<1>{content}"', whole)
    assert damaged != whole
    with pytest.raises(ModelError):
        read_meanings(parse(damaged))


def test_such_a_node_is_no_problem_of_a_model(tiled):
    assert not explorer.inspect(tiled.model).problems
