"""If, Loop and Scan with random graphs inside, which also read what is outside of them."""

from __future__ import annotations

import numpy as np
from onnx import helper

from verification.random_models.draft import FLOATS, TYPES, Draft, NotPossible, Value
from verification.random_models.recipes.recipe import recipes

MAX_INNER_NODES = 3
MAX_DEPTH = 2
"""Graphs inside one another."""


def branches(draft: Draft) -> None:
    """Both branches compute something of one type and shape."""
    condition = _condition(draft)
    like = draft.operand(TYPES, (0, 1, 2))
    graphs = []
    for _ in range(2):
        inner = _inside(draft, [])
        found = [v for v in inner.values if (v.dtype, v.shape) == (like.dtype, like.shape)]
        graphs.append(inner.graph([], [found[-1]]))
    (name,) = draft.fresh()
    node = helper.make_node("If", [condition], [name], then_branch=graphs[0], else_branch=graphs[1])
    draft.add_nodes([node], [name], types=[(like.dtype, like.shape)])


def loop(draft: Draft) -> None:
    """States go round; rows are collected where the number of iterations is known.

    A body that says when to stop gets a condition to begin with: without one ONNX ignores what it
    says, and onnxruntime does not.
    """
    states = [draft.operand(TYPES, (0, 1, 2)) for _ in range(draft.number(1, 2))]
    collects = draft.flag()
    trips = draft.number(1 if collects else 0, 3)
    number = Value(f"{draft.prefix}number{len(draft.nodes)}", "int64", (), 1)
    goes_on = Value(f"{draft.prefix}goes_on{len(draft.nodes)}", "bool", (), 1)
    arguments = _arguments(draft, states)
    inner = _inside(draft, [number, goes_on, *arguments])
    nexts = [_next(inner, a) for a in arguments]
    rows = [inner.one_of(inner.values)] if collects else []
    has_condition = draft.random.random() < 0.4
    last = goes_on
    if has_condition:  # ends early, which depends on an input
        limit = draft.input("int64", (), np.array(draft.number(-1, 3), np.int64))
        last = inner.add("Less", [number.name, limit.name])[0]
        rows = []
    graph = inner.graph([number, goes_on, *arguments], [last, *nexts, *rows])
    outputs = draft.fresh(len(states) + len(rows))
    count = np.array(trips, np.int64)
    operands = [
        draft.constant(count),
        _condition(draft) if has_condition else "",
        *(s.name for s in states),
    ]
    node = helper.make_node("Loop", operands, outputs, body=graph)
    types = [(s.dtype, s.shape) for s in states]
    types += [(r.dtype, (trips, *r.shape)) for r in rows]
    draft.add_nodes([node], outputs, types=types)


def scan(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    if 0 in x.shape:
        raise NotPossible
    states = [draft.operand(FLOATS, (0, 1, 2)) for _ in range(draft.number(0, 2))]
    axis = draft.number(0, x.rank - 1)
    arguments = _arguments(draft, states)
    sizes = tuple(s for a, s in enumerate(x.shape) if a != axis)
    part = Value(f"{draft.prefix}part{len(draft.nodes)}", x.dtype, sizes, 1, x.precision)
    inner = _inside(draft, [*arguments, part])
    nexts = [_next(inner, a) for a in arguments]
    row = inner.one_of([v for v in inner.values if v.depth])
    graph = inner.graph([*arguments, part], [*nexts, row])
    outputs = draft.fresh(len(states) + 1)
    to = draft.number(0, len(row.shape))
    node = helper.make_node(
        "Scan",
        [*(s.name for s in states), x.name],
        outputs,
        body=graph,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[draft.number(0, 1)],
        scan_output_axes=[to],
        scan_output_directions=[draft.number(0, 1)],
    )
    shape = (*row.shape[:to], x.shape[axis], *row.shape[to:])
    types = [*((s.dtype, s.shape) for s in states), (row.dtype, shape)]
    draft.add_nodes([node], outputs, types=types)


def _arguments(draft: Draft, states: list[Value]) -> list[Value]:
    stem = f"{draft.prefix}state{len(draft.nodes)}_"
    return [
        Value(f"{stem}{i}", s.dtype, s.shape, max(1, s.depth), s.precision)
        for i, s in enumerate(states)
    ]


def _inside(draft: Draft, arguments: list[Value]) -> Draft:
    """A graph of a few random nodes; NotPossible where graphs are nested too deep."""
    if draft.prefix.count("g") >= MAX_DEPTH:
        raise NotPossible
    inner = draft.inside(arguments)
    inner.grow(MAX_INNER_NODES)
    return inner


def _next(inner: Draft, state: Value) -> Value:
    """The latest value that has the state's type and shape."""
    return [v for v in inner.values if (v.dtype, v.shape) == (state.dtype, state.shape)][-1]


def _condition(draft: Draft) -> str:
    """One boolean: an input."""
    return draft.input("bool", (), np.array(draft.flag())).name


RECIPES = recipes(branches, branches, loop, loop, loop, scan, scan)
