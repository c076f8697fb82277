"""Linear models of ONNX's domain for machine learning, as scikit-learn's exports have them.

    LinearRegressor    y = x · coefficients^T + intercepts
    LinearClassifier   the same as scores of the classes; the label is that of the greatest

Reference: ONNX operators, ai.onnx.ml 1.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.importers.onnx.program.structures import Imported
from explorer_extras.onnx import scores


@converts("LinearRegressor", domain=scores.DOMAIN)
def linear_regressor(node: Node, build: Build) -> Expr:
    """x · coefficients^T + intercepts, one column for each target."""
    x = scores.rows_of(node)
    targets = node.integer("targets", 1)
    values = _products(x, node, targets, node.numbers("intercepts"), build)
    return scores.of_targets(values, scores.transform_of(node), build)


@converts("LinearClassifier", domain=scores.DOMAIN)
def linear_classifier(node: Node, build: Build) -> list[Imported]:
    """Labels, and scores of all classes. One score tells two classes by its sign."""
    x, transform = scores.rows_of(node), scores.transform_of(node)
    intercepts = node.numbers("intercepts")
    labels = scores.labels_of(node, "classlabels_ints")
    if not intercepts:
        raise ValueError("there are no intercepts, one for each class")
    count = len(intercepts)
    if len(labels) != (2 if count == 1 else count):
        raise ValueError(f"{len(labels)} labels for {count} scores")
    values = _products(x, node, count, intercepts, build)
    if count > 1:
        index = scores.greatest_number(values, build)
        return [scores.chosen(index, labels, build), scores.transformed(values, transform, build)]
    index = scores.above(values, 0.0)
    both = scores.second_score(values, transform, True, build)
    return [scores.chosen(index, labels, build), both]


def _products(
    x: Expr, node: Node, columns: int, intercepts: tuple[float, ...] | None, build: Build
) -> Expr:
    """(rows, columns)"""
    coefficients = np.array(node.numbers("coefficients") or (), np.float32)
    if columns < 1 or not coefficients.size or coefficients.size % columns:
        raise ValueError(f"{coefficients.size} coefficients for {columns} columns")
    if intercepts and len(intercepts) != columns:
        raise ValueError(f"{len(intercepts)} intercepts for {columns} columns")
    weight = build.weight(np.ascontiguousarray(coefficients.reshape(columns, -1).T))
    bias = build.weight(np.array(intercepts, np.float32)) if intercepts else None
    return build.matmul(x, weight, bias)
