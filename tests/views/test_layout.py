"""Static pictures of graphs: complete, without overlaps, downwards, the same every time."""

import graphlib
from collections.abc import Sequence
from itertools import combinations, pairwise
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.results import Graph, GraphEdge, GraphNode, Trace
from explorer.views.drawing import layout
from explorer.views.drawing.by_ranks import depths_of
from explorer.views.drawing.collapse import collapse, hidden_operations
from explorer.views.drawing.layout import Drawing, layout_graph
from explorer.views.static import graph_html

ENGINES = ("dot", "ranks")
Drawn = tuple[list[str], list[tuple[str, str]]]


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


def laid_out(
    engine: str,
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    sizes: dict[str, tuple[float, float]] | None = None,
) -> Drawing:
    """With Graphviz where it is installed, or without it."""
    layout._placed.cache_clear()
    if engine == "dot":
        return layout_graph(nodes, edges, sizes)
    try:
        with patch.object(layout, "place_by_dot", lambda *_: None):
            return layout_graph(nodes, edges, sizes)
    finally:
        layout._placed.cache_clear()


def pairs(text: str) -> list[tuple[str, str]]:
    """`a>b b>c`."""
    return [(a, b) for a, _, b in (pair.partition(">") for pair in text.split())]


def overlaps(drawn: Drawing, first: str, second: str) -> bool:
    (ax, ay), (bx, by) = drawn.positions[first], drawn.positions[second]
    (aw, ah), (bw, bh) = drawn.sizes[first], drawn.sizes[second]
    return abs(ax - bx) < (aw + bw) / 2 - 0.2 and abs(ay - by) < (ah + bh) / 2 - 0.2


def runs_over(drawn: Drawing, edge: tuple[str, str]) -> list[str]:
    """Nodes that a vertical run of an edge crosses."""
    found = []
    for (x, y1), (x2, y2) in pairwise(drawn.routes[edge]):
        for name, (at, middle) in drawn.positions.items():
            width, height = drawn.sizes[name]
            inside = abs(x - at) < width / 2 - 0.5
            meets = min(y1, y2) < middle + height / 2 - 0.5 and max(y1, y2) > (
                middle - height / 2 + 0.5
            )
            if x == x2 and inside and meets:
                found.append(name)
    return found


def has_cycle(edges: Sequence[tuple[str, str]]) -> bool:
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for a, b in edges:
        if a != b:
            sorter.add(b, a)
    try:
        sorter.prepare()
    except graphlib.CycleError:
        return True
    return False


@st.composite
def drawn_graphs(draw: st.DrawFn) -> Drawn:
    """Any directed graph of up to 12 nodes: loops, cycles and parallel edges included."""
    count = draw(st.integers(1, 12))
    index = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(index, index), max_size=30))
    return [f"n{i}" for i in range(count)], [(f"n{a}", f"n{b}") for a, b in edges]


