"""Ensembles of decision trees, walked level by level in all trees at once.

    node = roots                                    one per row of x and tree
    node = x[feature[node]] <= split[node] ? yes[node] : no[node]      once per level
    y = sum over trees of weight[node]

Leaves are nodes behind the others that lead to themselves, so that trees may differ in depth.
Reference: ONNX operators, TreeEnsemble (ai.onnx.ml 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explorer.importers.building.expr import Expr, where
from explorer.importers.building.limits import check_size
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.indexing import GatherElementsOp, GatherOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp

DOMAIN = "ai.onnx.ml"
COMPARISONS = ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal")
MEMBER = 6
AGGREGATES = ("mean", "sum", "min", "max")


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Arrays by node, the leaves last; members: for each node the set that a value may be in."""

    roots: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    missing_is_yes: np.ndarray
    table: np.ndarray
    """(nodes, targets): what a leaf says of each."""
    says: np.ndarray
    """(nodes, targets): whether it says anything."""
    members: np.ndarray

    def depth(self) -> int:
        """Levels until every tree is at a leaf; ValueError for a node that leads to itself."""
        level, present = 0, np.unique(self.roots)
        inner = len(self.modes)
        while (present < inner).any():
            if level > inner:
                raise ValueError("the nodes of a tree lead in a circle")
            walked = present[present < inner]
            present = np.unique(np.concatenate([self.yes[walked], self.no[walked]]))
            level += 1
        return level


