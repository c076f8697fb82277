"""Which function converts which operator of which opset.

Each family has a file of converters. Adding one means declaring a function there with
`@converts("Operator", since=...)`. Other packages add families through entry points
(`building/installed.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import onnx

from explorer.importers.building.installed import ONNX, extras_note, installed_modules
from explorer.importers.onnx.program.nodes import Converter
from explorer.results.names import nearest

_COMMON = (
    "operators.elementwise",
    "operators.nn",
    "operators.normalization",
    "operators.pooling",
    "operators.reduction",
    "operators.movement",
    "operators.shapes",
)
"""Families of which most models are made."""
_OTHERS = (
    "images.resize",
    "layers.recurrent",
    "operators.control",
    "operators.sequences",
    "operators.scattering",
    "operators.selection",
    "operators.einsum",
    "operators.spectral",
    "images.vision",
    "operators.randomness",
    "operators.quantization",
    "contrib.dynamic_quantization",
    "layers.attention",
    "layers.rotary",
    "layers.grouped_attention",
    "contrib.contrib",
    "contrib.fused",
    "contrib.block_quantized",
    "contrib.experts",
    "contrib.qonnx",
    "contrib.quantized",
    "contrib.nchwc",
)
"""Loaded with the first model that has an operator of them, or another one that is not common."""


@cache
def _common() -> tuple[Converter, ...]:
    return _converters_of(_own(_COMMON))


@cache
def _others() -> tuple[Converter, ...]:
    return _converters_of(_own(_OTHERS))


@cache
def _installed() -> tuple[Converter, ...]:
    """Those of other packages, loaded with the first operator that has none of ours."""
    return _converters_of(installed_modules(ONNX))


def _own(families: tuple[str, ...]) -> Iterator[ModuleType]:
    return (import_module(f"explorer.importers.onnx.{family}") for family in families)


def _converters_of(modules: Iterable[ModuleType]) -> tuple[Converter, ...]:
    return tuple(v for m in modules for v in vars(m).values() if isinstance(v, Converter))


@cache
def all_converters() -> tuple[Converter, ...]:
    """Every converter, family by family."""
    return _common() + _others() + _installed()


@cache
def find_converter(
    operator: str, domain: str, opset: int, on_strings: bool = False
) -> Converter | None:
    """The converter for an operator as the opset defines it; where it has two, that asked for.

    InputError where a package of other operators cannot be loaded.
    """
    found = None
    for converters in (_common, _others, _installed):
        for converter in converters():
            fits = operator in converter.operators and domain in converter.domains
            if fits and converter.since <= opset <= converter.until:
                if converter.on_strings == on_strings:
                    return converter
                found = found or converter
        if found and not on_strings:
            return found
    return found


@cache
def missing_reason(operator: str, domain: str, opset: int) -> str:
    """Why an operator has no conversion, with a name that is near; "" where it has one."""
    if find_converter(operator, domain, opset) is not None:
        return ""
    try:
        # Any: the stubs of onnx do not know function bodies.
        schema: Any = onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return _unknown_reason(operator, domain, opset)
    if schema.deprecated:
        return "deprecated in this opset"
    if schema.has_function or schema.has_context_dependent_function:
        return ""
    return f"not supported{extras_note()}"


def _unknown_reason(operator: str, domain: str, opset: int) -> str:
    same = [c for c in all_converters() if operator in c.operators]
    for converter in same:
        if domain not in converter.domains:
            return f"unknown here; {converter.domains[0] or 'ai.onnx'} has it: wrong domain?"
    if same:
        return f"not supported in opset {opset}"
    supported = sorted({o for c in all_converters() for o in c.operators})
    near = nearest(operator, supported, similar=0.75)
    return (
        f"unknown operator; did you mean {near[0]}?" if near else f"unknown operator{extras_note()}"
    )
