"""Calls that take graphs.

higher_order.cond(p, {...}, {...}, (x,))        top.if, whose regions hold the two graphs
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.file.program import Argument, Graph, Ref
from explorer.importers.pytorch.file.versions import complex_values, versioned
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.shapes import ShapeOp


def cond(node: AtenNode, build: Build) -> Sequence[Expr]:
    """One of two graphs, by a condition."""
    condition, if_true, if_false, operands = list(node.call.arguments.values())[:4]
    test = _value(node, condition, build).astype(np.bool_).reshape([])
    given = [_value(node, operand, build) for operand in _listed(operands)]
    known = build.knowledge.needed(test)
    if known is not None:
        return _inline(node, _graph(if_true if known.item() else if_false), given, build)
    regions = []
    for graph in (if_true, if_false):
        with build.inside([]) as block:
            results = _inline(node, _graph(graph), given, build)
            regions.append(build.end(block, results))
    return build.branch(test, *regions)


def while_loop(node: AtenNode, build: Build) -> Sequence[Expr]:
    """A graph again and again, for as long as another says so."""
    test, body, carried, others = list(node.call.arguments.values())[:4]
    states = [_value(node, state, build) for state in _listed(carried)]
    fixed = [_value(node, other, build) for other in _listed(others)]

    def condition(values: Sequence[Expr]) -> Expr:
        (found,) = _inline(node, _graph(test), [*values, *fixed], build)
        return found.astype(np.bool_).reshape([])

    first = condition(states)
    number = build.weight(np.array(0, np.int64))
    with build.inside([number.type, first.type, *(state.type for state in states)]) as block:
        present = build.arguments(block)[2:]
        following = _inline(node, _graph(body), [*present, *fixed], build)
        region = build.end(block, [condition(following), *following])
    return build.loop(region, states, condition=first)


def scan(node: AtenNode, build: Build) -> Sequence[Expr]:
    """A graph for each row of tensors, with states that go round; its other results are rows."""
    body, carried, rows, others = list(node.call.arguments.values())[:4]
    states = [_value(node, state, build) for state in _listed(carried)]
    tables = [_value(node, row, build) for row in _listed(rows)]
    fixed = [_value(node, other, build) for other in _listed(others)]
    length = tables[0].size(0)
    count = build.value(ShapeOp, [tables[0]], start=0, end=1).reshape([])
    number = build.weight(np.array(0, np.int64))
    with build.inside([number.type, *(state.type for state in states)]) as block:
        place, *present = build.arguments(block)
        given = [build.value(GatherOp, [table, place], axis=0) for table in tables]
        results = _inline(node, _graph(body), [*present, *given, *fixed], build)
        region = build.end(block, results)
    scans = len(results) - len(states)
    return build.loop(region, states, scans, trip_count=length, count=None if length else count)


def _inline(node: AtenNode, graph: Graph, given: Sequence[Expr], build: Build) -> list[Expr]:
    """The results of a nested graph, made at the end of the current block."""
    values = dict(zip(graph.inputs, given, strict=True))
    flow = versioned(graph)
    numbers = frozenset(
        name for step in flow.steps for name in step.call.results if name not in graph.types
    )
    complexes = complex_values(graph.types, flow.steps)
    for step in flow.steps:
        inner = AtenNode(
            name=step.call.name,
            operator=step.call.target,
            inputs=step.inputs,
            outputs=step.outputs,
            step=step,
            types={name: graph.types[name] for name in step.call.results if name in graph.types},
            numbers=numbers,
            complexes=complexes,
            used=frozenset(values),
            convert=node.convert,
            given={name: values[name] for name in step.inputs},
        )
        assert node.convert is not None
        values.update(zip(step.outputs, node.convert(inner, build), strict=False))
    results = []
    for output in flow.outputs:
        if not isinstance(output, Ref):
            raise Unsupported(f"a nested graph that returns {output!r}")
        results.append(values[output.name])
    return results


def _graph(argument: Argument) -> Graph:
    if not isinstance(argument, Graph):
        raise ValueError(f"{argument!r}; a graph expected")
    return argument


def _listed(argument: Argument) -> tuple[Argument, ...]:
    return argument if isinstance(argument, tuple) else (argument,)


def _value(node: AtenNode, argument: Argument, build: Build) -> Expr:
    if isinstance(argument, Ref):
        return node.given[argument.name]
    if isinstance(argument, bool | int | float):
        return build.weight(np.array(argument))
    raise ValueError(f"{argument!r}; a tensor expected")


CONVERTERS = {
    "higher_order.cond": cond,
    "higher_order.while_loop": while_loop,
    "higher_order.scan": scan,
}
