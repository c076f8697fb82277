"""Calls of a program of torch.export as programs of their own.

    %y = aten.softmax.int(%x, -1)       Part(node="softmax", operator="aten.softmax.int", ...)

Numbers that a program computes from sizes become the numbers that they are in the run. In float64
the same call is run with floats of 64 bits, types that it names included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from explorer.importers.model import SourceModel, SourceNode, SourceValue
from explorer.importers.pytorch.file.program import (
    Argument,
    ElementType,
    Graph,
    Ref,
    ValueType,
    references,
)
from explorer.importers.pytorch.file.reading import PytorchContent
from explorer.importers.pytorch.file.versions import Step, versioned
from explorer.references.parts import Arrays, NoPart, Operand, Part
from explorer.references.torch_graph import content_of, open_graph

SMALL = 16
"""Elements of constants that tell calls apart."""
_NARROW = ("float16", "bfloat16", "float32")
_WIDE = "float64"


def torch_parts(model: SourceModel, values: Arrays) -> Iterator[Part | NoPart]:
    """One for each call that takes and makes tensors. values: the tensors of a run by name."""
    content = content_of(model)
    tensors = {v: name for step in content.steps for v, name in step.tensors.items()}
    types = {name: content.graph.types.get(tensors.get(name, name)) for name in _names(content)}
    kinds = {name: kind for name, kind in types.items() if kind is not None}
    for step in content.steps:
        operands = [name for name in step.inputs if name in kinds]
        if not operands or not any(name in kinds for name in step.outputs):
            continue  # it makes no tensor of tensors: sizes, checks
        reason = _reason(step, kinds, values)
        if reason:
            yield NoPart(node=step.call.name, operator=step.call.target, reason=reason)
        else:
            yield _part(step, kinds, model.constants, content, values)


def _names(content: PytorchContent) -> Iterator[str]:
    yield from content.graph.types
    for step in content.steps:
        yield from (*step.inputs, *step.outputs)


def _reason(step: Step, kinds: Mapping[str, ValueType], values: Arrays) -> str:
    if step.write is not None or step.unclear:
        return "it writes into its operand"
    if _has_graphs(tuple(step.call.arguments.values())):
        return "it runs other graphs"
    for name in step.inputs:
        if name not in values:
            return f"its operand {name!r} is no tensor of numbers"
    if not any(name in kinds and name in values for name in step.outputs):
        return "its result is no tensor of numbers"
    return ""


def _has_graphs(argument: Argument) -> bool:
    if isinstance(argument, tuple):
        return any(map(_has_graphs, argument))
    return isinstance(argument, Graph)


def _part(
    step: Step,
    kinds: Mapping[str, ValueType],
    constants: Arrays,
    content: PytorchContent,
    values: Arrays,
) -> Part:
    call = step.call
    numbers = {n: _number(values[n]) for n in step.inputs if n not in kinds}
    arguments = {key: _with_numbers(a, numbers) for key, a in call.arguments.items()}
    alone = replace(call, arguments=arguments)
    names = [n for n in dict.fromkeys(alone.references()) if n in kinds]
    operands = tuple(
        Operand(name=name, array=values[name], is_constant=name in constants) for name in names
    )
    outputs = tuple(n for n in step.outputs if n in kinds and n in values)
    graph = Graph(
        inputs=tuple(o.name for o in operands if not o.is_constant),
        outputs=tuple(Ref(name) for name in outputs),
        calls=(alone,),
        types={name: kinds[name] for name in (*names, *outputs)},
    )
    complexes = content.complexes & set(graph.types)
    kept = {o.name: o.array for o in operands if o.is_constant}
    model = _model(graph, kept, content, complexes)

    def model_for(inputs: Arrays) -> SourceModel:
        del inputs  # whose shapes the graph has
        return model

    described = [
        f"{kinds[o.name]} {o.is_constant}"
        + (o.array.tobytes().hex() if o.is_constant and o.array.size <= SMALL else "")
        for o in operands
    ]
    places = {name: Ref(str(index)) for index, name in enumerate(names)}
    form = {key: _replaced(argument, places) for key, argument in arguments.items()}
    return Part(
        node=call.name,
        operator=call.target,
        operands=operands,
        outputs=outputs,
        form=f"{call.target} {form} {described}",
        model_for=model_for,
        attributes={k: a for k, a in arguments.items() if isinstance(a, bool | int | float | str)},
        is_resizable=False,
        exact=None if complexes else _exact(graph, kept, content),
    )


def _number(array: np.ndarray) -> int | float:
    found = np.asarray(array).reshape(-1)[0].item()
    return float(found) if isinstance(found, float) else int(found)


def _with_numbers(argument: Argument, numbers: Mapping[str, int | float]) -> Argument:
    if isinstance(argument, tuple):
        return tuple(_with_numbers(part, numbers) for part in argument)
    return numbers.get(argument.name, argument) if isinstance(argument, Ref) else argument


def _replaced(argument: Argument, names: Mapping[str, Ref]) -> Argument:
    if isinstance(argument, tuple):
        return tuple(_replaced(part, names) for part in argument)
    return names[argument.name] if isinstance(argument, Ref) else argument


def _model(
    graph: Graph, constants: Arrays, content: PytorchContent, complexes: frozenset[str]
) -> SourceModel:
    (call,) = graph.calls
    found = replace(
        content, graph=graph, steps=versioned(graph).steps, returned=graph.outputs,
        complexes=complexes,
    )  # fmt: skip
    outputs = [name for argument in graph.outputs for name in references(argument)]
    return SourceModel(
        name=call.name.replace("/", "."),
        format="pytorch",
        path=None,
        producer="",
        opset="",
        inputs=tuple(_value(name, graph.types[name]) for name in graph.inputs),
        outputs=tuple(_value(name, graph.types[name]) for name in outputs),
        nodes=(SourceNode(call.name, call.target, call.target),),
        parameters=sum(array.size for array in constants.values()),
        content=found,
        tensors=tuple(outputs),
        constants=dict(constants),
    )


def _value(name: str, kind: ValueType) -> SourceValue:
    held = kind.in_parts
    sizes = [f"{name}_{axis}" if size is None else size for axis, size in enumerate(held.sizes)]
    return SourceValue(name, held.element_type, tuple(sizes))


def _exact(
    graph: Graph, constants: Arrays, content: PytorchContent
) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """The call with float64 in the place of all narrower floats."""

    def run(inputs: Arrays) -> dict[str, np.ndarray]:
        types = {name: replace(k, element_type=_wider(k.element_type)) for name, k in
                 graph.types.items()}  # fmt: skip
        calls = tuple(
            replace(call, arguments={n: _widened(a) for n, a in call.arguments.items()})
            for call in graph.calls
        )
        wide = replace(graph, types=types, calls=calls)
        kept = {name: _as_wide(array) for name, array in constants.items()}
        model = _model(wide, kept, content, frozenset())
        with open_graph(model) as opened:
            return opened.run({name: _as_wide(array) for name, array in inputs.items()})

    return run


def _wider(element_type: str) -> str:
    return _WIDE if element_type in _NARROW else element_type


def _widened(argument: Argument) -> Argument:
    if isinstance(argument, tuple):
        return tuple(map(_widened, argument))
    return ElementType(_wider(argument.name)) if isinstance(argument, ElementType) else argument


def _as_wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.name in _NARROW else array
