"""Control flow: nested graphs become regions, or are imported in place where the way is known.

    If (condition)             top.if; the branch alone where the condition is known
    Loop (count, condition)    top.loop; iteration by iteration where a state changes its form.
                               A condition that counts is a count.
    Scan (states, x)           top.loop whose body begins with a slice of x

A state whose size grows from one iteration to the next, or that is a sequence, has a type of its
own in each of them: such loops are unrolled here, if the number of iterations is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, Region

from explorer.errors import ModelError
from explorer.importers.building.build import discard
from explorer.importers.building.expr import Expr, all_plain
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported, form_of, tensors_of, with_tensors
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.top.control import merged_types
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.support.iterations import counted_iterations
from explorer.ir.types import element_type_of, numpy_dtype, shape_of, tensor_type

LONGEST_UNROLLED = 1024
"""Iterations; more of them would be more operations than anybody reads."""

# -- If ------------------------------------------------------------------------------------------


@converts("If")
def branch(node: Node, build: Build) -> Sequence[Imported]:
    """Each branch in a region; both may use values from outside.

    Where the condition follows from shapes, only the branch that is taken is imported: the other
    often has results of another rank (PyTorch's `squeeze`), which no type could hold. So it is
    where the branches cannot both be imported, or have results of different sizes, and an input
    that is assumed decides, or where one of them does not fit the sizes: whoever took it would
    fail. The program is then right only for inputs that lead to the other one, which
    `specialized_inputs` names.
    """
    condition = node.operand(0)
    known = build.knowledge.array(condition)
    if known is not None:
        return build.inline(_taken(node, bool(known.item())))
    both = build.graphs.attempt(lambda: _both_branches(node, condition, build))
    if not isinstance(both, Exception):
        return both
    chosen = build.is_true(condition)
    if chosen is not None:
        return build.inline(_taken(node, chosen))
    if not isinstance(both, ModelError):
        raise both
    for taken in (True, False):
        only = build.graphs.attempt(lambda taken=taken: build.inline(_taken(node, taken)))
        if not isinstance(only, Exception):
            build.knowledge.depend_on_inputs_of(condition)
            return only
    raise both


def _taken(node: Node, condition: bool) -> GraphProto:
    return node.graph("then_branch" if condition else "else_branch")


def _both_branches(node: Node, condition: Expr, build: Build) -> list[Imported]:
    then_region, then_results = build.region(node.graph("then_branch"))
    try:
        else_region, else_results = build.region(node.graph("else_branch"))
    except Exception:
        discard(then_region.block)
        raise
    forms = [[form_of(r) for r in results] for results in (then_results, else_results)]
    try:
        if forms[0] != forms[1]:
            raise ValueError("its branches return sequences or optionals of different structure")
        if condition.rank:
            condition = condition.reshape([])
        made = build.branch(condition, then_region, else_region)
    except ValueError as error:
        discard(then_region.block)
        discard(else_region.block)
        raise Unsupported(f"which branch is taken depends on the inputs, and {error}") from error
    # The branches compute one size differently, as a prompt and a step with a past do.
    is_unknown = any(UNKNOWN in value.shape for value in made)
    if is_unknown and build.is_true(condition) is not None:
        raise Unsupported("its branches have results of different sizes")
    return with_tensors(then_results, made)


# -- Loop ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loop:
    """What an ONNX Loop does. `trips`: the most iterations, where they are known; `count` says
    them otherwise. `condition`: None where it is not asked for."""

    body: GraphProto
    states: tuple[Imported, ...]
    trips: int | None
    count: Expr | None
    condition: Expr | None

    @property
    def scans(self) -> int:
        return len(self.body.output) - 1 - len(self.states)


@converts("Loop")
def loop(node: Node, build: Build) -> Sequence[Imported]:
    """A region, unless a state changes its form from one iteration to the next."""
    count, condition = (_scalar(node.optional(index)) for index in (0, 1))
    states = _given(node.operands[2:])
    trips = None if count is None else build.knowledge.integers(count)
    limit = None if trips is None else max(trips[0], 0)
    found = _Loop(node.graph("body"), states, limit, count, condition)
    if all(isinstance(state, Expr) for state in states):
        in_region = build.graphs.attempt(lambda: _in_region(found, build))
        if not isinstance(in_region, Exception):
            return in_region
        if not isinstance(in_region, _ChangesSize) and found.trips is None:
            raise in_region
    return _unrolled(found, build)


class _ChangesSize(Unsupported):
    """A state has another size after each iteration, and the number of iterations is known."""


def _given(operands: Sequence[Imported | None]) -> tuple[Imported, ...]:
    present = tuple(o for o in operands if o is not None)
    if len(present) != len(operands):
        raise ValueError("a state without an initial value")
    return present


def _scalar(value: Expr | None) -> Expr | None:
    return value.reshape([]) if value is not None and value.rank else value


def _in_region(found: _Loop, build: Build) -> list[Imported]:
    """The loop as an operation; its condition goes where it is always true."""
    states = [state for state in found.states if isinstance(state, Expr)]
    flags = [tensor_type(i64, ()), tensor_type(i1, ())]

    def body(types: Sequence[Attribute]) -> tuple[Region, list[Imported]]:
        return build.region(found.body, [*flags, *types])

    def trips_of(region: Region) -> int | None:
        counted = _iterations(found, region, build)
        return found.trips if counted is None else counted

    region, results = _settled(body, states, 1, trips_of)
    block, go_on = region.block, results[0]
    assert isinstance(go_on, Expr) and block.last_op is not None
    condition, trips = found.condition, found.trips
    counted = _iterations(found, region, build)
    if condition is not None and counted is not None:
        condition, trips = None, counted
    goes_on = go_on.value is block.args[1] or build.knowledge.array(go_on) is not None
    if condition is not None and goes_on:
        is_first, is_next = build.is_true(condition), build.knowledge.array(go_on)
        if is_first is False:
            trips, condition = 0, None
        elif is_first and (is_next is None or is_next.item()):
            condition = None
        elif is_first:
            trips, condition = min(trips or 1, 1), None
    if condition is None:
        if trips is None and found.count is None:
            discard(block)
            raise Unsupported("it has no end: neither a number of iterations nor a condition")
        if next(iter(block.args[1].uses), None) is not None:
            block.args[1].replace_all_uses_with(build.weight(np.array(True)).value)
        block.last_op.operands = block.last_op.operands[1:]
        block.erase_arg(block.args[1])
    count = found.count if trips is None else None
    return list(
        build.loop(region, states, found.scans, trip_count=trips, count=count, condition=condition)
    )


def _iterations(found: _Loop, region: Region, build: Build) -> int | None:
    """How often the loop runs with that body; None where data decide."""
    if found.condition is None or (found.trips is None and found.count is not None):
        return found.trips
    states = [state for state in found.states if isinstance(state, Expr)]
    contents = build.knowledge.array
    return counted_iterations(
        region.block, found.condition.value, all_plain(states), contents, found.trips
    )


_MAX_BODIES = 8
"""Bodies that are tried until the states' types hold what the body returns: every time one more
size may turn out to change."""


def _settled(
    make: Callable[[Sequence[Attribute]], tuple[Region, list[Imported]]],
    states: Sequence[Expr],
    leading: int,
    trips_of: Callable[[Region], int | None],
) -> tuple[Region, list[Imported]]:
    """A body whose states come out as they went in; their results stand behind `leading` others.

    ValueError where a state changes its rank. Unsupported where its size changes although the
    number of iterations is known, and small: then each iteration has better types of its own.
    """
    types: list[Attribute] = [state.type for state in states]
    for _ in range(_MAX_BODIES):
        region, results = make(types)
        try:
            tensors = [result for result in results if isinstance(result, Expr)]
            if len(tensors) != len(results):
                raise Unsupported("its body makes sequences or optionals")
            returned = [t.type for t in tensors[leading : leading + len(states)]]
            merged = merged_types(types, returned)
            if merged == types:
                return region, results
            trips = trips_of(region)
            if trips is not None and trips <= LONGEST_UNROLLED:
                raise _ChangesSize("a state changes its size from one iteration to the next")
        except Exception:
            discard(region.block)
            raise
        discard(region.block)
        types = merged
    raise Unsupported("the sizes of its states do not settle")


def _unrolled(found: _Loop, build: Build) -> list[Imported]:
    """Every iteration in place, with types of its own."""
    if found.trips is None and (found.count is not None or found.condition is None):
        names = [declared.name for declared in found.body.input[2:]]
        structured = [
            name
            for name, state in zip(names, found.states, strict=True)
            if not isinstance(state, Expr)
        ]
        raise Unsupported(
            f"the state {', '.join(structured)} is a sequence or an optional, and the number of "
            "iterations is not known"
        )
    go_on: Imported | None = found.condition
    states = list(found.states)
    rows: list[list[Expr]] = [[] for _ in range(found.scans)]
    for number in itertools.count():
        if number == found.trips:
            break
        if found.condition is not None:
            assert isinstance(go_on, Expr)
            is_next = build.is_true(go_on)
            if is_next is None:
                raise Unsupported("whether it goes on depends on the inputs, and so do its results")
            if not is_next:
                break
        if number == LONGEST_UNROLLED or (go_on is None and _is_long(found.trips)):
            more = f"{found.trips:,}" if found.condition is None else f"more than {number:,}"
            raise Unsupported(f"{more} iterations; at most {LONGEST_UNROLLED:,} are written out")
        flag = build.weight(np.array(True), "always") if go_on is None else go_on
        # Equal numbers of all loops share one constant under one name.
        index = build.weight(np.array(number, np.int64), f"iteration.{number}")
        go_on, *results = build.inline(found.body, [index, flag, *states])
        states = results[: len(states)]
        for row, result in zip(rows, results[len(states) :], strict=True):
            if not isinstance(result, Expr):
                raise Unsupported("a row that is a sequence or an optional")
            row.append(result)
    if rows and not rows[0]:
        return [*states, *_no_rows(found, build)]
    return [*states, *(_stacked(row, 0, build) for row in rows)]


def _is_long(trips: int | None) -> bool:
    return trips is not None and trips > LONGEST_UNROLLED


def _no_rows(found: _Loop, build: Build) -> list[Expr]:
    """Empty tensors like the rows of a body that never runs."""
    flags = [build.weight(np.array(0, np.int64)), build.weight(np.array(True))]
    with build.inside(()) as block:
        results = build.inline(found.body, [*flags, *found.states])
        rows = [r.type for r in results[1 + len(found.states) :] if isinstance(r, Expr)]
    discard(block)
    empty = [
        np.zeros((0, *(s if isinstance(s, int) else 0 for s in shape_of(kind)))) for kind in rows
    ]
    return [
        build.weight(array.astype(numpy_dtype(element_type_of(kind))))
        for array, kind in zip(empty, rows, strict=True)
    ]


def _stacked(values: Sequence[Expr], axis: int, build: Build) -> Expr:
    return build.concat([value.unsqueeze([axis]) for value in values], axis)


# -- Scan ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scan:
    """A body that runs once for each slice of its inputs; axes and directions per input or output.

    A direction of 1 is backwards.
    """

    body: GraphProto
    input_axes: tuple[int, ...]
    input_directions: tuple[int, ...]
    output_axes: tuple[int, ...]
    output_directions: tuple[int, ...]


@converts("Scan", since=9)
def scan(node: Node, build: Build) -> Sequence[Imported]:
    body = node.graph("body")
    inputs = node.integer("num_scan_inputs")
    states = len(node.operands) - inputs
    outputs = len(body.output) - states
    found = _Scan(
        body,
        node.integers("scan_input_axes") or (0,) * inputs,
        node.integers("scan_input_directions") or (0,) * inputs,
        node.integers("scan_output_axes") or (0,) * outputs,
        node.integers("scan_output_directions") or (0,) * outputs,
    )
    return _scan(found, node.given(), build)


@converts("Scan", since=8, until=8)
def scan_batches(node: Node, build: Build) -> Sequence[Imported]:
    """Every element of the batch, the first axis of all operands, on its own."""
    lengths, *operands = (node.optional(index) for index in range(len(node.operands)))
    present = [operand for operand in operands if operand is not None]
    body = node.graph("body")
    inputs = node.integer("num_scan_inputs")
    outputs = len(body.output) - (len(present) - inputs)
    batch, length = present[-1].sizes([0, 1], "a scan over a batch")
    if lengths is not None and build.integers(lengths, "the lengths") != [length] * batch:
        raise Unsupported("sequences of different lengths")
    directions = node.integers("directions") or (0,) * inputs
    if batch > LONGEST_UNROLLED:
        raise Unsupported(f"a batch of {batch}; at most {LONGEST_UNROLLED} are unrolled")
    found = _Scan(body, (0,) * inputs, directions, (0,) * outputs, (0,) * outputs)
    results = []
    for number in range(batch):
        own = [x.slice(0, number, number + 1).squeeze([0]) for x in present]
        results.append(_scan(found, own, build))
    return [_stacked(values, 0, build) for values in zip(*results, strict=True)]


def _scan(found: _Scan, operands: Sequence[Expr], build: Build) -> list[Expr]:
    scanned = len(found.input_axes)
    states, inputs = operands[: len(operands) - scanned], operands[len(operands) - scanned :]
    axes = [build.axis(a, x.rank) for a, x in zip(found.input_axes, inputs, strict=True)]
    trips = inputs[0].size(axes[0])
    count = build.shape_vector([inputs[0].dim(axes[0])]).reshape([])
    last = count - build.weight(np.array(1, np.int64))

    def body(types: Sequence[Attribute]) -> tuple[Region, list[Imported]]:
        with build.inside([tensor_type(i64, ()), *types]) as block:
            number, *present = build.arguments(block)
            number.value.name_hint = "iteration"
            slices = [
                build.value(GatherOp, [x, last - number if backwards else number], axis=axis)
                for x, axis, backwards in zip(inputs, axes, found.input_directions, strict=True)
            ]
            results = build.inline(found.body, [*present, *slices])
            region = build.end(block, [t for r in results for t in tensors_of(r)])
        return region, results

    region, results = _settled(body, states, 0, lambda _: trips)
    scans = len(results) - len(states)
    found_results = build.loop(
        region, states, scans, trip_count=trips, count=count if trips is None else None
    )
    rows = found_results[len(states) :]
    turned = [
        _turned(row, axis, bool(backwards), build)
        for row, axis, backwards in zip(
            rows, found.output_axes, found.output_directions, strict=True
        )
    ]
    return [*found_results[: len(states)], *turned]


def _turned(rows: Expr, axis: int, is_backwards: bool, build: Build) -> Expr:
    """The rows along another axis than the first, perhaps the last one first."""
    if is_backwards:
        rows = rows.slices({0: (-1, -1, -1)})
    rank = rows.rank
    axis = build.axis(axis, rank)
    order = list(range(1, rank))
    order.insert(axis, 0)
    return rows.transpose(order)
