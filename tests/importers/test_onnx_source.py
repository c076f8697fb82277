"""The model as it is, and its import as one rewrite for every node."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

from explorer.importers import ExaminedModel, OpenedProgram, SourceModel, load, open_program
from explorer.importers.onnx import examine, from_proto
from explorer.importers.onnx.converters import all_converters
from explorer.importers.onnx.families import family_of, known_operators
from explorer.ir.dialects.source import NodeOp
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.rewriting import Rewrite, replay
from explorer.ir.structure import index_operations, operations
from explorer.ir.types import format_type
from explorer.views.theme import FAMILIES

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"

GELU = """
gelu (float[N,4] x) => (float[N,4] y)
<float[4,4] w> { h = MatMul (x, w)  g = Gelu (h)  i = Identity (g)  y = Relu (i) }
"""

LOOP = """
loop (float[N,4] x, int64 count, bool go) => (float[N,4] last, float[M,N,4] rows) {
  last, rows = Loop (count, go, x) <body = body (int64 i, bool c, float[N,4] state)
    => (bool c2, float[N,4] next, float[N,4] row) {
      c2 = Identity (c)
      next = Abs (state)
      row = Relu (next)
  }>
}
"""


def model_of(text: str, opset: int = 20) -> SourceModel:
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}')
    for declared in list(proto.graph.value_info):
        shape = [d.dim_value for d in declared.type.tensor_type.shape.dim]
        array = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, declared.name))
        proto.graph.value_info.remove(declared)
    return from_proto(proto)


def nodes(found: OpenedProgram | ExaminedModel) -> list[NodeOp]:
    return [op for op in operations(found.source) if isinstance(op, NodeOp)]


def rewrites_by_rule(opened: OpenedProgram) -> dict[str, Rewrite]:
    return {rewrite.rule: rewrite for rewrite in opened.rewrites}


@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp"])
def test_every_node_of_a_file_stands_in_its_program(name: str):
    model = load(SAMPLES / f"{name}.onnx")
    opened = open_program(model)
    opened.source.verify()
    assert [n.operator.data for n in nodes(opened)] == [n.operator for n in model.nodes]
    assert dump(parse(dump(opened.source))) == dump(opened.source)


@pytest.mark.parametrize("text", [GELU, LOOP])
def test_the_rewrites_lead_from_the_model_to_the_program(text: str):
    opened = open_program(model_of(text))
    records = index_operations(opened.source)
    for rewrite in opened.rewrites:
        records = replay(records, rewrite)
    assert records == index_operations(opened.module)
    for rewrite in reversed(opened.rewrites):
        records = replay(records, rewrite, backwards=True)
    assert records == index_operations(opened.source)


def test_identities_of_nodes_are_none_of_the_programs():
    opened = open_program(model_of(GELU))
    program = index_operations(opened.module)
    assert not {identity for identity in index_operations(opened.source)
                if identity.startswith("node_")} & set(program)  # fmt: skip


def test_a_rewrite_says_what_a_node_became_and_which_converter_did_it():
    found = rewrites_by_rule(open_program(model_of(GELU)))
    assert found["MatMul"].matched == ("node_MatMul_0",)
    assert found["MatMul"].produced == ("matmul1",)
    assert found["MatMul"].address == "import/MatMul/node_MatMul_0"
    assert found["MatMul"].rule_source.startswith("explorer/importers/onnx/operators/nn.py:")
    assert found["Relu"].explanation


def test_of_an_identity_nothing_is_made():
    found = rewrites_by_rule(open_program(model_of(GELU)))
    assert found["Identity"].produced == ()
    assert found["Identity"].matched == ("node_Identity_2",)


def test_an_exotic_operator_is_written_out_in_others():
    proto = "celu (float[4] x) => (float[4] y) { y = Celu <alpha = 2.0> (x) }"
    found = rewrites_by_rule(open_program(model_of(proto)))
    assert len(found["Celu"].produced) >= 1
    assert {r.name.split(".")[0] for r in found["Celu"].added} == {"top"}


def test_a_body_is_a_region_that_its_states_enter():
    opened = open_program(model_of(LOOP))
    loop, *inner = nodes(opened)
    assert loop.region_names() == ("body",)
    assert [n.operator.data for n in inner] == ["Identity", "Abs", "Relu"]
    assert [format_type(a.type) for a in loop.bodies[0].block.args] == [
        "scalar i64", "scalar i1", "Nx4 f32"
    ]  # fmt: skip
    assert loop.region_operands(0) == list(loop.operands)


def test_a_scan_is_a_region_that_states_and_slices_enter():
    """The body's arguments are the state as it is and one slice of what is scanned."""
    text = """
    scan (float[4] s, float[N,4] x) => (float[4] last, float[N,4] rows) {
      last, rows = Scan <num_scan_inputs = 1, body = body (float[4] state, float[4] slice)
        => (float[4] next, float[4] row) {
          next = Add (state, slice)
          row = Abs (next)
      }> (s, x)
    }
    """
    opened = open_program(model_of(text))
    scan, *inner = nodes(opened)
    assert (scan.operator.data, scan.region_names()) == ("Scan", ("body",))
    assert [n.operator.data for n in inner] == ["Add", "Abs"]
    assert [format_type(a.type) for a in scan.bodies[0].block.args] == ["4 f32", "4 f32"]
    assert inner[0].operands[0] is scan.bodies[0].block.args[0]
    assert [format_type(r.type) for r in scan.results] == ["4 f32", "Nx4 f32"]


