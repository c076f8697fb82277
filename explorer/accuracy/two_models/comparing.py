"""Compares two models tensor by tensor, and finds where they part."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from explorer.accuracy.two_models.inputs import SameData, same_data
from explorer.accuracy.two_models.matching import (
    Distance,
    Pair,
    Tensors,
    aligned,
    distance,
    match_tensors,
)
from explorer.accuracy.two_models.sides import Side, SideNode
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.importers.model import symbolic_dimensions
from explorer.results.model_comparison import (
    ComparedModel,
    ModelComparison,
    TensorMatch,
    UnmatchedNode,
)

TOLERANCE = 1e-4
"""Of two tensors of floats, root mean square in parts of the first one's."""
QUANTIZED_TOLERANCE = 0.05
"""Of a quantized tensor: what rounded weights of one layer cost, besides its own rounding."""
ROUNDINGS = 3.0
"""Roundings of a tensor that count: its own, that of its inputs, that of the bias."""
RECURRENT_LAYERS = 4
MAX_CLIPPED = 0.25
"""Share of elements beyond a quantized tensor's range that random inputs may cause."""
ROOM = 2.0
"""How much larger an error may be than independent roundings add up to."""
MAX_EXPLAINED = 1.0
"""An error as large as the tensor itself is never called rounding."""
ADDING = ("add", "sub", "sum", "mean", "eltwise", "logsoftmax", "log_softmax")
"""In the names of operators of which the errors of the operands add up."""
GROWTH = 2.0
"""How much larger than its inputs' errors a layer's error may be."""


