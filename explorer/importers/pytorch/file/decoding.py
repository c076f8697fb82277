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
    """ModelError for damage; KeyError and the like for what is missing, which the caller words."""
    if depth > DEEPEST:
        raise ModelError("graphs are nested too deep", hint="the file is damaged")
    types = {
        name: value_type(found, f"tensor {name!r}") for name, found in json["tensor_values"].items()
    }
    taken: set[str] = set()
    calls = tuple(_call(node, taken, depth) for node in json["nodes"])
    inputs = tuple(_name_of(argument_of(found, depth)) for found in json["inputs"])
    outputs = tuple(argument_of(found, depth) for found in json["outputs"])
    return Graph(inputs, outputs, calls, types)


def value_type(json: Mapping[str, Any], what: str) -> ValueType:
    """ModelError for a tensor that is not strided, or of more axes than the passes can have."""
    layout = json.get("layout", _STRIDED)
    if layout != _STRIDED:
        raise ModelError(f"{what} has layout {layout}: it is sparse", hint="make it dense first")
    sizes = tuple(_size(found) for found in json["sizes"])
    strides = tuple(_size(found) for found in json["strides"])
    check_rank(len(sizes), what)
    if any(isinstance(s, int) and s < 0 for s in sizes) or len(strides) != len(sizes):
        raise ModelError(f"{what} has sizes {sizes} and strides {strides}")
    return ValueType(element_type(json["dtype"]), sizes, strides)


def element_type(code: Any) -> str:
    found = ELEMENT_TYPES.get(code) if isinstance(code, int) else None
    if found is None:
        raise ModelError(f"unknown type of elements {code!r}", hint="the file is damaged")
    return found


def _size(json: Mapping[str, Any]) -> Dim | None:
    if "as_int" in json:
        return int(json["as_int"])
    return size_of(str(json["as_expr"]["expr_str"]))


def _call(json: Mapping[str, Any], taken: set[str], depth: int) -> Call:
    target = str(json["target"])
    for prefix in _PREFIXES:
        target = target.removeprefix(prefix)
    provenance = provenance_of(json.get("metadata") or {})
    # Calls that take graphs have no names for what they take.
    arguments = {
        str(found["name"]) or str(index): argument_of(found["arg"], depth)
        for index, found in enumerate(json["inputs"])
    }
    results: list[str] = []
    for found in json["outputs"]:
        _add_results(argument_of(found, depth), results)
    own = str(json.get("name") or next(filter(None, results), "") or target)
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


def argument_of(json: Mapping[str, Any], depth: int = 0) -> Argument:
    """The only entry of a union. ModelError for one that is not known."""
    entries = [(kind, value) for kind, value in json.items() if value is not None]
    ((kind, value),) = entries or [("as_none", {})]
    if kind == "as_graph":
        return graph_of(value["graph"], depth + 1)
    decode = _DECODERS.get(kind)
    if decode is None:
        raise ModelError(f"an argument of unknown kind {kind!r}", hint="the file is newer than us")
    return decode(value)


def _refs(value: Any) -> tuple[Argument, ...]:
    return tuple(Ref(str(found["name"])) for found in value)


def _optional(value: Any) -> Argument:
    return Ref(str(value["as_tensor"]["name"])) if "as_tensor" in value else None


def _number(value: Any) -> Argument:
    """One of a computed number's two forms: its name, or itself."""
    ((kind, found),) = value.items()
    return Ref(str(found)) if kind == "as_name" else _plain(found)


def _plain(value: Any) -> int | float | bool:
    if not isinstance(value, int | float):
        # JSON has no infinities: they are written as texts.
        return float(str(value))
    return value


_DECODERS: dict[str, Callable[[Any], Argument]] = {
    "as_none": lambda value: None,
    "as_tensor": lambda value: Ref(str(value["name"])),
    "as_tensors": _refs,
    "as_nested_tensors": lambda value: tuple(_refs(part) for part in value),
    "as_optional_tensor": _optional,
    "as_optional_tensors": lambda value: tuple(_optional(part) for part in value),
    "as_int": int,
    "as_ints": lambda value: tuple(int(part) for part in value),
    "as_int_lists": lambda value: tuple(tuple(int(n) for n in part) for part in value),
    "as_float": _plain,
    "as_floats": lambda value: tuple(_plain(part) for part in value),
    "as_float_lists": lambda value: tuple(tuple(_plain(n) for n in part) for part in value),
    "as_bool": bool,
    "as_bools": lambda value: tuple(bool(part) for part in value),
    "as_complex": lambda value: complex(_plain(value["real"]), _plain(value["imag"])),
    "as_string": str,
    "as_strings": lambda value: tuple(str(part) for part in value),
    "as_operator": str,
    "as_sym_int": _number,
    "as_sym_float": _number,
    "as_sym_bool": _number,
    "as_sym_ints": lambda value: tuple(_number(part) for part in value),
    "as_sym_floats": lambda value: tuple(_number(part) for part in value),
    "as_sym_bools": lambda value: tuple(_number(part) for part in value),
    "as_scalar_type": lambda value: ElementType(element_type(value)),
    "as_memory_format": lambda value: Word(f"memory_format={value}"),
    "as_layout": lambda value: Word(f"layout={value}"),
    "as_device": lambda value: Word(str(value.get("type", ""))),
    "as_custom_obj": lambda value: Word(f"object={value.get('class_fqn', '')}"),
    "as_string_to_argument": lambda value: tuple(argument_of(part) for part in value.values()),
}
