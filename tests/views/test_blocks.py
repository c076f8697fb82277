"""Blocks: what belongs together in a large program, and what is drawn inside of each."""

from dataclasses import replace
from itertools import pairwise
from types import ModuleType

from explorer.results import Graph, GraphEdge, GraphNode
from explorer.views.drawing.blocks import (
    PORT_IN,
    PORT_OUT,
    ROOT,
    _Builder,
    build_blocks,
    level_graphs,
)
from explorer.views.drawing.repeats import Repeat, find_repeat
from explorer.views.drawing.scopes import Scope
from explorer.views.trace_payload import encode, trace_payload


def node(name: str, scope: str = "", family: str = "elementwise", source: str = "") -> GraphNode:
    return GraphNode(
        id=name,
        operation="top.relu",
        label="relu",
        family=family,
        shape="1x4 f32",
        sources=(source or name,),
        device="",
        attributes=(),
        scope=scope,
    )


def chain(*nodes: GraphNode) -> Graph:
    edges = tuple(GraphEdge(a.id, b.id, a.id, "1x4 f32") for a, b in pairwise(nodes))
    return Graph(nodes, edges)


def scoped(**scopes: str) -> list[GraphNode]:
    """Operations by the scope in which they stand: `stem="a b c"`; `_` for a slash."""
    return [node(n, scope.replace("_", "/")) for scope, names in scopes.items()
            for n in names.split()]  # fmt: skip


def labels(graph: Graph) -> dict[str, str]:
    """The block of every operation, by label."""
    tree = build_blocks([graph])
    return {name: tree.blocks[block].label for name, block in tree.of.items()}


def test_operations_of_one_scope_are_a_block():
    graph = chain(node("x", family="input"), *scoped(stem="a b c", head="d e f"))
    assert labels(graph) == {
        "x": "", "a": "stem", "b": "stem", "c": "stem", "d": "head", "e": "head", "f": "head",
    }  # fmt: skip


def test_a_block_of_one_or_two_operations_is_these():
    graph = chain(*scoped(stem="a", stem_act="b", head="c d"), node("e"))
    assert labels(graph) == {"a": "", "b": "", "c": "", "d": "", "e": ""}
    graph = chain(*scoped(stem="a b", stem_act="c d", head="e f g"))
    assert labels(graph) == dict.fromkeys("abcd", "stem") | dict.fromkeys("efg", "head")


def test_a_scope_of_nearly_all_of_its_scope_is_skipped():
    graph = chain(*scoped(encoder_layers_first="a b c d e", encoder="f", pool="g h i"))
    assert labels(graph) == dict.fromkeys("abcdef", "encoder") | dict.fromkeys("ghi", "pool")


def test_a_scope_around_the_whole_model_is_no_block():
    graph = chain(node("x", family="input"), *scoped(model_one="a b c", model_two="d e f"))
    assert labels(graph) == {"x": ""} | dict.fromkeys("abc", "one") | dict.fromkeys("def", "two")


def test_what_is_numbered_is_called_like_what_it_numbers_and_counted():
    nodes = [*scoped(net_layers_0="a b c", net_layers_1="d e f"), *scoped(net_tail="g h i j")]
    tree = build_blocks([chain(*nodes)])
    assert [(block.label, block.holds) for block in tree.blocks[1:]] == [
        ("layers", "2 × layers"), ("layers 0", ""), ("layers 1", ""), ("tail", ""),
    ]  # fmt: skip
    assert [block.alike for block in tree.blocks[1:]] == [1, 2, 2, 4]


def test_an_operation_stays_in_the_block_in_which_it_appeared():
    before = chain(*scoped(stem="a b c", head="d e f"))
    moved = [replace(n, scope="head") if n.id == "a" else n for n in before.nodes]
    tree = build_blocks([before, Graph(tuple(moved), before.edges)])
    assert tree.blocks[tree.of["a"]].label == "stem"


