"""Branches side by side: the first decision, the first line, graphs, kernels and tables."""

import json
import sys
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer
from explorer.compilation import Comparison, Compilation
from explorer.errors import InputError
from explorer.ir.rewriting import Rule
from explorer.ir.top.elementwise import UnaryOp
from explorer.results import Graph, GraphDiff, GraphEdge, GraphNode, NodeChange
from explorer.targets import load_target
from explorer.traces.differences import first_line, graph_difference

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu, for 8 float lanes."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    return explorer.compile(model, load_target("cpu", {"vector_floats": 8}))


@pytest.fixture(scope="module")
def pixels(compiled) -> str:
    return next(k.address for k in compiled.knobs if k.address.endswith("/pixels"))


@pytest.fixture(scope="module")
def branches(compiled, pixels) -> dict[str, Compilation]:
    return {
        "unfused": compiled.fork(disable=["fuse-activation"]),
        "narrow": compiled.fork(decisions={pixels: 2}, label="narrow"),
        "reordered": compiled.fork(order=["fuse-activation", "fuse-bias"]),
    }


# -- decisions -------------------------------------------------------------------------------------


def test_every_pair_has_its_first_decision(compiled, branches, pixels):
    found = compiled.compare(*branches.values())
    assert found.labels == (
        "first",
        "without fuse-activation",
        "narrow",
        "in the order fuse-activation, fuse-bias",
    )
    first = {pair: d and (d.address, d.left, d.right) for pair, d in found.first_decisions.items()}
    own = json.dumps(compiled.schedule[pixels.split("/")[1]]["pixels"])
    assert first[0, 1] == ("fuse-activation", "true", "false")
    assert first[1, 2] == ("fuse-activation", "false", "true")
    assert first[0, 2] == (pixels, own, "2")
    assert first[0, 3] == ("order", "[]", '["fuse-activation", "fuse-bias"]')
    assert len(first) == 6
    assert found.first_difference == first[0, 1]


def test_a_difference_has_the_reasons_of_both_sides(compiled, branches):
    first = compiled.compare(branches["narrow"]).first_decision()
    assert first is not None
    assert first.left_reason.startswith("the fewest cycles of the cost model")
    assert first.right_reason.startswith("an override; by itself it would be")
    assert str(first) == (
        f"{first.address}: {first.left} ({first.left_reason}) / 2 ({first.right_reason})"
    )


def test_a_declined_rewrite_says_who_declined_it(compiled):
    address = "fuse-activation/fuse-unary/relu1"
    first = compiled.compare(compiled.fork(decisions={address: False})).first_decision()
    assert first is not None
    assert (first.address, first.left, first.right) == (address, "true", "false")
    assert first.right_reason == "declined by an override"


@pytest.mark.parametrize(
    ("option", "address", "value"),
    [
        ({"target": {"vector_floats": 4}}, "target/vector_floats", 4),
        ({"planner": "no-sharing"}, "plan-memory/planner", "no-sharing"),
        ({"budget_bytes": 2**20}, "plan-memory/budget_bytes", 2**20),
        ({"fuel": 1000}, "fuel", 1000),
        ({"disable": ["fuse-unary"]}, "fuse-activation/fuse-unary", False),
        ({"layout": 4}, "assign-layouts/block/main_cpu", 4),
    ],
)
def test_the_first_decision_is_the_one_that_was_changed(compiled, option, address, value):
    first = compiled.compare(compiled.fork(**option)).first_decision()
    assert first is not None
    assert (first.address, first.right) == (address, json.dumps(value))


def test_a_pass_of_ones_own_is_a_difference(compiled):
    class Mirror(Rule):
        """relu(x)   =>   relu(x)"""

        matches = (UnaryOp,)

        def rewrite(self, op, rewriter):
            return

    first = compiled.compare(compiled.insert(Mirror, after="fuse-bias")).first_decision()
    assert first is not None
    assert (first.address, first.left, first.right) == ("mirror", "", "true")


