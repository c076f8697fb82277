"""Graphs are drawn in layers: complete, without overlaps, downwards, the same every time."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.results import Graph, GraphEdge, GraphNode, Trace
from explorer.views.drawing.collapse import collapse, hidden_operations
from explorer.views.drawing.layered import find_back_edges
from explorer.views.drawing.layout import Drawing, layout_graph, layout_union


def node(name: str, family: str = "elementwise", sources: str = "", scope: str = "") -> GraphNode:
    return GraphNode(
        id=name,
        operation="top.op",
        label=name,
        family=family,
        shape="4 f32",
        sources=tuple((sources or name).split()),
        device="cpu",
        attributes=(),
        scope=scope,
    )


def graph(nodes: list[GraphNode], edges: str) -> Graph:
    """`edges` reads `a>b b>c`."""
    pairs = [pair.split(">") for pair in edges.split()]
    return Graph(tuple(nodes), tuple(GraphEdge(a, b, a, "4 f32") for a, b in pairs))


def overlaps(layout: Drawing, first: str, second: str) -> bool:
    (ax, ay), (bx, by) = layout.positions[first], layout.positions[second]
    (aw, ah), (bw, bh) = layout.sizes[first], layout.sizes[second]
    return abs(ax - bx) < (aw + bw) / 2 - 0.2 and abs(ay - by) < (ah + bh) / 2 - 0.2


@st.composite
def drawn_graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Any directed graph of up to 12 nodes: loops, cycles and parallel edges included."""
    count = draw(st.integers(1, 12))
    index = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(index, index), max_size=30))
    return [f"n{i}" for i in range(count)], [(f"n{a}", f"n{b}") for a, b in edges]


