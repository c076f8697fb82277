"""The model as it is, as the step before the first pass of what the views show."""

from dataclasses import replace
from itertools import pairwise

import pytest

from explorer.results import (
    TRACE_VERSION,
    Graph,
    GraphEdge,
    GraphNode,
    ModelRecord,
    OperatorRecord,
    SourceText,
    Trace,
)
from explorer.results.encoding import from_json, to_json
from explorer.results.trace import SnapshotRecord
from explorer.views.catalog.operators import operators
from explorer.views.drawing.blocks import build_blocks, level_graphs
from explorer.views.model_step import with_model_step
from explorer.views.page import export_page
from explorer.views.renderers.html import html_of
from explorer.views.renderers.text import text_of
from explorer.views.trace_payload import trace_payload

TYPE = "Nx4 f32"


def node(
    name: str, label: str, regions: tuple[str, ...] = (), problem: str = "", scope: str = ""
) -> GraphNode:
    return GraphNode(
        id=name,
        operation="source.node",
        label=label,
        family="elementwise",
        shape=TYPE,
        sources=(name,),
        device="host",
        attributes=(),
        scope=scope,
        regions=regions,
        problem=problem,
    )


def snapshot(*nodes: GraphNode) -> SnapshotRecord:
    edges = [GraphEdge(a.id, b.id, a.id, TYPE) for a, b in pairwise(nodes)]
    return SnapshotRecord(SourceText("mlir", ("model",), ((),)), Graph(nodes, tuple(edges)))


OPERATORS = (
    OperatorRecord(
        domain="",
        operator="Abs",
        version=20,
        family="elementwise",
        nodes=("n1",),
        made=(("top.unary", 1),),
        parameters=0,
        explanation="The absolute value.",
    ),
    OperatorRecord(
        domain="com.example",
        operator="Wobble",
        version=1,
        family="other",
        nodes=("n2", "n3"),
        made=(),
        parameters=12,
        problems=(("n2", "unknown operator"), ("n3", "unknown operator")),
    ),
)
NOTHING = ModelRecord(
    name="net",
    format="onnx",
    producer="",
    opset="ai.onnx 20",
    nodes=3,
    parameters=12,
    inputs=(),
    outputs=(),
    source_nodes=(("n1", "Abs", ""), ("n2", "Wobble", "")),
)


@pytest.fixture
def refused() -> Trace:
    """A model that was opened and not compiled."""
    return Trace(
        version=TRACE_VERSION,
        model=NOTHING,
        target="",
        device="",
        label="",
        passes=(),
        snapshots=(),
        diffs=(),
        decisions=(),
        memory=None,
        kernels=(),
        program=None,
        accuracy=None,
        profile=None,
        source=snapshot(node("n1", "Abs"), node("n2", "Wobble", problem="unknown operator")),
        operators=OPERATORS,
        problems=(("n2", "unknown operator"), ("x", "strings")),
    )


def test_the_model_is_the_step_before_the_first_pass(trace: Trace):
    whole = replace(trace, source=snapshot(node("n1", "Abs")))
    stepped = with_model_step(whole)
    assert [p.name for p in stepped.passes] == ["model", *(p.name for p in trace.passes)]
    assert stepped.snapshots == (whole.source, *trace.snapshots)
    assert len(stepped.diffs) == len(stepped.passes)
    assert stepped.passes[0].level == "source"
    assert with_model_step(stepped) is stepped


def test_a_trace_without_the_model_stays_as_it_is(trace: Trace):
    assert with_model_step(trace) is trace


def test_errors_belong_to_the_passes_that_were_compared(trace: Trace):
    head = trace_payload(replace(trace, source=snapshot(node("n1", "Abs")))).head
    assert head["passes"][0]["check"] == "reference"
    bare = trace_payload(trace).head
    assert [p["check"] for p in head["passes"][1:]] == [p["check"] for p in bare["passes"]]
    assert head["summary"] == bare["summary"]


def test_makers_count_the_model_as_a_step(trace: Trace):
    stepped = trace_payload(replace(trace, source=snapshot(node("n1", "Abs")))).chunk("makers")
    bare = trace_payload(trace).chunk("makers")
    assert stepped == {k: [[p + 1, *made] for p, *made in line] for k, line in bare.items()}


def test_a_model_that_was_not_compiled_has_this_step_only(refused: Trace):
    payload = trace_payload(refused)
    assert [p["name"] for p in payload.head["passes"]] == ["model"]
    assert payload.head["problems"] == {
        "nodes": 1,
        "of": 3,
        "reasons": [["n2", "unknown operator"], ["x", "strings"]],
        "quantize": False,
    }
    assert [r[10] for r in payload.chunk("nodes/0")["records"]] == ["", "unknown operator"]
    table = payload.chunk("operators")["parts"][-1]
    assert [row[2][1] for row in table["rows"]] == ["Abs", "com.example.Wobble"]
    assert [row[2][2] for row in table["rows"]] == [
        "Abs. The absolute value.",
        "com.example.Wobble.",
    ]
    assert "unknown operator" in export_page(refused)
    assert from_json(Trace, to_json(refused)) == refused


