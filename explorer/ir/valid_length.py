"""The valid length of a program whose states have a capacity, as the entry function notes it.

func @main(%past: tensor<1x4x8x16xf32>, %past_length: tensor<i64>)
    {valid_length = {name = "past_length", capacity = 8, rows = 1,
                     inputs = [["past", 2, 0]], outputs = [["present", 2, 1]]}}

A value that is stored in fewer bytes has the type's name after these, the name of the value with
the scales of its rows, and whether its last two axes are in the other order:
["past", 2, 0, "int8", "past.scale", "turned"]. The type is empty where only the order differs.
`full_masks` names the inputs that the program takes to be masks of ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from explorer.results.program import GrowingValue, ValidLength

VALID_LENGTH = "valid_length"
TURNED = StringAttr("turned")


def length_attribute(length: ValidLength) -> DictionaryAttr:
    """What an entry function notes."""
    return DictionaryAttr(
        {
            "name": StringAttr(length.name),
            "capacity": _number(length.capacity),
            "rows": _number(length.rows),
            "inputs": _values(length.inputs),
            "outputs": _values(length.outputs),
            **({"full_masks": _names(length.full_masks)} if length.full_masks else {}),
        }
    )


def length_of(function: func.FuncOp) -> ValidLength | None:
    """The valid length of an entry function, where it has one."""
    attribute = function.attributes.get(VALID_LENGTH)
    if not isinstance(attribute, DictionaryAttr):
        return None
    data = attribute.data
    return ValidLength(
        _text(data["name"]),
        _integer(data["capacity"]),
        _integer(data["rows"]),
        _growing(data["inputs"]),
        _growing(data["outputs"]),
        full_masks=_texts(data.get("full_masks")),
    )


def _values(values: Sequence[GrowingValue]) -> ArrayAttr[ArrayAttr[Attribute]]:
    return ArrayAttr(
        [
            ArrayAttr(
                [
                    StringAttr(v.name),
                    _number(v.axis),
                    _number(v.more),
                    *_stored(v),
                ]
            )
            for v in values
        ]
    )


def _stored(value: GrowingValue) -> list[Attribute]:
    if not value.stored and not value.is_turned:
        return []
    return [StringAttr(value.stored), StringAttr(value.scale), *[TURNED] * value.is_turned]


def _growing(attribute: Attribute) -> tuple[GrowingValue, ...]:
    assert isinstance(attribute, ArrayAttr)
    return tuple(
        GrowingValue(
            _text(name),
            _integer(axis),
            _integer(more),
            "".join(map(_text, stored[:1])),
            is_turned=TURNED in stored[2:],
            scale="".join(map(_text, stored[1:2])),
        )
        for name, axis, more, *stored in (entry.data for entry in attribute.data)
    )


def _names(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])


def _texts(attribute: Attribute | None) -> tuple[str, ...]:
    return tuple(map(_text, attribute.data)) if isinstance(attribute, ArrayAttr) else ()


def _number(value: int) -> IntegerAttr:
    return IntegerAttr(value, 64)


def _integer(attribute: Attribute) -> int:
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def _text(attribute: Attribute) -> str:
    assert isinstance(attribute, StringAttr)
    return attribute.data
