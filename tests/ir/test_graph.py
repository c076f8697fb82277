"""The graph that a person looks at, and the difference of two of them."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from explorer.ir.evaluation import INPUT_NAMES, OUTPUT_NAMES, entry_function
from explorer.ir.inspection.graph import module_graph
from explorer.ir.origins import location_of
from explorer.ir.rewriting.difference import program_difference
from explorer.ir.rewriting.passes import Working
from explorer.ir.states import StateRecord, set_states
from explorer.passes.fuse.fuse_activation import FuseActivation
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.results import GraphDiff, GraphEdge, GraphNode, NodeChange
from explorer.results.deferring import made_fields

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

CONV_RELU = """
func.func @main(%x : tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = top.weight() {weight = "w"} : tensor<2x3x1x1xf32>
  %c = top.conv(%x, %w) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}
    : tensor<1x2x4x4xf32>
  %y = top.unary(%c) {kind = "relu"} : tensor<1x2x4x4xf32>
  top.return(%y)
}
"""


def edges(graph) -> list[tuple[str, str]]:
    return [(e.source, e.target) for e in graph.edges]


def test_operations_inputs_and_outputs_are_nodes_and_weights_are_not():
    graph = programs.program(CONV_RELU).snapshot.graph
    assert [n.id for n in graph.nodes] == ["x", "c", "y", "output1"]
    assert edges(graph) == [("x", "c"), ("c", "y"), ("y", "output1")]
    assert graph.edges[1] == GraphEdge("c", "y", "c", "1x2x4x4 f32")
    assert graph.nodes[2] == GraphNode(
        id="y",
        operation="top.unary",
        label="relu",
        family="elementwise",
        shape="1x2x4x4 f32",
        sources=("node_y",),
        device="host",
        attributes=(("kind", "relu"),),
    )
    assert (graph.nodes[1].label, graph.nodes[1].family) == ("conv 1x1", "convolution")


@pytest.mark.parametrize("names", [(), ("y",), ("y", "h:next")])
def test_inputs_outputs_and_states_have_the_names_of_the_file(names: tuple[str, ...]):
    made = programs.program("""