def test_operators_are_told_with_what_they_became_and_why_they_cannot(refused: Trace):
    text = text_of(operators(refused), 100).splitlines()
    assert text[0] == "net: 1 of 3 nodes cannot be imported"
    assert "  ⊘ n2  unknown operator" in text
    assert any("Abs" in line and "1 unary" in line for line in text)
    assert any("com.example.Wobble" in line and "2 cannot be imported" in line for line in text)
    assert text[-2].endswith("  what the import makes of it")
    assert text[-1].split() == ["Abs", "The", "absolute", "value."]
    assert "unknown operator" in html_of(operators(refused))
    assert "The absolute value." in html_of(operators(refused))


def test_a_model_without_problems_is_told_by_its_size(refused: Trace):
    fine = replace(refused, problems=(), operators=OPERATORS[:1])
    assert text_of(operators(fine), 100).splitlines()[0] == "net: 3 nodes, 12 parameters"


def test_nothing_is_said_to_be_made_of_a_model_that_cannot_be_imported(refused: Trace):
    kept = replace(OPERATORS[0], made=())
    whole = replace(refused, problems=(), operators=(kept,))
    assert "nothing of its own" not in text_of(operators(replace(refused, operators=(kept,))), 100)
    assert "nothing of its own" in text_of(operators(whole), 100)


# -- regions ---------------------------------------------------------------------------------------

LOOP = (
    node("a", "Abs"),
    node("m", "Mul", ("l", "body")),
    node("t", "Relu", ("l", "body", "i", "then")),
    node("i", "If", ("l", "body", "i")),
    node("l", "Loop", ("l",)),
)


def test_regions_are_blocks_inside_of_one_another():
    tree = build_blocks([Graph(LOOP, ())])
    paths = {n.id: [tree.blocks[b].label for b in tree.chain(n.id)][1:] for n in LOOP}
    assert paths == {
        "a": [],
        "l": ["l"],
        "m": ["l", "body"],
        "i": ["l", "body", "i"],
        "t": ["l", "body", "i", "then"],
    }
    assert [b.is_region for b in tree.blocks] == [False, True, True, True, True]


def test_a_region_of_one_operation_stays_a_box_and_a_scope_of_one_does_not():
    graph = Graph((node("a", "Abs", scope="one"), *LOOP), ())
    tree = build_blocks([graph])
    assert tree.of["a"] == 0
    assert tree.blocks[tree.of["t"]].label == "then"


def test_a_scope_that_is_called_like_an_operation_is_another_block():
    graph = Graph((*LOOP, node("x", "Abs", scope="l"), node("y", "Abs", scope="l")), ())
    tree = build_blocks([graph])
    assert tree.of["x"] != tree.of["l"]
    assert not tree.blocks[tree.of["x"]].is_region


def test_a_captured_value_is_an_edge_into_the_box():
    graph = Graph(LOOP, (GraphEdge("a", "t", "a", TYPE), GraphEdge("t", "i", "t", TYPE)))
    tree = build_blocks([graph])
    levels = level_graphs(graph, tree)
    box = f"#{tree.of['l']}"
    assert [(e.source, e.target) for e in levels[0].edges] == [("a", box)]
    inner = [(e.source, e.target) for e in levels[tree.of["i"]].edges]
    then = f"#{tree.of['t']}"
    assert inner == [("#in", then), (then, "i")]


def test_a_box_takes_the_place_of_the_one_that_it_replaces():
    after = tuple(replace(n, id=f"top_{n.id}", regions=tuple(
        f"top_{r}" if r in ("l", "i") else r for r in n.regions)) for n in LOOP)  # fmt: skip
    graphs = [Graph(LOOP, (GraphEdge("a", "l", "a", TYPE),)),
              Graph(after, (GraphEdge("top_a", "top_l", "a", TYPE),))]  # fmt: skip
    tree = build_blocks(graphs)
    units = [n for g in graphs for n in level_graphs(g, tree)[0].nodes if n.family == "block"]
    assert [u.sources for u in units] == [("l",), ("l",)]


def test_regions_of_a_small_program_are_open_at_first(trace: Trace):
    shown = trace_payload(replace(trace, source=snapshot(*LOOP)))
    blocks = shown.chunk("blocks")
    regions = [blocks["labels"][b] for b in shown.head["blocks"]["initially"]]
    assert sorted(regions) == ["body", "i", "l", "then"]
    assert set(shown.head["blocks"]["initially"]) == set(blocks["regions"])
    assert shown.head["blocks"]["opens"]
