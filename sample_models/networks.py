"""The five networks, each with a kind of structure that a compiler has to deal with.

A block that is not a plain chain of layers stands together with its ONNX form: the class says
what it computes in PyTorch (`forward`), the function below it writes the same in ONNX nodes.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from layers_to_onnx import emit
from onnx_graph import OnnxGraph
from torch import Tensor, nn

IMAGE_SIZE = 8  # rows and columns
CLASS_COUNT = 10


@dataclass(frozen=True)
class SampleModel:
    """A model to train: its file's name, the network, and what the ONNX file says about it."""

    name: str
    build: Callable[[], nn.Module]
    description: str
    batch: int | str = 1  # a text names a symbolic dimension


def chain(**layers: nn.Module) -> nn.Sequential:
    """Layers applied one after another, each under its own name."""
    return nn.Sequential(OrderedDict(layers))


def convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A square convolution without bias (a normalization follows) that keeps the image's size."""
    padding = size // 2
    return nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=False)


# Dense ------------------------------------------------------------------------------------------


def digits_mlp() -> nn.Module:
    """Three dense layers: the smallest model that is one."""
    return chain(
        flatten=nn.Flatten(),
        dense1=nn.Linear(IMAGE_SIZE * IMAGE_SIZE, 64),
        relu1=nn.ReLU(),
        dense2=nn.Linear(64, 32),
        relu2=nn.ReLU(),
        dense3=nn.Linear(32, CLASS_COUNT),
    )


# Convolutional ----------------------------------------------------------------------------------


def digits_cnn() -> nn.Module:
    """Convolutions in channels of 16, 32 and 48, then two dense layers.

    `identity` and `dropout` do nothing at inference: they are there to be simplified away.
    """
    return chain(
        stage1=chain(
            conv1=convolution(1, 16, 3),
            norm1=nn.BatchNorm2d(16),
            relu1=nn.ReLU(),
            conv2=convolution(16, 32, 3),
            norm2=nn.BatchNorm2d(32),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(2),
        ),
        stage2=chain(
            conv1=convolution(32, 48, 3),
            norm1=nn.BatchNorm2d(48),
            relu1=nn.ReLU(),
            pool=nn.MaxPool2d(2),
        ),
        identity=nn.Identity(),
        classifier=chain(
            flatten=nn.Flatten(),
            dense1=nn.Linear(48 * 2 * 2, 64),
            relu1=nn.ReLU(),
            dropout=nn.Dropout(0.3),
            dense2=nn.Linear(64, CLASS_COUNT),
        ),
    )


# Residual ---------------------------------------------------------------------------------------


class ResidualBlock(nn.Module):
    """relu(main(x) + shortcut(x)), after He et al., "Deep Residual Learning" (2015), figure 2.

    The shortcut is x itself, or a 1x1 convolution where the block changes the shape.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = convolution(outputs, outputs, 3)
        self.norm2 = nn.BatchNorm2d(outputs)
        keeps_shape = inputs == outputs and stride == 1
        self.shortcut = (
            chain()
            if keeps_shape
            else chain(
                conv=convolution(inputs, outputs, 1, stride),
                norm=nn.BatchNorm2d(outputs),
            )
        )
        self.relu2 = nn.ReLU()

    def main_path(self) -> list[nn.Module]:
        return [self.conv1, self.norm1, self.relu1, self.conv2, self.norm2]

    def forward(self, image: Tensor) -> Tensor:
        value = image
        for layer in self.main_path():
            value = layer(value)
        return self.relu2(value + self.shortcut(image))


@emit.register
def emit_residual_block(block: ResidualBlock, graph: OnnxGraph, image: str) -> str:
    value = image
    for layer in block.main_path():
        value = emit(layer, graph, value)
    total = graph.node("Add", [value, emit(block.shortcut, graph, image)], block, "add")
    return emit(block.relu2, graph, total)


def digits_resnet() -> nn.Module:
    """Three stages of residual blocks; the later two halve the image and widen it."""
    return chain(
        stem=chain(conv=convolution(1, 16, 3), norm=nn.BatchNorm2d(16), relu=nn.ReLU()),
        stage1=chain(block0=ResidualBlock(16, 16)),
        stage2=chain(block0=ResidualBlock(16, 32, stride=2), block1=ResidualBlock(32, 32)),
        stage3=chain(block0=ResidualBlock(32, 64, stride=2)),
        pool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        classifier=nn.Linear(64, CLASS_COUNT),
    )


# Mobile -----------------------------------------------------------------------------------------


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate that is computed from all channels' averages.

    Hu et al., "Squeeze-and-Excitation Networks" (2017), with the hard sigmoid of MobileNetV3.
    """

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = chain(
            pool=nn.AdaptiveAvgPool2d(1),
            squeeze=nn.Conv2d(channels, squeezed, 1),
            relu=nn.ReLU(),
            excite=nn.Conv2d(squeezed, channels, 1),
            hard_sigmoid=nn.Hardsigmoid(),
        )

    def forward(self, image: Tensor) -> Tensor:
        return image * self.gate(image)