def test_what_replaces_operations_stands_where_they_stood():
    before = chain(*scoped(stem="a b c", head="d e f"))
    fused = replace(node("fused"), sources=("e", "f"))
    after = chain(*before.nodes[:4], fused)
    tree = build_blocks([before, after])
    assert tree.blocks[tree.of["fused"]].label == "head"


def test_what_no_source_node_became_stands_with_whom_it_serves():
    """A transfer before the first layer, a copy between two layers, packed weights."""
    x, *layers = node("x", family="input"), *scoped(stem="a b c", head="d e f")
    y = node("y", family="output")
    before = chain(x, *layers, y)
    send, copy, back, packed = (
        replace(node(n), sources=()) for n in ("send", "copy", "back", "packed")
    )
    whole = chain(x, send, *layers[:3], copy, *layers[3:], back, y)
    edges = (*whole.edges, GraphEdge("packed", "e", "packed", ""))
    tree = build_blocks([before, Graph((packed, *whole.nodes), edges)])
    of = {n: tree.blocks[tree.of[n]].label for n in ("send", "copy", "back", "packed")}
    assert of == {"send": "stem", "copy": "head", "back": "head", "packed": "head"}


def test_what_repeats_most_is_found_with_its_shortest_period():
    labels = ["in", *"abcd" * 5, "out"]
    assert find_repeat(labels) == Repeat(start=1, period=4, count=5)
    assert find_repeat(["in", *"abcdabce"]) is None
    assert find_repeat([]) is None


def test_the_level_of_a_block_has_ports_for_the_edges_from_outside():
    graph = chain(node("x", family="input"), *scoped(stem="a b c", head="d e f"))
    levels = level_graphs(graph, build_blocks([graph]))
    edges = {
        block: [(edge.source, edge.target) for edge in level.edges]
        for block, level in levels.items()
    }
    assert edges == {
        0: [("x", "#1"), ("#1", "#2")],
        1: [(PORT_IN, "a"), ("a", "b"), ("b", "c"), ("c", PORT_OUT)],
        2: [(PORT_IN, "d"), ("d", "e"), ("e", "f")],
    }


def test_the_page_is_told_which_blocks_are_built_alike(generated: ModuleType):
    payload = trace_payload(generated.make_large_trace(700))
    blocks = payload.chunk("blocks")
    assert blocks["labels"][1:3] == ["stage0", "block0"]
    assert blocks["holds"][1:3] == ["24 × block", ""]
    assert blocks["alike"][:5] == [0, 1, 2, 2, 2]
    rows = [i for i, holds in enumerate(blocks["holds"]) if holds]
    assert [blocks["alike"][row] for row in rows] == rows


def test_messages_of_a_program_of_5000_operations_are_small(generated: ModuleType):
    payload = trace_payload(generated.make_large_trace(5000))
    assert len(encode(payload.head).encode()) < 20_000
    head = payload.head["blocks"]
    assert (head["count"], head["flat"], head["opens"]) == (744, False, True)


def test_settled_chunks_are_the_same_when_more_is_known(generated: ModuleType):
    whole = generated.make_large_trace(100)
    bare = trace_payload(generated.replace(whole, kernels=(), program=None, accuracy=None))
    full = trace_payload(whole)
    assert bare.settled == full.settled
    assert all(bare.chunk(key) == full.chunk(key) for key in bare.settled)
    assert "kernel/0" not in full.settled


def test_what_stands_side_by_side_is_numbered_in_a_row():
    def stage(*parts: Scope) -> Scope:
        return Scope(label="stage", motif="stage", parts={str(i): p for i, p in enumerate(parts)})

    builder = _Builder()
    builder.number(stage(stage(stage(), stage()), stage(stage())), ROOT)
    builder.motifs[ROOT] = ""  # the program is no stage
    builder.name()
    assert [block.label for block in builder.blocks[1:]] == [
        "stage 1", "stage 1.1", "stage 1.2", "stage 2", "stage 2.1",
    ]  # fmt: skip