def assert_right(drawn: Drawing, nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> None:
    assert set(drawn.positions) == set(nodes)
    for first, second in combinations(nodes, 2):
        assert not overlaps(drawn, first, second)
    for name, (x, y) in drawn.positions.items():
        width, height = drawn.sizes[name]
        assert width / 2 <= x <= drawn.width - width / 2
        assert height / 2 <= y <= drawn.height - height / 2
    assert set(drawn.routes) == {(a, b) for a, b in edges if a != b}
    upward = []
    for (a, b), route in drawn.routes.items():
        (ax, ay), (bx, by) = drawn.positions[a], drawn.positions[b]
        side = 1 if ay < by else -1
        if side < 0:
            upward.append((a, b))
        else:
            heights = [y for _, y in route]
            assert heights == sorted(heights)
            assert not runs_over(drawn, (a, b))
        ends = ((ax, ay + side * drawn.sizes[a][1] / 2), (bx, by - side * drawn.sizes[b][1] / 2))
        assert route[0] == pytest.approx(ends[0], abs=0.11)
        assert route[-1] == pytest.approx(ends[1], abs=0.11)
    assert bool(upward) == has_cycle(edges)


@given(drawn_graphs())
@settings(max_examples=30, deadline=None)
def test_nothing_overlaps_and_only_cycles_run_upwards(drawn: Drawn) -> None:
    assert_right(laid_out("dot", *drawn), *drawn)


@given(drawn_graphs())
@settings(max_examples=150, deadline=None)
def test_so_it_is_without_graphviz(drawn: Drawn) -> None:
    assert_right(laid_out("ranks", *drawn), *drawn)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_graph_is_drawn_the_same(engine: str) -> None:
    nodes = [f"n{i}" for i in range(12)]
    edges = [(nodes[i], nodes[j]) for i in range(12) for j in range(i + 1, 12) if (i * j) % 3 == 1]
    assert laid_out(engine, nodes, edges) == laid_out(engine, nodes, edges)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_chain_is_a_straight_line(engine: str) -> None:
    drawn = laid_out(engine, ["x", "conv", "relu"], pairs("x>conv conv>relu"))
    assert drawn.positions == {"x": (78.0, 26.0), "conv": (78.0, 90.0), "relu": (78.0, 154.0)}
    assert drawn.routes["x", "conv"] == ((78.0, 44.0), (78.0, 72.0))
    assert (drawn.width, drawn.height) == (156.0, 180.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_data_flows_straight_past_weights_and_a_shortcut(engine: str) -> None:
    edges = pairs("x>c1 w1>c1 c1>c2 w2>c2 c2>c3 w3>c3 c3>add c1>add add>y")
    drawn = laid_out(engine, ["x", "w1", "c1", "w2", "c2", "w3", "c3", "add", "y"], edges)
    assert_right(drawn, list(drawn.positions), edges)
    if engine == "dot":
        assert len({drawn.positions[name][0] for name in ("x", "c1", "c2", "c3", "add", "y")}) == 1
        assert len({x for x, _ in drawn.routes["c1", "add"]}) == 2, "one lane at the side"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_weight_stands_right_above_its_user(engine: str) -> None:
    edges = pairs("x>a a>b b>c w>c")
    positions = laid_out(engine, ["x", "a", "b", "c", "w"], edges).positions
    assert positions["w"][1] == positions["b"][1]


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_stand_side_by_side(engine: str) -> None:
    positions = laid_out(engine, ["a", "b", "c", "d"], pairs("a>b c>d")).positions
    assert positions["a"][1] == positions["c"][1]
    assert positions["a"][0] < positions["c"][0]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_small_parts_fill_a_square(engine: str) -> None:
    nodes = [f"n{i}" for i in range(60)]
    edges = [(nodes[i], nodes[i + 1]) for i in range(0, 60, 3)]
    drawn = laid_out(engine, nodes, edges)
    assert_right(drawn, nodes, edges)
    assert 0.5 < drawn.width / drawn.height < 2


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_are_kept_and_make_room(engine: str) -> None:
    sizes = {"wide": (400.0, 80.0)}
    drawn = laid_out(engine, ["wide", "a", "b"], pairs("wide>b a>b"), sizes)
    assert drawn.sizes["wide"] == (400.0, 80.0)
    distance = abs(drawn.positions["wide"][0] - drawn.positions["a"][0])
    assert distance >= 200 + 70 + 20


def test_an_edge_to_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' -> 'z' needs 'z' among the nodes"):
        layout_graph(["a"], [("a", "z")])


def test_thousands_of_edges_across_the_graph_stay_bounded() -> None:
    """Each of 2,000 nodes of a chain also feeds the last: two million dummies without a bound."""
    nodes = [f"n{i}" for i in range(2000)]
    edges = [*pairwise(nodes), *((n, nodes[-1]) for n in nodes[:-2])]
    assert len(layout_graph(nodes, edges).routes) == len(edges)


def test_the_longest_path_counts_without_the_edges_that_close_a_cycle() -> None:
    assert depths_of(((0, 1), (1, 2), (0, 2), (3, 2)), 4) == [0, 1, 2, 0]
    assert depths_of(((0, 1), (1, 2), (2, 0)), 3) == [0, 1, 2]


def test_graphviz_gets_numbers_and_no_names() -> None:
    """What runs is `dot` alone, for a name of a model might be markup, or longer than a line."""
    layout._placed.cache_clear()
    names = ['"]; x [label="', "a\nb", "<b>", "--help"]
    with patch("subprocess.run", side_effect=FileNotFoundError) as run:
        drawn = layout_graph(names, list(pairwise(names)))
    layout._placed.cache_clear()
    (call,) = run.call_args_list
    assert call.args == (["dot", "-Tjson0"],)
    assert not [name for name in names if name in call.kwargs["input"].decode()]
    assert list(drawn.positions) == names


def test_a_picture_that_was_drawn_starts_no_process_again(trace: Trace) -> None:
    graph = trace.snapshots[0].graph
    first = graph_html(graph)
    with patch("subprocess.run", side_effect=AssertionError):
        assert graph_html(graph) == first


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
