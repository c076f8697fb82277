"""IR as text: who owns a line, that reading back is the identity, and what errors name."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Region

from explorer.errors import ModelError
from explorer.ir.inspection.printing import dump, parse, show
from explorer.ir.operation import identity_of, set_identity
from explorer.ir.origins import Origin, location_of, origin_of, set_origins, sources_of
from explorer.ir.structure import operations
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.types import Layout, tensor_type

RELU = """func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %y = top.unary(%x) {kind = "relu"} : tensor<4xf32>
  top.return(%y)
}
"""
HOSTILE = [
    '"',
    "\\",
    "\\n",
    "a\nb",
    "*/",
    "<script>alert(1)</script>",
    "größe",
    '名"前\\',
    "\x00\x7f",
]


def named_module(name: str) -> ModuleOp:
    """y = relu(w): weight, origin and source node all have the name."""
    weight = WeightOp.make([], [tensor_type(f32, (4,))], weight=name)
    relu = UnaryOp.make([weight.output], kind="relu")
    for op, identity in ((weight, "w"), (relu, "y")):
        set_identity(op, identity)
        op.location = location_of([name, f"{name}{name}"])
        set_origins(op, [Origin(name).then("reshape", [4])])
    block = Block([weight, relu, ReturnOp.make([[relu.output]])])
    function = func.FuncOp("main", ([], [relu.output.type]), Region(block))
    return ModuleOp([function])


# -- for people ------------------------------------------------------------------------------------


def test_every_line_names_the_operation_on_it():
    text = show(parse(RELU))
    assert text.lines == (
        "builtin.module {",
        "  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {",
        '    %y = top.unary(%x) {kind = "relu"} : tensor<4xf32>',
        "    top.return(%y)",
        "  }",
        "}",
    )
    assert text.owners == ((), (), ("y",), (), (), ())


def test_lines_of_nested_operations_belong_to_the_inner_ones():
    text = show(
        parse(
            """func.func @main(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %y = top.if(%c) {
    %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
    top.return(%a)
  } {
    top.return(%x)
  } : tensor<4xf32>
  top.return(%y)
}"""
        )
    )
    owners = {
        line.split("=")[0].strip(): o for line, o in zip(text.lines, text.owners, strict=True)
    }
    assert owners["%a"] == ("a",)
    assert owners["%y"] == ("y",)


def test_people_see_no_identities_but_files_do():
    module = parse(RELU)
    assert "id =" not in "\n".join(show(module).lines)
    assert 'id = "y"' in dump(module)


# -- back from text --------------------------------------------------------------------------------


def test_identity_origin_and_sources_survive_text():
    module = parse(dump(named_module("conv1")))
    relu = list(operations(module))[1]
    assert identity_of(relu) == "y"
    assert origin_of(relu.results[0]) == Origin("conv1", (("reshape", (4,)),))
    assert sources_of(relu) == ("conv1", "conv1conv1")


def test_what_people_see_can_be_read_back_too():
    shown = "\n".join(show(parse(RELU)).lines)
    assert show(parse(shown)).lines == show(parse(RELU)).lines
    assert [identity_of(op) for op in operations(parse(shown)) if op.results] == ["y"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_the_text(name):
    text = dump(named_module(name))
    assert dump(parse(text)) == text
    weight, relu, _ = operations(parse(text))
    assert weight.get("weight") == name
    assert origin_of(relu.results[0]) == Origin(name, (("reshape", (4,)),))
    assert sources_of(relu) == (name, f"{name}{name}")
    plain = len(dump(named_module("a")).splitlines())
    assert len(text.splitlines()) == plain, "a name never begins a line of its own"


@given(name=st.text(max_size=20))
@settings(deadline=None)
def test_any_name_survives_text(name):
    text = dump(named_module(name))
    assert dump(parse(text)) == text
    weight, relu, _ = operations(parse(text))
    assert weight.get("weight") == name
    assert sources_of(relu) == tuple(dict.fromkeys([name, f"{name}{name}"]))


@st.composite
def small_programs(draw) -> ModuleOp:
    """Up to six elementwise operations on any values before them, some blocked."""
    layouts = st.sampled_from(
        [Layout(), Layout(4), Layout(4, (1, 0, 2, 1)), Layout(0, (1,) * 4, -1.5)]
    )
    block = Block(arg_types=[tensor_type(f32, (1, 3, 2, 2))])
    values = [block.args[0]]
    values[0].name_hint = "x"
    for number in range(draw(st.integers(1, 6))):
        first = draw(st.sampled_from(values))
        if draw(st.booleans()):
            kind = draw(st.sampled_from(["relu", "clip", "leaky_relu"]))
            alpha = draw(st.none() | st.floats(allow_nan=False, width=32))
            op = UnaryOp.make([first], kind=kind, alpha=alpha)
        else:
            kind = draw(st.sampled_from(["add", "max"]))
            op = BinaryOp.make([first, draw(st.sampled_from(values))], kind=kind)
        kind = tensor_type(f32, (1, 3, 2, 2), draw(layouts))
        op = type(op).create(operands=op.operands, properties=op.properties, result_types=[kind])
        set_identity(op, f"v{number}")
        if draw(st.booleans()):
            set_origins(op, [Origin("t", (("permute", (0, 2, 3, 1)),))])
        block.add_op(op)
        values.append(op.results[0])
    block.add_op(ReturnOp.make([[values[-1]]]))
    return ModuleOp([func.FuncOp("main", ([block.args[0].type], [values[-1].type]), Region(block))])


@given(module=small_programs())
@settings(deadline=None)
def test_printing_and_parsing_programs_is_the_identity(module):
    text = dump(module)
    again = parse(text)
    assert dump(again) == text
    assert again.is_structurally_equivalent(module)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y = top.unary(%z) {kind = \"relu\"} : tensor<4xf32>",
         "%z is not defined above"),
        ("%y = top.unary(%x, %x) {kind = \"relu\"} : tensor<4xf32>",
         "top.unary has 1 operands too many; its operands are: input"),
        ("%y = top.unary(%x, bias = %x) {kind = \"relu\"} : tensor<4xf32>",
         "top.unary has an operand 'bias'; its operands are: input"),
        ("%y = top.unary() {kind = \"relu\"} : tensor<4xf32>", "top.unary needs operand input"),
        ("%y = top.unary(%x) {kind = \"rolu\"} : tensor<4xf32>", "unknown kind 'rolu'"),
        ("%y = top.unary(%x) {knd = \"relu\"} : tensor<4xf32>",
         "top.unary has no property 'knd', only kind, alpha, beta"),
        ("%y = top.unary(%x) {kind = 3} : tensor<4xf32>", "should be of base attribute string"),
        ("%y = top.unary(%x) {kind = \"relu\"} : tensor<5xf32>",
         "top.unary: results are 5 f32, but its operands and properties give 4 f32"),
        ("%y = top.relu(%x) : tensor<4xf32>", "Operation top.relu is not registered"),
        ("%y = top.softmax(%x) {axis = 0} : tensor<4xf32>", "property 'logarithm' expected"),
        ("%y = top.unary(%x) {kind = \"relu\"} : tensor<4xf32, #top.encoding<halo = [1]>>",
         "a halo is [top, left, bottom, right]"),
        ("%y = top.unary(%x) {kind = \"relu\"} : tensor<4xf32, #top.encoding<fill = \"x\">>",
         "fill = 'x': a number expected"),
    ],
)  # fmt: skip
def test_errors_name_the_line_and_what_was_expected(line, message):
    text = RELU.splitlines()
    text[1] = "  " + line
    with pytest.raises(ModelError) as raised:
        parse("\n".join(text), "edited.mlir")
    assert "edited.mlir:2:" in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["}", "(" * 3000, RELU[:60], RELU.replace("  top.return(%y)\n", ""), RELU + RELU, "\x00", '"'],
)
def test_what_is_no_ir_is_refused(text):
    with pytest.raises(ModelError, match="not valid IR"):
        parse(text)


def test_a_string_that_is_not_closed_is_read_once():
    """Not once for each way to cut it, of which there are 2^5000."""
    begun = time.process_time()
    with pytest.raises(ModelError, match="End of file reached"):
        parse('builtin.module attributes {a = "' + "a" * 5000)
    assert time.process_time() - begun < 5


def test_regions_that_are_nested_too_deep_are_refused():
    with pytest.raises(ModelError, match="nested too deep"):
        parse("builtin.module {" * 2000 + "}" * 2000)


def test_a_program_without_a_function_is_refused():
    with pytest.raises(ModelError, match="the text has no function"):
        parse("builtin.module {}")


def test_a_name_in_two_functions_is_refused():
    second = RELU.replace("@main", "@other")
    with pytest.raises(ModelError, match="two operations are called 'y'"):
        parse(RELU + second)
    assert len(list(parse(RELU + second.replace("%y", "%z")).ops)) == 2
