"""Types of `top` values: symbolic dimensions, layouts, quantized elements, and their text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    f32,
    i8,
)
from xdsl.ir import Attribute, Block, Region

from explorer.errors import ModelError
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import (
    ELEMENT_TYPES,
    Layout,
    QuantizedType,
    element_type_from_numpy,
    format_type,
    is_static,
    layout_of,
    numpy_dtype,
    shape_of,
    size_bytes,
    static_shape,
    tensor_type,
    with_layout,
)


def identity_module(*kinds: Attribute) -> ModuleOp:
    """A function that returns its arguments of these types."""
    block = Block(arg_types=kinds)
    for number, argument in enumerate(block.args):
        argument.name_hint = f"x{number}"
    block.add_op(ReturnOp.make([list(block.args)]))
    return ModuleOp([func.FuncOp("main", (kinds, kinds), Region(block))])


def argument_types(module: ModuleOp) -> list[Attribute]:
    (function,) = module.ops
    assert isinstance(function, func.FuncOp)
    return [argument.type for argument in function.body.block.args]


def test_a_symbolic_dimension_is_dynamic_with_its_name_in_the_encoding():
    kind = tensor_type(f32, ("batch", 3, "2*batch"))
    assert str(kind) == 'tensor<?x3x?xf32, #top.encoding<dims = ["batch", "", "2*batch"]>>'
    assert shape_of(kind) == ("batch", 3, "2*batch")
    assert not is_static(kind)
    assert size_bytes(kind) == 0
    with pytest.raises(ValueError, match=r"shape batchx3x2\*batch is not static"):
        static_shape(kind)


def test_a_plain_static_type_has_no_encoding():
    kind = tensor_type(f32, (1, 3, 8, 8))
    assert str(kind) == "tensor<1x3x8x8xf32>"
    assert static_shape(kind) == (1, 3, 8, 8)
    assert size_bytes(kind) == 768


def test_a_dynamic_dimension_without_a_name_is_a_question_mark():
    assert shape_of(TensorType(f32, [DYNAMIC_INDEX, 3])) == ("?", 3)


def test_a_layout_stands_in_the_encoding_and_leaves_the_shape_as_it_is():
    layout = Layout(16, (1, 1, 0, 0), float("-inf"))
    kind = with_layout(tensor_type(f32, (1, 24, 8, 8)), layout)
    encoding = '#top.encoding<block = 16, halo = [1, 1, 0, 0], fill = "-inf">'
    assert str(kind) == f"tensor<1x24x8x8xf32, {encoding}>"
    assert layout_of(kind) == layout
    assert static_shape(kind) == (1, 24, 8, 8)
    assert format_type(kind) == "1x24x8x8 f32 nchw16c halo 1,1,0,0"
    assert with_layout(kind, Layout()) == tensor_type(f32, (1, 24, 8, 8))


# What a model's file may hold as a name: quotes, backslashes and line ends included.
names = st.text(min_size=1).filter(lambda name: name != "?")
dimensions = st.one_of(st.integers(0, 99), names)
layouts = st.builds(
    Layout,
    st.sampled_from([0, 4, 16]),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.floats(width=32, allow_nan=False).map(lambda fill: fill + 0.0),  # -0.0 is no fill of its own
)


tensor_types = st.builds(
    tensor_type,
    st.sampled_from(list(ELEMENT_TYPES.values())),
    st.lists(dimensions, max_size=4),
    layouts,
)


@settings(max_examples=20)  # of up to twelve types: setting up a parser is what takes time
@given(kinds=st.lists(tensor_types, min_size=1, max_size=12))
def test_printing_and_parsing_types_is_the_identity(kinds):
    module = identity_module(*kinds)
    parsed = parse(dump(module))
    assert argument_types(parsed) == kinds
    assert dump(parsed) == dump(module)


@given(shape=st.lists(dimensions, max_size=4), layout=layouts)
def test_a_type_holds_shape_and_layout(shape, layout):
    kind = tensor_type(f32, shape, layout)
    assert shape_of(kind) == tuple(shape)
    assert layout_of(kind) == layout


@pytest.mark.parametrize("name", ["two\nlines", "größe\\2"])
def test_a_dimension_may_have_any_name(name):
    module = identity_module(tensor_type(f32, (name,)))
    assert dump(parse(dump(module))) == dump(module)


def test_a_quantized_type_is_printed_and_read_back():
    element = QuantizedType.get(i8, [0.5, 0.25], [0, 3], axis=1)
    kind = tensor_type(element, (1, 2, 4))
    assert argument_types(parse(dump(identity_module(kind)))) == [kind]


def test_a_quantized_type_is_stored_in_its_integers():
    element = QuantizedType.get(i8, [0.5, 0.25], [0, 3], axis=1)
    assert numpy_dtype(element) == np.int8
    assert size_bytes(tensor_type(element, (1, 2, 4))) == 8
    with pytest.raises(ValueError, match="as many zero points as scales"):
        QuantizedType.get(i8, [0.5], [])


def test_an_unknown_field_of_an_encoding_is_named():
    text = dump(identity_module(tensor_type(f32, (1, 2, 3, 4), Layout(4))))
    with pytest.raises(ModelError, match="unknown field 'blok'"):
        parse(text.replace("block", "blok"))


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_element_types_correspond_to_numpy(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = numpy_dtype(ELEMENT_TYPES[name])
    assert dtype.name == name
    assert element_type_from_numpy(dtype) == ELEMENT_TYPES[name]


def test_what_has_no_place_in_the_ir_is_refused():
    with pytest.raises(TypeError, match="no element type for NumPy's complex64"):
        element_type_from_numpy(np.dtype(np.complex64))
    assert ELEMENT_TYPES["uint8"] == IntegerType(8, Signedness.UNSIGNED)
