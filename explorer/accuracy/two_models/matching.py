"""Which tensors of two models belong together: by their numbers, then by the graphs, then by names.

Numbers: two tensors of as many elements are compared in every order of the axes in which their
shapes agree. Moments (mean, mean magnitude, root mean square, ends) do not depend on the order of
elements and choose the few candidates that are compared. The best pairs are taken first.

Structure: a node with weights or with several inputs begins a segment, and nodes of one input
(activations, normalizations, casts, moves) continue it. Two segments that read matched tensors and
are of one family belong together, which follows a network past the place where its numbers part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from explorer.accuracy.two_models.sides import SideNode

Tensors = Mapping[str, np.ndarray]
MIN_SQNR_DB = 8.0
"""Two tensors with less signal to noise are not matched by their numbers."""
EXACT_DB = 120.0
"""From here on two pairs are equally good."""
CANDIDATES = 8
"""Tensors that each one is compared with, number by number."""
MAX_RANK = 5
HEADS = ("convolution", "matmul", "recurrent", "attention", "pooling", "reduction")
"""Families of nodes that begin a segment, besides nodes with several inputs."""


@dataclass(frozen=True)
class Pair:
    """Two tensors, and the axes of the second one in the order of the first one's, without those of
    size 1; of other shapes the elements as they lie, and no axes."""

    a: str
    b: str
    axes: tuple[int, ...]
    how: str


@dataclass(frozen=True)
class Distance:
    """Of two tensors that belong together: `error` is the root mean square of the differences in
    parts of that of the first one."""

    error: float
    max_relative: float

    @property
    def sqnr_db(self) -> float:
        if self.error == 0:
            return float("inf")
        return float(-20 * np.log10(self.error)) if np.isfinite(self.error) else -float("inf")


def match_tensors(
    nodes: tuple[Sequence[SideNode], Sequence[SideNode]],
    tensors: tuple[Tensors, Tensors],
    inputs: Sequence[tuple[str, str]],
    outputs: Sequence[tuple[str, str]],
) -> list[Pair]:
    """Pairs of tensors in the order of the first model; each tensor is in one pair at most.

    inputs, outputs: names that are known to belong together.
    """
    found = {pair.a: pair for pair in _by_values(nodes, tensors, set(outputs))}
    graphs = Segments(nodes[0], tensors[0]), Segments(nodes[1], tensors[1])
    _add_by_structure(found, graphs, tensors, inputs)
    _add(found, tensors, outputs, "structure")
    common = [(name, name) for name in tensors[0] if name in tensors[1]]
    _add(found, tensors, common, "name")
    order = {name: i for i, name in enumerate(_made(nodes[0]))}
    return sorted((p for p in found.values() if p.a in order), key=lambda pair: order[pair.a])


def distance(a: np.ndarray, b: np.ndarray, axes: Sequence[int]) -> Distance:
    """How far `b`, with its axes in this order, is from `a`. NaN and infinities in other places are
    an infinite error."""
    first, second = aligned(a, b, axes)
    finite = np.isfinite(first)
    same = np.array_equal(finite, np.isfinite(second)) and np.array_equal(
        first[~finite], second[~finite], equal_nan=True
    )
    if not same:
        return Distance(float("inf"), float("inf"))
    x, y = first[finite].astype(np.float64), second[finite].astype(np.float64)
    if not x.size:
        return Distance(0.0, 0.0)
    difference = np.abs(x - y)
    scale = float(np.sqrt(np.mean(x * x)))
    largest = float(np.max(np.abs(x)))
    error = float(np.sqrt(np.mean(difference**2)))
    if error == 0:
        return Distance(0.0, 0.0)
    if scale == 0:
        return Distance(float("inf"), float("inf"))
    return Distance(error / scale, float(difference.max()) / largest)


def orders(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Orders of the axes of shape `b` that give shape `a`, both without axes of size 1; none, and
    so the elements as they lie, where the shapes are others."""
    x, y = _squeezed(a), _squeezed(b)
    if len(x) == len(y) and len(x) <= MAX_RANK:
        yield from (o for o in permutations(range(len(y))) if tuple(y[i] for i in o) == x)
    if x != y and sorted(x) != sorted(y):
        yield ()


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def aligned(a: np.ndarray, b: np.ndarray, axes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The elements of both in the order of the first one's."""
    second = b.reshape(_squeezed(b.shape))
    if axes:
        second = np.transpose(second, axes)
    return a.reshape(-1), second.reshape(-1)


# -- by their numbers ------------------------------------------------------------------------------


def _by_values(
    nodes: tuple[Sequence[SideNode], Sequence[SideNode]],
    tensors: tuple[Tensors, Tensors],
    outputs: set[tuple[str, str]],
) -> Iterator[Pair]:
    """Outputs of one name or without others first, whatever their rounding; then the best pairs,
    of equally good ones those of outputs, then those at like places of the models."""
    sure = {pair for pair in outputs if pair[0] == pair[1] or len(outputs) == 1}
    sides = [
        [(name, tensors[i][name]) for name in _made(nodes[i]) if name in tensors[i]] for i in (0, 1)
    ]
    moments = [[_moments(array) for _, array in side] for side in sides]
    graded = []
    for i, (name_a, a) in enumerate(sides[0]):
        wanted = moments[0][i]
        if wanted is None:
            continue
        for j in _candidates(wanted, a.size, sides[1], moments[1]):
            name_b, b = sides[1][j]
            best = max(
                ((_likeness_db(a, b, o), o) for o in orders(a.shape, b.shape)),
                key=lambda graded: graded[0],
                default=None,
            )
            if best is not None and best[0] >= MIN_SQNR_DB:
                apart = abs(i / len(sides[0]) - j / len(sides[1]))
                pair = (name_a, name_b)
                rank = pair not in sure, -round(min(best[0], EXACT_DB)), pair not in outputs, apart
                graded.append((*rank, *pair, best[1]))
    used: set[str] = set()
    taken: set[str] = set()
    for *_, name_a, name_b, axes in sorted(graded):
        if name_a not in used and name_b not in taken:
            used.add(name_a)
            taken.add(name_b)
            yield Pair(name_a, name_b, axes, "values")


def _likeness_db(a: np.ndarray, b: np.ndarray, axes: Sequence[int]) -> float:
    """Signal to noise, the signal being what the first tensor deviates from its mean: two tensors
    that are nearly constant are not alike because of that."""
    far = distance(a, b, axes).error
    if not np.isfinite(far):
        return -np.inf
    finite = a[np.isfinite(a)].astype(np.float64)
    ratio = np.sqrt(np.mean(finite * finite)) / finite.std()
    return float(-20 * np.log10(far * ratio)) if far else np.inf


def _candidates(
    wanted: np.ndarray,
    size: int,
    others: Sequence[tuple[str, np.ndarray]],
    moments: Sequence[np.ndarray | None],
) -> list[int]:
    """Tensors of as many elements with the nearest moments."""
    near = [
        (float(np.linalg.norm(wanted - own)), j)
        for j, ((_, array), own) in enumerate(zip(others, moments, strict=True))
        if own is not None and array.size == size
    ]
    return [j for _, j in sorted(near)[:CANDIDATES]]


def _moments(array: np.ndarray) -> np.ndarray | None:
    """Numbers that no order of the elements changes; None where all elements are equal."""
    finite = array[np.isfinite(array)].astype(np.float64)
    if finite.size < 2 or finite.min() == finite.max():
        return None
    root = np.sqrt(np.mean(finite * finite))
    return np.array([finite.mean(), np.abs(finite).mean(), root, finite.min(), finite.max()])


def _made(nodes: Sequence[SideNode]) -> list[str]:
    return [name for node in nodes for name in node.outputs]


# -- by the graphs ---------------------------------------------------------------------------------


class Segments:
    """A model's nodes by the segments that they belong to."""

    def __init__(self, nodes: Sequence[SideNode], tensors: Tensors):
        self.nodes = nodes
        self.tensors = tensors
        self.maker = {name: node for node in nodes for name in node.outputs}
        self.readers: dict[str, list[SideNode]] = {}
        for node in nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)

    @cache  # noqa: B019  # lives as long as the comparison
    def begins(self, node: SideNode) -> bool:
        """Whether a node begins a segment."""
        return node.family in HEADS or len(node.inputs) != 1

    def tail(self, node: SideNode) -> list[str]:
        """Tensors of the segment that a node begins, up to the first that several nodes read."""
        found = [name for name in node.outputs[:1] if name in self.tensors]
        name = node.outputs[0] if node.outputs else ""
        while len(readers := self.readers.get(name, [])) == 1 and not self.begins(readers[0]):
            name = readers[0].outputs[0] if readers[0].outputs else ""
            if name in self.tensors:
                found.append(name)
        return found

    def anchors(self, node: SideNode, known: Mapping[str, str]) -> tuple[str, ...] | None:
        """What the node's inputs correspond to, through nodes of one input; None where something
        corresponds to nothing."""
        found = []
        for name in node.inputs:
            while name not in known:
                maker = self.maker.get(name)
                if maker is None or self.begins(maker):
                    return None
                name = maker.inputs[0]
            found.append(known[name])
        return tuple(found)


