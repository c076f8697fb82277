"""Normalizations. Of very few numbers the variance can be nearly 0: those are left out."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from verification.random_models.draft import FLOATS, Draft, NotPossible, Value
from verification.random_models.recipes.recipe import family, recipes


def _image(draft: Draft, types: tuple[str, ...] = ("float32", "float64", "float16")) -> Value:
    spatial = [draft.number(2, 5) for _ in range(draft.number(1, 3))]
    return draft.input(draft.one_of(types), (draft.number(1, 2), 2 * draft.number(1, 6), *spatial))


def layer_norm(draft: Draft) -> None:
    x = draft.operand(FLOATS, (2, 3, 4))
    axis = draft.number(0, x.rank - 1)
    if 0 in x.shape or int(np.prod(x.shape[axis:])) < 4:
        raise NotPossible
    scale = draft.weight(x.dtype, x.shape[axis:])
    bias = [draft.weight(x.dtype, x.shape[axis:])] if draft.flag() else []
    draft.add("LayerNormalization", [x.name, scale, *bias], axis=axis)


def rms_norm(draft: Draft) -> None:
    x = draft.operand(FLOATS, (2, 3, 4))
    axis = draft.number(-x.rank, x.rank - 1)
    stash = {"stash_type": TensorProto.DOUBLE} if x.dtype == "float64" else {}
    scale = draft.weight(x.dtype, x.shape[axis:])
    draft.add("RMSNormalization", [x.name, scale], axis=axis, **stash)


def batch_norm(draft: Draft) -> None:
    x = draft.operand(("float32", "float64", "float16"), (2, 3, 4))
    shape = (x.shape[1],)
    scale, bias, mean = (draft.weight(x.dtype, shape) for _ in range(3))
    variance = draft.constant(np.abs(draft.array(x.dtype, shape)) + np.array(0.5, x.dtype))
    draft.add("BatchNormalization", [x.name, scale, bias, mean, variance])


def instance_norm(draft: Draft) -> None:
    x = _image(draft)
    if int(np.prod(x.shape[2:])) < 4:
        raise NotPossible
    scale, bias = (draft.weight(x.dtype, (x.shape[1],)) for _ in range(2))
    draft.add("InstanceNormalization", [x.name, scale, bias])


def group_norm(draft: Draft) -> None:
    x = _image(draft)
    if int(np.prod(x.shape[1:])) < 8:
        raise NotPossible
    groups = draft.one_of([1, 2])
    scale, bias = (draft.weight(x.dtype, (x.shape[1],)) for _ in range(2))
    stash = {"stash_type": TensorProto.DOUBLE} if x.dtype == "float64" else {}
    types = [(x.dtype, x.shape)]
    draft.add_typed("GroupNormalization", [x.name, scale, bias], types, num_groups=groups, **stash)


def variance_norm(draft: Draft) -> None:
    x = draft.input("float32", (draft.number(2, 3), draft.number(1, 6), 3, draft.number(2, 4)))
    axes = {} if draft.flag() else {"axes": draft.one_of([[0, 2, 3], [2, 3], [1, 2, 3]])}
    draft.add("MeanVarianceNormalization", [x.name], **axes)


def local_response(draft: Draft) -> None:
    """Of images with two axes: onnxruntime has no others."""
    x = draft.input("float32", (1, draft.number(1, 6), draft.number(1, 4), draft.number(1, 4)))
    draft.add("LRN", [x.name], size=draft.one_of([1, 3, 5]), alpha=draft.one_of([0.0001, 0.5]))


def lp_norm(draft: Draft) -> None:
    x = draft.operand(FLOATS, (1, 2, 3), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    axis = draft.number(-x.rank, x.rank - 1)
    draft.add("LpNormalization", [x.name], axis=axis, p=draft.number(1, 2))


def skip_norm(draft: Draft) -> None:
    shape = (draft.number(1, 2), draft.number(1, 4), draft.number(4, 12))
    x = draft.input("float32", shape)
    skip = draft.like(x, shape)
    vectors = [draft.weight("float32", shape[-1:]) for _ in range(draft.number(1, 3))]
    draft.add_typed(
        "SkipLayerNormalization",
        [x.name, skip.name, *vectors],
        [("float32", shape)],
        "com.microsoft",
        epsilon=1e-5,
    )


def activation(operator: str, draft: Draft) -> None:
    """GELU and its kin of onnxruntime's own domain."""
    x = draft.operand(("float32",), (1, 2, 3))
    bias = [draft.weight("float32", x.shape[-1:])] if operator == "BiasGelu" else []
    draft.add_typed(
        operator,
        [x.name, *bias],
        [("float32", x.shape)],
        "com.microsoft",
    )


RECIPES = (
    *recipes(layer_norm, batch_norm, instance_norm, variance_norm, local_response),
    *recipes(group_norm, since=21),
    *recipes(lp_norm, skip_norm),
    *recipes(rms_norm, since=23),
    *family(activation, "Gelu", "BiasGelu", "FastGelu", "QuickGelu"),
)
