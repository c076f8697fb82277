"""Which function converts which operator of which opset.

The converters stand in one file per family. Adding one means declaring a function there with
`@converts("Operator", since=...)`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import onnx

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
    "rare.text_features",
    "operators.quantization",
    "contrib.dynamic_quantization",
    "layers.attention",
    "layers.rotary",
    "layers.grouped_attention",
    "contrib.contrib",
    "contrib.fused",
    "contrib.block_quantized",
    "contrib.qonnx",
    "contrib.quantized",
    "contrib.nchwc",
    "rare.features",
    "rare.trees",
    "rare.tree_ensembles",
    "rare.linear_models",
    "rare.support_vectors",
    "rare.training",
    "rare.gradient",
    "rare.strings",
    "rare.string_splitting",
    "rare.string_matching",
)
"""These are loaded with the first model that has an operator of them, or an unknown one."""


@cache
def _converters_of(families: tuple[str, ...]) -> tuple[Converter, ...]:
    modules = [import_module(f"explorer.importers.onnx.{family}") for family in families]
    return tuple(v for m in modules for v in vars(m).values() if isinstance(v, Converter))


@cache
def all_converters() -> tuple[Converter, ...]:
    """Every converter, family by family."""
    return _converters_of(_COMMON) + _converters_of(_OTHERS)


@cache
def find_converter(
    operator: str, domain: str, opset: int, on_strings: bool = False
) -> Converter | None:
    """The converter for an operator as the opset defines it; where it has two, that asked for."""
    found = None
    for families in (_COMMON, _OTHERS):
        for converter in _converters_of(families):
            fits = operator in converter.operators and domain in converter.domains
            if fits and converter.since <= opset <= converter.until:
                if converter.on_strings == on_strings:
                    return converter
                found = found or converter
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
    return "not supported"


def _unknown_reason(operator: str, domain: str, opset: int) -> str:
    same = [c for c in all_converters() if operator in c.operators]
    for converter in same:
        if domain not in converter.domains:
            return f"unknown here; {converter.domains[0] or 'ai.onnx'} has it: wrong domain?"
    if same:
        return f"not supported in opset {opset}"
    supported = sorted({o for c in all_converters() for o in c.operators})
    near = nearest(operator, supported, similar=0.75)
    return f"unknown operator; did you mean {near[0]}?" if near else "unknown operator"
