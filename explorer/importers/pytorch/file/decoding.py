"""JSON of `models/model.json` as records; nothing but numbers, texts and lists is made of it.

    {"as_tensor": {"name": "x"}}                    Ref("x")
    {"as_sym_ints": [{"as_name": "s"}, {"as_int": 3}]}      (Ref("s"), 3)
    {"as_scalar_type": 7}                           ElementType("float32")

Source: torch/_export/serde/schema.py of torch 2.13, schema 8.20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any  # JSON is of any type until it was checked

from explorer.errors import ModelError
from explorer.importers.building.limits import check_rank
from explorer.importers.pytorch.file.expressions import size_of
from explorer.importers.pytorch.file.fields import (
    DAMAGED,
    checked,
    entry,
    field,
    number,
    optional,
    required,
)
from explorer.importers.pytorch.file.program import (
    Argument,
    Call,
    ElementType,
    Graph,
    Provenance,
    Ref,
    ValueType,
    Word,
)
from explorer.importers.pytorch.file.provenance import provenance_of
from explorer.ir.types import Dim

DEEPEST = 40
"""Graphs within graphs, and lists within lists."""

# fmt: off
ELEMENT_TYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16",
    28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}
# fmt: on
_STRIDED = 7
_PREFIXES = ("torch.ops.", "torch._ops.")


def graph_of(json: Mapping[str, Any], depth: int = 0) -> Graph:
    """ModelError for damage, and for what is missing."""
    if depth > DEEPEST:
        raise ModelError("graphs are nested too deep", hint=DAMAGED)
    listed = field(json, "tensor_values", dict, "a graph")
    types = {name: value_type(found, f"tensor {name!r}") for name, found in listed.items()}
    taken: set[str] = set()
    calls = tuple(_call(node, taken, depth) for node in field(json, "nodes", list, "a graph"))
    given = field(json, "inputs", list, "a graph")
    inputs = tuple(_name_of(argument_of(found, depth)) for found in given)
    returned = field(json, "outputs", list, "a graph")
    outputs = tuple(argument_of(found, depth) for found in returned)
    return Graph(inputs, outputs, calls, types)


def value_type(json: Mapping[str, Any], what: str) -> ValueType:
    """ModelError for a tensor that is not strided, or of more axes than the passes can have."""
    layout = optional(json, "layout", int, _STRIDED, what)
    if layout != _STRIDED:
        raise ModelError(f"{what} has layout {layout}: it is sparse", hint="make it dense first")
    sizes = tuple(_size(found, what) for found in field(json, "sizes", list, what))
    strides = tuple(_size(found, what) for found in field(json, "strides", list, what))
    check_rank(len(sizes), what)
    if any(isinstance(s, int) and s < 0 for s in sizes) or len(strides) != len(sizes):
        raise ModelError(f"{what} has sizes {sizes} and strides {strides}")
    return ValueType(element_type(field(json, "dtype", int, what)), sizes, strides)


def element_type(code: Any) -> str:
    found = ELEMENT_TYPES.get(checked(code, int, "a type of elements"))
    if found is None:
        raise ModelError(f"unknown type of elements {code!r}", hint=DAMAGED)
    return found


def _size(json: Any, what: str) -> Dim | None:
    kind, found = entry(json, f"a size of {what}")
    if kind == "as_int":
        return checked(found, int, f"a size of {what}")
    return size_of(field(found, "expr_str", str, f"a size of {what}"))


def _call(json: Any, taken: set[str], depth: int) -> Call:
    target = field(json, "target", str, "a node")
    for prefix in _PREFIXES:
        target = target.removeprefix(prefix)
    said = optional(json, "name", str, "")
    try:
        provenance = provenance_of(optional(json, "metadata", dict, {}))
        # Calls that take graphs have no names for what they take.
        arguments = {
            field(found, "name", str, "an operand") or str(index): argument_of(
                required(found, "arg", "an operand"), depth
            )
            for index, found in enumerate(field(json, "inputs", list, "a node"))
        }
        results: list[str] = []
        for found in field(json, "outputs", list, "a node"):
            _add_results(argument_of(found, depth), results)
    except ModelError as error:
        error.node = error.node or said or target
        raise
    own = said or next(filter(None, results), "") or target
    return Call(
        name=_unused(_path(provenance, own), taken),
        target=target.removesuffix(".default"),
        arguments=arguments,
        results=tuple(results),
        provenance=provenance,
    )


def _path(provenance: Provenance, name: str) -> str:
    """The call below its module: graphs fold by it."""
    return "/".join([*filter(None, provenance.module.split(".")), name.replace("/", "_")])


def _unused(name: str, taken: set[str]) -> str:
    chosen, number = name, 1
    while chosen in taken:
        number += 1
        chosen = f"{name}_{number}"
    taken.add(chosen)
    return chosen


def _add_results(argument: Argument, results: list[str]) -> None:
    if isinstance(argument, tuple):
        for part in argument:
            _add_results(part, results)
    else:
        results.append(argument.name if isinstance(argument, Ref) else "")


def _name_of(argument: Argument) -> str:
    return argument.name if isinstance(argument, Ref) else ""


# -- arguments -----------------------------------------------------------------------------------


def argument_of(json: Any, depth: int = 0) -> Argument:
    """The only entry of a union. ModelError for one that is not known."""
    if isinstance(json, dict) and all(value is None for value in json.values()):
        return None
    kind, value = entry(json, "an argument")
    if kind == "as_graph":
        return graph_of(field(value, "graph", dict, "an argument"), depth + 1)
    if kind == "as_string_to_argument":
        if depth > DEEPEST:
            raise ModelError("arguments are nested too deep", hint=DAMAGED)
        return tuple(argument_of(part, depth + 1) for part in checked(value, dict, kind).values())
    decode = _DECODERS.get(kind)
    if decode is None:
        raise ModelError(f"an argument of unknown kind {kind!r}", hint="the file is newer than us")
    return decode(value, kind)


Decoder = Callable[[Any, str], Argument]
"""Of a value and the name of its kind."""


def _ref(value: Any, kind: str) -> Argument:
    return Ref(field(value, "name", str, kind))


def _optional(value: Any, kind: str) -> Argument:
    found, tensor = entry(value, kind)
    return _ref(tensor, kind) if found == "as_tensor" else None


def _number(value: Any, kind: str) -> Argument:
    """One of a computed number's two forms: its name, or itself."""
    found, plain = entry(value, kind)
    return Ref(checked(plain, str, kind)) if found == "as_name" else number(plain, kind)