def test_equal_branches_differ_in_nothing(compiled):
    found = compiled.compare(compiled.fork())
    assert found.first_decision() is None
    assert found.decisions() == ()
    assert all(all(p.same) for p in found.passes)
    assert found.ir_diff() == ()
    assert found.graph_diff() == GraphDiff()
    assert all(all(k.same) for k in found.kernels)


# -- programs --------------------------------------------------------------------------------------


def test_passes_say_where_programs_part(compiled, branches):
    found = compiled.compare(branches["unfused"], branches["narrow"])
    rows = {p.name: p for p in found.passes}
    assert [p.name for p in found.passes] == compiled.names
    assert rows["fuse-residual"].same == (True, True, True)
    assert rows["fuse-activation"].records[1] is None
    assert rows["fuse-activation"].same == (True, False, True)
    assert rows["legalize"].same == (True, False, True)
    line = rows["legalize"].lines[1]
    assert line is not None
    assert 'activation = "relu"' in line.left
    assert 'activation = "relu"' not in line.right
    text = compiled["legalize"].after.text.lines
    assert text[line.number - 1].strip() == line.left
    assert rows["schedule-loops"].same == (True, False, False)


def test_the_diff_of_ir_names_both_branches(compiled, branches):
    found = compiled.compare(branches["unfused"])
    lines = found.ir_diff("eliminate-dead-code")
    assert lines[:2] == ("--- first", "+++ without fuse-activation")
    removed = [line for line in lines[2:] if line.startswith("-")]
    added = [line for line in lines[2:] if line.startswith("+")]
    assert [line.count('activation = "relu"') for line in removed if "conv" in line][:1] == [1]
    assert sum("top.unary" in line for line in added) == 2


def test_the_graphs_difference_lists_operations(compiled, branches):
    found = compiled.compare(branches["unfused"])
    diff = found.graph_diff("eliminate-dead-code")
    graphs = [b["eliminate-dead-code"].after.graph for b in (compiled, branches["unfused"])]
    kinds = [{n.id: n.operation for n in graph.nodes} for graph in graphs]
    assert [kinds[0][name] for name in diff.removed] == ["top.conv", "top.conv"]
    assert [kinds[1][name] for name in diff.added] == ["top.conv", "top.unary"] * 2
    assert [diff.removed, diff.added] == [
        found.graph_diff("eliminate-dead-code", 1, 0).added,
        found.graph_diff("eliminate-dead-code", 1, 0).removed,
    ]


def test_kernels_with_another_source_are_told(compiled, branches, pixels):
    found = compiled.compare(branches["narrow"])
    other = [k.name for k in found.kernels if not all(k.same)]
    assert other == [pixels.split("/")[1]]
    assert not all(all(k.same) for k in compiled.compare(branches["unfused"]).kernels)


def test_what_is_not_there_is_refused(compiled, branches):
    found = compiled.compare(branches["unfused"])
    with pytest.raises(InputError, match="no pass 'fuse-activation'"):
        found.ir_diff("fuse-activation")
    with pytest.raises(InputError, match="did you mean 'legalize'"):
        found.graph_diff("legalise")
    with pytest.raises(InputError, match=r"no branch 2.*branches are 0 to 1"):
        found.decisions(0, 2)
    with pytest.raises(InputError, match="did you mean 'totals'"):
        found.to_frame("total")
    with pytest.raises(InputError, match="needs another compilation"):
        compiled.compare()


# -- tables ----------------------------------------------------------------------------------------


