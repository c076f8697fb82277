"""Writes `roundings_int8.tflite`: three layers of bytes, for following one rounding.

    python sample_models/roundings_to_tflite.py

    image (1, 8, 8, 1) -> edges: Conv 3 x 3 -> shapes: Conv 1 x 1 -> codes: FullyConnected (1, 64)

What each layer makes is an output, so that every set of kernels shows it.

The weights are seeded random numbers, with a scale for each filter: nothing was trained, for a
rounding needs no meaning. The scales of activations are no powers of two.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of

PATH = Path(__file__).with_name("roundings_int8.tflite")
SEED = 3
FILTERS, CODES, SIDE = 16, 64, 8
RELU = 1
"""Of the schema's activation functions."""


def activation(name: str, shape: tuple[int, ...], scale: float, zero: int) -> TensorOf:
    return TensorOf(name=name, shape=shape, element_type="int8", scales=[scale], zeros=[zero])


def weights(
    name: str, shape: tuple[int, ...], source: float, generator: np.random.Generator
) -> tuple[TensorOf, TensorOf]:
    """Filters along the first axis and their biases, whose scales are those of the sums.

    source: the scale of what is multiplied.
    """
    count = shape[0]
    scales = generator.uniform(0.004, 0.009, count).astype(np.float32)
    data = generator.integers(-127, 128, shape).astype(np.int8)
    of_sums = (scales * np.float32(source)).astype(np.float32)
    bias = np.rint(generator.normal(0.0, 0.3, count) / of_sums).astype(np.int32)
    zeros = [0] * count
    return (
        TensorOf(
            name=f"{name}/filters", shape=shape, element_type="int8", scales=scales.tolist(),
            zeros=zeros, data=data,
        ),
        TensorOf(
            name=f"{name}/bias", shape=(count,), element_type="int32", scales=of_sums.tolist(),
            zeros=zeros, data=bias,
        ),
    )  # fmt: skip


def make() -> bytes:
    generator = np.random.default_rng(SEED)
    image = activation("image", (1, SIDE, SIDE, 1), 1 / 255, -128)
    first = activation("edges", (1, SIDE, SIDE, FILTERS), 0.0131, -128)
    second = activation("shapes", (1, SIDE, SIDE, FILTERS), 0.0437, -128)
    codes = activation("codes", (1, CODES), 0.317, 5)
    pixels = SIDE * SIDE * FILTERS
    layers = [
        weights("edges", (FILTERS, 3, 3, 1), image.scales[0], generator),
        weights("shapes", (FILTERS, 1, 1, FILTERS), first.scales[0], generator),
        weights("codes", (CODES, pixels), second.scales[0], generator),
    ]
    # Filters of a matrix product have one scale here, as most models have it.
    dense = TensorOf(
        name="codes/filters", shape=(CODES, pixels), element_type="int8", scales=[0.0061],
        zeros=[0], data=layers[2][0].data,
    )  # fmt: skip
    bias = TensorOf(
        name="codes/bias", shape=(CODES,), element_type="int32",
        scales=[0.0061 * second.scales[0]], zeros=[0], data=layers[2][1].data,
    )  # fmt: skip
    tensors = [image, *layers[0], first, *layers[1], second, dense, bias, codes]
    window = {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": RELU}
    operators = [
        OperatorOf(
            kind="CONV_2D", inputs=[place, place + 1, place + 2], outputs=[place + 3],
            options="Conv2DOptions", values=window,
        )
        for place in (0, 3)
    ]  # fmt: skip
    operators.append(
        OperatorOf(
            kind="FULLY_CONNECTED", inputs=[6, 7, 8], outputs=[9], options="FullyConnectedOptions"
        )
    )
    return model_of(tensors, operators, [0], [3, 6, 9])


if __name__ == "__main__":
    PATH.write_bytes(make())
