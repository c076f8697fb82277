"""Layers in the IR are typed operations: fields of their records, verified."""

import dataclasses
import typing

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from explorer.ir.dialects.npu import LAYER_OPERATIONS, LayerOp
from explorer.ir.dialects.npu_layers import SHARED, field_properties
from explorer.ir.operation import from_attribute, to_attribute
from explorer.ir.structure import operations
from explorer.npu.layers.elementwise import OPERATIONS
from explorer.npu.program.compiling import CHOICES
from explorer.npu.program.ir_layers import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_an_operation_has_the_fields_of_its_record(kind):
    """But for its name and for arrays, which are operands."""
    hints = typing.get_type_hints(KINDS[kind])
    arrays = {n for n, hint in hints.items() if np.ndarray in (hint, *typing.get_args(hint))}
    inner = {
        name
        for name, hint in hints.items()
        for one in (hint, *typing.get_args(hint))
        if dataclasses.is_dataclass(one)
        and not {f.name for f in dataclasses.fields(one)} - {"multipliers", "addends"}
    }
    own = {field.name for field in dataclasses.fields(KINDS[kind])}
    definition = LAYER_OPERATIONS[kind].get_irdl_definition()
    assert set(definition.properties) - set(SHARED) == own - arrays - inner - {"name"}


def test_sizes_of_tiles_have_the_names_that_tiling_has_for_them():
    assert {one.TILES for one in LAYER_OPERATIONS.values()} == set(CHOICES.values())
    kinds = {*OPERATIONS, "scale"}
    assert set(LAYER_OPERATIONS["Elementwise"].KINDS) == kinds


def test_records_inside_are_dictionaries_of_paths():
    given = {"strides": (2, 2), "rescaling.low": -7, "rescaling.how.scheme": "shift"}
    found = field_properties(given)
    assert set(found) == {"strides", "rescaling"}
    assert from_attribute(found["rescaling"]) == {"low": -7, "how.scheme": "shift"}


@pytest.fixture(scope="module")
def layers(compiled):
    snapshot = compiled("odd-12x20")["tile-layers"].after
    return [op for op in operations(snapshot.program) if isinstance(op, LayerOp)]


def test_a_network_is_convolutions_and_windows(layers):
    assert {op.name for op in layers} == {"npu.convolution", "npu.window"}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("Convolution", {"strides": [0, 1]}, r"strides is \[0, 1\], expected 2 numbers from 1 on"),
        ("Convolution", {"pads": [1, 1]}, r"pads is \[1, 1\], expected 4 numbers"),
        ("Convolution", {"groups": 3}, "in 3 groups do not read"),
        ("Convolution", {"parts": [1, 1]}, "parts is .* expected 1 channels together"),
        ("Convolution", {"constants": ["weights"]}, "it names 1 constants, and has"),
        ("Convolution", {"tiles": {"rows": 1, "buffers": 2}}, "expected rows, columns, outputs"),
        ("WindowLayer", {"kernel": [0, 2]}, r"kernel is \[0, 2\], expected 2 numbers from 1 on"),
        ("WindowLayer", {"pads": [0, 0, 0, -1]}, "pads is .* expected 4 numbers from 0 on"),
        ("WindowLayer", {"tiles": {"rows": 0, "columns": 1, "blocks": 1, "buffers": 1}},
         "tiles.rows is 0, expected at least 1"),
    ],
)  # fmt: skip
def test_what_no_layer_is_does_not_verify(layers, kind, changes, message):
    op = next(op for op in layers if kind == op.KIND).clone()
    op.verify_()
    op.properties |= {name: to_attribute(value) for name, value in changes.items()}
    with pytest.raises(VerifyException, match=message):
        op.verify_()
