"""How a random node of each operator is drawn: operands that fit, attributes that are valid.

A recipe is a function of a `Draft` that adds a node (or a few that belong together), or raises
`NotPossible`. Operators that jump take exact operands (inputs) only; those that need a bounded
domain get one from another node. Types may be drawn freely: what onnxruntime does not have is
drawn again. The recipes stand in one file per family; `NEVER` says why an operator has none.
"""

from __future__ import annotations

from verification.random_models.recipes import (
    attention,
    control,
    elementwise,
    features,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    sampling,
    selection,
    sequences,
    shapes,
    spectral,
)
from verification.random_models.recipes.recipe import Recipe

RECIPES: tuple[Recipe, ...] = (
    *elementwise.RECIPES,
    *reduction.RECIPES,
    *normalization.RECIPES,
    *movement.RECIPES,
    *indexing.RECIPES,
    *selection.RECIPES,
    *shapes.RECIPES,
    *linear.RECIPES,
    *pooling.RECIPES,
    *sampling.RECIPES,
    *spectral.RECIPES,
    *attention.RECIPES,
    *quantized.RECIPES,
    *recurrent.RECIPES,
    *control.RECIPES,
    *sequences.RECIPES,
    *features.RECIPES,
)

_RANDOM = "its results are random numbers"
_OPSET_27 = "defined in opset 27 or later; onnxruntime 1.31 reads up to 26"
_TRAINING = "onnxruntime has training operators in another build"
_STRINGS = "inputs of random models are numbers"
_OWN = "an operator of this compiler, by which strings enter and leave a program"
_OF_ONNXRUNTIME = "an operator of onnxruntime's own, compared with it in tests of the importer"
_MAPS = "its results are no tensors"
_CLASSICAL = "all its modes are compared with onnxruntime in tests of the importer"
_REGIONS = "regions are compared with onnxruntime in tests of the importer"
NEVER: dict[str, str] = {
    "Bernoulli": _RANDOM,
    "Multinomial": _RANDOM,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "CausalConvWithState": _OPSET_27,
    "LinearAttention": _OPSET_27,
    "SwiGLU": _OPSET_27,
    "Adagrad": _TRAINING,
    "Adam": _TRAINING,
    "Momentum": _TRAINING,
    "Gradient": _TRAINING,
    "RegexFullMatch": _STRINGS,
    "StringConcat": _STRINGS,
    "StringNormalizer": _STRINGS,
    "StringSplit": _STRINGS,
    "FromCodes": _OWN,
    "ToCodes": _OWN,
    "ZipMap": _MAPS,
    "CategoryMapper": _CLASSICAL,
    "FeatureVectorizer": _CLASSICAL,
    "Imputer": _CLASSICAL,
    "LinearClassifier": _CLASSICAL,
    "LinearRegressor": _CLASSICAL,
    "Normalizer": _CLASSICAL,
    "OneHotEncoder": _CLASSICAL,
    "SVMClassifier": _CLASSICAL,
    "SVMRegressor": _CLASSICAL,
    "TreeEnsembleClassifier": _CLASSICAL,
    "TreeEnsembleRegressor": _CLASSICAL,
    "MaxRoiPool": _REGIONS,
    "BiasAdd": _OF_ONNXRUNTIME,
    "BiasSoftmax": _OF_ONNXRUNTIME,
    "CDist": _OF_ONNXRUNTIME,
    "DynamicQuantizeLSTM": _OF_ONNXRUNTIME,
    "DynamicQuantizeMatMul": _OF_ONNXRUNTIME,
    "FusedConv": _OF_ONNXRUNTIME,
    "FusedGemm": _OF_ONNXRUNTIME,
    "FusedMatMulActivation": _OF_ONNXRUNTIME,
    "GatherBlockQuantized": _OF_ONNXRUNTIME,
    "GroupQueryAttention": _OF_ONNXRUNTIME,
    "MatMulIntegerToFloat": _OF_ONNXRUNTIME,
    "MatMulNBits": _OF_ONNXRUNTIME,
    "MoE": _OF_ONNXRUNTIME,
    "NhwcFusedConv": _OF_ONNXRUNTIME,
    "NhwcMaxPool": _OF_ONNXRUNTIME,
    "QAttention": _OF_ONNXRUNTIME,
    "QLinearReduceMean": _OF_ONNXRUNTIME,
    "QLinearSoftmax": _OF_ONNXRUNTIME,
    "QLinearWhere": _OF_ONNXRUNTIME,
    "QMoE": _OF_ONNXRUNTIME,
    "ReorderInput": _OF_ONNXRUNTIME,
    "ReorderOutput": _OF_ONNXRUNTIME,
    "SkipSimplifiedLayerNormalization": _OF_ONNXRUNTIME,
    "TransposeMatMul": _OF_ONNXRUNTIME,
    "Upsample": _OF_ONNXRUNTIME,
}
"""Operators that the importer knows and no recipe makes."""

__all__ = ["NEVER", "RECIPES", "Recipe"]
