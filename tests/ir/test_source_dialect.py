"""The model as it is, as a program: it prints, parses and is drawn like any other."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from explorer.errors import ModelError
from explorer.ir.dialects.source import NodeOp
from explorer.ir.inspection.graph import module_graph
from explorer.ir.inspection.printing import dump, parse, show
from explorer.ir.structure import index_operations, operations

CONV = """
func.func @main(%x : tensor<?x3x8x8xf32>) -> tensor<?x4x8x8xf32> {
  %w = source.constant() {tensor = "layers.0.weight"} : tensor<4x3x3x3xf32>
  %c = source.node(%x, %w) attributes {family = "convolution", operator = "Conv",
    settings = {auto_pad = "SAME_UPPER", kernel_shape = [3, 3], alpha = 0.5},
    tensors = ["c_out"], version = 17} : tensor<?x4x8x8xf32>
  source.return(%c)
}"""

BRANCH = """
func.func @main(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %y = source.node(%c) attributes {body_names = ["then", "else"], family = "control",
    operator = "If", tensors = ["y"], version = 17} {
    %a = source.node(%x) attributes {family = "elementwise", operator = "Abs", tensors = ["a"],
      version = 17} : tensor<4xf32>
    source.return(%a)
  } {
    %s = source.node(%x) attributes {family = "other", operator = "Decode", domain = "com.example",
      problem = "unknown operator", tensors = ["s"], version = 1} : !source.value<"3 string">
    source.return(%s)
  } : tensor<4xf32>
  source.return(%y)
}"""


def nodes(module: ModuleOp) -> dict[str, NodeOp]:
    return {op.operator.data: op for op in operations(module) if isinstance(op, NodeOp)}


@pytest.mark.parametrize("text", [CONV, BRANCH])
def test_text_and_program_are_the_same(text: str):
    module = parse(text)
    again = parse(dump(module))
    assert dump(again) == dump(module)
    assert index_operations(again) == index_operations(module)
    assert "".join(show(again).lines) == "".join(show(module).lines)


def test_attributes_of_the_file_are_listed_as_a_person_reads_them():
    conv = nodes(parse(CONV))["Conv"]
    assert conv.graph_attributes() == (
        ("operator set", "ai.onnx 17"),
        ("auto_pad", "SAME_UPPER"),
        ("kernel_shape", "3, 3"),
        ("alpha", "0.5"),
        ("results", "c_out"),
    )


def test_constants_are_no_nodes_of_the_graph():
    graph = module_graph(parse(CONV))
    assert [(n.id, n.family, n.label) for n in graph.nodes] == [
        ("x", "input", "x"), ("c", "convolution", "Conv"), ("output1", "output", "output")
    ]  # fmt: skip


def test_a_node_that_cannot_be_imported_says_why_and_stands_in_its_region():
    graph = module_graph(parse(BRANCH))
    decode = next(n for n in graph.nodes if n.label == "Decode")
    assert decode.problem == "unknown operator"
    assert decode.regions == ("y", "else")
    assert decode.shape == "3 string"
    assert nodes(parse(BRANCH))["Decode"].qualified_operator == "com.example.Decode"


def test_as_many_names_as_results_are_expected():
    with pytest.raises(ModelError, match="2 names for 1 results"):
        parse(CONV.replace('["c_out"]', '["c_out", "other"]'))


def test_as_many_names_as_regions_are_expected():
    with pytest.raises(ModelError, match="1 names for 2 regions"):
        parse(BRANCH.replace('["then", "else"]', '["then"]'))
