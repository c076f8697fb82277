"""What converters are: functions from one ONNX node to `top` operations, declared like a table.

    @converts("Relu", "Sigmoid", since=1)
    def unary(node, build):
        return build.unary(node.operator.lower(), node.operand(0))

A converter names its operators, their domain and the opsets that it is right for. It returns the
values of the node's results, in order; results beyond those, or None, are not supported. It raises
`Unsupported` with the reason where the node asks for something that cannot be expressed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.importers.building.build import Unsupported
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.node import AttributeValue, Node, attribute_value
from explorer.importers.onnx.program.structures import Imported

NEWEST = 10**6
"""No later opset changes the operator."""

Convert = Callable[[Node, Build], Imported | Sequence[Imported | None]]
"""None stands for a result that is not supported (nobody may use it)."""


@dataclass(frozen=True, kw_only=True)
class Converter:
    """`convert` for the `operators` of some domains in opsets `since` to `until`, both included."""

    operators: tuple[str, ...]
    domains: tuple[str, ...]
    since: int
    until: int
    convert: Convert
    knows_quantized: bool = False
    """Whether it wants quantized operands as they are; others get their stored integers."""
    on_strings: bool = False
    """Whether it is for operands that are strings, where another is for numbers."""


def converts(
    *operators: str,
    since: int = 1,
    until: int = NEWEST,
    domain: str | tuple[str, ...] = "",
    knows_quantized: bool = False,
    on_strings: bool = False,
) -> Callable[[Convert], Converter]:
    """Declares a function as the converter of operators, written in a domain or several."""
    domains = (domain,) if isinstance(domain, str) else domain

    def declare(function: Convert) -> Converter:
        return Converter(
            operators=operators,
            domains=domains,
            since=since,
            until=until,
            convert=function,
            knows_quantized=knows_quantized,
            on_strings=on_strings,
        )

    return declare


__all__ = [
    "NEWEST",
    "AttributeValue",
    "Convert",
    "Converter",
    "Node",
    "Unsupported",
    "attribute_value",
    "converts",
]
