"""Two devices: the cheapest assignment is the minimum cut of a network (Stone, 1977).

    source = first device ──seconds on the second──▶ operation ──seconds on the first──▶ sink

What stays on the source's side runs on the first device. A value takes an arc from its maker to its
reader with the cost of its transfer. One that several read takes an auxiliary node in each
direction, so that it is sent once:

    maker ──cost──▶ node ──∞──▶ every reader        paid where a reader is on the other side
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.errors import InputError
from explorer.placement.flow import Network
from explorer.placement.problem import Problem, Value


def cheapest_of_two(
    problem: Problem, first: int, second: int, fixed: Sequence[int] | None = None
) -> list[int]:
    """The cheapest assignment that puts operations on one of two devices.

    `fixed`: devices of an assignment; operations on others than the two stay where they are.
    Exact. Raises InputError where there is none.
    """
    free = [
        number for number in range(len(problem.operations))
        if fixed is None or fixed[number] in (first, second)
    ]  # fmt: skip
    builder = _Cut(problem, first, second, free, fixed)
    for number in free:
        builder.add_operation(number)
    for value in problem.values:
        builder.add_value(value)
    return builder.solve()


class _Cut:
    def __init__(
        self,
        problem: Problem,
        first: int,
        second: int,
        free: Sequence[int],
        fixed: Sequence[int] | None,
    ) -> None:
        self.problem, self.first, self.second, self.fixed = problem, first, second, fixed
        self.network = Network()
        self.nodes = {number: self.network.add_node() for number in free}
        costs = [c for number in free for c in problem.costs[number] if c is not None]
        sent = [c for v in problem.values for row in v.sent for c in row if c is not None]
        self.unbounded = sum(costs) + sum(sent) + 1
        """More than any assignment costs."""
        self.to_first = dict.fromkeys(free, 0)
        """Cost of each operation on the first device; on the second one in `to_second`."""
        self.to_second = dict.fromkeys(free, 0)

    def capacity(self, units: int | None) -> int:
        return self.unbounded if units is None else units

    def add_operation(self, number: int) -> None:
        costs = self.problem.costs[number]
        self.to_first[number] += self.capacity(costs[self.first])
        self.to_second[number] += self.capacity(costs[self.second])

    def add_value(self, value: Value) -> None:
        free = [reader for reader in value.readers if reader in self.nodes]
        there = (
            {self.fixed[r] for r in value.readers if r not in self.nodes} if self.fixed else set()
        )
        if value.maker in self.nodes:
            self._sends(value, free, there)
        elif self.fixed is not None:
            self._receives(value, free, self.fixed[value.maker], there)

    def _sends(self, value: Value, free: Sequence[int], others: set[int]) -> None:
        """A value that a free operation makes; `others`: devices where other readers are."""
        first, second, sent = self.first, self.second, value.sent
        for device in others:
            self.to_first[value.maker] += self.capacity(sent[first][device])
            self.to_second[value.maker] += self.capacity(sent[second][device])
        maker = self.nodes[value.maker]
        away, back = self.capacity(sent[first][second]), self.capacity(sent[second][first])
        if len(free) == 1:
            self.network.add_arc(maker, self.nodes[free[0]], away, back)
        elif free:
            out, into = self.network.add_node(), self.network.add_node()
            self.network.add_arc(maker, out, away)
            self.network.add_arc(into, maker, back)
            for reader in free:
                self.network.add_arc(out, self.nodes[reader], self.unbounded)
                self.network.add_arc(self.nodes[reader], into, self.unbounded)

    def _receives(self, value: Value, free: Sequence[int], own: int, others: set[int]) -> None:
        """A value from another device: paid once on each of the two where a reader is."""
        costs = [
            (device, into)
            for device, into in ((self.first, self.to_first), (self.second, self.to_second))
            if device not in others
        ]
        for device, into in costs:
            paid = self.capacity(value.sent[own][device])
            if len(free) == 1:
                into[free[0]] += paid
            elif free:
                node = self.network.add_node()
                ends = (node, Network.SINK) if device == self.first else (Network.SOURCE, node)
                self.network.add_arc(*ends, paid)
                for reader in free:
                    pair = self.nodes[reader], node
                    tail, head = pair if device == self.first else pair[::-1]
                    self.network.add_arc(tail, head, self.unbounded)

    def solve(self) -> list[int]:
        for number, node in self.nodes.items():
            least = min(self.to_first[number], self.to_second[number])
            self.network.add_arc(Network.SOURCE, node, self.to_second[number] - least)
            self.network.add_arc(node, Network.SINK, self.to_first[number] - least)
        self.network.maximum_flow()
        side = self.network.sink_side()  # of equal costs the first device gets more
        chosen = list(self.fixed) if self.fixed is not None else [0] * len(self.problem.operations)
        for number, node in self.nodes.items():
            chosen[number] = self.second if side[node] else self.first
        if self.problem.total(chosen) is None:
            names = [self.problem.devices[d] for d in (self.first, self.second)]
            raise InputError(
                f"no assignment to {' and '.join(names)} is possible",
                hint="give the transfers that are missing, or prices on both devices",
            )
        return chosen