def _add_by_structure(
    found: dict[str, Pair],
    graphs: tuple[Segments, Segments],
    tensors: tuple[Tensors, Tensors],
    inputs: Sequence[tuple[str, str]],
) -> None:
    """Pairs segments of one family that read the same; goes on as long as that finds more."""
    grows = True
    while grows:
        before = len(found)
        known = _known(found, inputs)
        waiting: dict[tuple, list[list[str]]] = {}
        for key, chain in _unpaired(graphs[1], known[1]):
            waiting.setdefault(key, []).append(chain)
        for key, chain in _unpaired(graphs[0], known[0]):
            if waiting.get(key):
                for pair in _paired(chain, waiting[key].pop(0), tensors):
                    found[pair.a] = pair
        grows = len(found) > before


def _known(
    found: Mapping[str, Pair], inputs: Sequence[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The tensors of either model that correspond to something, by the first model's names."""
    ours = {a: a for a, _ in inputs} | {pair.a: pair.a for pair in found.values()}
    theirs = {b: a for a, b in inputs} | {pair.b: pair.a for pair in found.values()}
    return ours, theirs


def _unpaired(graph: Segments, known: Mapping[str, str]) -> Iterator[tuple[tuple, list[str]]]:
    """Chains of tensors that correspond to nothing yet, with what tells where they are: what they
    are made of, the family of the first node, and its number of elements."""
    for node in graph.nodes:
        chain = graph.tail(node) if graph.begins(node) else list(node.outputs[:1])
        if not chain or chain[0] not in graph.tensors or any(name in known for name in chain):
            continue
        if graph.begins(node):
            anchors = graph.anchors(node, known)
        else:
            anchors = tuple(known[name] for name in node.inputs if name in known)
        if anchors:
            families = tuple(graph.maker[name].family for name in chain)
            size = graph.tensors[chain[0]].size
            yield (tuple(sorted(anchors)), families[0], size), chain


def _paired(chain_a: list[str], chain_b: list[str], tensors: tuple[Tensors, Tensors]) -> list[Pair]:
    """Tensors of two chains one by one where they are of the same sizes, else the nearest two."""
    sizes = [
        [tensors[side][name].size for name in chain]
        for side, chain in enumerate((chain_a, chain_b))
    ]
    if sizes[0] != sizes[1]:
        pair = _nearest(chain_a, chain_b, tensors)
        return [] if pair is None else [pair]
    one_by_one = (_nearest([a], [b], tensors) for a, b in zip(chain_a, chain_b, strict=True))
    return [pair for pair in one_by_one if pair is not None]


def _nearest(tail_a: list[str], tail_b: list[str], tensors: tuple[Tensors, Tensors]) -> Pair | None:
    """The tensors of two segments that are least far apart; of equals the last ones."""
    graded = [
        (distance(tensors[0][a], tensors[1][b], order).error, -i - j, a, b, order)
        for i, a in enumerate(tail_a)
        for j, b in enumerate(tail_b)
        if tensors[0][a].size == tensors[1][b].size
        for order in orders(tensors[0][a].shape, tensors[1][b].shape)
    ]
    if not graded:
        return None
    *_, a, b, order = min(graded)
    return Pair(a, b, order, "structure")


def _add(
    found: dict[str, Pair],
    tensors: tuple[Tensors, Tensors],
    names: Sequence[tuple[str, str]],
    how: str,
) -> None:
    """Pairs tensors that are known to belong together, if they are in no pair yet."""
    taken = {pair.b for pair in found.values()}
    for a, b in names:
        if a in found or b in taken or a not in tensors[0] or b not in tensors[1]:
            continue
        pair = _nearest([a], [b], tensors)
        if pair is not None:
            found[a] = Pair(a, b, pair.axes, how)
            taken.add(b)