@emit.register
def emit_squeeze_excite(block: SqueezeExcite, graph: OnnxGraph, image: str) -> str:
    return graph.node("Mul", [image, emit(block.gate, graph, image)], block, "scale")


class InvertedResidual(nn.Module):
    """Widen (1x1), filter each channel alone (3x3), scale channels, narrow again (1x1).

    Howard et al., "Searching for MobileNetV3" (2019), figure 4. The input is added where the
    block keeps its shape.
    """

    def __init__(
        self, inputs: int, expanded: int, squeezed: int, outputs: int, stride: int = 1
    ) -> None:
        super().__init__()
        self.keeps_shape = inputs == outputs and stride == 1
        self.expand = chain(
            conv=convolution(inputs, expanded, 1),
            norm=nn.BatchNorm2d(expanded),
            hard_swish=nn.Hardswish(),
        )
        self.depthwise = chain(
            conv=convolution(expanded, expanded, 3, stride, groups=expanded),
            norm=nn.BatchNorm2d(expanded),
            hard_swish=nn.Hardswish(),
        )
        self.squeeze_excite = SqueezeExcite(expanded, squeezed)
        self.project = chain(
            conv=convolution(expanded, outputs, 1),
            norm=nn.BatchNorm2d(outputs),
        )

    def main_path(self) -> list[nn.Module]:
        return [self.expand, self.depthwise, self.squeeze_excite, self.project]

    def forward(self, image: Tensor) -> Tensor:
        value = image
        for layer in self.main_path():
            value = layer(value)
        return image + value if self.keeps_shape else value


@emit.register
def emit_inverted_residual(block: InvertedResidual, graph: OnnxGraph, image: str) -> str:
    value = image
    for layer in block.main_path():
        value = emit(layer, graph, value)
    if not block.keeps_shape:
        return value
    return graph.node("Add", [image, value], block, "add")


def digits_mobilenet() -> nn.Module:
    """Depthwise-separable blocks; 24, 40, 72 and 120 channels are no multiples of 16."""
    return chain(
        stem=chain(conv=convolution(1, 16, 3), norm=nn.BatchNorm2d(16), hard_swish=nn.Hardswish()),
        stage1=chain(
            block0=InvertedResidual(16, 40, 8, 24),
            block1=InvertedResidual(24, 72, 24, 24),
        ),
        stage2=chain(
            block0=InvertedResidual(24, 72, 24, 40, stride=2),
            block1=InvertedResidual(40, 120, 32, 40),
        ),
        head=chain(conv=convolution(40, 96, 1), norm=nn.BatchNorm2d(96), hard_swish=nn.Hardswish()),
        pool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        classifier=nn.Linear(96, CLASS_COUNT),
    )


# Transformer ------------------------------------------------------------------------------------

EMBEDDING_SIZE = 48
HEAD_COUNT = 4
HEAD_SIZE = EMBEDDING_SIZE // HEAD_COUNT


class TokenDense(nn.Linear):
    """A dense layer applied to each token: a MatMul and an Add, for Gemm takes matrices only."""


@emit.register
def emit_token_dense(layer: TokenDense, graph: OnnxGraph, tokens: str) -> str:
    transposed = np.ascontiguousarray(layer.weight.detach().numpy().T)
    weight = graph.initializer(transposed, layer, "weight")
    product = graph.node("MatMul", [tokens, weight], layer, "matmul")
    return graph.node("Add", [product, graph.parameter(layer, "bias")], layer, "add")


class RowEmbedding(nn.Module):
    """[1, 1, 8, 8] -> [1, 8, 48]: each row of pixels is a token, to which its place is added."""

    def __init__(self) -> None:
        super().__init__()
        self.project = TokenDense(IMAGE_SIZE, EMBEDDING_SIZE)
        self.position = nn.Parameter(0.02 * torch.randn(IMAGE_SIZE, EMBEDDING_SIZE))

    def forward(self, image: Tensor) -> Tensor:
        rows = image.reshape(-1, IMAGE_SIZE, IMAGE_SIZE)
        return self.project(rows) + self.position


