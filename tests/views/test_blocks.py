"""Blocks: what belongs together in a large program, and what is drawn inside of each."""

from dataclasses import replace
from itertools import pairwise
from types import ModuleType

from explorer.results import Graph, GraphEdge, GraphNode
from explorer.views.drawing.blocks import PORT_IN, PORT_OUT, build_blocks, level_graphs
from explorer.views.drawing.repeats import Repeat, find_repeat
from explorer.views.payload.graph import block_payload
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


def labels(graph: Graph) -> dict[str, str]:
    """The block of every operation, by label."""
    tree = build_blocks([graph])
    return {name: tree.blocks[block].label for name, block in tree.of.items()}


def test_operations_of_one_scope_are_a_block():
    graph = chain(
        node("x", family="input"), node("a", "stem"), node("b", "stem"),
        node("c", "head"), node("d", "head"),
    )  # fmt: skip
    assert labels(graph) == {"x": "", "a": "stem", "b": "stem", "c": "head", "d": "head"}


def test_a_block_of_one_operation_is_that_operation():
    graph = chain(node("a", "stem"), node("b", "stem"), node("c", "stem/act"), node("d", "head"))
    assert labels(graph) == {"a": "stem", "b": "stem", "c": "stem", "d": ""}


def test_scopes_around_only_one_scope_are_one_block():
    graph = chain(
        node("a", "encoder/layers/0"), node("b", "encoder/layers/0"),
        node("c", "pool"), node("d", "pool"),
    )  # fmt: skip
    assert labels(graph)["a"] == "encoder/layers/0"
    assert len(build_blocks([graph]).blocks) == 3


def test_a_scope_around_the_whole_model_is_no_block():
    graph = chain(node("x", family="input"), node("a", "model/one"), node("b", "model/one"),
                  node("c", "model/two"), node("d", "model/two"))  # fmt: skip
    assert labels(graph) == {"x": "", "a": "one", "b": "one", "c": "two", "d": "two"}


def test_an_operation_stays_in_the_block_in_which_it_appeared():
    before = chain(node("a", "stem"), node("b", "stem"), node("c", "head"), node("d", "head"))
    after = chain(node("a", "head"), node("b", "stem"), node("c", "head"), node("d", "head"))
    tree = build_blocks([before, after])
    assert tree.blocks[tree.of["a"]].label == "stem"


def test_what_repeats_most_is_found_with_its_shortest_period():
    labels = ["in", *"abcd" * 5, "out"]
    assert find_repeat(labels) == Repeat(start=1, period=4, count=5)
    assert find_repeat(["in", *"abcdabce"]) is None
    assert find_repeat([]) is None


def test_a_model_without_scopes_is_cut_where_it_repeats(generated: ModuleType):
    trace = generated.make_large_trace(700, scoped=False)
    tree = build_blocks([snapshot.graph for snapshot in trace.snapshots])
    members = {block.label: [] for block in tree.blocks}
    for name, block in tree.of.items():
        members[tree.blocks[block].label].append(name)
    assert len(tree.blocks) == 101
    assert sorted(members[""]) == ["image", "pool", "scores"]
    assert members["part 3 of 100"] == [
        "conv_a_2", "norm_a_2", "relu_a_2", "conv_b_2", "norm_b_2", "add_2", "relu_b_2",
    ]  # fmt: skip


def test_very_many_repetitions_are_taken_together(generated: ModuleType):
    graph = generated.make_large_trace(3500, scoped=False).snapshots[0].graph
    found = [block.label for block in build_blocks([graph]).blocks]
    assert found[1:3] == ["parts 1–3 of 500", "parts 4–6 of 500"]
    assert found[-1] == "parts 499–500 of 500"


def test_what_neither_repeats_nor_has_a_scope_is_cut_into_runs():
    graph = chain(*(replace(node(f"n{i}"), shape=f"1x{i} f32") for i in range(200)))
    found = [block.label for block in build_blocks([graph]).blocks]
    assert found == [
        "", "ops 1–48", "ops 49–96", "ops 97–144", "ops 145–192",
        "ops 193–200",
    ]  # fmt: skip


def test_constants_stand_in_the_block_of_their_first_user():
    """A file may begin with all of them: 100 constants, then 100 operations that use one each."""
    constants = [node(f"c{i}") for i in range(100)]
    path = [replace(node(f"n{i}"), shape=f"1x{i} f32") for i in range(100)]
    through = chain(node("x", family="input"), *path)
    edges = tuple(GraphEdge(c.id, n.id, c.id, "") for c, n in zip(constants, path, strict=True))
    blocks = labels(Graph((through.nodes[0], *constants, *path), (*edges, *through.edges)))
    assert all(blocks[f"c{i}"] == blocks[f"n{i}"] for i in range(100))
    assert len(set(blocks.values())) == 6


def test_the_level_of_a_block_has_ports_for_the_edges_from_outside():
    graph = chain(
        node("x", family="input"), node("a", "stem"), node("b", "stem"), node("c", "head"),
        node("d", "head"),
    )  # fmt: skip
    levels = level_graphs(graph, build_blocks([graph]))
    edges = {
        block: [(edge.source, edge.target) for edge in level.edges]
        for block, level in levels.items()
    }
    assert edges == {
        0: [("x", "#1"), ("#1", "#2")],
        1: [(PORT_IN, "a"), ("a", "b"), ("b", PORT_OUT)],
        2: [(PORT_IN, "c"), ("c", "d")],
    }


def test_a_block_has_a_place_for_everything_in_it():
    graph = chain(
        node("a", "stem/one"), node("b", "stem/one"), node("c", "stem"), node("d", "head"),
        node("e", "head"),
    )  # fmt: skip
    tree = build_blocks([graph])
    stem = next(i for i, block in enumerate(tree.blocks) if block.label == "stem")
    drawing = block_payload([level_graphs(graph, tree)], stem)
    one = next(i for i, block in enumerate(tree.blocks) if block.label == "one")
    assert sorted(drawing["ids"]) == sorted([f"#{one}", "c", PORT_OUT])


def test_messages_of_a_program_of_5000_operations_are_small(generated: ModuleType):
    payload = trace_payload(generated.make_large_trace(5000))
    assert len(encode(payload.head).encode()) < 20_000
    assert payload.head["blocks"] == {
        "count": 744, "flat": False, "opens": True, "initially": []
    }  # fmt: skip
    assert len(payload.chunk("block/0")["ids"]) == 33
    assert "layout" not in payload.chunk_keys()


def test_settled_chunks_are_the_same_when_more_is_known(generated: ModuleType):
    whole = generated.make_large_trace(100)
    bare = trace_payload(generated.replace(whole, kernels=(), program=None, accuracy=None))
    full = trace_payload(whole)
    assert bare.settled == full.settled
    assert all(bare.chunk(key) == full.chunk(key) for key in bare.settled)
    assert "kernel/0" not in full.settled
