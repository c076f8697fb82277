"""Random convolutions, products, pools and normalizations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from verification.conformance.caffe.drawing import Draw, Drawn, settings


def convolution(draw: Draw, is_transposed: bool = False, is_depthwise: bool = False) -> Drawn:
    group = draw.choice(1, 1, 2, 3)
    inside, outside = (group * draw.integer(1, 4) for _ in range(2))
    if is_depthwise:
        group = outside = inside
    height, width = (draw.integer(1, 4) for _ in range(2))
    stride = draw.integer(1, 3)
    dilation = 1 if is_transposed else draw.choice(1, 1, 2)  # OpenCV leaves it out of these
    pad = draw.integer(0, (min(height, width) - 1) * dilation)
    has_bias = draw.flag()
    words = settings(
        "convolution_param",
        num_output=outside,
        kernel_h=height,
        kernel_w=width,
        stride=stride,
        pad=pad,
        dilation=dilation if dilation > 1 else None,
        group=group if group > 1 or is_depthwise else None,
        bias_term=None if has_bias else False,
    )
    filters = (inside, outside // group) if is_transposed else (outside, inside // group)
    blobs = [draw.weights(*filters, height, width)]
    blobs += [draw.weights(outside)] if has_bias else []
    return Drawn(inputs=[draw.numbers(draw.image(inside))], settings=words, blobs=blobs)


def inner_product(draw: Draw) -> Drawn:
    shape, outputs = draw.shape(), draw.integer(1, 9)
    axis = draw.integer(1, len(shape) - 1)
    depth, has_bias = math.prod(shape[axis:]), draw.flag()
    words = settings(
        "inner_product_param",
        num_output=outputs,
        axis=axis if axis > 1 else None,
        bias_term=None if has_bias else False,
    )
    blobs = [draw.weights(outputs, depth), *([draw.weights(outputs)] if has_bias else [])]
    return Drawn(inputs=[draw.numbers(shape)], settings=words, blobs=blobs)


def pooling(draw: Draw) -> Drawn:
    x, kind = draw.image(), draw.choice("MAX", "AVE", None)
    if draw.integer(0, 5) == 0:
        words = settings("pooling_param", pool=kind, global_pooling=True)
        return Drawn(inputs=[draw.numbers(x)], settings=words)
    height, width = (draw.integer(1, 4) for _ in range(2))
    # With longer strides windows may begin behind the image, of which OpenCV has another opinion.
    words = settings(
        "pooling_param",
        pool=kind,
        kernel_h=height,
        kernel_w=width,
        stride_h=draw.integer(1, height),
        stride_w=draw.integer(1, width),
        pad=draw.integer(0, min(height, width) - 1),
    )
    return Drawn(inputs=[draw.numbers(x)], settings=words)


def batch_norm(draw: Draw) -> Drawn:
    x = draw.image()
    factor = np.array([draw.number(0.3, 900)], np.float32)
    statistics = [draw.weights(x[1]) * factor, np.abs(draw.weights(x[1])) * factor]
    words = settings("batch_norm_param", eps=draw.choice(None, 0.001, 0.1))
    return Drawn(inputs=[draw.numbers(x)], settings=words, blobs=[*statistics, factor])


def lrn(draw: Draw) -> Drawn:
    """With the constant 1, which OpenCV always takes."""
    words = settings(
        "lrn_param",
        local_size=draw.choice(None, 1, 3, 5),
        alpha=draw.number(0.0001, 2),
        beta=draw.number(0.2, 1),
        norm_region=draw.choice(None, "WITHIN_CHANNEL"),
    )
    return Drawn(inputs=[draw.numbers(draw.image())], settings=words)


def mvn(draw: Draw) -> Drawn:
    words = settings(
        "mvn_param",
        across_channels=draw.choice(None, True),
        normalize_variance=draw.choice(None, False),
    )
    return Drawn(inputs=[draw.numbers(draw.image())], settings=words)


def normalize(draw: Draw) -> Drawn:
    x = draw.image(batch=1)
    across, shared = draw.flag(), draw.flag()
    words = settings("norm_param", across_spatial=across, channel_shared=shared)
    blobs = [draw.weights(1 if shared else x[1])]
    return Drawn(inputs=[draw.numbers(x)], settings=words, blobs=blobs)


def softmax(draw: Draw) -> Drawn:
    shape = draw.shape()
    axis = draw.choice(None, -1, draw.integer(1, len(shape) - 1))
    words = settings("softmax_param", axis=axis)
    return Drawn(inputs=[draw.numbers(shape)], settings=words)


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "BatchNorm": batch_norm,
    "Convolution": convolution,
    "ConvolutionDepthwise": partial(convolution, is_depthwise=True),
    "Deconvolution": partial(convolution, is_transposed=True),
    "InnerProduct": inner_product,
    "LRN": lrn,
    "MVN": mvn,
    "Normalize": normalize,
    "Pooling": pooling,
    "Softmax": softmax,
}
