"""The pairs of operator and element type that ONNX defines and the importer converts.

    pairs()[0]      Pair("Abs", "bfloat16")

Nothing is listed by hand: the types are those of the schema's type constraints, the operators those
for which the importer has a conversion in onnx's newest opset.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import onnx
from onnx.defs import OpSchema

from explorer.importers.onnx.converters import missing_reason

DOMAINS = ("", "ai.onnx.ml")
TENSOR = re.compile(r"tensor\((\w+)\)")
NUMPY_NAMES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
}
"""ONNX's names of types that NumPy and ml_dtypes call something else."""


@dataclass(frozen=True, order=True)
class Pair:
    """An operator and the name of an element type; `string` and `complex64` among them."""

    operator: str
    element_type: str


@cache
def schemas() -> dict[str, OpSchema]:
    """The newest schema of every operator that the importer converts, by name."""
    newest = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": 5}
    found = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain not in DOMAINS or schema.deprecated:
            continue
        if not missing_reason(schema.name, schema.domain, newest[schema.domain]):
            found[schema.name] = schema
    return dict(sorted(found.items()))


@cache
def pairs() -> tuple[Pair, ...]:
    """All pairs, by operator and type."""
    return tuple(
        sorted(
            Pair(name, element_type)
            for name, schema in schemas().items()
            for element_type in {t for ts in type_variables(schema).values() for t in ts}
        )
    )


def type_variables(schema: OpSchema) -> dict[str, tuple[str, ...]]:
    """The element types of each type variable that inputs, or outputs alone, have.

    An operator with only one type everywhere has that type under the parameter's own type string.
    """
    found = {
        constraint.type_param_str: element_types(constraint.allowed_type_strs)
        for constraint in schema.type_constraints
    }
    varied = {name: types for name, types in found.items() if len(types) > 1}
    if varied:
        return varied
    first = [p.type_str for p in (*schema.inputs, *schema.outputs)][:1]
    return {name: found.get(name) or element_types([name]) for name in first}


def element_types(type_strings: Sequence[str]) -> tuple[str, ...]:
    """`["tensor(float)", "seq(tensor(int8))"]` -> `("float32", "int8")`."""
    names = [name for text in type_strings for name in TENSOR.findall(text)]
    return tuple(dict.fromkeys(NUMPY_NAMES.get(str(name), str(name)) for name in names))
