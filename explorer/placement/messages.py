"""A lower bound of an assignment's cost, by moving costs between operations and transfers.

Operations are variables, and devices are their labels. A value with one reader is an edge with the
cost of its transfer. A value with several readers is a variable of its own; its labels are the sets
of devices that it is on:

    maker ──transfers to the set──▶ {gpu, npu} ──0 where the reader is in the set, else ∞──▶ reader

The sum of all smallest entries is a bound. Moving costs from a table into another one changes no
assignment's total, and raises that bound (sequential reweighted message passing; Kolmogorov, 2015).
Tables are whole numbers, so that what was moved is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from explorer.placement.problem import Problem

MAX_MOVES = 160_000
"""Tables that all passes together visit: the work, and not the time, ends them."""
GRID_BITS = 40
"""Bits of the upper bound in the numbers that are moved."""


@dataclass
class Edge:
    """A table of costs over two variables, the earlier one first."""

    first: int
    second: int
    costs: list[list[int]]


@dataclass
class Model:
    """Tables in the problem's units. Variables stand in the order in which they are decided."""

    labels: list[tuple[int, ...]] = field(default_factory=list)
    """Of an operation: devices; of a value: sets of devices as bits."""
    operations: list[int] = field(default_factory=list)
    """The operation of each variable; -1 of a value."""
    costs: list[list[int]] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def bound(self) -> int:
        least = (min(costs) for costs in self.costs)
        return sum(least) + sum(min(map(min, edge.costs)) for edge in self.edges)

    def edges_of(self) -> tuple[list[list[int]], list[list[int]]]:
        """Numbers of edges by their later variable, and by their earlier one."""
        behind: list[list[int]] = [[] for _ in self.labels]
        ahead: list[list[int]] = [[] for _ in self.labels]
        for number, edge in enumerate(self.edges):
            behind[edge.second].append(number)
            ahead[edge.first].append(number)
        return behind, ahead


def make_model(problem: Problem, above: int) -> Model:
    """The tables; what is impossible costs `above`, which no assignment that is sought reaches."""
    model = Model()
    devices = range(len(problem.devices))
    variable_of: dict[int, int] = {}
    made: list[list[int]] = [[] for _ in problem.operations]
    for number, value in enumerate(problem.values):
        if value.readers:
            made[value.maker].append(number)
    pending: list[tuple[int, int]] = []
    sets_of: dict[int, int] = {}
    for op, costs in enumerate(problem.costs):
        variable_of[op] = len(model.labels)
        labels = tuple(device for device in devices if costs[device] is not None)
        model.labels.append(labels)
        model.operations.append(op)
        model.costs.append([min(cost, above) for cost in costs if cost is not None])
        for number in made[op]:
            value = problem.values[number]
            if len(value.readers) == 1:
                continue
            reachable = [
                d for d in devices if any(problem.costs[r][d] is not None for r in value.readers)
            ]
            sets = tuple(sum(1 << reachable[i] for i in range(len(reachable)) if mask >> i & 1)
                         for mask in range(1, 1 << len(reachable)))  # fmt: skip
            sets_of[number] = len(model.labels)
            pending.append((number, variable_of[op]))
            model.labels.append(sets)
            model.operations.append(-1)
            model.costs.append([0] * len(sets))

    def units(cost: int | None) -> int:
        return above if cost is None else min(cost, above)

    for number, maker in pending:
        sent = problem.values[number].sent
        table = [
            [
                min(above, sum(units(sent[own][d]) for d in devices if mask >> d & 1 and d != own))
                for mask in model.labels[sets_of[number]]
            ]
            for own in model.labels[maker]
        ]
        model.edges.append(Edge(maker, sets_of[number], table))
    for number, value in enumerate(problem.values):
        for reader in value.readers:
            second = variable_of[reader]
            if number in sets_of:
                first = sets_of[number]
                table = [
                    [0 if mask >> d & 1 else above for d in model.labels[second]]
                    for mask in model.labels[first]
                ]
            else:
                first = variable_of[value.maker]
                table = [
                    [units(value.sent[own][d]) for d in model.labels[second]]
                    for own in model.labels[first]
                ]
            model.edges.append(Edge(first, second, table))
    return model


def raise_bound(model: Model, above: int) -> None:
    """Moves costs between the model's tables, so that its bound rises towards `above`."""
    shift = max(0, above.bit_length() - GRID_BITS)
    costs = [np.array([c >> shift for c in row], dtype=np.int64) for row in model.costs]
    tables = [
        np.array([[c >> shift for c in row] for row in edge.costs], dtype=np.int64)
        for edge in model.edges
    ]
    moved = [(np.zeros(t.shape[0], np.int64), np.zeros(t.shape[1], np.int64)) for t in tables]
    behind, ahead = model.edges_of()
    passes = max(2, MAX_MOVES // max(1, 2 * len(tables)))
    order = range(len(costs))
    best = -1
    for number in range(passes):
        forward = number % 2 == 0
        pulled, pushed = (behind, ahead) if forward else (ahead, behind)
        for variable in order if forward else reversed(order):
            _visit(variable, costs, tables, moved, pulled[variable], pushed[variable], forward)
        if number % 8 == 7:
            bound = sum(int(c.min()) for c in costs) + sum(int(t.min()) for t in tables)
            if bound <= best + ((above >> shift) >> 20):
                break
            best = bound
    _move(model, moved, shift)


def _visit(
    variable: int,
    costs: list[np.ndarray],
    tables: list[np.ndarray],
    moved: list[tuple[np.ndarray, np.ndarray]],
    pulled: list[int],
    pushed: list[int],
    forward: bool,
) -> None:
    """Takes what one side's edges cost at least, and gives it to those of the other side."""
    own = costs[variable]
    for edge in pulled:  # it is their later variable going forward
        table = tables[edge]
        if forward:
            least = table.min(axis=0)
            table -= least
            moved[edge][1][:] += least
        else:
            least = table.min(axis=1)
            table -= least[:, None]
            moved[edge][0][:] += least
        own += least
    if not pushed:
        return
    share = own // max(len(pulled), len(pushed))
    for edge in pushed:
        if forward:
            tables[edge] += share[:, None]
            moved[edge][0][:] -= share
        else:
            tables[edge] += share
            moved[edge][1][:] -= share
    own -= share * len(pushed)


def _move(model: Model, moved: list[tuple[np.ndarray, np.ndarray]], shift: int) -> None:
    """Moves the same in the exact tables."""
    for edge, (first, second) in zip(model.edges, moved, strict=True):
        rows, columns = ([int(n) << shift for n in side] for side in (first, second))
        for row, costs in zip(rows, edge.costs, strict=True):
            costs[:] = [cost - row - column for cost, column in zip(costs, columns, strict=True)]
        sides = chain(((edge.first, rows), (edge.second, columns)))
        for variable, amounts in sides:
            own = model.costs[variable]
            own[:] = [cost + amount for cost, amount in zip(own, amounts, strict=True)]
