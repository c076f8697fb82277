"""Compilations as tables, with and without pandas, live and out of a file."""

import sys
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest
from onnx import TensorProto, helper

import explorer
from explorer.compilation import Compilation, Table
from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.traces.tables import FRAMES

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    compilation = explorer.compile(model, "cpu")
    compilation.accuracy()
    return compilation


@pytest.fixture(scope="module")
def constrained() -> Compilation:
    """The sum of two vectors, whose lengths have two names."""
    vectors = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n, size in ("an", "bm")
    ]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"], name="add")],
        "sum",
        vectors,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return explorer.compile(from_proto(proto), "cpu", dimensions={"n": 4, "m": 4})


@pytest.fixture
def without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)


def test_pandas_frames_come_where_pandas_is_installed(compiled):
    pandas = pytest.importorskip("pandas")
    frame = compiled.to_frame("passes")
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["name"]) == compiled.names


@pytest.mark.parametrize("kind", FRAMES)
def test_both_forms_hold_the_same(compiled, constrained, kind, monkeypatch):
    pytest.importorskip("pandas")
    compiled = constrained if kind == "constraints" else compiled
    frame = compiled.to_frame(kind)
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = compiled.to_frame(kind)
    assert isinstance(table, Table)
    assert list(frame.columns) == list(table.columns)
    assert len(frame) == len(table) > 0
    for column in table.columns:
        assert [str(v) for v in frame[column] if v is not None and v == v] == [
            str(v) for v in table[column] if v is not None
        ]


@pytest.mark.usefixtures("without_pandas")
def test_passes_say_what_was_rewritten(compiled):
    rows = {row["name"]: row for row in compiled.to_frame("passes")}
    assert rows["fold-batch-norm"]["rewrites"] == 1
    assert rows["fold-batch-norm"]["operations_before"] == 5
    assert rows["fold-batch-norm"]["operations_after"] == 4
    assert rows["plan-memory"]["level"] == "memory"


@pytest.mark.usefixtures("without_pandas")
def test_events_have_addresses_that_forks_understand(compiled):
    event = next(e for e in compiled.to_frame("events") if e["pass"] == "fold-batch-norm")
    branch = compiled.fork(decisions={event["address"]: False})
    (declined,) = [
        e for e in branch.to_frame("events") if e["address"] == event["address"] and e["reason"]
    ]
    assert (declined["applied"], declined["reason"]) == (False, "declined by an override")


@pytest.mark.usefixtures("without_pandas")
def test_layers_are_the_launches_in_order(compiled):
    layers = compiled.to_frame("layers")
    assert layers["operation"] == [launch.operation for launch in compiled.program.launches]
    offsets = compiled.memory.offsets
    assert layers["offset_bytes"] == [offsets[name] for name in layers["operation"]]
    assert sum(layers["flops"]) == 2 * compiled.final.macs


@pytest.mark.usefixtures("without_pandas")
def test_what_was_measured_is_in_the_layers(compiled):
    branch = compiled.fork(label="measured")
    assert set(branch.to_frame("layers")["max_relative"]) == {None}
    assert set(branch.to_frame("layers")["microseconds"]) == {None}
    branch.accuracy()
    branch.profile(repeats=2)
    rows = [row for row in branch.to_frame("layers") if row["kind"] == "convolution"]
    assert len(rows) == 2
    assert all(0 < row["max_relative"] < 1e-5 for row in rows)
    assert all(row["microseconds"] >= 0 for row in rows)
    assert all(0 < e < 1e-5 for e in branch.to_frame("passes")["max_relative"])


@pytest.mark.usefixtures("without_pandas")
def test_buffers_are_those_of_the_plan(compiled):
    buffers = compiled.to_frame("buffers")
    assert sum(buffers["size_bytes"]) == compiled.memory.total_bytes
    ends = zip(buffers["offset_bytes"], buffers["size_bytes"], strict=True)
    assert max(offset + size for offset, size in ends) == compiled.memory.peak_bytes


@pytest.mark.usefixtures("without_pandas")
def test_kernels_tell_their_steps_and_choices(compiled):
    rows = {row["name"]: row for row in compiled.to_frame("kernels")}
    name = next(n for n in rows if n.startswith("conv"))
    assert rows[name]["steps"][0] == "lower"
    assert "parallel" in rows[name]["steps"]
    chosen = " ".join(f"{key}={value}" for key, value in compiled.schedule[name].items())
    assert sorted(rows[name]["choices"].split()) == sorted(chosen.split())


@pytest.mark.usefixtures("without_pandas")
def test_a_saved_compilation_gives_the_same_tables(compiled, tmp_path):
    saved = explorer.open(compiled.save(tmp_path / "trace.nnx"))
    for kind in FRAMES:
        assert saved.to_frame(kind) == compiled.to_frame(kind)


def test_an_unknown_table_is_answered_with_a_near_name(compiled):
    with pytest.raises(InputError, match="did you mean 'kernels'"):
        compiled.to_frame("kernel")


# -- the table itself ------------------------------------------------------------------------------

TABLE = Table(("name", "size"), (("<a>", 1.5), ("b & c", None)))


def test_a_table_iterates_over_dicts_and_gives_columns():
    assert list(TABLE) == [{"name": "<a>", "size": 1.5}, {"name": "b & c", "size": None}]
    assert TABLE["name"] == ["<a>", "b & c"]
    assert len(TABLE) == 2
    with pytest.raises(InputError, match="did you mean 'size'"):
        TABLE["sizes"]
