"""What compute definitions share: extents that both sides have, padding channels, element access.

A blocked tensor has its channels rounded up to whole blocks, so one side of an operation may have
more channels than the other:

    input 24 channels (plain), output 24 rounded to 32   ->   loop over 24, zeros into the other 8
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, clamp_index
from explorer.ir.interfaces import CHANNELS
from explorer.ir.operation import Access
from explorer.ir.requantization import integer_limits
from explorer.ir.top.elementwise import iteration
from explorer.ir.types import numpy_dtype


def loop_names(rank: int) -> list[str]:
    """One loop name per dimension: n, c, i, j for images, else d0, d1 ...; none for scalars."""
    return list(iteration([1] * rank)) if rank else []


def domain(extents: Sequence[int]) -> dict[str, int]:
    """Loop names and extents of an iteration over a shape; one iteration for a scalar."""
    return iteration(extents)


def common_extents(*shapes: Sequence[int]) -> list[int]:
    """What all of them have, dimension by dimension."""
    return [min(sizes) for sizes in zip(*shapes, strict=True)]


def clear_padding_channels(k: KernelBuilder, output: Access, channels: int) -> None:
    """Zeros in the output's channels from `channels` on, so that nothing unset is ever read."""
    if output.rank <= CHANNELS or output.shape[CHANNELS] <= channels:
        return
    extents = list(output.shape)
    extents[CHANNELS] -= channels
    d = k.dimensions(**domain(extents))
    subscripts = [s + channels if axis == CHANNELS else s for axis, s in enumerate(d)]
    k.generic("plain", [], output.at(*subscripts), lambda s: s.constant(0))


def scratch(k: KernelBuilder, name: str, shape: Sequence[int], element_type: Attribute) -> Access:
    """A buffer for intermediate results of one kernel, without halo; a scalar has one element."""
    buffer = k.argument(name, tuple(shape) or (1,), element_type, "scratch")
    return Access(buffer, tuple(shape), (0,) * len(shape))


def element_type(access: Access) -> Attribute:
    return access.buffer.type.element_type


def may_be_nan(access: Access) -> bool:
    return isinstance(element_type(access), AnyFloat)


def load_element(s: ScalarBuilder, access: Access, indices: Sequence[Scalar]) -> Scalar:
    """One element by logical indices, inside a `nest`."""
    return s.load(access.buffer, _moved(s, access, indices))


def store_element(
    s: ScalarBuilder, value: Scalar, access: Access, indices: Sequence[Scalar]
) -> None:
    """Stores one element by logical indices, inside a `nest`."""
    s.store(value, access.buffer, _moved(s, access, indices))


def load_index(s: ScalarBuilder, access: Access, indices: Sequence[Scalar], extent: int) -> Scalar:
    """An element of an integer tensor as an index inside [0, extent): others are clamped."""
    value = load_element(s, access, indices)
    kind, index = value.value.type, value.convert(IndexType())
    if isinstance(kind, IntegerType) and kind.signedness.data == Signedness.UNSIGNED:
        return index.minimum(s.index(extent - 1))  # none is negative
    return clamp_index(s, index, extent)


def lowest(kind: Attribute) -> float:
    """The number that is not greater than any of the element type: a maximum begins with it."""
    if isinstance(kind, AnyFloat):
        return -np.inf
    return 0 if numpy_dtype(kind) == np.bool_ else _limits(kind)[0]


def highest(kind: Attribute) -> float:
    """The number that is not less than any of the element type: a minimum begins with it."""
    if isinstance(kind, AnyFloat):
        return np.inf
    return 1 if numpy_dtype(kind) == np.bool_ else _limits(kind)[1]


def _limits(kind: Attribute) -> tuple[int, int]:
    """Of an integer type; NumPy knows no limits of those of 2 and 4 bits."""
    assert isinstance(kind, IntegerType)
    return integer_limits(kind)


def _moved(s: ScalarBuilder, access: Access, indices: Sequence[Scalar]) -> list[Scalar]:
    if not access.shape:
        return [s.index(0)]
    return [
        i + s.index(shift) if shift else i for i, shift in zip(indices, access.shift, strict=True)
    ]