def test_types_are_those_that_the_import_found():
    matmul, gelu, *_ = nodes(open_program(model_of(GELU)))
    assert format_type(matmul.results[0].type) == "Nx4 f32"
    assert format_type(gelu.results[0].type) == "Nx4 f32"


def test_an_operand_that_is_left_out_keeps_its_place():
    text = """
    clip (float[4] x) => (float[4] y)
    <float high> { y = Clip (x, , high) }
    """
    (clip,) = nodes(open_program(model_of(text)))
    assert clip.get("absent") == (1,)
    assert len(clip.operands) == 2


def test_every_operator_with_a_converter_has_a_family():
    converted = {operator for c in all_converters() for operator in c.operators}
    assert len(converted) > 200
    assert converted <= set(known_operators())


def test_every_operator_of_onnx_has_a_family_that_has_a_look():
    looks = {look.name for look in FAMILIES}
    schemas = {
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx.ml")
    }
    assert schemas <= known_operators()
    assert {family_of(name) for name in known_operators()} <= looks
    assert family_of("Unheard") == "other"


# -- what cannot be imported -----------------------------------------------------------------------


def refused(nodes_: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], **domains: int):
    made = [name for node in nodes_ for name in node.output]
    graph = helper.make_graph(nodes_, "g", inputs, [onnx.ValueInfoProto(name=made[-1])])
    opsets = [helper.make_opsetid("", domains.pop("opset", 20))]
    opsets += [helper.make_opsetid(name.replace("_", "."), v) for name, v in domains.items()]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return examine(from_proto(proto, is_examined=True))


FLOATS = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 4])
WORDS = helper.make_tensor_value_info("words", onnx.TensorProto.STRING, ["N"])


def test_all_nodes_of_an_unknown_domain_are_named():
    found = refused(
        [
            helper.make_node("Wobble", ["x"], ["a"], "first", domain="com.example"),
            helper.make_node("Relu", ["x"], ["b"], "fine"),
            helper.make_node("Wobble", ["b"], ["c"], "second", domain="com.example"),
            helper.make_node("Add", ["a", "c"], ["y"], "behind"),
        ],
        [FLOATS],
        com_example=1,
    )
    assert set(found.problems) == {"first", "second"}
    assert found.problems["first"] == "unknown operator"
    by_name = {n.tensor_names()[0]: n for n in nodes(found)}
    assert by_name["a"].graph_problem() == "unknown operator"
    assert by_name["b"].graph_problem() == by_name["y"].graph_problem() == ""
    assert format_type(by_name["b"].results[0].type) == "Nx4 f32"
    assert format_type(by_name["a"].results[0].type) == "unknown"


def test_an_image_decoder_is_refused_and_shown():
    data = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["N"])
    found = refused([helper.make_node("ImageDecoder", ["x"], ["y"], "decode")], [data])
    assert list(found.problems) == ["decode"]


def test_a_node_keeps_the_operator_set_that_the_file_declares():
    found = refused([helper.make_node("Relu", ["x"], ["y"], "relu")], [FLOATS], opset=13)
    assert found.problems == {}
    assert nodes(found)[0].get("version") == 13


def test_an_input_of_strings_is_its_code_points():
    normalize = helper.make_node("StringNormalizer", ["words"], ["a"], "normalize")
    found = refused([normalize], [WORDS])
    assert found.problems == {}
    # Sizes are 1 where they are asked for, as a batch's is.
    assert format_type(nodes(found)[0].operands[0].type) == "1x1 i32"


def test_strings_without_a_number_of_axes_are_refused_by_input_and_by_node():
    kind = helper.make_tensor_type_proto(onnx.TensorProto.STRING, None)
    anything = helper.make_value_info("words", kind)
    nodes_ = [
        helper.make_node("StringNormalizer", ["words"], ["a"], "normalize"),
        helper.make_node("Relu", ["x"], ["y"], "relu"),
    ]
    found = refused(nodes_, [anything, FLOATS])
    assert found.problems["words"] == "input 'words' has elements of type STRING"
    assert "normalize" in found.problems


def test_a_node_that_does_not_fit_its_operands_is_one_of_the_problems():
    found = refused(
        [
            helper.make_node("Reshape", ["x"], ["a"], "broken"),
            helper.make_node("Wobble", ["x"], ["y"], "unknown"),
        ],
        [FLOATS],
    )
    assert set(found.problems) == {"broken", "unknown"}


def test_a_model_that_can_be_imported_has_no_problems_and_its_rewrites():
    found = examine(model_of(GELU))
    assert found.problems == {}
    assert [r.rule for r in found.rewrites] == ["MatMul", "Gelu", "Identity", "Relu"]