func.func @main(%a : tensor<2xf32>, %b : tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %m = top.binary(%a, %b) {kind = "mul"} : tensor<2xf32>
  %s = top.binary(%a, %b) {kind = "add"} : tensor<2xf32>
  top.return(%m, %s)
}
""")
    entry = entry_function(made.module)
    entry.attributes[INPUT_NAMES] = ArrayAttr([StringAttr("h"), StringAttr("x")])
    entry.attributes[OUTPUT_NAMES] = ArrayAttr([StringAttr(name) for name in names])
    if len(names) == 2:
        set_states(entry, [StateRecord("h", "h:next")])
    graph = module_graph(made.module)
    ends = {n.id: n for n in graph.nodes if n.family in ("input", "output")}
    labels = [(identity, node.label) for identity, node in ends.items()]
    given = [*names, "output", "output"][:2]
    assert labels == [("a", "h"), ("b", "x"), ("output1", given[0]), ("output2", given[1])]
    states = {identity: dict(node.attributes) for identity, node in ends.items()}
    kept, written = {}, {}
    if len(names) == 2:
        kept = {"state": "kept from call to call; h:next is written to it"}
        written = {"state": "written to h, which the next call reads"}
    assert states == {"a": kept, "b": {}, "output1": {}, "output2": written}


def test_calls_are_the_edges_that_they_are():
    (placed,) = programs.run_passes(programs.program(CONV_RELU), [PlaceOnDevice("cpu")])
    graph = placed.after.graph
    assert edges(graph) == [
        ("x", "send1"), ("send1", "c"), ("c", "y"), ("y", "receive1"), ("receive1", "output1")
    ]  # fmt: skip
    assert [n.device for n in graph.nodes] == ["host", "host", "cpu", "cpu", "host", "host"]


def test_regions_are_boxes_around_the_operation_that_holds_them():
    working = programs.program("""
    func.func @main(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
      %y = top.if(%c) {
        %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
        top.return(%a)
      } {
        top.return(%x)
      } : tensor<4xf32>
      top.return(%y)
    }""")
    graph = module_graph(working.module)
    assert {n.id: n.regions for n in graph.nodes} == {
        "c": (), "x": (), "y": ("y",), "a": ("y", "then"), "output1": ()
    }  # fmt: skip
    assert {("c", "y"), ("x", "a"), ("a", "y"), ("x", "y"), ("y", "output1")} == set(edges(graph))


def test_a_state_of_a_loop_enters_its_body():
    working = programs.program("""
    func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
      %y = top.loop(%x) attributes {scans = 0, trip_count = 3} {
      ^bb0(%i : tensor<i64>, %state : tensor<4xf32>):
        %a = top.unary(%state) {kind = "abs"} : tensor<4xf32>
        top.return(%a)
      } : tensor<4xf32>
      top.return(%y)
    }""")
    graph = module_graph(working.module)
    assert {n.id: n.regions for n in graph.nodes}["a"] == ("y", "body")
    assert set(edges(graph)) == {("x", "y"), ("x", "a"), ("a", "y"), ("y", "output1")}


def test_scopes_come_from_the_names_of_source_nodes():
    working = programs.program(CONV_RELU)
    operations = working.snapshot.operations
    operations["c"].location = location_of(["/stage1/block0/conv"])
    operations["y"].location = location_of(["relu"])
    scopes = {n.id: n.scope for n in module_graph(working.snapshot.module).nodes}
    assert scopes["c"] == "stage1/block0"
    assert scopes["y"] == ""


def test_one_value_that_is_read_twice_is_two_edges():
    working = programs.program("""func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
      %y = top.binary(%x, %x) {kind = "mul"} : tensor<4xf32>
      top.return(%y)
    }""")
    assert edges(working.snapshot.graph) == [("x", "y"), ("x", "y"), ("y", "output1")]


# -- differences -----------------------------------------------------------------------------------


def test_equal_programs_have_no_difference():
    one, two = (programs.program(CONV_RELU).snapshot for _ in range(2))
    assert program_difference(one, two) == GraphDiff()


def test_a_fusion_names_what_it_took_over():
    (fused,) = programs.run_passes(programs.program(CONV_RELU), [FuseActivation()])
    (new,) = fused.diff.added
    assert fused.diff.removed == ("c", "y")
    assert fused.diff.fused == ((new, ("c", "y")),)
    assert fused.diff.changed == ()


def test_of_copies_of_one_node_each_takes_over_its_own():
    """As a loop's body that was unrolled: all copies come from the node of the loop."""
    twice = """
    func.func @main(%x : tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
      %w = top.weight() {weight = "w"} : tensor<2x2x1x1xf32>
      %c1 = top.conv(%x, %w) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}
        : tensor<1x2x4x4xf32>
      %y1 = top.unary(%c1) {kind = "relu"} : tensor<1x2x4x4xf32>
      %c2 = top.conv(%y1, %w) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1}
        : tensor<1x2x4x4xf32>
      %y2 = top.unary(%c2) {kind = "relu"} : tensor<1x2x4x4xf32>
      top.return(%y2)
    }
    """
    working = programs.program(twice)
    for op in working.snapshot.operations.values():
        op.location = location_of(["loop"])
    working = Working.at(working.snapshot, working.names)
    (result,) = programs.run_passes(working, [FuseActivation()])
    first, second = result.diff.added
    assert result.diff.fused == ((first, ("c1", "y1")), (second, ("c2", "y2")))
    by_sources = program_difference(result.before, result.after).fused
    assert by_sources[0] == (first, ("c1", "y1", "c2", "y2"))


def test_changed_properties_operands_and_types_are_named():
    before = programs.program(CONV_RELU).snapshot
    changed = CONV_RELU.replace('{kind = "relu"}', '{kind = "clip", beta = 6.0}')
    assert program_difference(before, programs.program(changed).snapshot).changed == (
        NodeChange("y", "kind", "relu", "clip"),
        NodeChange("y", "beta", "", "6.0"),
    )
    blocked = CONV_RELU.replace(
        '"relu"} : tensor<1x2x4x4xf32>',
        '"relu"} : tensor<1x2x4x4xf32, #top.encoding<block = 16>>',
    ).replace("-> tensor<1x2x4x4xf32>", "-> tensor<1x2x4x4xf32, #top.encoding<block = 16>>")
    assert program_difference(before, programs.program(blocked).snapshot).changed == (
        NodeChange("y", "type", "1x2x4x4 f32", "1x2x4x4 f32 nchw16c"),
    )


def test_weights_do_not_count():
    renamed = CONV_RELU.replace("%w", "%v").replace('weight = "w"', 'weight = "v"')
    one, two = (programs.program(t).snapshot for t in (CONV_RELU, renamed))
    assert program_difference(one, two).added == program_difference(one, two).removed == ()
    assert program_difference(one, two).changed == (NodeChange("c", "operands", "x, w", "x, v"),)


def test_a_difference_finds_what_is_asked_for():
    (fused,) = programs.run_passes(programs.program(CONV_RELU), [FuseActivation()])
    assert not made_fields(fused.diff)
    assert fused.diff.removed == ("c", "y")
    assert made_fields(fused.diff) == {"removed"}