def test_totals_hold_what_was_measured(compiled, branches, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    measured = compiled.fork(planner="no-sharing")
    measured.accuracy()
    measured.profile(repeats=2)
    rows = list(compiled.compare(measured, branches["unfused"]).to_frame("totals"))
    assert [row["branch"] for row in rows] == [
        "first", "planner no-sharing", "without fuse-activation",
    ]  # fmt: skip
    assert [row["peak_bytes"] for row in rows[:2]] == [
        compiled.memory.peak_bytes,
        measured.memory.peak_bytes,
    ]
    assert (rows[0]["milliseconds"], rows[0]["max_relative"]) == (None, None)
    assert rows[1]["milliseconds"] > 0
    assert 0 < rows[1]["max_relative"] < 1e-5
    assert rows[1]["first_decision"] == "plan-memory/planner"
    assert rows[2]["operations"] == rows[0]["operations"] + 2
    measured.close()


def test_passes_kernels_and_decisions_come_as_tables(compiled, branches, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = compiled.compare(branches["unfused"], branches["narrow"])
    passes = list(found.to_frame("passes"))
    assert len(passes) == 3 * len(compiled.names)
    assert [r["branch"] for r in passes if not r["runs"]] == ["without fuse-activation"]
    kernels = [r for r in found.to_frame("kernels") if r["branch"] == "narrow"]
    assert sum(not r["same"] for r in kernels) == 1
    decisions = list(found.to_frame("decisions"))
    assert decisions[0]["address"] == "fuse-activation"
    assert {(r["left"], r["right"]) for r in decisions} == {
        ("first", "without fuse-activation"),
        ("first", "narrow"),
        ("without fuse-activation", "narrow"),
    }


def test_pandas_frames_come_where_pandas_is_installed(compiled, branches):
    pandas = pytest.importorskip("pandas")
    frame = compiled.compare(branches["unfused"]).to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["branch"]) == ["first", "without fuse-activation"]


def test_saved_compilations_can_be_compared(compiled, branches, tmp_path):
    paths = [compiled.save(tmp_path / "a.nnx"), branches["narrow"].save(tmp_path / "b.nnx")]
    found = Comparison(*(explorer.open(path).trace() for path in paths))
    assert found.first_decision() == compiled.compare(branches["narrow"]).first_decision()


def test_labels_are_names_of_their_own(compiled):
    same = [compiled.fork(label="mine"), compiled.fork(label="mine")]
    assert compiled.compare(*same).labels == ("first", "mine", "mine (3)")


# -- texts and graphs alone ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (["a", "b"], ["a", "b"], None),
        (["a", " b"], ["a", "c "], (2, "b", "c")),
        (["a"], ["a", "b"], (2, "", "b")),
        (["a", "b"], ["a"], (2, "b", "")),
    ],
)
def test_the_first_line_that_differs(left, right, expected):
    found = first_line(left, right)
    assert (found and (found.number, found.left, found.right)) == expected


def node(name: str, sources: tuple[str, ...], kind: str = "conv", **attributes: str) -> GraphNode:
    return GraphNode(
        id=name,
        operation=f"top.{kind}",
        label=kind,
        family=kind,
        shape="1x4 f32",
        sources=sources,
        device="cpu",
        attributes=tuple(attributes.items()),
    )


def chain(*nodes: GraphNode) -> Graph:
    edges = tuple(GraphEdge(a.id, b.id, a.id, "1x4 f32") for a, b in pairwise(nodes))
    return Graph(nodes, edges)


def test_operations_that_were_only_counted_otherwise_are_the_same():
    left = chain(node("conv1", ("a",)), node("conv2", ("b",), pads="1"))
    right = chain(node("conv1", ("a",)), node("conv7", ("b",), pads="2"))
    assert graph_difference(left, right) == GraphDiff(
        changed=(NodeChange("conv2", "pads", "1", "2"),)
    )


def test_equal_names_of_other_operations_are_not_the_same():
    left = chain(node("conv1", ("a",)), node("relu1", ("b",), "relu"))
    right = chain(node("conv1", ("a", "b")))
    diff = graph_difference(left, right)
    assert (diff.removed, diff.added) == (("conv1", "relu1"), ("conv1",))
    assert diff.fused == (("conv1", ("conv1", "relu1")),)
