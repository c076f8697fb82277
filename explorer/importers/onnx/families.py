"""The family of every ONNX operator, by which the opened model is coloured, counted and sorted.

    family_of("Conv")            -> "convolution"
    family_of("QLinearConv")     -> "convolution"       what it computes, not how it stores it
    family_of("Unknown")         -> "other"

Families are those of `results.GraphNode.family`. Operators of other domains have the family of
the one whose name they share.
"""

from __future__ import annotations

_OPERATORS: dict[str, str] = {
    "convolution": """
        Attention CausalConvWithState Col2Im Conv ConvInteger ConvTranspose DFT DeformConv Det
        Einsum EmbedLayerNormalization FlexAttention FusedMatMul Gemm LinearAttention MatMul
        MatMulInteger MatMulNBits MelWeightMatrix MultiHeadAttention GroupQueryAttention
        QLinearConv QLinearMatMul STFT FusedConv FusedGemm NhwcConv QGemm MatMulIntegerToFloat
        DynamicQuantizeMatMul TransposeMatMul FusedMatMulActivation NhwcFusedConv MoE QAttention
        QMoE
    """,
    "normalization": """
        BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization
        LpNormalization MeanVarianceNormalization Normalizer RMSNormalization
        SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization
    """,
    "elementwise": """
        Abs Acos Acosh Add Affine And Asin Asinh Atan Atanh BiasGelu Binarizer BitCast BitShift
        BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div
        Dropout Elu Equal Erf Exp FastGelu Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish
        Identity ImageScaler Imputer IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish
        Mod Mul Neg Not Or PRelu Pow QuickGelu Reciprocal Relu RotaryEmbedding Round Scaler Selu
        Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh
        ThresholdedRelu Where Xor BiasAdd QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu
        QLinearWhere
    """,
    "pooling": """
        AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool
        MaxUnpool RoiAlign QLinearAveragePool QLinearGlobalAveragePool
        NhwcMaxPool
    """,
    "reduction": """
        ArgMax ArgMin CumProd CumSum Hardmax LogSoftmax NegativeLogLikelihoodLoss ReduceL1
        ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
        ReduceSumSquare Softmax BiasSoftmax SoftmaxCrossEntropyLoss TopK QLinearSoftmax
        QLinearReduceMean CDist
    """,
    "movement": """
        AffineGrid ArrayFeatureExtractor CenterCropPad Compress Concat Crop DepthToSpace Expand
        Flatten Gather GatherBlockQuantized GatherElements GatherND GridSample NonZero OneHot
        OneHotEncoder Pad Reshape Resize ReverseSequence Scatter ScatterElements ScatterND Shape
        Size Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu Unique Unsqueeze
        Upsample QLinearConcat NonMaxSuppression ReorderInput ReorderOutput
    """,
    "control": "If Loop Scan SequenceMap",
    "recurrent": "GRU LSTM RNN DynamicQuantizeLSTM",
    "quantization": """
        DequantizeLinear DynamicQuantizeLinear Quant QuantizeLinear RequantShift BipolarQuant
        IntQuant Trunc
    """,
    "sequence": """
        CategoryMapper ConcatFromSequence LabelEncoder Optional OptionalGetElement
        OptionalHasElement RegexFullMatch SequenceAt SequenceConstruct SequenceEmpty SequenceErase
        SequenceInsert SequenceLength SplitToSequence StringConcat StringNormalizer StringSplit
        TfIdfVectorizer Tokenizer FromCodes ToCodes CastMap DictVectorizer ZipMap FeatureVectorizer
    """,
    "weight": """
        BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow Range
        RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial
    """,
    "other": """
        Adagrad Adam Gradient ImageDecoder LinearClassifier LinearRegressor Momentum SVMClassifier
        SVMRegressor TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
    """,
}

_FAMILY_OF = {name: family for family, names in _OPERATORS.items() for name in names.split()}


def family_of(operator: str) -> str:
    """The operator's family; "other" for one that stands in no family."""
    return _FAMILY_OF.get(operator, "other")


def known_operators() -> frozenset[str]:
    """All operators that stand in a family, "other" included."""
    return frozenset(_FAMILY_OF)
