"""Single-entry single-exit regions of a data-flow graph: the program structure tree.

      a -> b -> c -> d -> e        chain a, b, d, e: each is on every way through the one before
           |_________^             region (b, d): between them, the chain c

Two operations between which everything flows, the first of which dominates the second while the
second postdominates the first, enclose a region; regions either nest or are apart (Johnson,
Pearson, Pingali, "The Program Structure Tree", PLDI 1994). A residual block, a branch of an
inception module, a head are such regions. Dominators are found in one walk in topological order
(Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", 2001), as data flow has no cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NONE = -1


@dataclass(frozen=True)
class Regions:
    """Nodes are numbers in topological order."""

    chains: tuple[tuple[int, ...], ...]
    """What is passed one after the other; every node is in exactly one chain."""
    inside: dict[int, list[int]] = field(default_factory=dict)
    """Chains in the region between a node and the next one of its chain."""
    outermost: tuple[int, ...] = ()
    """Chains in no region."""


def find_regions(predecessors: Sequence[Sequence[int]]) -> Regions:
    """The tree of regions of a graph whose nodes come after all their predecessors."""
    count = len(predecessors)
    successors: list[list[int]] = [[] for _ in range(count)]
    for node, before in enumerate(predecessors):
        for other in before:
            successors[other].append(node)
    dominator = _dominators(predecessors)
    mirrored = _dominators([[count - 1 - s for s in successors[count - 1 - n]]
                            for n in range(count)])  # fmt: skip
    post = [NONE if (d := mirrored[count - 1 - n]) == NONE else count - 1 - d
            for n in range(count)]  # fmt: skip
    following = [m if (m := post[n]) != NONE and dominator[m] == n else NONE for n in range(count)]
    chains: list[tuple[int, ...]] = []
    chain_of = [NONE] * count
    for node in range(count):
        if chain_of[node] == NONE:
            chain = [node]
            while following[chain[-1]] != NONE:
                chain.append(following[chain[-1]])
            for member in chain:
                chain_of[member] = len(chains)
            chains.append(tuple(chain))
    first, last = _intervals(post)
    inside: dict[int, list[int]] = {}
    outermost: list[int] = []
    for number, chain in enumerate(chains):
        head = chain[0]
        above = dominator[head]
        # A chain before which the exit lies does not enclose this one, nor do its earlier links.
        while above != NONE:
            end = following[above]
            if end != NONE and first[end] <= first[head] <= last[end]:
                break
            above = dominator[chains[chain_of[above]][0]]
        if above == NONE:
            outermost.append(number)
        else:
            inside.setdefault(above, []).append(number)
    return Regions(tuple(chains), inside, tuple(outermost))


def _dominators(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate dominator of every node; NONE where only the (virtual) start is one."""
    dominator = [NONE] * len(predecessors)
    for node, before in enumerate(predecessors):
        if not before:
            continue
        common = before[0]
        for other in before[1:]:
            # The later of two nodes cannot dominate the earlier: climb from it.
            while common != other:
                if common == NONE or other == NONE:
                    common = other = NONE
                elif common > other:
                    common = dominator[common]
                else:
                    other = dominator[other]
        dominator[node] = common
    return dominator


def _intervals(parent: Sequence[int]) -> tuple[list[int], list[int]]:
    """Numbers of a walk through a forest: `b` lies below `a` when first[a] <= first[b] <= last[a].

    Parents have higher numbers than their children here.
    """
    size = [1] * len(parent)
    for node, above in enumerate(parent):
        if above != NONE:
            size[above] += size[node]
    first = [0] * len(parent)
    free = [0] * len(parent)
    start = 0
    for node in range(len(parent) - 1, -1, -1):
        above = parent[node]
        if above == NONE:
            first[node] = start
            start += size[node]
        else:
            first[node] = free[above]
            free[above] += size[node]
        free[node] = first[node] + 1
    return first, [first[node] + size[node] - 1 for node in range(len(parent))]
