"""Graphs that are wrapped without need, as `wrap_with_set_grad_enabled`, become part of their user.

   %y = higher_order.wrap_with_set_grad_enabled(False, {%z = aten.relu(%a)}, %x)
=> %z = aten.relu(%x)        in whose place it returned z as y

   %t, %y = higher_order.with_effects(%token, aten._linalg_check_errors, %info, "inv")
=> %y = aten._linalg_check_errors(%info, "inv")         an order of effects needs no values
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.importers.pytorch.file.program import Argument, Call, Graph, Ref, ValueType, renamed

_WRAPPERS = (
    "higher_order.wrap_with_set_grad_enabled",
    "higher_order.wrap_with_autocast",
    "higher_order.wrap",
    "higher_order.wrap_activation_checkpoint",
    "higher_order.tag_activation_checkpoint",
    "higher_order.hints_wrapper",
)
_WITH_EFFECTS = "higher_order.with_effects"


def inlined(graph: Graph) -> Graph:
    """The graph without wrappers; other nested graphs stay, without wrappers in them."""
    calls: list[Call] = []
    types: dict[str, ValueType] = dict(graph.types)
    names: dict[str, str] = {}
    for call in graph.calls:
        arguments = {
            name: inlined(a) if isinstance(a, Graph) else renamed(a, names)
            for name, a in call.arguments.items()
        }
        call = _without_token(replace(call, arguments=arguments))
        body = next((a for a in arguments.values() if isinstance(a, Graph)), None)
        if call.target not in _WRAPPERS or body is None:
            calls.append(call)
            continue
        listed = list(arguments.values())
        operands = listed[listed.index(body) + 1 :]
        inner = _inner_names(call, body, operands)
        types |= {inner[name]: kind for name, kind in body.types.items() if name in inner}
        for own in body.calls:
            calls.append(
                replace(
                    own,
                    name=f"{own.name}_{call.name.rsplit('/', 1)[-1]}",
                    arguments={n: renamed(a, inner) for n, a in own.arguments.items()},
                    results=tuple(inner.get(name, name) for name in own.results),
                )
            )
        for name, returned in zip(call.results, body.outputs, strict=False):
            given = renamed(returned, inner)
            if isinstance(given, Ref):
                names[name] = given.name
    outputs = tuple(renamed(argument, names) for argument in graph.outputs)
    return Graph(graph.inputs, outputs, tuple(calls), types)


def _without_token(call: Call) -> Call:
    """The call that has an effect, in whose order tokens hold it; others as they are."""
    _, target, *_ = (*call.arguments.values(), None, None)
    if call.target != _WITH_EFFECTS or not isinstance(target, str):
        return call
    given = list(call.arguments.items())[2:]
    arguments = {str(n) if name.isdigit() else name: a for n, (name, a) in enumerate(given)}
    target = target.removeprefix("torch.ops.").removesuffix(".default")
    return replace(call, target=target, arguments=arguments, results=call.results[1:])


def _inner_names(call: Call, body: Graph, operands: list[Argument]) -> Mapping[str, str]:
    """What the values of a wrapped graph are called outside of it."""
    own = call.name.rsplit("/", 1)[-1]
    names = {r: f"{own}.{r}" for inner in body.calls for r in inner.results if r}
    for name, operand in zip(body.inputs, operands, strict=False):
        if isinstance(operand, Ref):
            names[name] = operand.name
    return names