@st.composite
def drawn_histories(draw: st.DrawFn) -> list[Graph]:
    """Up to four snapshots over the same few nodes, whose sources overlap at random."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 9)))]
    sources = {name: draw(st.sets(st.sampled_from("stuv"), max_size=3)) for name in names}
    families = {name: draw(st.sampled_from(("convolution", "weight", "input"))) for name in names}
    snapshots = []
    for _ in range(draw(st.integers(1, 4))):
        alive = draw(st.lists(st.sampled_from(names), unique=True))
        nodes = [
            replace(node(name, families[name]), sources=tuple(sorted(sources[name])))
            for name in alive
        ]
        pairs = (
            draw(st.lists(st.tuples(st.sampled_from(alive), st.sampled_from(alive)), max_size=14))
            if alive
            else []
        )
        edges = tuple(GraphEdge(a, b, a, "4 f32") for a, b in pairs)
        snapshots.append(Graph(tuple(nodes), edges))
    return snapshots


@given(drawn_graphs())
@settings(max_examples=150, deadline=None)
def test_every_node_has_a_place_of_its_own_inside_the_picture(
    drawn: tuple[list[str], list[tuple[str, str]]],
) -> None:
    nodes, edges = drawn
    layout = layout_graph(nodes, edges)
    assert set(layout.positions) == set(nodes)
    for first, second in combinations(nodes, 2):
        assert not overlaps(layout, first, second)
    for name, (x, y) in layout.positions.items():
        width, height = layout.sizes[name]
        assert width / 2 <= x <= layout.width - width / 2
        assert height / 2 <= y <= layout.height - height / 2


@given(drawn_graphs())
@settings(max_examples=150, deadline=None)
def test_edges_run_down_but_for_back_edges_and_only_cycles_have_those(
    drawn: tuple[list[str], list[tuple[str, str]]],
) -> None:
    nodes, edges = drawn
    layout = layout_graph(nodes, edges)
    for (a, b), route in layout.routes.items():
        is_back = (a, b) in layout.back_edges
        assert (layout.positions[a][1] < layout.positions[b][1]) != is_back
        heights = [y for _, y in route]
        assert heights == sorted(heights, reverse=is_back)
        assert route[0][0] == layout.positions[a][0]
        assert route[-1][0] == layout.positions[b][0]
    assert set(layout.routes) == {(a, b) for a, b in edges if a != b}
    index = {name: i for i, name in enumerate(nodes)}
    numbered = list(dict.fromkeys((index[a], index[b]) for a, b in edges if a != b))
    assert bool(layout.back_edges) == bool(find_back_edges(len(nodes), numbered))


@given(drawn_graphs())
@settings(max_examples=50, deadline=None)
def test_the_same_graph_is_drawn_the_same(
    drawn: tuple[list[str], list[tuple[str, str]]],
) -> None:
    assert layout_graph(*drawn) == layout_graph(*drawn)


@given(drawn_histories())
@settings(max_examples=200, deadline=None)
def test_nodes_that_live_together_never_overlap_in_a_union(snapshots: list[Graph]) -> None:
    layout = layout_union(snapshots)
    for snapshot in snapshots:
        for first, second in combinations([n.id for n in snapshot.nodes], 2):
            assert not overlaps(layout, first, second), (first, second)
        for edge in snapshot.edges:
            if edge.source == edge.target:
                continue
            route = layout.routes[edge.source, edge.target]
            assert len(route) >= 2
            is_back = (edge.source, edge.target) in layout.back_edges
            down = layout.positions[edge.source][1] < layout.positions[edge.target][1]
            assert down != is_back
    assert layout == layout_union(snapshots)


def test_a_chain_is_a_straight_line() -> None:
    layout = layout_graph(["x", "conv", "relu"], [("x", "conv"), ("conv", "relu")])
    assert layout.positions == {"x": (78.0, 26.0), "conv": (78.0, 90.0), "relu": (78.0, 154.0)}
    assert layout.routes["x", "conv"] == ((78.0, 44.0), (78.0, 72.0))
    assert (layout.width, layout.height) == (156.0, 180.0)


def test_the_spine_stays_straight_beside_weights_and_a_shortcut() -> None:
    edges = ["x>c1", "w1>c1", "c1>c2", "w2>c2", "c2>c3", "w3>c3", "c3>add", "c1>add", "add>y"]
    nodes = ["x", "w1", "c1", "w2", "c2", "w3", "c3", "add", "y"]
    layout = layout_graph(nodes, [(a, b) for a, b in (edge.split(">") for edge in edges)])
    columns = {layout.positions[name][0] for name in ("x", "c1", "c2", "c3", "add", "y")}
    assert len(columns) == 1
    shortcut = layout.routes["c1", "add"]
    assert len({x for x, _ in shortcut}) == 2, "one lane beside the spine"


def test_a_weight_stands_right_above_its_user() -> None:
    nodes = ["x", "a", "b", "c", "w", "scaled"]
    edges = [("x", "a"), ("a", "b"), ("b", "c"), ("w", "scaled"), ("scaled", "c")]
    positions = layout_graph(nodes, edges).positions
    assert positions["scaled"][1] == positions["b"][1]
    assert positions["w"][1] == positions["a"][1]


def test_a_cycle_is_broken_at_the_edge_that_leads_back() -> None:
    layout = layout_graph(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a")])
    assert layout.back_edges == {("c", "a")}
    assert layout.routes["c", "a"][0][1] > layout.routes["c", "a"][-1][1]


def test_components_stand_side_by_side() -> None:
    layout = layout_graph(["a", "b", "c", "d"], [("a", "b"), ("c", "d")])
    assert layout.positions["a"][1] == layout.positions["c"][1]
    assert layout.positions["a"][0] < layout.positions["c"][0]


def test_sizes_are_kept_and_make_room() -> None:
    sizes = {"wide": (400.0, 80.0)}
    layout = layout_graph(["wide", "a", "b"], [("wide", "b"), ("a", "b")], sizes=sizes)
    assert layout.sizes["wide"] == (400.0, 80.0)
    distance = abs(layout.positions["wide"][0] - layout.positions["a"][0])
    assert distance >= 200 + 64


def test_the_order_hint_decides_between_equals() -> None:
    edges = [("x", "a"), ("x", "b")]
    given_order = layout_graph(["x", "a", "b"], edges).positions
    hinted = layout_graph(["x", "a", "b"], edges, order_hint=["x", "b", "a"]).positions
    assert given_order["a"][0] == hinted["b"][0]
    assert given_order["b"][0] == hinted["a"][0]


def test_an_edge_to_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' -> 'z' needs 'z' among the nodes"):
        layout_graph(["a"], [("a", "z")])


def test_thousands_of_edges_across_the_graph_stay_bounded() -> None:
    """Each of 2,000 nodes of a chain also feeds the last: two million dummies without a bound."""
    nodes = [f"n{i}" for i in range(2000)]
    edges = [*pairwise(nodes), *((n, nodes[-1]) for n in nodes[:-2])]
    layout = layout_graph(nodes, edges)
    assert len(layout.routes) == len(edges)


def test_a_fused_operation_takes_the_place_of_the_convolution_it_replaces() -> None:
    x, y = node("x", "input"), node("y", "output")
    conv, relu = node("conv", "convolution", "Conv"), node("relu", "elementwise", "Relu")
    before = graph([x, conv, relu, y], "x>conv conv>relu relu>y")
    after = graph([x, node("fused", "convolution", "Conv Relu"), y], "x>fused fused>y")
    layout = layout_union([before, after])
    assert layout.positions["fused"] == layout.positions["conv"]
    assert layout.height == layout_union([before]).height
    # Straight through the place that relu left, not around it.
    assert {point[0] for point in layout.routes["fused", "y"]} == {layout.positions["y"][0]}


def test_an_operation_that_returns_keeps_its_place_from_others() -> None:
    """`a` is alive in the first and third snapshot, so `b` of the second may share its place, but
    `c` of the third may not."""
    first = graph([node("a", sources="S")], "")
    second = graph([node("b", sources="S")], "")
    third = graph([node("a", sources="S"), node("c", sources="S")], "")
    positions = layout_union([first, second, third]).positions
    assert positions["a"] == positions["b"]
    assert positions["c"] != positions["a"]


def test_an_edge_does_not_run_over_an_operation_that_is_still_there() -> None:
    """conv feeds relu and y at once: the direct edge needs a lane beside relu."""
    nodes = [node("conv"), node("relu"), node("y")]
    layout = layout_union([graph(nodes, "conv>relu relu>y conv>y")])
    beside = {x for x, _ in layout.routes["conv", "y"]} - {layout.positions["relu"][0]}
    assert beside


def test_nothing_moves_between_the_passes_of_a_compilation(trace: Trace) -> None:
    layout = layout_union([snapshot.graph for snapshot in trace.snapshots])
    for snapshot in trace.snapshots:
        for n in snapshot.graph.nodes:
            assert n.id in layout.positions
    assert layout.positions["fused_1"] == layout.positions["conv_2"]
    # The union is no larger than the first snapshot and the one operation that came on top.
    first = layout_union([trace.snapshots[0].graph])
    assert layout.width == first.width
    assert layout.height - first.height == pytest.approx(64)


def test_a_small_graph_is_not_collapsed(trace: Trace) -> None:
    whole = trace.snapshots[0].graph
    assert collapse(whole, limit=21) is whole
    assert hidden_operations(whole) == 0


def test_scopes_become_blocks_that_say_what_they_hide(trace: Trace) -> None:
    blocks = collapse(trace.snapshots[0].graph, limit=10)
    stem = next(n for n in blocks.nodes if n.id == "block:stem")
    assert stem.label == "stem · 4 ops"
    assert dict(stem.attributes) == {
        "operations": "4",
        "hidden": "conv_1, norm_1, relu_1, identity_1",
    }
    assert stem.sources == ("Conv_0", "BatchNormalization_1", "Relu_2", "Dropout_3")
    edges = [(e.source, e.target) for e in blocks.edges]
    assert edges == [
        ("images", "block:stem"),
        ("weight_1", "block:stem"),
        ("block:stem", "block:block"),
        ("weight_2", "block:block"),
        ("block:block", "block:down"),
        ("weight_3", "block:down"),
        ("block:down", "block:head"),
        ("weight_4", "block:head"),
        ("block:head", "scores"),
    ]
    assert hidden_operations(blocks) == 15


def test_the_largest_blocks_are_opened_as_long_as_there_is_room() -> None:
    nodes = [node(f"n{i}", scope=f"net/stage{i // 6}/unit{i // 3}") for i in range(12)]
    chain = " ".join(f"n{i}>n{i + 1}" for i in range(11))
    by_unit = collapse(graph(nodes, chain), limit=4)
    assert [n.id for n in by_unit.nodes] == [
        "block:stage0/unit0",
        "block:stage0/unit1",
        "block:stage1/unit2",
        "block:stage1/unit3",
    ]
    by_stage = collapse(graph(nodes, chain), limit=2)
    assert [n.id for n in by_stage.nodes] == ["block:stage0", "block:stage1"]
    one_open = collapse(graph(nodes, chain), limit=3)
    assert [n.id for n in one_open.nodes] == [
        "block:stage0/unit0",
        "block:stage0/unit1",
        "block:stage1",
    ]


def test_without_scopes_blocks_are_named_by_what_is_in_them() -> None:
    nodes = [node("x", "input"), *(node(f"n{i}") for i in range(200)), node("y", "output")]
    chain = "x>n0 " + " ".join(f"n{i}>n{i + 1}" for i in range(199)) + " n199>y"
    names = [n.id for n in collapse(graph(nodes, chain), limit=50).nodes]
    assert names[:4] == ["x", "block:n0", "block:n48", "block:n96"]
    assert len(names) <= 50


def test_a_graph_that_nothing_divides_stays_as_it_is() -> None:
    nodes = [node(f"n{i}") for i in range(10)]
    chain = " ".join(f"n{i}>n{i + 1}" for i in range(9))
    assert len(collapse(graph(nodes, chain), limit=5).nodes) == 10
