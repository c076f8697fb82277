"""Tree ensembles as they were before ai.onnx.ml 5: all nodes of all trees in lists.

    nodes_treeids, nodes_nodeids          which node of which tree
    nodes_modes                           BRANCH_LEQ ... BRANCH_NEQ, or LEAF
    class_treeids, class_nodeids, class_ids, class_weights       what leaves say of classes

They become the `Forest` of `trees.py`. Of two classes one alone may have weights: then the other's
score follows, in a way that depends on whether weights are shares (none negative).
Reference: ONNX operators, TreeEnsembleClassifier and -Regressor (ai.onnx.ml 3); where they leave
something open, onnxruntime, core/providers/cpu/ml/tree_ensemble_aggregator.h.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported
from explorer_extras.onnx import scores
from explorer_extras.onnx.trees import (
    Forest,
    aggregated,
    empty_tables,
    has_spoken,
    reached_leaves,
)

MODES = {
    "BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
}  # fmt: skip
LEAF = "LEAF"
AGGREGATES = {"SUM": "sum", "AVERAGE": "mean", "MIN": "min", "MAX": "max"}


@converts("TreeEnsembleRegressor", domain=scores.DOMAIN, until=4)
def tree_ensemble_regressor(node: Node, build: Build) -> Expr:
    """What the leaves of all trees say of each target, together."""
    x, targets = scores.rows_of(node, keeps_double=True), node.integer("n_targets", 1)
    name = node.text("aggregate_function", "SUM")
    if name not in AGGREGATES:
        raise ValueError(f"aggregate_function {name!r}; one of {', '.join(AGGREGATES)} expected")
    forest = _forest(node, "target", targets, x.dtype)
    total = aggregated(reached_leaves(x, forest, build), forest, AGGREGATES[name], build)
    base = _base(node, x.dtype)
    if base.size not in (0, targets):
        raise ValueError(f"{base.size} base values for {targets} targets")
    if base.size:
        total = total + build.weight(base)
    return scores.of_targets(total, scores.transform_of(node), build).astype(np.float32)


@converts("TreeEnsembleClassifier", domain=scores.DOMAIN, until=4)
def tree_ensemble_classifier(node: Node, build: Build) -> list[Imported]:
    """Labels, and what the leaves of all trees say of each class, together."""
    x, transform = scores.rows_of(node, keeps_double=True), scores.transform_of(node)
    labels = scores.labels_of(node, "classlabels_int64s")
    if labels.size < 2:
        raise Unsupported("a single class")
    forest = _forest(node, "class", labels.size, x.dtype)
    reached = reached_leaves(x, forest, build)
    total = aggregated(reached, forest, "sum", build)
    base = _base(node, x.dtype)
    if labels.size == 2:
        index, values, labels = _of_two(total, forest, base, transform, labels, build)
    else:
        index, values = _of_many(total, reached, forest, base, build)
        values = scores.transformed(values, transform, build)
    return [scores.chosen(index, labels, build), values.astype(np.float32)]


def _of_many(
    total: Expr, reached: Expr, forest: Forest, base: np.ndarray, build: Build
) -> tuple[Expr, Expr]:
    """The class that wins and all scores. Without base values one that no leaf speaks of cannot."""
    count = forest.says.shape[1]
    if base.size not in (0, count):
        raise ValueError(f"{base.size} base values for {count} classes")
    if base.size:
        total = total + build.weight(base)
        return scores.greatest(total, build), total
    never = total.constant(-np.inf)
    spoken = where(has_spoken(reached, forest, build), total, never)
    return scores.greatest(spoken, build), total


def _of_two(
    total: Expr,
    forest: Forest,
    base: np.ndarray,
    transform: str,
    labels: np.ndarray,
    build: Build,
) -> tuple[Expr, Expr, np.ndarray]:
    """Which of two classes, its scores, and the labels to choose from."""
    has = [_always_says(forest, index) for index in (0, 1)]
    columns = [total.slice(1, index, index + 1) for index in (0, 1)]
    nothing = build.weight(np.zeros((1, 1), total.dtype))
    zero = nothing.broadcast_to([total.dim(0), 1])
    is_one, is_share = sum(has) == 1, bool((forest.table >= 0).all())
    numbers = [total.constant(float(value)) for value in base]
    if not is_one and labels.dtype.kind != "U":
        labels = np.arange(2)  # onnxruntime's labels of two classes that both have weights
    threshold = 0.5 if is_one and is_share else 0.0
    if base.size > 2:
        raise ValueError(f"{base.size} base values for 2 classes")
    if base.size and has[0]:
        columns[0] = columns[0] + numbers[0]
    if has[1] and base.size == 2:
        raw = total.slice(1, 0, 1)
        columns[1] = raw + numbers[1]
        columns[0] = -columns[1] if has[0] else zero
    decides = columns[1] if has[1] else columns[0]
    index = scores.above(decides, threshold)
    if not has[1] and base.size < 2:
        return index, scores.second_score(columns[0], transform, is_share, build), labels
    both = build.concat([columns[0], columns[1] if has[1] else zero], 1)
    return index, scores.transformed(both, transform, build), labels


def _always_says(forest: Forest, index: int) -> bool:
    """Whether every row gets a score of a class; Unsupported where that depends on the row."""
    inner = len(forest.modes)
    said = forest.says[inner:, index]
    if said.all() or not said.any():
        return bool(said.any())
    raise Unsupported("two classes of which some leaves name only one: runtimes differ there")


def _forest(node: Node, kind: str, count: int, dtype: np.dtype) -> Forest:
    """The attributes, checked. `kind` of what leaves speak: class or target."""
    tree_ids, node_ids, features, yes, no = (
        _integers(node, f"nodes_{name}")
        for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    )
    modes = node.texts("nodes_modes") or ()
    splits = _numbers(node, "nodes_values", dtype)
    tracks = node.integers("nodes_missing_value_tracks_true") or (0,) * len(modes)
    lengths = {len(a) for a in (tree_ids, node_ids, features, yes, no, modes, splits, tracks)}
    if len(lengths) != 1 or not modes:
        raise ValueError("the lists of a tree ensemble do not have the same length")
    unknown = sorted(set(modes) - MODES.keys() - {LEAF})
    if unknown:
        raise Unsupported(f"nodes of mode {unknown[0]}")
    is_leaf = np.array([mode == LEAF for mode in modes])
    order = np.argsort(is_leaf, kind="stable")  # leaves behind the others
    inner = int((~is_leaf).sum())
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    places = dict(zip(zip(tree_ids.tolist(), node_ids.tolist(), strict=True), place.tolist(),
                      strict=True))  # fmt: skip
    if len(places) != len(modes):
        raise ValueError("a node of a tree ensemble stands there twice")

    def follow(ids: np.ndarray) -> np.ndarray:
        """Where branches lead; leaves lead to themselves."""
        wanted = zip(tree_ids[order[:inner]].tolist(), ids[order[:inner]].tolist(), strict=True)
        return np.array([_found(places, key) for key in wanted] + list(range(inner, len(order))))

    trees = dict.fromkeys(tree_ids.tolist())
    table, says = _spoken(node, kind, count, places, dtype)
    chosen = [MODES[modes[index]] for index in order[:inner]]
    return Forest(
        roots=_roots(trees, tree_ids, order, place, follow(yes), follow(no), inner),
        features=np.where(is_leaf, 0, features)[order],
        splits=np.where(is_leaf, 0, splits)[order].astype(dtype),
        modes=np.array(chosen, np.int64),
        yes=follow(yes),
        no=follow(no),
        missing_is_yes=np.array(tracks, bool)[order] & ~is_leaf[order],
        table=table,
        says=says,
        members=np.zeros((0, 0), dtype),
    )


def _roots(
    trees: dict[int, None],
    tree_ids: np.ndarray,
    order: np.ndarray,
    place: np.ndarray,
    yes: np.ndarray,
    no: np.ndarray,
    inner: int,
) -> np.ndarray:
    """Of each tree the node that no branch leads to."""
    led_to = np.zeros(len(order), bool)
    led_to[yes[:inner]] = led_to[no[:inner]] = True
    roots = []
    for tree in trees:
        own = place[np.flatnonzero(tree_ids == tree)]
        first = own[~led_to[own]]
        if len(first) != 1:
            raise ValueError(f"tree {tree} has {len(first)} roots")
        roots.append(int(first[0]))
    return np.array(roots, np.int64)


def _spoken(
    node: Node, kind: str, count: int, places: dict[tuple[int, int], int], dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """`Forest.table` and `Forest.says`."""
    tree_ids, node_ids, ids = (
        _integers(node, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids")
    )
    weights = _numbers(node, f"{kind}_weights", dtype)
    if len({len(a) for a in (tree_ids, node_ids, ids, weights)}) != 1 or not len(ids):
        raise ValueError(f"the lists of {kind} weights do not have the same length")
    if ((ids < 0) | (ids >= count)).any():
        raise ValueError(f"a weight is for none of {count}")
    table, says = empty_tables(len(places), count, dtype)
    keys = zip(tree_ids.tolist(), node_ids.tolist(), strict=True)
    rows = np.array([_found(places, key) for key in keys])
    np.add.at(table, (rows, ids), weights)
    says[rows, ids] = True
    return table, says


def _found(places: dict[tuple[int, int], int], key: tuple[int, int]) -> int:
    if key not in places:
        raise ValueError(f"tree {key[0]} has no node {key[1]}")
    return places[key]


def _integers(node: Node, name: str) -> np.ndarray:
    return np.array(node.integers(name) or (), np.int64)


def _numbers(node: Node, name: str, dtype: np.dtype) -> np.ndarray:
    tensor = node.tensor(f"{name}_as_tensor") if f"{name}_as_tensor" in node.attributes else None
    if tensor is not None:
        return read_tensor(tensor, None).reshape(-1).astype(dtype)
    return np.array(node.numbers(name) or (), np.float32).astype(dtype)


def _base(node: Node, dtype: np.dtype) -> np.ndarray:
    return _numbers(node, "base_values", dtype)
