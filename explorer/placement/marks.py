"""What the passes of placement note at operations: attributes next to their properties.

    devices = ["cpu", "opencl"]     those that can run it; none: the host does
    seconds = [1.2e-4, 3.0e-5]      on each of them
    cluster = "head"                operations of one cluster run on one device
    needs = {opencl = ["y"]}        on that device only where these operations run there, too
    device = "opencl"               the one that was chosen

The next pass reads them, so that a program that was edited by hand goes on from what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, StringAttr, f64
from xdsl.ir import Attribute, Block, Operation

from explorer.ir.operation import TopOperation
from explorer.ir.structure import DEVICE
from explorer.ir.top.data import ReturnOp, WeightOp

DEVICES, SECONDS, CLUSTER, NEEDS = "devices", "seconds", "cluster", "needs"
MARKS = (DEVICES, SECONDS, CLUSTER, NEEDS)
"""Those that no pass after placement reads."""


def placed_operations(block: Block) -> list[TopOperation]:
    """The operations that have a place: constants belong to whoever reads them."""
    return [
        op
        for op in block.ops
        if isinstance(op, TopOperation) and not isinstance(op, WeightOp | ReturnOp)
    ]


def names_attribute(names: Sequence[str]) -> Attribute:
    return ArrayAttr([StringAttr(name) for name in names])


def numbers_attribute(numbers: Sequence[float]) -> Attribute:
    return ArrayAttr([FloatAttr(number, f64) for number in numbers])


def devices_of(op: Operation) -> list[str]:
    """The devices that can run an operation, in the order of the targets."""
    attribute = op.attributes.get(DEVICES)
    if not isinstance(attribute, ArrayAttr):
        return []
    return [name.data for name in attribute if isinstance(name, StringAttr)]


def seconds_of(op: Operation) -> dict[str, float]:
    """The price of an operation by device."""
    attribute = op.attributes.get(SECONDS)
    if not isinstance(attribute, ArrayAttr):
        return {}
    numbers = [number.value.data for number in attribute if isinstance(number, FloatAttr)]
    return dict(zip(devices_of(op), numbers, strict=False))


def needs_attribute(needs: Mapping[str, Sequence[str]]) -> Attribute:
    return DictionaryAttr({device: names_attribute(names) for device, names in needs.items()})


def needs_of(op: Operation) -> dict[str, list[str]]:
    """Identities of the operations that a device has to run, too, by device."""
    attribute = op.attributes.get(NEEDS)
    if not isinstance(attribute, DictionaryAttr):
        return {}
    return {
        device: [name.data for name in names if isinstance(name, StringAttr)]
        for device, names in attribute.data.items()
        if isinstance(names, ArrayAttr)
    }


def text_mark(op: Operation, name: str) -> str:
    attribute = op.attributes.get(name)
    return attribute.data if isinstance(attribute, StringAttr) else ""


def cluster_of(op: Operation) -> str:
    return text_mark(op, CLUSTER)


def chosen_device(op: Operation) -> str:
    return text_mark(op, DEVICE)
