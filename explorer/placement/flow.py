"""The maximum flow of a network and the cut that it saturates, in whole numbers.

Dinic's algorithm (1970): flow goes along shortest paths with spare capacity, one blocking flow per
distance. Where no path is left, what still reaches the sink is its side of a minimum cut.
Python's integers have any size, so that capacities are never rounded.
"""

from __future__ import annotations


class Network:
    """Nodes 0 (the source), 1 (the sink) and those that `add_node` gives."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]
        """Numbers of the arcs that leave each node; an arc's reverse differs in the last bit."""
        self._heads: list[int] = []
        self._spare: list[int] = []

    def add_node(self) -> int:
        self._arcs.append([])
        return len(self._arcs) - 1

    def add_arc(self, tail: int, head: int, capacity: int, reverse: int = 0) -> None:
        if capacity <= 0 and reverse <= 0:
            return
        self._arcs[tail].append(len(self._heads))
        self._heads.append(head)
        self._spare.append(capacity)
        self._arcs[head].append(len(self._heads))
        self._heads.append(tail)
        self._spare.append(reverse)

    def maximum_flow(self) -> int:
        total = 0
        while levels := self._levels():
            total += self._blocking_flow(levels)
        return total

    def sink_side(self) -> list[bool]:
        """Of every node, whether a path with spare capacity leads to the sink after `maximum_flow`.

        The smallest such side of all minimum cuts.
        """
        reaches = [False] * len(self._arcs)
        reaches[self.SINK] = True
        stack = [self.SINK]
        while stack:
            for arc in self._arcs[stack.pop()]:
                tail = self._heads[arc]
                if self._spare[arc ^ 1] and not reaches[tail]:
                    reaches[tail] = True
                    stack.append(tail)
        return reaches

    def _levels(self) -> list[int]:
        """Arcs from every node to the sink on paths with spare capacity; empty: there is none."""
        heads, spare, arcs = self._heads, self._spare, self._arcs
        levels = [-1] * len(arcs)
        levels[self.SINK] = 0
        row, level = [self.SINK], 0
        while row and levels[self.SOURCE] < 0:
            level += 1
            following = []
            for node in row:
                for arc in arcs[node]:
                    tail = heads[arc]
                    if levels[tail] < 0 and spare[arc ^ 1]:
                        levels[tail] = level
                        following.append(tail)
            row = following
        return levels if levels[self.SOURCE] >= 0 else []

    def _blocking_flow(self, levels: list[int]) -> int:
        heads, spare, arcs = self._heads, self._spare, self._arcs
        following = [0] * len(arcs)
        """The arc that each node tries next."""
        total, path, node = 0, [], self.SOURCE
        while True:
            if node == self.SINK:
                amount = min(spare[arc] for arc in path)
                total += amount
                cut = len(path)
                for place in range(len(path) - 1, -1, -1):
                    arc = path[place]
                    spare[arc] -= amount
                    spare[arc ^ 1] += amount
                    if not spare[arc]:
                        cut = place
                node = heads[path[cut] ^ 1]  # go on from the tail of the first arc that is full
                del path[cut:]
                continue
            own, place = arcs[node], following[node]
            wanted = levels[node] - 1
            while place < len(own):
                arc = own[place]
                if spare[arc] and levels[heads[arc]] == wanted:
                    break
                place += 1
            following[node] = place
            if place < len(own):
                path.append(own[place])
                node = heads[own[place]]
            elif path:
                node = heads[path.pop() ^ 1]
                following[node] += 1
            else:
                return total