def compare_models(
    a: SourceModel,
    b: SourceModel,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> ModelComparison:
    """Runs both models in their references on the same data and matches their tensors.

    inputs: arrays by the names of the inputs of one model; random numbers by default. Axes, element
    types and names of the other model's inputs may differ. tolerance: of two tensors of floats,
    root mean square in parts of the first one's; quantized tensors may differ by their rounding,
    too, and any tensor by twice the errors of the tensors that it is made of.

    Raises:
        InputError: where one model's inputs cannot be made of the other's.
        ModelError: where a model's reference does not run it.
    """
    if not tolerance >= 0:
        raise InputError(f"a tolerance is not negative: {tolerance}")
    data = same_data(a, b, inputs, dimensions or {}, seed)
    tensors = data.a.run(data.arrays_a), data.b.run(data.arrays_b)
    outputs = _paired_outputs(data.a, data.b, tensors)
    nodes = data.a.nodes, data.b.nodes
    pairs = match_tensors(nodes, tensors, data.pairs, outputs)
    matched = _without_detours(data, tensors, pairs, tolerance)
    compared = {(match.tensor_a, match.tensor_b) for match in matched}
    return ModelComparison(
        a=_model(data.a, data.words_a),
        b=_model(data.b, data.words_b),
        matched=matched,
        unmatched_a=_unmatched(nodes[0], {m.tensor_a: m.node_b for m in matched}, tensors[0]),
        unmatched_b=_unmatched(nodes[1], {m.tensor_b: m.node_a for m in matched}, tensors[1]),
        first_difference=_first(nodes[0], matched),
        outputs=tuple(pair for pair in outputs if pair in compared),
    )


def is_quantized(model: SourceModel, sizes: Mapping[str, int]) -> bool:
    """Whether a tensor of the model is quantized, or the file holds weights of bytes or less."""
    known = {name: sizes[name] for name in symbolic_dimensions(model) if name in sizes}
    side = Side(model, known)
    return bool(side.scales) or any(node.has_small_weights for node in side.nodes)


def _model(side: Side, inputs: str) -> ComparedModel:
    return ComparedModel(
        name=side.model.name,
        format=side.model.format,
        nodes=len(side.model.nodes),
        judge=side.judge,
        inputs=inputs,
    )


def _paired_outputs(a: Side, b: Side, tensors: tuple[Tensors, Tensors]) -> list[tuple[str, str]]:
    """Outputs of one name, then those of one size in the order of the models."""
    left = [value.name for value in b.model.outputs if value.name in tensors[1]]
    pairs = []
    for value in a.model.outputs:
        if value.name not in tensors[0]:
            continue
        size = tensors[0][value.name].size
        fit = [name for name in left if tensors[1][name].size == size]
        if fit:
            chosen = value.name if value.name in fit else fit[0]
            left.remove(chosen)
            pairs.append((value.name, chosen))
    return pairs


def _without_detours(
    data: SameData, tensors: tuple[Tensors, Tensors], pairs: Sequence[Pair], tolerance: float
) -> tuple[TensorMatch, ...]:
    """All matches but those that rest on the structure alone, differ, and make no difference: the
    models go another way there (a square root and a division; its inverse and a product)."""
    matched = _judged(data, tensors, pairs, tolerance)
    doubtful = {m.tensor_a for m in matched if m.how == "structure" and m.differs}
    if not doubtful:
        return matched
    surely = _judged(data, tensors, [p for p in pairs if p.a not in doubtful], tolerance)
    differs = {match.tensor_a: match.differs for match in surely}
    detours = set()
    for name in doubtful:
        after = _after(data.a.nodes, name, differs)
        if after and not any(differs[other] for other in after):
            detours.add(name)
    if not detours:
        return matched
    return _judged(data, tensors, [p for p in pairs if p.a not in detours], tolerance)


def _after(nodes: Sequence[SideNode], name: str, known: Collection[str]) -> set[str]:
    """The nearest known tensors that are made of one."""
    reached, open_names = set(), {name}
    for node in nodes:
        if open_names.isdisjoint(node.inputs):
            continue
        here = [output for output in node.outputs if output in known]
        reached.update(here)
        if not here:
            open_names.update(node.outputs)
    return reached


def _judged(
    data: SameData, tensors: tuple[Tensors, Tensors], pairs: Sequence[Pair], tolerance: float
) -> tuple[TensorMatch, ...]:
    makers = [{name: n for n in side.nodes for name in n.outputs} for side in (data.a, data.b)]
    errors = {name: _input_error(data, name, other) for name, other in data.pairs}
    sums = dict(errors)  # of independent roundings
    counts = dict.fromkeys(errors, 0)
    done: tuple[set[str], set[str]] = set(), set()
    found = []
    for pair in pairs:
        a, b = tensors[0][pair.a], tensors[1][pair.b]
        far = distance(a, b, pair.axes)
        clipped, inside = _clipped(data, pair, a, b)
        judged = far if inside is None or not data.are_random else inside
        node = makers[0][pair.a]
        of_inputs = max(_errors_before(makers[0], node, errors), default=0.0)
        rounding = _rounding(data.a, pair.a, a) + _rounding(data.b, pair.b, a)
        layers, passed = 0, 0.0
        for i, (side, name) in enumerate(((data.a, pair.a), (data.b, pair.b))):
            between, _ = _before(makers[i], makers[i][name], done[i])
            layers = max(layers, _small_layers(between))
            names = {output for other in between for output in other.outputs} - {name}
            passed += sum(
                _rounding(side, n, tensors[i][n]) for n in sorted(names & tensors[i].keys())
            )
        layers = max(layers, 1 if rounding or passed else 0)
        own = tolerance + ROUNDINGS * rounding + passed + QUANTIZED_TOLERANCE * layers
        cancellation = _cancellation(node, tensors[0], a)
        allowed = (GROWTH * of_inputs + own) * cancellation
        sums[pair.a] = np.hypot(own, max(_errors_before(makers[0], node, sums), default=0.0))
        if "softmax" not in node.operator.lower():  # which amplifies: no rounding is as large
            sums[pair.a] *= cancellation
        counts[pair.a] = layers + int(max(_errors_before(makers[0], node, counts), default=0))
        errors[pair.a] = far.error
        done[0].add(pair.a)
        done[1].add(pair.b)
        found.append(
            TensorMatch(
                tensor_a=pair.a,
                tensor_b=pair.b,
                node_a=node.name,
                node_b=makers[1][pair.b].name,
                operator_a=node.operator,
                operator_b=makers[1][pair.b].operator,
                how=pair.how,
                shape_a=a.shape,
                shape_b=b.shape,
                axes=pair.axes,
                max_relative=judged.max_relative,
                sqnr_db=judged.sqnr_db,
                error=judged.error,
                expected=allowed,
                explained=min(ROOM * float(sums[pair.a]), MAX_EXPLAINED),
                roundings=counts[pair.a],
                clipped=clipped,
            )
        )
    return tuple(found)


def _clipped(
    data: SameData, pair: Pair, a: np.ndarray, b: np.ndarray
) -> tuple[float, Distance | None]:
    """The share of elements at which one model's range ends and the other's does not, and the
    distance of all others."""
    first, second = aligned(a, b, pair.axes)
    at_end = np.zeros(first.shape, bool)
    for side, name, own, other in (
        (data.a, pair.a, first, second),
        (data.b, pair.b, second, first),
    ):
        if ends := side.ends(name):
            at_end |= ((own <= ends[0]) & (other < own)) | ((own >= ends[1]) & (other > own))
    share = float(at_end.mean()) if at_end.size else 0.0
    if not share or share > MAX_CLIPPED:
        return share, None
    return share, distance(first[~at_end], second[~at_end], ())


def _input_error(data: SameData, name: str, other: str) -> float:
    """The error that quantizing an input costs."""
    a = data.a.as_real(name, data.arrays_a[name])
    return 0.0 if a is None else _rounding(data.a, name, a) + _rounding(data.b, other, a)


def _rounding(side: Side, name: str, real: np.ndarray) -> float:
    """Rounding to a tensor's steps, as root mean square in parts of the tensor's own."""
    size = _root(real)
    return side.step(name) / np.sqrt(12) / size if size else 0.0


def _errors_before(
    makers: Mapping[str, SideNode], node: SideNode, errors: Mapping[str, float]
) -> list[float]:
    """Errors of the nearest matched tensors that a node's result depends on."""
    _, reached = _before(makers, node, errors)
    return [errors[name] for name in reached]


def _small_layers(nodes: Sequence[SideNode]) -> int:
    """Layers with weights of bytes among nodes; a recurrent layer counts as several, for its error
    goes from step to step."""
    small = [node for node in nodes if node.has_small_weights]
    return sum(RECURRENT_LAYERS if n.family == "recurrent" else 1 for n in small)


def _cancellation(node: SideNode, tensors: Tensors, result: np.ndarray) -> float:
    """How much larger an error is in parts of a result than in parts of the operands. At least 1.

    A sum, a mean or the logarithm of a softmax may be smaller than the numbers that it is made of:
    their errors stay as they are. An error of logits is one in parts of their softmax, p:
    dp / p = dx - sum(p dx).
    """
    operator = node.operator.lower()
    sizes = [_root(tensors[name]) for name in node.inputs if name in tensors]
    if "softmax" in operator and "log" not in operator:
        return max([1.0, *sizes])
    if not any(word in operator for word in ADDING):
        return 1.0
    own = _root(result)
    return max([1.0, *(size / own for size in sizes if own)])


def _root(array: np.ndarray) -> float:
    """The root mean square."""
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0


def _before(
    makers: Mapping[str, SideNode], node: SideNode, known: Collection[str]
) -> tuple[list[SideNode], list[str]]:
    """A node and what comes before it as far as the nearest known tensors; those tensors."""
    nodes, reached = [node], []
    seen: set[str] = set()
    waiting = list(node.inputs)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        siblings = makers[name].outputs if name in makers else (name,)
        if stop := [sibling for sibling in (name, *siblings) if sibling in known]:
            reached.append(stop[0])
        elif name in makers:
            nodes.append(makers[name])
            waiting.extend(makers[name].inputs)
    return nodes, reached


def _first(nodes: Sequence[SideNode], matched: Sequence[TensorMatch]) -> TensorMatch | None:
    """The first match that differs while nothing before it on its way does."""
    makers = {name: node for node in nodes for name in node.outputs}
    differs = {match.tensor_a: float(match.differs) for match in matched}
    for match in matched:
        if match.differs and not any(_errors_before(makers, makers[match.tensor_a], differs)):
            return match
    return None


def _unmatched(
    nodes: Sequence[SideNode], counterparts: Mapping[str, str], tensors: Tensors
) -> tuple[UnmatchedNode, ...]:
    """Nodes none of whose results is in a pair, with the reason. counterparts: the node of the
    other model by the tensor that is in a pair."""
    readers: dict[str, list[SideNode]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return tuple(
        UnmatchedNode(
            node=node.name,
            operator=node.operator,
            tensors=node.outputs,
            reason=_reason(node, readers, counterparts, tensors),
        )
        for node in nodes
        if not any(name in counterparts for name in node.outputs)
    )


def _reason(
    node: SideNode,
    readers: Mapping[str, Sequence[SideNode]],
    counterparts: Mapping[str, str],
    tensors: Tensors,
) -> str:
    seen = set(node.outputs)
    waiting = list(node.outputs)
    while waiting:
        for reader in readers.get(waiting.pop(0), ()):
            for name in reader.outputs:
                if name in counterparts:
                    return f"the other model computes it within {counterparts[name]}"
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
    if not any(name in tensors for name in node.outputs):
        return "its results are no real numbers"
    return "no tensor of the other model has these numbers or this place"
