"""Random layers that compute each element, and arithmetic of several tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from verification.conformance.caffe.drawing import Draw, Drawn, settings


def unary(draw: Draw) -> Drawn:
    return Drawn(inputs=[draw.numbers(draw.shape())])


def relu(draw: Draw) -> Drawn:
    slope = draw.number(0.01, 0.9) if draw.flag() else None
    return Drawn(
        inputs=[draw.numbers(draw.shape())], settings=settings("relu_param", negative_slope=slope)
    )


def elu(draw: Draw) -> Drawn:
    alpha = draw.number(0.1, 2) if draw.flag() else None
    return Drawn(inputs=[draw.numbers(draw.shape())], settings=settings("elu_param", alpha=alpha))


def prelu(draw: Draw) -> Drawn:
    x = draw.image()
    is_shared = draw.flag()
    return Drawn(
        inputs=[draw.numbers(x)],
        settings=settings("prelu_param", channel_shared=is_shared or None),
        blobs=[draw.weights(1 if is_shared else x[1])],
    )


def power(draw: Draw) -> Drawn:
    """Whole powers of any number, others of positive ones."""
    is_whole = draw.flag()
    words = settings(
        "power_param",
        power=draw.integer(0, 3) if is_whole else draw.number(0.2, 2.5),
        scale=draw.number(0.2, 2),
        shift=draw.number(-1, 1) if is_whole else draw.number(0.1, 1),
    )
    low = -3.0 if is_whole else 0.1
    return Drawn(inputs=[draw.numbers(draw.shape(), low)], settings=words)


def exponential(draw: Draw) -> Drawn:
    words = settings(
        "exp_param",
        base=draw.number(0.3, 4) if draw.flag() else None,
        scale=draw.number(-1, 1) if draw.flag() else None,
        shift=draw.number(-1, 1) if draw.flag() else None,
    )
    return Drawn(inputs=[draw.numbers(draw.shape())], settings=words)


def logarithm(draw: Draw) -> Drawn:
    """The natural one: of scale, shift and base OpenCV knows nothing."""
    return Drawn(inputs=[draw.numbers(draw.shape(), 0.1, 9.0)])


def eltwise(draw: Draw) -> Drawn:
    shape, count = draw.image(), draw.integer(2, 4)
    kind = draw.choice("SUM", "PROD", "MAX")
    factors = [draw.number(-2, 2) for _ in range(count)] if kind == "SUM" and draw.flag() else None
    return Drawn(
        inputs=[draw.numbers(shape) for _ in range(count)],
        settings=settings("eltwise_param", operation=kind, coeff=factors),
    )


def scale(draw: Draw) -> Drawn:
    x = draw.image()
    has_bias = draw.flag()
    blobs = [draw.weights(x[1])] + ([draw.weights(x[1])] if has_bias else [])
    words = settings("scale_param", bias_term=has_bias or None)
    return Drawn(inputs=[draw.numbers(x)], settings=words, blobs=blobs)


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    **dict.fromkeys(
        ("AbsVal", "BNLL", "ReLU6", "Sigmoid", "Swish", "TanH", "Dropout"), partial(unary)
    ),
    "ELU": elu,
    "Eltwise": eltwise,
    "Exp": exponential,
    "Log": logarithm,
    "PReLU": prelu,
    "Power": power,
    "ReLU": relu,
    "Scale": scale,
}
