"""Networks of torch's own layers, as people write them: recurrent, U-Net, YOLO, and a few more.

    make("lstm")        the module, and example inputs

Sizes are small: what is judged is whether operators are known and right.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Made = tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor]]
"""A module, and the arguments that it is exported with."""


class Recurrent(nn.Module):
    """What a recurrent layer makes of a sequence (1, 12, 16), and its last state."""

    def __init__(self, layer: type[nn.RNNBase], **options) -> None:
        super().__init__()
        self.layer = layer(16, 24, batch_first=True, **options)
        self.head = nn.Linear(24 * (2 if self.layer.bidirectional else 1), 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.layer(x)
        return self.head(y), state[0] if isinstance(state, tuple) else state


class SpeechCells(nn.Module):
    """An LSTM cell and a GRU cell, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(16, 24), nn.GRUCell(24, 12)

    def forward(self, x: Tensor) -> Tensor:
        h, c, g = x.new_zeros(1, 24), x.new_zeros(1, 24), x.new_zeros(1, 12)
        steps = []
        for step in x.unbind(1):
            h, c = self.first(step, (h, c))
            g = self.second(h, g)
            steps.append(g)
        return torch.stack(steps, 1)


def convolved(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    """A convolution with normalization and SiLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.SiLU(),
    )


class UNet(nn.Module):
    """Ronneberger et al., 2015: down, up, and what went down beside what comes up."""

    def __init__(self, is_bilinear: bool) -> None:
        super().__init__()
        widths = (8, 16, 32)
        self.down = nn.ModuleList(
            nn.Sequential(convolved(a, b), convolved(b, b))
            for a, b in zip((3, *widths), widths, strict=False)
        )
        self.up = nn.ModuleList(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            if is_bilinear
            else nn.ConvTranspose2d(b, b, 2, 2)
            for b in widths[:0:-1]
        )
        self.joined = nn.ModuleList(
            convolved(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, joined, beside in zip(self.up, self.joined, kept[-2::-1], strict=True):
            x = up(x)
            rows, columns = beside.shape[2] - x.shape[2], beside.shape[3] - x.shape[3]
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = joined(torch.cat([beside, x], 1))
        return self.head(x)


class Bottlenecks(nn.Module):
    """The C2f block of YOLOv8: split, chained residual blocks, all of them joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.first, self.last = convolved(width, width, 1), convolved(half * 4, width, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(convolved(half, half), convolved(half, half)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """Like YOLOv8: pyramid of pools, top-down path, boxes as distributions, decoded on a grid."""

    def __init__(self, bins: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(convolved(3, 16, 3, 2), convolved(16, 32, 3, 2), Bottlenecks(32))
        self.deep = nn.Sequential(convolved(32, 64, 3, 2), Bottlenecks(64))
        self.pooled = convolved(64 * 4, 64, 1)
        self.top_down = nn.Sequential(convolved(96, 32, 1), Bottlenecks(32))
        self.heads = nn.ModuleList(nn.Conv2d(w, 4 * bins + classes, 1) for w in (32, 64))
        self.register_buffer("steps", torch.arange(bins, dtype=torch.float32))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.stem(x)
        deep = self.deep(fine)
        pools = [deep]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        deep = self.pooled(torch.cat(pools, 1))
        up = F.interpolate(deep, scale_factor=2.0, mode="nearest")
        fine = self.top_down(torch.cat([up, fine], 1))
        decoded = [
            self.decoded(head(level), stride)
            for head, level, stride in zip(self.heads, (fine, deep), (4, 8), strict=True)
        ]
        boxes, scores = (torch.cat(parts, 1) for parts in zip(*decoded, strict=True))
        return boxes, scores.sigmoid()

    def decoded(self, y: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        """Corners in pixels (N, places, 4), and scores (N, places, classes)."""
        rows, columns = y.shape[2:]
        sides, scores = y.flatten(2).transpose(1, 2).split([4 * self.bins, self.classes], -1)
        sides = sides.unflatten(-1, (4, self.bins)).softmax(-1) @ self.steps
        axes = [torch.arange(n, device=y.device) + 0.5 for n in (columns, rows)]
        across, along = torch.meshgrid(*axes, indexing="xy")
        centers = torch.stack([across, along], -1).view(1, -1, 2)
        begin, end = sides.chunk(2, -1)
        return torch.cat([centers - begin, centers + end], -1) * stride, scores


class FourierMixer(nn.Module):
    """FNet's block (Lee-Thorp et al., 2021): tokens are mixed by a Fourier transform."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x + torch.fft.fft2(x).real))


class CovariancePooling(nn.Module):
    """Second-order pooling (Li et al., 2017): the root of the covariance of all positions."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.head = nn.Linear(width * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(1, keepdim=True)
        covariance = centered.transpose(1, 2) @ centered / x.shape[1]
        # There are fewer positions than channels: the root of no more than noise says nothing.
        values, vectors = torch.linalg.eigh(covariance + torch.eye(x.shape[2]))
        root = vectors * values.sqrt().unsqueeze(1) @ vectors.transpose(1, 2)
        return self.head(root.flatten(1))


class OrthogonalLayer(nn.Module):
    """A layer whose weights are made orthogonal in each run (Mezzadri, 2007)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x: Tensor) -> Tensor:
        left, right = torch.linalg.qr(self.weight)
        return x @ (left * right.diagonal().sign())


class Reservoir(nn.Module):
    """States whose weights are scaled by their spectral radius (Jaeger, 2001), and a head."""

    def __init__(self, width: int = 16, radius: float = 0.9) -> None:
        super().__init__()
        self.radius, self.head = radius, nn.Linear(width, 4)
        self.inputs, self.states = (nn.Parameter(torch.randn(width, width)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        states = self.states * (self.radius / torch.linalg.eigvals(self.states).abs().max())
        state = torch.zeros_like(x[:, 0])
        for step in (x @ self.inputs).unbind(1):
            state = torch.tanh(step + state @ states)
        return self.head(state)


class Translator(nn.Module):
    """torch's own encoder and decoder, with a mask of what comes later."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.inside(source, target, tgt_mask=mask, tgt_is_causal=True)


class Temporal(nn.Module):
    """Dilated causal convolutions over time, gated as in WaveNet (van den Oord et al., 2016)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = x + F.glu(layer(F.pad(x, (2**i, 0))), 1)
        return x


def generator() -> nn.Module:
    """Like DCGAN's: transposed convolutions from a vector to an image of 32 x 32."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False)]
    for a, b in ((32, 16), (16, 8), (8, 3)):
        layers += [nn.BatchNorm2d(a), nn.ReLU(True), nn.ConvTranspose2d(a, b, 4, 2, 1)]
    return nn.Sequential(*layers, nn.Tanh())


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3), nn.Softmax(-1))


def encoder(is_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=is_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


SEQUENCE, IMAGE = (1, 12, 16), (1, 3, 64, 64)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "perceptron": (perceptron, ((2, 8),)),
    "rnn": (lambda: Recurrent(nn.RNN), (SEQUENCE,)),
    "lstm": (lambda: Recurrent(nn.LSTM), (SEQUENCE,)),
    "lstm_two_layers": (lambda: Recurrent(nn.LSTM, num_layers=2, dropout=0.1), (SEQUENCE,)),
    "lstm_both_ways": (lambda: Recurrent(nn.LSTM, bidirectional=True), (SEQUENCE,)),
    "gru": (lambda: Recurrent(nn.GRU), (SEQUENCE,)),
    "gru_both_ways": (lambda: Recurrent(nn.GRU, num_layers=2, bidirectional=True), (SEQUENCE,)),
    "cells": (SpeechCells, (SEQUENCE,)),
    "unet": (lambda: UNet(is_bilinear=False), (IMAGE,)),
    "unet_bilinear": (lambda: UNet(is_bilinear=True), ((1, 3, 60, 68),)),
    "yolo": (Yolo, (IMAGE,)),
    "generator": (generator, ((1, 16, 1, 1),)),
    "temporal": (Temporal, ((1, 16, 40),)),
    "transformer_encoder": (lambda: encoder(False), ((1, 10, 32),)),
    "transformer_encoder_normalized_first": (lambda: encoder(True), ((1, 10, 32),)),
    "transformer": (Translator, ((1, 10, 32), (1, 7, 32))),
    "fourier_mixer": (FourierMixer, (SEQUENCE,)),
    "covariance_pooling": (CovariancePooling, (SEQUENCE,)),
    "orthogonal_layer": (OrthogonalLayer, (SEQUENCE,)),
    "reservoir": (Reservoir, (SEQUENCE,)),
}
"""What makes each, and the shapes of its inputs."""


def names() -> list[str]:
    return list(NETWORKS)


def make(name: str) -> Made:
    build, shapes = NETWORKS[name]
    return build(), tuple(torch.randn(shape) for shape in shapes), {}
