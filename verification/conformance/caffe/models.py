"""Small Caffe nets: both files, the one as text, the other in protobuf's wire format.

text, weights = one_layer("PReLU", "prelu_param { channel_shared: true }", [(2, 12)], [slope])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Shape = tuple[int, ...]


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def part(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_of(number: int, value: int) -> bytes:
    """A field of a whole number."""
    return varint(number << 3) + varint(value)


def blob(array: np.ndarray) -> bytes:
    shape = part(7, part(1, b"".join(map(varint, array.shape))))
    return shape + part(5, array.astype("<f4").tobytes())


def caffemodel(blobs: Mapping[str, Sequence[np.ndarray]]) -> bytes:
    """Layers in the form V2."""
    return b"".join(
        part(100, part(1, name.encode()) + b"".join(part(7, blob(a)) for a in arrays))
        for name, arrays in blobs.items()
    )


def inputs_text(shapes: Sequence[Shape]) -> str:
    """Inputs x0, x1 ..."""
    return "".join(
        f'input: "x{i}" input_shape {{ {" ".join(f"dim: {size}" for size in shape)} }}\n'
        for i, shape in enumerate(shapes)
    )


def one_layer(
    kind: str,
    settings: str,
    shapes: Sequence[Shape],
    blobs: Sequence[np.ndarray] = (),
    tops: int = 1,
) -> tuple[str, bytes]:
    """A net of a layer `y` of all inputs."""
    bottoms = " ".join(f'bottom: "x{i}"' for i in range(len(shapes)))
    names = " ".join(f'top: "t{i}"' for i in range(tops))
    layer = f'layer {{ name: "y" type: "{kind}" {bottoms} {names} {settings} }}\n'
    return inputs_text(shapes) + layer, caffemodel({"y": blobs} if blobs else {})
