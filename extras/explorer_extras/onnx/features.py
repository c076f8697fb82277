"""Preparation of features: thresholds, tables and scales of ONNX's domain for machine learning.

Reference: ONNX operators, ai.onnx.ml.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.importers.building.code_points import encoded, is_strings
from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported, LabeledRows, StringTensor
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer_extras.onnx.strings import is_equal, of_one_width
from explorer_extras.onnx.trees import DOMAIN


@converts("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(node: Node, build: Build) -> Expr:
    """Columns by number; a vector is one row."""
    x, indices = node.operand(0), node.operand(1)
    if x.rank == 1:
        x = x.unsqueeze([0])
    return build.value(GatherOp, [x, indices.reshape([-1])], axis=x.rank - 1)


@converts("Binarizer", domain=DOMAIN)
def binarizer(node: Node, build: Build) -> Expr:
    """1 above the threshold, 0 elsewhere."""
    x = node.operand(0)
    return (x > x.constant(node.number("threshold", 0.0))).astype(x.dtype)


@converts("Scaler", domain=DOMAIN)
def scaler(node: Node, build: Build) -> Expr:
    """(x - offset) * scale, one number for all columns or one each; of doubles in double
    precision."""
    x = node.operand(0)
    if x.dtype != np.float64:
        x = x.astype(np.float32)
    offset, scale = (
        build.weight(np.array(node.numbers(name) or (default,), x.dtype))
        for name, default in (("offset", 0.0), ("scale", 1.0))
    )
    return ((x - offset) * scale).astype(np.float32)


@converts("Normalizer", domain=DOMAIN)
def normalizer(node: Node, build: Build) -> Expr:
    """Rows over their norm: the greatest element, the sum of absolute values, or the length. Rows
    whose norm is 0 stay as they are."""
    x, norm = node.operand(0).astype(np.float32), node.text("norm", "MAX")
    last = [x.rank - 1]
    if norm == "MAX":
        size = x.max(last, keepdims=True)
    elif norm == "L1":
        size = abs(x).sum(last, keepdims=True)
    elif norm == "L2":
        squares = x.square().sum(last, keepdims=True)
        size = squares.sqrt()
    else:
        raise ValueError(f"norm {norm!r}; MAX, L1 or L2 expected")
    return x / where(size == 0.0, 1.0, size)


@converts("Imputer", domain=DOMAIN)
def imputer(node: Node, build: Build) -> Expr:
    """Elements that stand for a missing one become the number of their column."""
    x = node.operand(0)
    if x.is_float:
        numbers = node.numbers("imputed_value_floats")
        missing = node.number("replaced_value_float", 0.0)
    else:
        numbers = node.integers("imputed_value_int64s")
        missing = node.integer("replaced_value_int64", 0)
    columns = x.size(x.rank - 1)
    if not numbers or (len(numbers) > 1 and columns not in (None, len(numbers))):
        raise ValueError(f"{len(numbers or ())} numbers for the columns of {x.shape}")
    if np.isnan(missing):
        is_missing = x.is_nan()
    else:
        is_missing = x == build.weight(np.array(missing, x.dtype))
    return where(is_missing, build.weight(np.array(numbers, x.dtype)), x)


@converts("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(node: Node, build: Build) -> Expr:
    """Rows of several operands one after the other, each cut or filled up with zeros to its size.

    An operand of one dimension is one row.
    """
    sizes = node.integers("inputdimensions") or ()
    if len(sizes) != len(node.operands):
        raise ValueError(f"{len(sizes)} sizes for {len(node.operands)} operands")
    parts = []
    for index, size in enumerate(sizes):
        x = node.operand(index).astype(np.float32)
        x = x.reshape([1, -1]) if x.rank == 1 else x.reshape([x.dim(0), -1])
        (columns,) = x.sizes([1], "columns of features")
        x = x.slice(1, 0, min(size, columns))
        parts.append(x.pad([0, 0], [0, size - columns]) if size > columns else x)
    return build.concat(parts, 1)


@converts("ZipMap", domain=DOMAIN)
def zip_map(node: Node, build: Build) -> LabeledRows:
    """Rows of numbers as maps from labels to numbers; a vector is one row."""
    x, strings = node.operand(0), node.texts("classlabels_strings")
    numbers = node.integers("classlabels_int64s")
    if not strings and not numbers:
        raise ValueError("there are no labels")
    labels = np.array(strings, np.str_) if strings else np.array(numbers, np.int64)
    if x.rank == 1:
        x = x.unsqueeze([0])
    if x.rank != 2 or x.size(1) not in (None, labels.size):
        raise ValueError(f"{labels.size} labels for the columns of {x.shape}")
    return LabeledRows(x, build.contents(labels))


@converts("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(node: Node, build: Build) -> Expr:
    """1 where an element, cut to a whole number, is the category, one more axis for these.

    An element of no category has zeros, also where `zeros` is 0 and onnxruntime stops the run. Of
    equal categories the last one counts.
    """
    x, categories = node.operand(0), node.integers("cats_int64s") or ()
    if not categories:
        raise Unsupported("numbers, where the categories are strings")
    apart = x.astype(np.int64).unsqueeze([x.rank])
    found = apart == build.weight(np.array(categories, np.int64))
    return (found & build.weight(_is_last(categories))).astype(np.float32)


def _is_last(categories: Sequence[int | str]) -> np.ndarray:
    """Which of the categories no later one equals."""
    last = {category: place for place, category in enumerate(categories)}
    return np.array([last[category] == place for place, category in enumerate(categories)])


@converts("OneHotEncoder", domain=DOMAIN, on_strings=True)
def string_one_hot_encoder(node: Node, build: Build) -> Expr:
    """As of numbers, with categories that are strings."""
    codes, categories = node.strings(0), node.texts("cats_strings") or ()
    if not categories:
        raise Unsupported("strings, where the categories are numbers")
    known = build.weight(encoded(np.array(categories, np.str_), "categories"))
    apart = codes.unsqueeze([codes.rank - 1])
    apart, known = of_one_width([apart, known])
    return (is_equal(apart, known) & build.weight(_is_last(categories))).astype(np.float32)


@converts("LabelEncoder", domain=DOMAIN, since=2)
def label_encoder(node: Node, build: Build) -> Imported:
    """The value of the key that x equals, else the default. NaN is a key like any other."""
    x = node.operand(0)
    keys = _table(node, "keys").astype(x.dtype)
    apart = x.unsqueeze([x.rank])
    is_key = apart == build.weight(keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = apart.is_nan() & build.weight(np.isnan(keys))
        is_key = is_key | both
    return _labels(is_key, _table(node, "values"), node, build)


@converts("LabelEncoder", domain=DOMAIN, since=2, on_strings=True)
def string_label_encoder(node: Node, build: Build) -> Imported:
    """As of numbers, with keys that are strings."""
    is_key = _are_keys(node.strings(0), _table(node, "keys"), build)
    return _labels(is_key, _table(node, "values"), node, build)


@converts("CategoryMapper", domain=DOMAIN)
def category_mapper(node: Node, build: Build) -> Imported:
    """The string of a number, else the default. Of equal numbers the last one counts."""
    return _names(node, *_categories(node), build)


@converts("CategoryMapper", domain=DOMAIN, on_strings=True)
def string_category_mapper(node: Node, build: Build) -> Imported:
    """The number of a string."""
    return _numbers(node, *_categories(node), build)


@converts("LabelEncoder", domain=DOMAIN, until=1)
def first_label_encoder(node: Node, build: Build) -> Imported:
    """The category of a number, which counts the categories from 0."""
    return _names(node, *_classes(node), build)


@converts("LabelEncoder", domain=DOMAIN, until=1, on_strings=True)
def first_string_label_encoder(node: Node, build: Build) -> Imported:
    return _numbers(node, *_classes(node), build)


def _categories(node: Node) -> tuple[np.ndarray, np.ndarray]:
    return _reversed(node.integers("cats_int64s") or (), node.texts("cats_strings") or ())


def _classes(node: Node) -> tuple[np.ndarray, np.ndarray]:
    names = node.texts("classes_strings") or ()
    return _reversed(range(len(names)), names)


def _reversed(numbers: Sequence[int], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and their names from the last one to the first."""
    if not names or len(numbers) != len(names):
        raise ValueError("there are not as many numbers as strings")
    return np.array(numbers[::-1], np.int64), np.array(names[::-1], np.str_)


