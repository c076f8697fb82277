"""Classic machine learning on tables (domain ai.onnx.ml)."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from verification.random_models.draft import Draft, NotPossible
from verification.random_models.recipes.recipe import recipes

ML = "ai.onnx.ml"


def extractor(draft: Draft) -> None:
    x = draft.operand(("float32", "float64", "int32", "int64"), (2,))
    if 0 in x.shape:
        raise NotPossible
    places = draft.random.integers(0, x.shape[-1], draft.number(1, 3))
    indices = draft.constant(np.asarray(places, np.int64))
    types = [(x.dtype, (x.shape[0], len(places)))]
    draft.add_typed(
        "ArrayFeatureExtractor",
        [x.name, indices],
        types,
        ML,
    )


def binarizer(draft: Draft) -> None:
    x = draft.operand(("float32",), (1, 2), is_exact=True)
    draft.add_typed("Binarizer", [x.name], [(x.dtype, x.shape)], ML, threshold=0.25)


def scaler(draft: Draft) -> None:
    x = draft.operand(("float32", "float64", "int32", "int64"), (2,))
    count = x.shape[-1]
    if not count:
        raise NotPossible
    draft.add_typed(
        "Scaler",
        [x.name],
        [("float32", x.shape)],
        ML,
        offset=[float(n) for n in draft.array("float32", (count,))],
        scale=[float(n) for n in draft.array("float32", (count,))],
    )


def labels(draft: Draft) -> None:
    x = draft.operand(("int64",), (1, 2), is_exact=True)
    draft.add_typed(
        "LabelEncoder",
        [x.name],
        [("float32", x.shape)],
        ML,
        keys_int64s=[1, 2, 3],
        values_floats=[0.5, 1.5, -2.5],
        default_float=-1.0,
    )


def phrases(draft: Draft) -> None:
    """Counts of single numbers and of pairs (of ONNX's own domain)."""
    array = np.asarray(draft.random.integers(0, 4, (draft.number(1, 2), draft.number(4, 9))))
    dtype = draft.one_of(["int32", "int64"])
    x = draft.input(dtype, array.shape, array.astype(dtype))
    draft.add(
        "TfIdfVectorizer",
        [x.name],
        mode=draft.one_of(["TF", "IDF", "TFIDF"]),
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=draft.number(0, 2),
        ngram_counts=[0, 3],
        ngram_indexes=[0, 1, 2, 3, 4],
        pool_int64s=[1, 2, 3, 1, 2, 2, 3],
        weights=[1.0, 0.5, 2.0, 1.5, 0.25],
    )


def trees(draft: Draft) -> None:
    """Two trees of two splits each; which leaf is reached depends on exact inputs."""
    x = draft.operand(("float32", "float64"), (2,), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    splits = np.asarray(draft.random.uniform(-1, 1, 4)).astype(x.dtype)
    modes = np.asarray(draft.random.integers(0, 4, 4), np.uint8)
    draft.add_typed(
        "TreeEnsemble",
        [x.name],
        [(x.dtype, (x.shape[0], 2))],
        ML,
        n_targets=2,
        aggregate_function=draft.one_of([1, 2, 3]),
        post_transform=0,
        tree_roots=[0, 2],
        nodes_featureids=[draft.number(0, x.shape[1] - 1) for _ in range(4)],
        nodes_splits=numpy_helper.from_array(splits),
        nodes_modes=numpy_helper.from_array(modes),
        nodes_truenodeids=[1, 0, 3, 4],
        nodes_trueleafs=[0, 1, 0, 1],
        nodes_falsenodeids=[1, 2, 3, 5],
        nodes_falseleafs=[1, 1, 1, 1],
        leaf_targetids=[0, 0, 1, 1, 1, 0],
        leaf_weights=numpy_helper.from_array(draft.array(x.dtype, (6,))),
    )


RECIPES = recipes(extractor, binarizer, scaler, labels, phrases, trees)