@emit.register
def emit_row_embedding(block: RowEmbedding, graph: OnnxGraph, image: str) -> str:
    shape = graph.initializer(np.array([1, IMAGE_SIZE, IMAGE_SIZE]), block, "rows_shape")
    rows = graph.node("Reshape", [image, shape], block, "rows")
    tokens = emit(block.project, graph, rows)
    return graph.node("Add", [tokens, graph.parameter(block, "position")], block, "add_position")


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(head size)) V, in each head.

    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.
    """

    def __init__(self) -> None:
        super().__init__()
        self.query = TokenDense(EMBEDDING_SIZE, EMBEDDING_SIZE)
        self.key = TokenDense(EMBEDDING_SIZE, EMBEDDING_SIZE)
        self.value = TokenDense(EMBEDDING_SIZE, EMBEDDING_SIZE)
        self.output = TokenDense(EMBEDDING_SIZE, EMBEDDING_SIZE)

    def forward(self, tokens: Tensor) -> Tensor:
        batch = tokens.shape[0]
        by_head = (batch, IMAGE_SIZE, HEAD_COUNT, HEAD_SIZE)
        query = self.query(tokens).reshape(by_head).permute(0, 2, 1, 3)
        key_transposed = self.key(tokens).reshape(by_head).permute(0, 2, 3, 1)
        value = self.value(tokens).reshape(by_head).permute(0, 2, 1, 3)
        scores = query @ key_transposed / math.sqrt(HEAD_SIZE)
        mixed = scores.softmax(dim=-1) @ value
        merged = mixed.permute(0, 2, 1, 3).reshape(batch, IMAGE_SIZE, EMBEDDING_SIZE)
        return self.output(merged)


@emit.register
def emit_multi_head_attention(block: MultiHeadAttention, graph: OnnxGraph, tokens: str) -> str:
    by_head = graph.initializer(
        np.array([1, IMAGE_SIZE, HEAD_COUNT, HEAD_SIZE]), block, "split_shape"
    )
    by_token = graph.initializer(np.array([1, IMAGE_SIZE, EMBEDDING_SIZE]), block, "merge_shape")
    scale = graph.initializer(np.float32(math.sqrt(HEAD_SIZE)), block, "scale")

    def split_heads(layer: TokenDense, name: str, permutation: list[int]) -> str:
        projected = emit(layer, graph, tokens)
        heads = graph.node("Reshape", [projected, by_head], block, f"{name}.split")
        return graph.node("Transpose", [heads], block, f"{name}.transpose", perm=permutation)

    query = split_heads(block.query, "query", [0, 2, 1, 3])
    key_transposed = split_heads(block.key, "key", [0, 2, 3, 1])
    value = split_heads(block.value, "value", [0, 2, 1, 3])
    scores = graph.node("MatMul", [query, key_transposed], block, "scores")
    scaled = graph.node("Div", [scores, scale], block, "divide")
    weights = graph.node("Softmax", [scaled], block, "softmax", axis=-1)
    mixed = graph.node("MatMul", [weights, value], block, "mix")
    by_row = graph.node("Transpose", [mixed], block, "transpose", perm=[0, 2, 1, 3])
    merged = graph.node("Reshape", [by_row, by_token], block, "merge")
    return emit(block.output, graph, merged)


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)): normalized before, not after."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(EMBEDDING_SIZE)
        self.attention = MultiHeadAttention()
        self.norm2 = nn.LayerNorm(EMBEDDING_SIZE)
        self.feed_forward = chain(
            dense1=TokenDense(EMBEDDING_SIZE, 2 * EMBEDDING_SIZE),
            gelu=nn.GELU(),
            dense2=TokenDense(2 * EMBEDDING_SIZE, EMBEDDING_SIZE),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(self.norm1(tokens))
        return tokens + self.feed_forward(self.norm2(tokens))


@emit.register
def emit_transformer_block(block: TransformerBlock, graph: OnnxGraph, tokens: str) -> str:
    attended = emit(block.attention, graph, emit(block.norm1, graph, tokens))
    tokens = graph.node("Add", [tokens, attended], block, "add1")
    fed_forward = emit(block.feed_forward, graph, emit(block.norm2, graph, tokens))
    return graph.node("Add", [tokens, fed_forward], block, "add2")


class TokenMean(nn.Module):
    """[1, 8, 48] -> [1, 48]: the average over the tokens."""

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens.mean(dim=1)


@emit.register
def emit_token_mean(layer: TokenMean, graph: OnnxGraph, tokens: str) -> str:
    return graph.node("ReduceMean", [tokens], layer, axes=[1], keepdims=0)


def digits_transformer() -> nn.Module:
    """A digit read as a sequence of its eight rows."""
    return chain(
        embedding=RowEmbedding(),
        block0=TransformerBlock(),
        block1=TransformerBlock(),
        norm=nn.LayerNorm(EMBEDDING_SIZE),
        mean=TokenMean(),
        classifier=nn.Linear(EMBEDDING_SIZE, CLASS_COUNT),
    )


SAMPLE_MODELS = (
    SampleModel("digits_mlp", digits_mlp, "Dense layers with a symbolic batch", batch="batch"),
    SampleModel("digits_cnn", digits_cnn, "Convolution, batch normalization, ReLU, max pooling"),
    SampleModel("digits_resnet", digits_resnet, "Residual blocks with batch normalization"),
    SampleModel(
        "digits_mobilenet",
        digits_mobilenet,
        "Depthwise-separable convolutions, hard-swish, squeeze-and-excite",
    ),
    SampleModel(
        "digits_transformer",
        digits_transformer,
        "Multi-head attention, layer normalization and GELU over the rows of a digit",
    ),
)
