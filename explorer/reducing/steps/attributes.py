"""Makes nodes plainer: without attributes and optional operands, or with smaller numbers in them.

Conv(strides=[2, 2], pads=[1, 1, 1, 1], group=8)      ->      Conv(strides=[2, 2])
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto

from explorer.reducing.candidate import Candidate
from explorer.reducing.graphs import changed, copied
from explorer.reducing.trials import Trials

MAX_COST_OF_NUMBER = 1000
"""What one number of an attribute counts at most."""


def simplify_attributes(trials: Trials, candidate: Candidate) -> Candidate:
    number = 0
    while number < candidate.operations:
        trials.report("simplifying attributes", candidate)
        for graph in _plainer(candidate, number):
            if _cost(graph) >= _cost(candidate.model.graph):
                continue
            found = changed(candidate, graph)
            if found is not None and trials.fails(found):
                candidate = found
                break
        else:
            number += 1
    return candidate


def _plainer(candidate: Candidate, number: int) -> Iterator[GraphProto]:
    node = candidate.model.graph.node[number]
    for index in range(len(node.attribute)):
        graph = copied(candidate)
        del graph.node[number].attribute[index]
        yield graph
    for index, attribute in enumerate(node.attribute):
        for value in (0, 1):
            graph = copied(candidate)
            if _set(graph.node[number].attribute[index], attribute, value):
                yield graph
    if len(node.input) > 1:
        graph = copied(candidate)
        del graph.node[number].input[-1]
        yield graph


def _set(made: AttributeProto, given: AttributeProto, value: int) -> bool:
    """Puts a number in the place of all numbers of an attribute."""
    if given.type == AttributeProto.INT:
        made.i = value
    elif given.type == AttributeProto.INTS:
        made.ints[:] = [value] * len(given.ints)
    elif given.type == AttributeProto.FLOAT:
        made.f = value
    else:
        return False
    return True


def _cost(graph: GraphProto) -> float:
    return sum(_cost_of(node) for node in graph.node)


def _cost_of(node: NodeProto) -> float:
    cost = float(len(node.input))
    for attribute in node.attribute:
        numbers = [attribute.i, attribute.f, *attribute.ints, *attribute.floats]
        cost += 1 + sum(min(abs(number), MAX_COST_OF_NUMBER) for number in numbers)
    return cost