def _complex(value: Any, kind: str) -> Argument:
    real, imaginary = (number(required(value, part, kind), kind) for part in ("real", "imag"))
    return complex(real, imaginary)


def _all(decode: Decoder) -> Decoder:
    """Of a list, each of whose parts is decoded so."""
    return lambda value, kind: tuple(decode(part, kind) for part in checked(value, list, kind))


def _integer(value: Any, kind: str) -> Argument:
    return checked(value, int, kind)


def _truth(value: Any, kind: str) -> Argument:
    return checked(value, bool, kind)


def _text(value: Any, kind: str) -> Argument:
    return checked(value, str, kind)


_DECODERS: dict[str, Decoder] = {
    "as_none": lambda value, kind: None,
    "as_tensor": _ref,
    "as_tensors": _all(_ref),
    "as_nested_tensors": _all(_all(_ref)),
    "as_optional_tensor": _optional,
    "as_optional_tensors": _all(_optional),
    "as_int": _integer,
    "as_ints": _all(_integer),
    "as_int_lists": _all(_all(_integer)),
    "as_float": number,
    "as_floats": _all(number),
    "as_float_lists": _all(_all(number)),
    "as_bool": _truth,
    "as_bools": _all(_truth),
    "as_complex": _complex,
    "as_string": _text,
    "as_strings": _all(_text),
    "as_operator": _text,
    "as_sym_int": _number,
    "as_sym_float": _number,
    "as_sym_bool": _number,
    "as_sym_ints": _all(_number),
    "as_sym_floats": _all(_number),
    "as_sym_bools": _all(_number),
    "as_scalar_type": lambda value, kind: ElementType(element_type(value)),
    "as_memory_format": lambda value, kind: Word(f"memory_format={checked(value, int, kind)}"),
    "as_layout": lambda value, kind: Word(f"layout={checked(value, int, kind)}"),
    "as_device": lambda value, kind: Word(optional(value, "type", str, "", kind)),
    "as_custom_obj": lambda value, kind: Word(f"object={optional(value, 'class_fqn', str, '')}"),
}
