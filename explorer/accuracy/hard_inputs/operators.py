"""Families of operators, by names that all formats share (`references.parts.plain`).

An operator that stands in no family adds numbers up as far as anybody knows: it gets few special
values at a time, so that results do not all become NaN.
"""

from __future__ import annotations

_UNARY = """
abs acos acosh asin asinh atan atanh ceil celu cos cosh elu erf exp expm1 floor gelu hardsigmoid
hardswish hardtanh identity isinf isnan leakyrelu log log1p logistic logicalnot mish neg negative
not reciprocal relu relu6 relun1to1 round rsqrt selu sigmoid sign silu sin sinh softplus softsign
sqrt square swish tan tanh thresholdedrelu bitwisenot cast quantizelinear quantize dequantizelinear
dequantize qlinearsigmoid qlinearleakyrelu quickgelu fastgelu clip clamp shrink
"""
_PAIRS = """
add sub mul div pow max min maximum minimum mod remainder floordiv floormod fmod equal notequal less
greater lessequal lessorequal greaterequal greaterorequal and or xor logicaland logicalor where
select selectv2 prelu squareddifference bitwiseand bitwiseor bitwisexor atan2 bitshift rightshift
qlinearadd qlinearmul
"""
_MOVES = """
reshape transpose concat concatenation split slice stridedslice squeeze unsqueeze expanddims expand
tile pad padv2 mirrorpad gather gatherelements gathernd flatten pack unpack spacetodepth
depthtospace reversev2 scatterelements scatternd trilu reducemax reducemin broadcastto permute view
cat stack
"""
_REDUCTIONS = """
argmax argmin topk topkv2 cumsum reducesum reducemax reducemin reduceprod reducemean reducesumsquare
reducel1 reducel2 sum mean concat concatenation matmul gemm
"""
_SOFTMAX_LIKE = """
softmax logsoftmax hardmax logsumexp reducelogsumexp softmaxcrossentropyloss attention
multiheadattention scaleddotproductattention crossentropyloss
"""
_VARIANCE_LIKE = """
layernormalization instancenormalization groupnormalization meanvariancenormalization
lpnormalization simplifiedlayernormalization rmsnormalization skiplayernormalization
skipsimplifiedlayernormalization l2normalization layernorm groupnorm instancenorm var varmean std
nativelayernorm nativegroupnorm
"""
_SEARCHES = "argmax argmin topk topkv2 hardmax unique nonmaxsuppression maxpool sort argsort"
_DIVISIONS = "div mod remainder floordiv floormod fmod"

ELEMENTWISE = frozenset((_UNARY + _PAIRS + _MOVES).split())
"""Operators in which a special number reaches only the results that it belongs to."""
ARITHMETIC = frozenset((_UNARY + _PAIRS + _REDUCTIONS).split())
"""Operators that compute with wide integers; in others these may be indices or sizes."""
MOVES = frozenset(_MOVES.split())
"""Operators of which the first operand may hold any integers, and others may be indices."""
SOFTMAX_LIKE = frozenset(_SOFTMAX_LIKE.split())
VARIANCE_LIKE = frozenset(_VARIANCE_LIKE.split())
SEARCHES = frozenset(_SEARCHES.split())
DIVISIONS = frozenset(_DIVISIONS.split())
QUANTIZERS = frozenset(("quantizelinear", "quantize"))

INDICES: dict[str, int] = {"gather": 1, "gatherelements": 1, "scatterelements": 1}
"""The operand that indexes one axis of the first one."""
MASKS: dict[str, tuple[int, ...]] = {"attention": (3,), "multiheadattention": (4, 5)}
