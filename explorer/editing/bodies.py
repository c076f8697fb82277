"""Where a node or a tensor is: in the outermost graph, or in the body of a loop or branch.

place_of_node(graph, "add")                    the only node that is called so
place_of_node(graph, "loop/body/add")          one of several: by the node that has the body
place_of_tensor(graph, "loop/body/step")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from explorer.editing.graphs import made_by
from explorer.errors import InputError
from explorer.results.names import near_name

T = TypeVar("T")


class NotFound(InputError):
    """No node or tensor has the name."""


@dataclass(frozen=True)
class Place:
    """A graph of the model."""

    graph: GraphProto
    path: str = ""
    """Of a body: `loop/body/`, from the outermost graph on; empty for that one."""
    around: tuple[GraphProto, ...] = ()
    """The graphs that it lies in, the outermost one first."""
    number: int = 0
    """In the order of `places`."""

    @property
    def chain(self) -> tuple[GraphProto, ...]:
        return (*self.around, self.graph)


def places(graph: GraphProto) -> Iterator[Place]:
    """The graph and the bodies in it, in an order that follows from the graph alone."""
    for number, place in enumerate(_places(Place(graph))):
        yield replace(place, number=number)


def _places(place: Place) -> Iterator[Place]:
    yield place
    for node in place.graph.node:
        for attribute in node.attribute:
            bodies = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for number, body in enumerate(bodies):
                one = f"{attribute.name}{number}" if len(bodies) > 1 else attribute.name
                path = f"{place.path}{node.name or ''.join(node.output[:1])}/{one}/"
                yield from _places(Place(body, path, place.chain))


def place_of_node(graph: GraphProto, name: str) -> tuple[Place, NodeProto]:
    """By the node's name, else by a tensor that it makes. InputError where that is none, or
    several."""
    found = [(p, n) for p in places(graph) for n in p.graph.node if _is_called(p, n.name, name)]
    if not found:
        made = [(p, made_by(p.graph)) for p in places(graph)]
        found = [(p, n) for p, by in made for own, n in by.items() if _is_called(p, own, name)]
    names = [p.path + n.name for p in places(graph) for n in p.graph.node if n.name]
    return _only(found, name, "node", names, [p.path + (n.name or name) for p, n in found])


def place_of_tensor(
    graph: GraphProto, name: str, kind: str, names_in: Callable[[GraphProto], set[str]]
) -> tuple[Place, str]:
    """The graph with the tensor, and its name there. `names_in`: of the tensors that are meant."""
    tensors = [(p, own) for p in places(graph) for own in sorted(names_in(p.graph))]
    found = [(p, own) for p, own in tensors if _is_called(p, own, name)]
    names = [p.path + own for p, own in tensors]
    return _only(found, name, kind, names, [p.path + own for p, own in found])


def _is_called(place: Place, own: str, name: str) -> bool:
    return bool(own) and name in (own, place.path + own)


def _only(
    found: list[tuple[Place, T]], name: str, kind: str, names: list[str], ways: list[str]
) -> tuple[Place, T]:
    """The only one, or the one of the outermost graph."""
    outermost = [one for one in found if not one[0].path]
    if len(found) == 1 or (outermost and len(outermost) == 1):
        return (outermost or found)[0]
    if not found:
        raise NotFound(f"no {kind} is called {name!r}", node=name, hint=near_name(name, names))
    hint = f"{', '.join(ways[:4])}" if len(set(ways)) > 1 else "give them names of their own"
    raise InputError(f"several {kind}s are called {name!r}", node=name, hint=hint)


def types_at(whole: ModelProto, place: Place) -> dict[str, ValueInfoProto]:
    """Types that hold in a graph, those of the graphs around it included. `whole`: the model with
    inferred types, which has the same graphs in the same order."""
    inferred = list(places(whole.graph))[place.number]
    found: dict[str, ValueInfoProto] = {}
    for graph in inferred.chain:
        found |= {v.name: v for v in (*graph.value_info, *graph.output, *graph.input)}
        for tensor in graph.initializer:
            made = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            found.setdefault(tensor.name, made)
    return found