def _names(node: Node, numbers: np.ndarray, names: np.ndarray, build: Build) -> Imported:
    x = node.operand(0)
    return _labels(x.unsqueeze([x.rank]) == build.weight(numbers), names, node, build)


def _numbers(node: Node, numbers: np.ndarray, names: np.ndarray, build: Build) -> Imported:
    return _labels(_are_keys(node.strings(0), names, build), numbers, node, build)


def _are_keys(codes: Expr, keys: np.ndarray, build: Build) -> Expr:
    """(shape..., keys): which of the keys each string is."""
    known = build.weight(encoded(keys, "keys"))
    return is_equal(*of_one_width([codes.unsqueeze([codes.rank - 1]), known]))


def _labels(is_key: Expr, values: np.ndarray, node: Node, build: Build) -> Imported:
    """is_key: (shape..., keys) -> the value of the first key that is one, (shape...)."""
    last = is_key.rank - 1
    if is_key.shape[last] != values.size or not values.size:
        raise ValueError(f"{is_key.shape[last]} keys and {values.size} values")
    count = is_key.astype(np.int32)
    first = build.value(ArgOp, [count], kind="max", axis=last, keepdims=False, select_last=False)
    found = build.value(ReduceOp, [count], kind="max", axes=[last], keepdims=False)
    default = _default(node, values.dtype)
    if is_strings(values):
        # The default is one row more, behind all values.
        rows = build.weight(encoded(np.append(values, default), "values"))
        behind = build.weight(np.array(values.size, np.int64))
        first = where(found.astype(np.bool_), first, behind)
        return StringTensor(build.value(GatherOp, [rows, first], axis=0))
    chosen = build.value(GatherOp, [build.weight(values), first], axis=0)
    return where(found.astype(np.bool_), chosen, build.weight(default))


def _table(node: Node, name: str) -> np.ndarray:
    tensor = node.tensor(f"{name}_tensor") if f"{name}_tensor" in node.attributes else None
    if tensor is not None:
        return read_tensor(tensor, None).reshape(-1)
    integers, floats = node.attributes.get(f"{name}_int64s"), node.numbers(f"{name}_floats")
    if integers is not None:
        return np.array(node.integers(f"{name}_int64s"), np.int64)
    if floats is not None:
        return np.array(floats, np.float32)
    strings = node.texts(f"{name}_strings")
    if strings is None:
        raise ValueError(f"there are no {name}")
    return np.array(strings, np.str_)


def _default(node: Node, dtype: np.dtype) -> np.ndarray:
    tensor = node.tensor("default_tensor") if "default_tensor" in node.attributes else None
    if tensor is not None:
        default = read_tensor(tensor, None).reshape(())
        return default if is_strings(default) else default.astype(dtype)
    if dtype.kind == "U":
        return np.array(node.text("default_string", "_Unused"))
    if dtype.kind == "f":
        return np.array(node.number("default_float", -0.0), dtype)
    return np.array(node.integer("default_int64", -1), dtype)
