"""The model as it is: before the first pass, in a table, and where it cannot be compiled."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import explorer as ex
from explorer.accuracy.oracle import reference
from explorer.compilation.inspecting import read_trace
from explorer.compilation.source_snapshot import tensor_names
from explorer.errors import InputError, UnsupportedError
from explorer.ir.rewriting import replay
from explorer.ir.structure import index_operations
from explorer.results import Graph

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"


@pytest.fixture(scope="module")
def compiled():
    return ex.compile(SAMPLES / "digits_cnn.onnx")


def test_the_import_is_a_pass_from_the_model_to_the_program(compiled):
    result = compiled["import"]
    assert result.before is compiled.source
    assert result.before.level == "source"
    assert result.changed
    assert (result.before.operation_count, result.after.operation_count) == (17, 17)
    records = index_operations(result.before.program)
    for rewrite in result.rewrites:
        records = replay(records, rewrite)
    assert records == index_operations(result.after.program)


def test_running_the_model_is_running_the_reference(compiled):
    inputs = compiled.example_inputs()
    values = compiled.source.run(inputs)
    expected = reference(compiled.model, inputs)
    names = tensor_names(compiled.source)
    assert {names[value] for value in values} == set(expected)
    for value, array in values.items():
        np.testing.assert_array_equal(array, expected[names[value]])


def test_the_import_decides_nothing_that_a_fork_could_change(compiled):
    assert not [a for a in compiled.decisions() if a.startswith("import/")]
    with pytest.raises(InputError):
        compiled.fork(decisions={compiled["import"].rewrites[0].address: False})


def test_operators_are_counted_with_what_became_of_them(compiled):
    rows = {r.operator: r for r in compiled.operators}
    assert rows["Gemm"].made == (("top.matmul", 2), ("top.transpose", 2))
    assert rows["Conv"].parameters == 16 * 9 + 32 * 16 * 9 + 48 * 32 * 9
    assert rows["Identity"].made == ()
    assert sum(len(r.nodes) for r in compiled.operators) == compiled.trace().model.nodes
    families = [r.family for r in compiled.operators]
    assert families == sorted(families)


def test_operators_are_a_table(compiled):
    table = compiled.to_frame("operators")
    assert list(table["operator"])[:2] == ["Conv", "Gemm"]
    assert list(table["made"])[1] == "2 top.matmul, 2 top.transpose"


def test_a_saved_trace_keeps_the_model(compiled, tmp_path):
    saved = ex.open(compiled.save(tmp_path / "kept.nnx"))
    assert saved.trace().source == compiled.trace().source
    assert saved.trace().operators == compiled.operators
    assert saved["import"].before == compiled.trace().source


# -- models that cannot be compiled ----------------------------------------------------------------


def write(path: Path, *nodes: onnx.NodeProto, **domains: int) -> Path:
    words = helper.make_tensor_value_info("words", onnx.TensorProto.STRING, ["N"])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 4])
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        list(nodes),
        "g",
        [i for i in (words, x) if i.name in used],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
    )
    opsets = [helper.make_opsetid(name.replace("_", "."), v) for name, v in domains.items()]
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), *opsets]), path)
    return path


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    return write(
        tmp_path / "refused.onnx",
        helper.make_node("Wobble", ["x"], ["a"], "first", domain="com.example"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Wibble", ["b"], ["y"], "second", domain="com.example"),
        com_example=1,
    )


def test_what_compile_refuses_is_opened_with_all_reasons(refused: Path):
    found = ex.inspect(refused)
    assert found.problems == {"first": "unknown operator", "second": "unknown operator"}
    assert not found.can_be_imported
    assert found.source.operation_count == 3
    assert [r.problems for r in found.operators if r.operator == "Wobble"] == [
        (("node_first", "unknown operator"),)
    ]
    with pytest.raises(UnsupportedError) as caught:
        ex.compile(refused)
    assert all(name in str(caught.value) for name in ("first", "second", "explorer.inspect"))


def test_what_was_inspected_is_told_in_text_and_in_html(refused: Path):
    found = ex.inspect(refused)
    assert str(found).splitlines()[0] == "refused: 2 of 3 nodes cannot be imported"
    assert "⊘ first   unknown operator" in str(found)
    assert "2 of 3 nodes cannot be imported" in found._repr_html_()


def test_a_model_that_takes_strings_is_opened(tmp_path: Path):
    path = write(
        tmp_path / "words.onnx",
        helper.make_node("StringNormalizer", ["words"], ["y"], "normalize"),
    )
    found = ex.inspect(path)
    assert not found.problems
    assert "words.codes" in found.source.to_text()


def test_the_trace_of_what_was_inspected_has_no_passes(refused: Path):
    trace = ex.inspect(refused).trace()
    assert trace.passes == () and trace.snapshots == ()
    assert trace.source is not None
    assert [n.problem for n in trace.source.graph.nodes if n.label == "Wobble"] == [
        "unknown operator"
    ]


def test_a_model_that_can_be_compiled_is_inspected_too():
    found = ex.inspect(ex.load(SAMPLES / "digits_mlp.onnx"))
    assert found.can_be_imported and found.hint == ""
    assert all(r.made or r.operator in ("Identity", "Dropout") for r in found.operators)


def test_symbolic_dimensions_are_named_where_sizes_might_help(tmp_path: Path):
    path = write(tmp_path / "n.onnx", helper.make_node("Wobble", ["x"], ["y"], "odd"))
    assert "'N'" in ex.inspect(path).hint
    assert ex.inspect(path, dimensions={"N": 2}).hint == ""


@pytest.mark.parametrize("name", ["digits_cnn.onnx", "roundings_int8.tflite"])
def test_a_model_as_it_was_read_has_the_nodes_and_edges_of_its_import(name: str):
    model = ex.load(SAMPLES / name)
    read, imported = read_trace(model), ex.inspect(model).trace()
    assert read.source is not None and imported.source is not None
    assert read.passes == () and read.problems == ()

    def shape(graph: Graph) -> tuple[list[tuple[str, str]], set[tuple[str, str]]]:
        nodes = [(node.id, node.label) for node in graph.nodes if node.family != "weight"]
        known = {name for name, _ in nodes}
        edges = {(e.source, e.target) for e in graph.edges if e.source in known}
        return nodes, edges

    assert shape(read.source.graph) == shape(imported.source.graph)
