"""From scores to what classical models return: `post_transform`, and the label of a class.

    LOGISTIC       1 / (1 + exp(-x)) of each
    SOFTMAX        exp(x) over their sum along a row
    SOFTMAX_ZERO   the same over all that are not 0; a 0 stays one
    PROBIT         sqrt(2) * erf^-1(2 x - 1) of each

Two classes may be told by one score: then the other one's follows from it (`second_score`).
Reference: ONNX operators, ai.onnx.ml; onnxruntime, core/providers/cpu/ml/ml_common.h, which has
erf^-1 by Winitzki's approximation ("A handy approximation for the error function", 2008).
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.code_points import encoded
from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported
from explorer.importers.onnx.program.structures import Imported, StringTensor
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.normalization import SoftmaxOp

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
_NEARLY_ZERO = 1e-7
_A = 0.147
"""Of Winitzki's approximation."""
_PI = 3.14159
"""As onnxruntime has it."""


def transform_of(node: Node) -> str:
    name = node.text("post_transform", "NONE")
    if name not in TRANSFORMS:
        raise ValueError(f"post_transform {name!r}; one of {', '.join(TRANSFORMS)} expected")
    return name


def transformed(scores: Expr, transform: str, build: Build) -> Expr:
    """(rows, scores), two of them at least."""
    if transform == "LOGISTIC":
        return scores.sigmoid()
    if transform == "SOFTMAX":
        return build.value(SoftmaxOp, [scores], axis=1, logarithm=False)
    if transform == "SOFTMAX_ZERO":
        return _softmax_zero(scores)
    return probit(scores) if transform == "PROBIT" else scores


def of_targets(values: Expr, transform: str, build: Build) -> Expr:
    """(rows, targets) of a regression. Of a single one onnxruntime takes nothing but PROBIT."""
    if values.size(1) != 1:
        return transformed(values, transform, build)
    return probit(values) if transform == "PROBIT" else values


def second_score(score: Expr, transform: str, is_share: bool, build: Build) -> Expr:
    """(rows, 1) of the second class -> (rows, 2). is_share: of a score between 0 and 1 the rest
    belongs to the first class; else it has the negative."""
    if transform == "PROBIT":
        raise Unsupported("post_transform PROBIT of one score for two classes")
    if transform == "LOGISTIC":
        sides = [-score, score]
        return build.concat([side.sigmoid() for side in sides], 1)
    one = score.constant(1.0)
    first = one - score if is_share else -score
    return build.concat([first, score], 1)


def probit(x: Expr) -> Expr:
    def number(value: float) -> Expr:
        return x.constant(value)

    y = x * 2.0 - number(1.0)
    product = (number(1.0) - y) * (number(1.0) + y)
    logarithm = product.log()
    half = logarithm * 0.5 + number(2 / (_PI * _A))
    under = half * half - logarithm.scaled(1 / _A)
    size = (under.sqrt() - half).sqrt()
    return where(y < number(0.0), -size, size) * 2**0.5


def _softmax_zero(x: Expr) -> Expr:
    greatest = x.max([1], keepdims=True)
    powers = (x - greatest).exp()
    threshold = x.constant(_NEARLY_ZERO)
    is_zero = abs(x) <= threshold
    total = where(is_zero, 0.0, powers).sum([1], keepdims=True)
    return where(is_zero, x * (-greatest).exp(), powers) / total


def labels_of(node: Node, integers: str) -> np.ndarray:
    """The labels of all classes, integers under that attribute or strings."""
    strings, numbers = node.texts("classlabels_strings"), node.integers(integers)
    if not strings and not numbers:
        raise ValueError("there are no labels")
    return np.array(strings, np.str_) if strings else np.array(numbers, np.int64)


def chosen(index: Expr, labels: np.ndarray, build: Build) -> Imported:
    """The labels at positions (rows)."""
    if labels.dtype.kind == "U":
        return StringTensor(build.value(GatherOp, [build.weight(encoded(labels)), index], axis=0))
    return build.value(GatherOp, [build.weight(labels), index], axis=0)


def greatest(scores: Expr, build: Build) -> Expr:
    """The first position (rows) of the greatest of each row."""
    return build.value(ArgOp, [scores], kind="max", axis=1, keepdims=False, select_last=False)


def greatest_number(scores: Expr, build: Build) -> Expr:
    """The same where NaN is greater than no number and, at position 0, less than none, as in a
    loop that begins with the first score."""
    stands = np.full((1, scores.sizes([1], "scores")[0]), -np.inf, scores.dtype)
    stands[:, :1] = np.inf
    return greatest(where(scores.is_nan(), build.weight(stands), scores), build)


def above(scores: Expr, threshold: float) -> Expr:
    """(rows, 1) -> (rows): 1 where the score is above, else 0."""
    return (scores.squeeze([1]) > threshold).astype(np.int64)


def rows_of(node: Node, keeps_double: bool = False) -> Expr:
    """(rows, features) as floats; a vector is one row."""
    x = node.operand(0)
    if not (keeps_double and x.dtype == np.float64):
        x = x.astype(np.float32)
    return x.unsqueeze([0]) if x.rank == 1 else x
