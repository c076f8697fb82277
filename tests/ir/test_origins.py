"""Origins: a value's form from its source tensor's, and locations: the nodes that it comes from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Region

from explorer.ir.inspection.printing import dump, parse, show
from explorer.ir.operation import identity_of, set_identity
from explorer.ir.origins import (
    Origin,
    OriginAttr,
    location_of,
    origin_of,
    origins_of,
    set_origins,
    sources_of,
)
from explorer.ir.structure import operations
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.reduction import TopKOp
from explorer.ir.types import tensor_type


def test_every_step_changes_the_form_as_its_name_says():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    origin = Origin("conv1_out")
    np.testing.assert_array_equal(origin.apply(source), source)
    np.testing.assert_array_equal(origin.then("permute", [1, 0]).apply(source), source.T)
    np.testing.assert_array_equal(
        origin.then("reshape", [3, 2]).apply(source), source.reshape(3, 2)
    )
    np.testing.assert_array_equal(origin.then("slice", [1, 1, 3]).apply(source), source[:, 1:3])
    expected = [[0, 1, 2], [3, 4, 5], [0, 0, 0]]
    np.testing.assert_array_equal(origin.then("pad", [0, 0, 1]).apply(source), expected)
    scaled = origin.scaled(1, [8, 0, -16]).apply(source)
    np.testing.assert_array_equal(scaled, source * np.float32([2, 1, 0.25]))


def test_factors_of_one_axis_become_one():
    once = Origin("x").scaled(1, [3, -4])
    assert once.scaled(1, [1, 1]) == Origin("x").scaled(1, [4, -3])
    assert once.only_scaled and not once.then("reshape", [2]).only_scaled
    assert once.then("reshape", [2]).moved == Origin("x").then("reshape", [2])


def test_a_tensor_with_factors_is_found_under_its_key_first():
    """What is left of the origin is applied; the source's tensor takes all of it."""
    source = np.float32([[1, 2]])
    origin = Origin("x").scaled(1, [8, 16]).then("reshape", [2])
    np.testing.assert_array_equal(origin.found_in({"x": source}), [2, 8])
    np.testing.assert_array_equal(origin.found_in({"x": source, origin.key: source}), [1, 2])
    assert origin.key != Origin("x").scaled(1, [8, 17]).key and Origin("x").key == "x"
    assert origin.found_in({}) is None


def test_steps_apply_in_order():
    source = np.arange(6).reshape(2, 3)
    origin = Origin("x").then("permute", [1, 0]).then("slice", [0, 1, 3]).then("reshape", [4])
    assert origin.steps == (("permute", (1, 0)), ("slice", (0, 1, 3)), ("reshape", (4,)))
    np.testing.assert_array_equal(origin.apply(source), [1, 4, 2, 5])


steps = st.tuples(
    st.sampled_from(["permute", "reshape", "slice", "pad", "scale"]),
    st.lists(st.integers(-1, 10**6), min_size=1, max_size=5).map(tuple),
)


@given(tensor=st.text(), steps=st.lists(steps, max_size=3))
def test_an_attribute_holds_the_whole_origin(tensor, steps):
    origin = Origin(tensor, tuple(steps))
    attribute = origin.to_attribute()
    assert isinstance(attribute, OriginAttr)
    assert attribute.origin == origin


def relu_module() -> tuple[ModuleOp, UnaryOp]:
    block = Block(arg_types=[tensor_type(f32, (2,))])
    op = UnaryOp.make([block.args[0]], kind="relu")
    set_identity(op, "relu1")
    block.add_ops([op, ReturnOp.make([[op.output]])])
    types = ([block.args[0].type], [op.output.type])
    return ModuleOp([func.FuncOp("main", types, Region(block))]), op


def assert_text_keeps(origin: Origin, sources: list[str]) -> None:
    module, op = relu_module()
    set_origins(op, [origin])
    op.location = location_of(sources)
    text = dump(module)
    parsed = parse(text)
    (read,) = [o for o in operations(parsed) if isinstance(o, UnaryOp)]
    assert origins_of(read) == [origin]
    assert sources_of(read) == tuple(dict.fromkeys(sources))
    assert identity_of(read) == "relu1"
    assert dump(parsed) == text


# What a model's file may hold as a name: quotes, backslashes and line ends included.
names = st.text()


@settings(max_examples=30)
@given(tensor=names, sources=st.lists(names), steps=st.lists(steps, max_size=3))
def test_printing_and_parsing_keeps_origins_sources_and_identities(tensor, sources, steps):
    assert_text_keeps(Origin(tensor, tuple(steps)), sources)


@pytest.mark.parametrize(("tensor", "source"), [("größe", "conv"), ("size", "größe")])
def test_names_may_be_written_in_any_script(tensor, source):
    assert_text_keeps(Origin(tensor), [source])


def test_people_are_not_shown_origins_that_names_already_say():
    module, op = relu_module()
    set_origins(op, [Origin("relu_out")])
    assert "relu_out" not in "\n".join(show(module).lines)
    assert '#top.origin<"relu_out">' in dump(module)


def test_every_result_has_its_own_origin(values, build):
    op = build(TopKOp, [values(5)], k=2, axis=0, largest=True)
    set_origins(op, [None, Origin("positions")])
    assert origins_of(op) == [None, Origin("positions")]
    set_origins(op, [None, None])
    assert origins_of(op) == [None, None]
    assert "origin" not in op.attributes


def test_arguments_have_no_origin(values, build):
    op = build(TransposeOp, [values(2, 3)], permutation=[1, 0])
    assert origin_of(op.operands[0]) is None


@pytest.mark.parametrize(
    ("sources", "expected"),
    [([], ()), (["conv1"], ("conv1",)), (["conv1", "relu1", "conv1"], ("conv1", "relu1"))],
)
def test_locations_name_each_source_once(sources, expected, values, build):
    op = build(UnaryOp, [values(3)], kind="relu")
    op.location = location_of(sources)
    assert sources_of(op) == expected
