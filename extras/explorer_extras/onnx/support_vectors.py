"""Support vector machines of ONNX's domain for machine learning, as scikit-learn exports them.

    k = kernel(x, vectors)                     (rows, vectors): LINEAR, POLY, RBF or SIGMOID
    SVMRegressor     y = k · coefficients + rho
    SVMClassifier    one such score for each pair of classes; the class that wins most pairs
                     without vectors: x · coefficients^T + rho, a score for each class

With `prob_a` and `prob_b` the scores of pairs become probabilities of classes: Wu, Lin and Weng,
"Probability Estimates for Multi-class Classification by Pairwise Coupling", 2004, method 2.
Reference: ONNX operators, ai.onnx.ml 1; where they leave something open, onnxruntime,
core/providers/cpu/ml/svmclassifier.cc, svmregressor.cc and ml_common.h.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from xdsl.dialects.builtin import i1, i64

from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported
from explorer.ir.types import tensor_type
from explorer_extras.onnx import scores

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
MIN_PROBABILITY = 1e-7
COUPLING_STEPS = 100
COUPLING_ERROR = 0.005
"""Of which one over the number of classes ends the iteration."""
MAX_COUPLED_CLASSES = 64
"""Classes; each has operations of its own in a step."""


@converts("SVMRegressor", domain=scores.DOMAIN)
def svm_regressor(node: Node, build: Build) -> Expr:
    """k · coefficients + rho, or of a single class whether that is above 0, as 1 and -1.

    onnxruntime does not look at `post_transform`.
    """
    x, rho = scores.rows_of(node), _numbers(node, "rho", 1)
    coefficients = _numbers(node, "coefficients", 1)
    count = node.integer("n_supports", 0)
    kernels = x
    if count > 0:
        kernels = _kernels(x, node, count, build)
    elif x.size(1) not in (None, coefficients.size):
        raise ValueError(f"{coefficients.size} coefficients for the columns of {x.shape}")
    if count > 0 and coefficients.size != count:
        raise ValueError(f"{coefficients.size} coefficients for {count} vectors")
    y = build.matmul(kernels, build.weight(coefficients.reshape(-1, 1)), build.weight(rho[:1]))
    if not node.integer("one_class", 0):
        return y
    return where(y > 0.0, y.constant(1.0), -1.0)


@converts("SVMClassifier", domain=scores.DOMAIN)
def svm_classifier(node: Node, build: Build) -> list[Imported]:
    """Labels, and scores: of classes, or of pairs where there are vectors and no probabilities."""
    x, transform = scores.rows_of(node), scores.transform_of(node)
    labels = scores.labels_of(node, "classlabels_ints")
    per_class = node.integers("vectors_per_class") or ()
    if sum(per_class) <= 0:
        return _linear(x, node, labels, transform, build)
    if len(per_class) != labels.size:
        raise ValueError(f"vectors of {len(per_class)} classes and {labels.size} labels")
    if labels.size < 2:
        raise Unsupported("a single class")
    values, precise = _pair_scores(x, node, per_class, build)
    index = _winner(precise, labels.size, build)
    chosen = scores.chosen(index, labels, build)
    if node.numbers("prob_a"):
        shares = _coupled(_pair_shares(values, node, build), labels.size, build)
        return [chosen, scores.transformed(shares, transform, build)]
    if labels.size > 2:
        return [chosen, scores.transformed(values, transform, build)]
    # onnxruntime takes the score for a share where it has any transformation.
    return [chosen, scores.second_score(values, transform, transform != "NONE", build)]


def _linear(
    x: Expr, node: Node, labels: np.ndarray, transform: str, build: Build
) -> list[Imported]:
    """A score of each class; of two the second wins above 0, or 1/2 where no weight is negative."""
    coefficients = _numbers(node, "coefficients", labels.size)
    if coefficients.size % labels.size:
        raise ValueError(f"{coefficients.size} coefficients for {labels.size} classes")
    rows = coefficients.reshape(labels.size, -1)
    if x.size(1) not in (None, rows.shape[1]):
        raise ValueError(f"{rows.shape[1]} coefficients for the columns of {x.shape}")
    values = x @ build.weight(np.ascontiguousarray(rows.T))
    values = values + build.weight(_numbers(node, "rho", 1)[:1])
    index = scores.greatest(values, build)
    if labels.size == 2 and not node.numbers("prob_a"):
        index = _with_threshold(index, values, bool((coefficients >= 0).all()))
    if labels.size > 1:
        values = scores.transformed(values, transform, build)
    elif transform == "PROBIT":
        values = scores.probit(values)
    return [scores.chosen(index, labels, build), values]


def _with_threshold(index: Expr, values: Expr, is_share: bool) -> Expr:
    """The second class where the greatest score is high enough, else the class that has it."""
    greatest = values.max([1], keepdims=False)
    kind, threshold = ("greater_equal", 0.5) if is_share else ("greater", 0.0)
    return where(greatest.binary(kind, threshold), 1, index)


# -- kernels and pairs -----------------------------------------------------------------------------


def _kernels(x: Expr, node: Node, count: int, build: Build) -> Expr:
    """The kernel of each row and each vector, (rows, vectors)."""
    vectors = _numbers(node, "support_vectors", count)
    if vectors.size % count:
        raise ValueError(f"{vectors.size} numbers for {count} vectors")
    vectors = vectors.reshape(count, -1)
    if x.size(1) not in (None, vectors.shape[1]):
        raise ValueError(f"vectors of {vectors.shape[1]} for the columns of {x.shape}")
    kind = node.text("kernel_type", "LINEAR")
    if kind not in KERNELS:
        raise ValueError(f"kernel_type {kind!r}; one of {', '.join(KERNELS)} expected")
    given = (node.numbers("kernel_params") or (0.0, 0.0, 0.0)) + (0.0, 0.0)
    gamma, offset, degree = (float(np.float32(number)) for number in given[:3])
    if kind == "RBF":
        apart = x.unsqueeze([1]) - build.weight(vectors)
        return apart.square().sum([2], keepdims=False).scaled(-gamma).exp()
    product = x @ build.weight(np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return product
    moved = product.scaled(gamma) + offset
    if kind == "SIGMOID":
        return moved.tanh()
    if degree not in (2.0, 3.0):
        return moved**degree
    square = moved * moved
    return square if degree == 2.0 else square * moved


def _pair_scores(
    x: Expr, node: Node, per_class: tuple[int, ...], build: Build
) -> tuple[Expr, Expr]:
    """(rows, pairs) as singles, and as the doubles that are compared with 0.

    Row j - 1 of the coefficients has those of class i against a later class j, row i those of class
    j against an earlier i.
    """
    classes, count = len(per_class), sum(per_class)
    kernels = _kernels(x, node, count, build).astype(np.float64)
    coefficients = _numbers(node, "coefficients", (classes - 1) * count)
    coefficients = coefficients[: (classes - 1) * count].reshape(classes - 1, count)
    pairs = list(combinations(range(classes), 2))
    ends = np.cumsum((0, *per_class))
    table = np.zeros((count, len(pairs)))
    for pair, (i, j) in enumerate(pairs):
        table[ends[i] : ends[i + 1], pair] = coefficients[j - 1, ends[i] : ends[i + 1]]
        table[ends[j] : ends[j + 1], pair] = coefficients[i, ends[j] : ends[j + 1]]
    rho = _numbers(node, "rho", len(pairs))[: len(pairs)].astype(np.float64)
    precise = build.matmul(kernels, build.weight(table), build.weight(rho))
    return precise.astype(np.float32), precise


def _winner(values: Expr, classes: int, build: Build) -> Expr:
    """The first class (rows) of those that win most pairs; the later one wins at 0."""
    pairs = list(combinations(range(classes), 2))
    votes = np.zeros((2, len(pairs), classes), np.float32)
    for pair, (i, j) in enumerate(pairs):
        votes[0, pair, i] = votes[1, pair, j] = 1
    wins = values > 0.0
    first = wins.astype(np.float32)
    second = (~wins).astype(np.float32)
    counts = first @ build.weight(votes[0]) + second @ build.weight(votes[1])
    return scores.greatest(counts, build)


# -- probabilities ---------------------------------------------------------------------------------


def _pair_shares(values: Expr, node: Node, build: Build) -> Expr:
    """The probability (rows, pairs) of the first of two classes, never quite 0 or 1."""
    pairs = values.sizes([1], "pairs of classes")[0]
    slopes, offsets = (_numbers(node, name, pairs)[:pairs] for name in ("prob_a", "prob_b"))
    moved = values * build.weight(slopes) + build.weight(offsets)
    return (1.0 - moved.sigmoid()).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)


def _coupled(shares: Expr, classes: int, build: Build) -> Expr:
    """Probabilities (rows, classes) that fit those of the pairs best.

    Each step minimizes p^T Q p in one p after the other; a row whose error is small stays.
    """
    if classes > MAX_COUPLED_CLASSES:
        raise Unsupported(f"probabilities of {classes} classes")
    q, diagonal = _quadratic_form(shares, classes, build)
    first = diagonal.slice(1, 0, classes) * 0.0 + build.weight(
        np.full((1, classes), 1 / classes, np.float32)
    )
    with build.inside([tensor_type(i64, ()), tensor_type(i1, ()), first.type]) as block:
        p = build.arguments(block)[2]
        p.value.name_hint = "p"
        gradient = (q @ p.unsqueeze([2])).squeeze([2])
        energy = (p * gradient).sum([1], keepdims=True)
        errors = abs(gradient - energy)
        limit = errors.constant(float(np.float32(COUPLING_ERROR) / np.float32(classes)))
        error = errors.max([1], keepdims=True)
        goes_on = ~(error < limit)
        moved = _coupling_step(p, gradient, energy, q, diagonal, build)
        following = where(goes_on, moved, p)
        any_goes_on = goes_on.max([0, 1], keepdims=False)
        body = build.end(block, [any_goes_on, following])
    condition = build.weight(np.array(True))
    return build.loop(body, [first], trip_count=COUPLING_STEPS, condition=condition)[0]


def _quadratic_form(shares: Expr, classes: int, build: Build) -> tuple[Expr, Expr]:
    """Q (rows, classes, classes) and its diagonal (rows, classes).

    With r[i, j] the probability of i against j: Q[i, j] = -r[j, i] r[i, j], and Q[i, i] is the sum
    of all r[j, i]^2.
    """
    pairs = list(combinations(range(classes), 2))
    rest = 1.0 - shares
    nothing = shares.slice(1, 0, 1) * 0.0
    columns = build.concat([shares, rest, nothing], 1)
    places = np.full((classes, classes), 2 * len(pairs))
    for pair, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = pair, len(pairs) + pair
    against, turned = (columns.take(grid, 1) for grid in (places, places.T))
    diagonal = against.square().sum([1], keepdims=False)
    own = diagonal.unsqueeze([1]) * build.weight(np.eye(classes, dtype="f4"))
    return own - against * turned, diagonal


def _coupling_step(
    p: Expr,
    gradient: Expr,
    energy: Expr,
    q: Expr,
    diagonal: Expr,
    build: Build,
) -> Expr:
    """p after one step in each of the classes; gradient: Q p; energy: p^T Q p."""
    classes = p.sizes([1], "classes")[0]
    for index in range(classes):
        own, slope = (x.slice(1, index, index + 1) for x in (diagonal, gradient))
        row = q.slice(1, index, index + 1).squeeze([1])
        step = (energy - slope) / own
        total = step + 1.0
        gain = step * own + slope * 2.0
        energy = (energy + step * gain) / total / total
        gradient = (gradient + step * row) / total
        unit = build.weight(np.eye(1, classes, index, dtype=np.float32))
        p = (p + step * unit) / total
    return p


def _numbers(node: Node, name: str, least: int) -> np.ndarray:
    """An attribute of at least so many floats."""
    found = np.array(node.numbers(name) or (), np.float32)
    if found.size < least:
        raise ValueError(f"{found.size} numbers in {name}; {least} expected")
    return found
