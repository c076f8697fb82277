"""Reads a program of torch.export (`.pt2`) without torch: nothing in it is unpickled or evaluated.

    load(Path("net.pt2"))

Parameters, buffers and constants have their names in the module (`layer1.0.conv1.weight`), values
those of the graph, nodes these below the paths of their modules. A buffer that the program writes
into is a state: an input of its own, and one more output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any  # JSON

import numpy as np

from explorer.errors import ModelError, UnsupportedError
from explorer.importers.model import SourceModel, SourceNode, SourceValue, State
from explorer.importers.pytorch.file.archive import MODEL, Archive
from explorer.importers.pytorch.file.decoding import argument_of, graph_of
from explorer.importers.pytorch.file.fields import (
    DAMAGED,
    checked,
    entry,
    field,
    optional,
    required,
)
from explorer.importers.pytorch.file.inlining import inlined
from explorer.importers.pytorch.file.program import (
    Argument,
    Call,
    Graph,
    Ref,
    ValueType,
    references,
    renamed,
)
from explorer.importers.pytorch.file.text import line_of, places_of
from explorer.importers.pytorch.file.versions import Step, Versioned, complex_values, versioned
from explorer.importers.pytorch.file.weights import weights_of
from explorer.ir.types import ELEMENT_TYPES, Dim

SCHEMA = 8
"""The major version of the schema that is read; within one, newer files only have more fields."""


@dataclass(frozen=True, eq=False)
class PytorchContent:
    """A program, with the names of the module for its parameters."""

    graph: Graph
    steps: tuple[Step, ...]
    returned: tuple[Argument, ...]
    """What the module returns, flattened: versions, numbers, None."""
    fixed: Mapping[str, Argument]
    """Inputs that were numbers or texts when the program was exported."""
    torch_version: str
    complexes: frozenset[str]
    """Values, constants among them, that are complex: here both parts are a last axis."""


def load(path: Path, dimensions: Mapping[str, str] | None = None) -> SourceModel:
    """The program as records; ModelError says what is wrong with the file.

    dimensions: other names for symbols that the file has.
    """
    archive = Archive(path)
    model = _with_dimensions(archive.json(MODEL), dimensions or {})
    _check_schema(model)
    constants = weights_of(archive)
    return _read(model, constants, path)


def _with_dimensions(found: Any, names: Mapping[str, str], is_expression: bool = False) -> Any:
    """The program with other names of symbols: in expressions, and in keys that are some."""
    if not names:
        return found
    if isinstance(found, list):
        return [_with_dimensions(item, names) for item in found]
    if isinstance(found, dict):
        return {
            _with_dimensions(key, names, is_expression): _with_dimensions(
                value, names, key in ("expr_str", "range_constraints")
            )
            for key, value in found.items()
        }
    if is_expression and isinstance(found, str):
        return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), found)
    return found


def _check_schema(model: Mapping[str, Any]) -> None:
    version = field(model, "schema_version", dict)
    major = field(version, "major", int, "the schema's version")
    if major != SCHEMA:
        raise ModelError(
            f"its schema is {major}.{version.get('minor')}; {SCHEMA} is read",
            hint="export it again with torch 2.13",
        )


def _read(model: Mapping[str, Any], constants: dict[str, np.ndarray], path: Path) -> SourceModel:
    module = field(model, "graph_module", dict)
    graph = inlined(graph_of(field(module, "graph", dict)))
    specified = field(module, "signature", dict)
    signature = _signature(specified, graph, constants)
    graph = _with_names(graph, signature.names)
    flow = versioned(graph)
    returned = tuple(renamed(argument, signature.names) for argument in flow.outputs)
    _refuse_written_inputs(specified, signature, flow)
    states, returned = _states(specified, signature, flow, returned, constants)
    kept = [state.input for state in states]
    shown = [name for argument in returned for name in references(argument)]
    shown += [state.output for state in states]
    content = PytorchContent(
        graph=graph,
        steps=flow.steps,
        returned=returned,
        fixed=signature.fixed,
        torch_version=str(model.get("torch_version", "")),
        complexes=complex_values(graph.types, flow.steps),
    )
    tensors = {version: name for step in flow.steps for version, name in step.tensors.items()}
    return SourceModel(
        name=path.stem,
        format="pytorch",
        path=path,
        producer=f"torch {content.torch_version}",
        opset=f"schema {SCHEMA}.{model['schema_version'].get('minor')}",
        inputs=tuple(_input(name, graph) for name in (*signature.inputs, *kept)),
        outputs=tuple(_value(n, graph.types.get(tensors.get(n, n))) for n in dict.fromkeys(shown)),
        nodes=tuple(SourceNode(c.name, c.target, line_of(c), places_of(c)) for c in graph.calls),
        parameters=sum(array.size for array in constants.values()),
        content=content,
        tensors=tuple(name for step in flow.steps for name in step.outputs if name),
        constants={name: array for name, array in constants.items() if name not in kept},
        states=states,
        ranges=_ranges(optional(model, "range_constraints", dict, {})),
    )


@dataclass(frozen=True)
class _Signature:
    """What the inputs of the graph are."""

    inputs: tuple[str, ...]
    """What a caller gives: tensors and numbers that are not known."""
    fixed: Mapping[str, Argument]
    names: Mapping[str, str]
    """Of parameters, buffers and constants: by their names in the graph those in the module."""


def _signature(
    json: Mapping[str, Any], graph: Graph, constants: Mapping[str, np.ndarray]
) -> _Signature:
    inputs: list[str] = []
    fixed: dict[str, Argument] = {}
    names: dict[str, str] = {}
    taken = set(graph.types) | {name for call in graph.calls for name in call.results}
    for spec in field(json, "input_specs", list, "the signature"):
        kind, found = entry(spec, "an input's specification")
        if kind == "user_input":
            argument = argument_of(required(found, "arg", "an input"))
            if isinstance(argument, Ref):
                inputs.append(argument.name)
        elif kind == "constant_input":
            name = field(found, "name", str, "an input")
            fixed[name] = argument_of(required(found, "value", f"input {name!r}"))
        elif kind in _NAMES:
            name = field(found, _NAMES[kind], str, f"a {kind}")
            given = field(found, "arg", dict, f"{kind} {name!r}")
            graph_name = field(given, "name", str, f"{kind} {name!r}")
            if name not in constants:
                raise ModelError(f"{kind} {name!r} is not in the archive")
            if graph_name not in graph.types:
                raise ModelError(f"the graph has no type for {kind} {name!r}", hint=DAMAGED)
            _check_type(name, constants[name], graph.types[graph_name])
            names[graph_name] = name
            if name in taken:
                raise ModelError(f"{kind} {name!r} and a node have one name")
        elif kind != "token":  # which says that effects have an order, and is nothing itself
            raise UnsupportedError(
                f"the module takes what is no tensor: {kind}",
                hint="only tensors and numbers can be compiled",
            )
    return _Signature(tuple(inputs), fixed, names)


_NAMES = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
}


def _check_type(name: str, array: np.ndarray, kind: ValueType) -> None:
    kind = kind.in_parts
    if array.shape != kind.sizes or array.dtype.name != kind.element_type:
        raise ModelError(
            f"{name!r} is {array.dtype.name} of shape {array.shape} in the archive, and "
            f"{kind.element_type} of shape {kind.sizes} in the graph",
            hint=DAMAGED,
        )


def _refuse_written_inputs(json: Mapping[str, Any], signature: _Signature, flow: Versioned) -> None:
    """UnsupportedError for inputs that the program writes into: a caller's arrays stay as they are.

    Before its decomposition a program writes into them; after it, it returns what they become.
    """
    written = {name for name in signature.inputs if name in flow.changed}
    for spec in field(json, "output_specs", list, "the signature"):
        kind, found = entry(spec, "an output's specification")
        if kind == "user_input_mutation":
            written.add(field(found, "user_input_name", str, "an output"))
    if written:
        raise UnsupportedError(
            "the program writes into its inputs, and a caller's arrays stay as they are",
            problems=[f"input {name}: it is written into" for name in sorted(written)],
            hint="let the module write into a copy (`x = x.clone()`) and return it, or make it a "
            "buffer (`register_buffer`), which is a state of the program",
        )


def _states(
    json: Mapping[str, Any],
    signature: _Signature,
    flow: Versioned,
    returned: tuple[Argument, ...],
    constants: Mapping[str, np.ndarray],
) -> tuple[tuple[State, ...], tuple[Argument, ...]]:
    """Buffers that change, and what the module returns beside them.

    Before its decomposition a program writes into them; after it, it returns what they become.
    """
    ends: dict[str, str] = {
        name: version for name, version in flow.changed.items() if name in constants
    }
    others: list[Argument] = []
    specs = field(json, "output_specs", list, "the signature")
    if len(specs) != len(returned):
        raise ModelError(
            f"the signature has {len(specs)} outputs, and the graph {len(returned)}", hint=DAMAGED
        )
    for spec, argument in zip(specs, returned, strict=True):
        kind, found = entry(spec, "an output's specification")
        if kind in ("buffer_mutation", "parameter_mutation") and isinstance(argument, Ref):
            name = field(found, kind.replace("mutation", "name"), str, "an output")
            if name not in constants:
                raise ModelError(f"{name!r}, which changes, is not in the archive")
            ends[name] = argument.name
        elif kind in ("user_output", "loss_output"):
            others.append(argument)
    states = tuple(State(name, end, constants[name]) for name, end in ends.items())
    return states, tuple(others)


def _with_names(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Parameters under the names of the module, and calls under names of their own."""
    taken: set[str] = set()
    calls: list[Call] = []
    for call in graph.calls:
        chosen, number = call.name, 1
        while chosen in taken:
            number += 1
            chosen = f"{call.name}_{number}"
        taken.add(chosen)
        arguments = {name: renamed(a, names) for name, a in call.arguments.items()}
        calls.append(replace(call, name=chosen, arguments=arguments))
    return Graph(
        tuple(names.get(name, name) for name in graph.inputs),
        tuple(renamed(argument, names) for argument in graph.outputs),
        tuple(calls),
        {names.get(name, name): kind for name, kind in graph.types.items()},
    )


def _input(name: str, graph: Graph) -> SourceValue:
    kind = graph.types.get(name)
    if kind is None:  # a number that a caller gives
        return SourceValue(name, "int64", ())
    if kind.of_part.element_type not in ELEMENT_TYPES:
        raise ModelError(f"input {name!r} holds elements of {kind.element_type}", node=name)
    return _value(name, kind)


def _value(name: str, kind: ValueType | None) -> SourceValue:
    if kind is None:
        return SourceValue(name, "int64", ())
    kind = kind.in_parts
    shape: list[Dim] = [
        f"{name}_{axis}" if size is None else size for axis, size in enumerate(kind.sizes)
    ]
    return SourceValue(name, kind.element_type, tuple(shape))


def _ranges(json: Mapping[str, Any]) -> dict[str, tuple[int, int | None]]:
    """The least and the greatest size of each symbol."""
    found: dict[str, tuple[int, int | None]] = {}
    for name, bounds in json.items():
        bounds = checked(bounds, dict, f"the range of {name!r}")
        low, high = bounds.get("min_val"), bounds.get("max_val")
        low = low if isinstance(low, int) else 0
        found[str(name)] = max(low, 0), high if isinstance(high, int) else None
    return found
