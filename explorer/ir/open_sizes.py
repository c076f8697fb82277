"""The open sizes of a program, as the entry function notes them.

func @main(%ids: tensor<4x8xi64>, %size: tensor<i64>)
    {sizes = {ranges = [["seq", 1, 8]], numbers = [["size.seq", "seq"]],
              inputs = [["ids", 1, 8, "seq"]], outputs = [["logits", 1, 8, "seq"]], ..}}
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from explorer.results.program import CallMask, OpenAxis, OpenSizes

OPEN_SIZES = "sizes"


def sizes_attribute(sizes: OpenSizes) -> DictionaryAttr:
    """What an entry function notes."""
    return DictionaryAttr(
        {
            "ranges": ArrayAttr([_entry(*found) for found in sizes.ranges]),
            "numbers": ArrayAttr([_entry(*found) for found in sizes.numbers]),
            "masks": ArrayAttr([_mask(mask) for mask in sizes.masks]),
            "inputs": ArrayAttr([_axis(axis) for axis in sizes.inputs]),
            "outputs": ArrayAttr([_axis(axis) for axis in sizes.outputs]),
            "relations": ArrayAttr([_entry(*found) for found in sizes.relations]),
            "extents": _entry(*sizes.extents),
            "gathered": ArrayAttr([_axis(axis) for axis in sizes.gathered]),
        }
    )


def sizes_of_function(function: func.FuncOp) -> OpenSizes | None:
    """The open sizes of an entry function, where it has some."""
    attribute = function.attributes.get(OPEN_SIZES)
    if not isinstance(attribute, DictionaryAttr):
        return None
    data = attribute.data
    return OpenSizes(
        ranges=tuple((str(n), int(low), int(high)) for n, low, high in _entries(data["ranges"])),
        numbers=tuple((str(name), str(text)) for name, text in _entries(data["numbers"])),
        masks=_read_masks(data["masks"]),
        inputs=tuple(_read_axis(entry) for entry in _entries(data["inputs"])),
        outputs=tuple(_read_axis(entry) for entry in _entries(data["outputs"])),
        relations=tuple(
            (str(kind), str(left), str(right), str(op))
            for kind, left, right, op in _entries(data["relations"])
        ),
        extents=tuple(int(extent) for extent in _entries(ArrayAttr([data["extents"]]))[0]),
        gathered=tuple(_read_axis(entry) for entry in _entries(data["gathered"])),
    )


def _entry(*parts: str | int) -> ArrayAttr[Attribute]:
    return ArrayAttr([IntegerAttr(p, 64) if isinstance(p, int) else StringAttr(p) for p in parts])


def _axis(axis: OpenAxis) -> ArrayAttr[Attribute]:
    return _entry(axis.name, axis.axis, *(part for factor in axis.factors for part in factor))


def _read_axis(entry: list[str | int]) -> OpenAxis:
    name, axis, *rest = entry
    factors = tuple(
        (int(largest), str(text)) for largest, text in zip(rest[::2], rest[1::2], strict=True)
    )
    return OpenAxis(str(name), int(axis), factors)


def _mask(mask: CallMask) -> ArrayAttr[Attribute]:
    axes = [_axis(axis) for axis in mask.axes]
    return ArrayAttr([StringAttr(mask.name), _entry(*mask.shape), *axes])


def _read_masks(attribute: Attribute) -> tuple[CallMask, ...]:
    assert isinstance(attribute, ArrayAttr)
    found: list[CallMask] = []
    for entry in attribute.data:
        assert isinstance(entry, ArrayAttr)
        name, shape, *axes = entry.data
        assert isinstance(name, StringAttr)
        (sizes,) = _entries(ArrayAttr([shape]))
        read = tuple(_read_axis(axis) for axis in _entries(ArrayAttr(axes)))
        found.append(CallMask(name.data, tuple(int(size) for size in sizes), read))
    return tuple(found)


def _entries(attribute: Attribute) -> list[list[str | int]]:
    assert isinstance(attribute, ArrayAttr)
    return [[_part(part) for part in entry.data] for entry in attribute.data]


def _part(attribute: Attribute) -> str | int:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    assert isinstance(attribute, StringAttr)
    return attribute.data
