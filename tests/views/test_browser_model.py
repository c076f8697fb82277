"""The model as it is, in a real browser: its nodes, operators, regions, and what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

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
from explorer.results.trace import SnapshotRecord

pytestmark = pytest.mark.browser

TYPE = "Nx4 f32"


def node(
    name: str,
    label: str,
    family: str = "elementwise",
    regions: tuple[str, ...] = (),
    problem: str = "",
) -> GraphNode:
    operation = "source.node" if family != "input" else "input"
    return GraphNode(
        id=name,
        operation=operation,
        label=label,
        family=family,
        shape=TYPE,
        sources=(name,),
        device="host",
        attributes=(),
        scope="",
        regions=regions,
        problem=problem,
    )


def model(*edges: tuple[str, str], **nodes: GraphNode) -> SnapshotRecord:
    lines = tuple(f"%{name} = source.node()" for name in nodes)
    return SnapshotRecord(
        SourceText("mlir", lines, tuple((name,) for name in nodes)),
        Graph(tuple(nodes.values()), tuple(GraphEdge(a, b, a, TYPE) for a, b in edges)),
    )


@pytest.fixture
def refused() -> Trace:
    """A model with two nodes of which nothing can be made, one of them in a branch."""
    nodes = {
        "x": node("x", "x", "input"),
        "a": node("a", "Abs"),
        "w": node("w", "<b>Wobble</b>", "other", problem="unknown operator <i>"),
        "v": node("v", "Wibble", "other", ("i", "then"), "not supported in opset 9"),
        "i": node("i", "If", "control", ("i",)),
    }
    source = model(("x", "a"), ("a", "w"), ("w", "v"), ("v", "i"), ("a", "i"), **nodes)
    operators = (
        OperatorRecord(
            domain="",
            operator="If",
            version=20,
            family="control",
            nodes=("i",),
            made=(),
            parameters=0,
        ),
        OperatorRecord(
            domain="",
            operator="Abs",
            version=20,
            family="elementwise",
            nodes=("a",),
            made=(),
            parameters=0,
        ),
        OperatorRecord(
            domain="ex",
            operator="Wobble",
            version=1,
            family="other",
            nodes=("w",),
            made=(),
            parameters=7,
            problems=(("w", "unknown operator <i>"),),
        ),
        OperatorRecord(
            domain="",
            operator="Wibble",
            version=9,
            family="other",
            nodes=("v",),
            made=(),
            parameters=0,
            problems=(("v", "not supported"),),
        ),
    )
    names = tuple((name, nodes[name].label, "") for name in nodes if name != "x")
    record = ModelRecord(
        name="net",
        format="onnx",
        producer="",
        opset="ai.onnx 20",
        nodes=4,
        parameters=7,
        inputs=(("x", TYPE),),
        outputs=(),
        source_nodes=names,
    )
    return Trace(
        version=TRACE_VERSION,
        model=record,
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
        source=source,
        operators=operators,
        problems=(("w", "unknown operator <i>"), ("v", "not supported in opset 9")),
    )


def test_a_model_that_cannot_be_compiled_is_shown_with_every_reason(
    opened: Callable[..., Any], refused: Trace
):
    watched = opened(refused, start=None)
    page = watched.page
    with watched.step("the banner, the graph and the table have the reasons"):
        banner = page.get_by_role("alert")
        expect(banner).to_contain_text("2 of 4 nodes cannot be imported")
        expect(banner).to_contain_text("unknown operator <i>")
        watched.expect_pass("model")
        expect(page.locator(".node.unsupported")).to_have_count(2)
        expect(page.locator(".node.unsupported .hatch")).to_have_count(2)
        problems = page.locator("table[aria-label='what cannot be imported'] tbody tr")
        expect(problems).to_have_count(2)
        problems.filter(has_text=re.compile("^⊘ v")).click()
        reason = page.locator(".subject .reason-line")
        expect(reason).to_contain_text("not supported in opset 9")
        expect(page.locator(".topbar .target")).to_have_text("not compiled")
        expect(page.get_by_role("button", name=re.compile("^Follow"))).to_have_count(0)
    with watched.step("hovering a refused node says why"):
        page.locator('.node[data-id="w"] .label').hover()
        expect(page.locator(".tip")).to_contain_text("unknown operator <i>")
    with watched.step("edges say their types when they are large enough"):
        page.get_by_role("button", name=re.compile(r"^\d+ %$")).click()
        expect(page.locator(".edge-label").first).to_have_text("N×4 f32")
        for _ in range(4):
            page.get_by_role("button", name="−", exact=True).click()
        expect(page.locator(".edge-label")).to_have_count(0)
    with watched.step("operators are chosen by family and lead to their nodes"):
        page.keyboard.press("o")
        rows = page.locator("table[aria-label='operators of the model'] tbody tr")
        expect(rows).to_have_count(4)
        page.get_by_title("only other").click()
        expect(rows).to_have_count(2)
        page.get_by_title("only other").click()
        expect(rows).to_have_count(4)
        rows.filter(has_text="Abs").click()
        expect(page.locator(".subject h2")).to_have_text("a")
        expect(rows.filter(has_text="Abs")).to_have_class(re.compile("marked"))
    with watched.step("regions are boxes that close and open"):
        expect(page.locator(".block-box.region")).to_have_count(2)
        assert sorted(watched.texts(".block-title .label")) == ["i", "then"]
        page.get_by_role("button", name="close all").click()
        expect(page.locator(".block-box")).to_have_count(0)
        expect(page.locator(".node.block")).to_have_count(1)
        expect(page).to_have_url(re.compile("open=(&|$)"))
        page.reload()
        expect(page.locator(".node.block")).to_have_count(1)
        expect(page.locator(".block-box")).to_have_count(0)
    assert watched.is_clean(), watched


def test_the_model_is_the_first_stop_of_the_time_line(
    opened: Callable[..., Any], trace: Trace, refused: Trace
):
    name, operator, _ = trace.model.source_nodes[0]
    whole = "net/act/Relu;net/norm/Fused;net/conv/Conv2D1 = CONV_2D(x, net/conv/Conv2D)"
    nodes = ((name, operator, whole), *trace.model.source_nodes[1:])
    shown = replace(trace, model=replace(trace.model, source_nodes=nodes))
    both = replace(shown, source=refused.source, operators=refused.operators)
    watched = opened(both, link="pass=1&tab=model")
    page = watched.page
    with watched.step("a name of many fused tensors leaves room for the operator"):
        line = page.locator(".inspector .line").first
        expect(line).to_contain_text("net/act/Relu;…Conv2D1 = CONV_2D(x, net/conv/Conv2D)")
        expect(line).to_have_attribute("title", whole)
    watched.expect_pass("import")
    page.keyboard.press("k")
    watched.expect_pass("model")
    expect(page.get_by_label("pass", exact=True)).to_have_value("0")
    expect(page.locator(".pass-row .dot.reference")).to_have_count(1)
    page.keyboard.press("a")
    expect(page.locator(".heat-reference")).to_contain_text("is the reference itself")
    page.keyboard.press("o")
    expect(page.locator("table[aria-label='operators of the model'] tbody tr")).to_have_count(4)
    assert watched.is_clean(), watched
