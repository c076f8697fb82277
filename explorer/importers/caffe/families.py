"""The family of every kind of layer, by which the opened model is coloured, counted and sorted.

    family_of("Convolution")      -> "convolution"
    family_of("Unknown")          -> "other"

Families are those of `results.GraphNode.family`.
"""

from __future__ import annotations

_KINDS: dict[str, str] = {
    "convolution": """
        Convolution ConvolutionDepthwise Deconvolution DepthwiseConvolution InnerProduct
    """,
    "normalization": "BatchNorm LRN MVN Normalize",
    "elementwise": """
        AbsVal Axpy BNLL Bias Clip ELU Eltwise Exp Log PReLU Power ReLU ReLU6 Scale Sigmoid Swish
        TanH Threshold
    """,
    "pooling": "Pooling PSROIPooling ROIPooling",
    "reduction": "ArgMax Reduction Softmax",
    "movement": """
        Concat Crop DetectionOutput Dropout Flatten Interp Padding Permute PriorBox Proposal Reorg
        Reshape ShuffleChannel Slice Split Tile Upsample
    """,
}

_FAMILIES = {kind: family for family, kinds in _KINDS.items() for kind in kinds.split()}


def family_of(kind: str) -> str:
    return _FAMILIES.get(kind, "other")