@converts("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    targets = node.integer("n_targets", 1)
    forest = _read(node, x.dtype, targets)
    reached = reached_leaves(x, forest, build)
    aggregate = node.integer("aggregate_function", 1)
    if not 0 <= aggregate < len(AGGREGATES):
        raise ValueError(f"aggregate_function is {aggregate}; 0 to 3 expected")
    total = aggregated(reached, forest, AGGREGATES[aggregate], build)
    return _transformed(total, node.integer("post_transform", 0), build)


def reached_leaves(x: Expr, forest: Forest, build: Build) -> Expr:
    """(rows, trees): the leaf that each row comes to in each tree."""
    reached = build.weight(forest.roots[np.newaxis]).broadcast_to([x.dim(0), len(forest.roots)])
    for _ in range(forest.depth()):
        reached = _next(x, reached, forest, build)
    return reached


def _read(node: Node, dtype: np.dtype, count: int) -> Forest:
    """The attributes, checked: every index is one of an array's."""
    features, yes, no, yes_leaf, no_leaf, roots, targets = (
        np.array(node.integers(name) or (), np.int64)
        for name in (
            "nodes_featureids",
            "nodes_truenodeids",
            "nodes_falsenodeids",
            "nodes_trueleafs",
            "nodes_falseleafs",
            "tree_roots",
            "leaf_targetids",
        )
    )
    splits, weights = _array(node, "nodes_splits"), _array(node, "leaf_weights")
    modes = _array(node, "nodes_modes").astype(np.int64)
    tracks = node.integers("nodes_missing_value_tracks_true") or (0,) * len(modes)
    inner, leaves = len(modes), len(weights)
    lengths = {len(a) for a in (features, yes, no, yes_leaf, no_leaf, splits, tracks)}
    if lengths != {inner} or len(targets) != leaves or not len(roots):
        raise ValueError("the lists of a tree ensemble do not have the same length")
    yes, no = yes + inner * (yes_leaf != 0), no + inner * (no_leaf != 0)
    checks = ((roots, inner), (yes, inner + leaves), (no, inner + leaves), (modes, MEMBER + 1))
    if any((a < 0).any() or (a >= limit).any() for a, limit in (*checks, (features, 2**31))):
        raise ValueError("an index of a tree ensemble is out of range")
    if ((targets < 0) | (targets >= count)).any():
        raise ValueError(f"a leaf is for none of the {count} targets")
    own, zeros = np.arange(inner, inner + leaves), np.zeros(leaves)
    table, says = empty_tables(inner + leaves, count, dtype)
    table[own, targets], says[own, targets] = weights.astype(dtype), True
    return Forest(
        roots=roots,
        features=np.concatenate([features, zeros.astype(np.int64)]),
        splits=np.concatenate([splits, zeros]).astype(dtype),
        modes=modes,
        yes=np.concatenate([yes, own]),
        no=np.concatenate([no, own]),
        missing_is_yes=np.concatenate([np.array(tracks, bool), zeros.astype(bool)]),
        table=table,
        says=says,
        members=_members(node, modes, leaves, dtype),
    )


def empty_tables(nodes: int, count: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """`Forest.table` and `Forest.says` before anything is said."""
    check_size([nodes, max(count, 0)], dtype.itemsize + 1, "what the leaves of the trees say")
    return np.zeros((nodes, count), dtype), np.zeros((nodes, count), bool)


def _members(node: Node, modes: np.ndarray, leaves: int, dtype: np.dtype) -> np.ndarray:
    """One row per node: its set, filled up with NaN, which is equal to nothing.

    The sets stand one behind the other in `membership_values`, each ended by a NaN.
    """
    holders = np.flatnonzero(modes == MEMBER)
    if not len(holders):
        return np.zeros((0, 0), dtype)
    values = _array(node, "membership_values").astype(dtype)
    ends = np.flatnonzero(np.isnan(values))
    sets = np.split(values, ends + 1)[: len(holders)]
    if len(ends) < len(holders):
        raise ValueError(f"{len(ends)} sets of members for {len(holders)} nodes")
    table = np.full((len(modes) + leaves, max(len(s) for s in sets)), np.nan, dtype)
    for holder, members in zip(holders, sets, strict=True):
        table[holder, : len(members)] = members
    return table


def _array(node: Node, name: str) -> np.ndarray:
    tensor = node.tensor(name)
    if tensor is None:
        raise ValueError(f"attribute {name} is missing")
    return read_tensor(tensor, None).reshape(-1)


def _next(x: Expr, reached: Expr, forest: Forest, build: Build) -> Expr:
    """The nodes one level below."""

    def of(array: np.ndarray) -> Expr:
        return build.value(GatherOp, [build.weight(array), reached], axis=0)

    value = build.value(GatherElementsOp, [x, of(forest.features)], axis=1)
    modes = np.concatenate([forest.modes, np.zeros(len(forest.yes) - len(forest.modes), np.int64)])
    chosen: Expr | None = None
    for mode in np.unique(forest.modes):
        holds = _holds(int(mode), value, of, forest, build)
        chosen = (
            holds if chosen is None else build.value(SelectOp, [of(modes == mode), holds, chosen])
        )
    assert chosen is not None
    if forest.missing_is_yes.any():
        missing = value.is_nan() & of(forest.missing_is_yes)
        chosen = chosen | missing
    return build.value(SelectOp, [chosen, of(forest.yes), of(forest.no)])


def _holds(
    mode: int, value: Expr, of: Callable[[np.ndarray], Expr], forest: Forest, build: Build
) -> Expr:
    """Whether the nodes' condition of one mode holds."""
    if mode == MEMBER:
        equal = value.unsqueeze([2]) == of(forest.members)
        count = equal.astype(np.int32)
        found = build.value(ReduceOp, [count], kind="max", axes=[2], keepdims=False)
        return found.astype(np.bool_)
    split = of(forest.splits)
    if COMPARISONS[mode] == "not_equal":
        return ~(value == split)
    return value.binary(COMPARISONS[mode], split)


def aggregated(reached: Expr, forest: Forest, kind: str, build: Build) -> Expr:
    """(rows, targets): what the trees say of each target together; 0 where none says anything."""
    weight = build.value(GatherOp, [build.weight(forest.table), reached], axis=0)
    if kind in ("sum", "mean"):
        return weight.reduce(kind, [1])
    neutral = weight.constant(np.inf if kind == "min" else -np.inf)
    if not forest.says[len(forest.modes) :].all():
        says = build.value(GatherOp, [build.weight(forest.says), reached], axis=0)
        weight = where(says, weight, neutral)
    total = weight.reduce(kind, [1])
    return where(total == neutral, 0.0, total)


def has_spoken(reached: Expr, forest: Forest, build: Build) -> Expr:
    """(rows, targets): whether any tree says something of the target."""
    says = build.value(GatherOp, [build.weight(forest.says.astype(np.int32)), reached], axis=0)
    return says.max([1]).astype(np.bool_)


def _transformed(x: Expr, transform: int, build: Build) -> Expr:
    """NONE, SOFTMAX and LOGISTIC."""
    if transform == 0:
        return x
    if transform == 1:
        return build.value(SoftmaxOp, [x], axis=1, logarithm=False)
    if transform == 2:
        return x.sigmoid()
    raise Unsupported(f"post_transform {transform} (SOFTMAX_ZERO and PROBIT)")
