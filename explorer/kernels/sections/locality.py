"""Bands: tasks of a phase that work on the same rows, so that a thread can keep to its own.

for ot = 0 to 24 {parallel}             168 tasks: 24 rounds of 7 rows. Of two threads one takes
  for i = 0 to 7 {parallel}         ->  rows 0 to 2 of every round, the other 3 to 6: in the next
    y[ot, i] = sum(x[.., i], w[ot])     kernel each finds the rows that it wrote in its own cache

Without rounds a thread's tasks are one range of them all, here: channels. The next convolution
reads all channels of its rows, so that half of what it reads would come from the other core, at a
quarter of the speed of the core's own cache.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from xdsl.dialects import affine
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from explorer.ir.types import numpy_dtype
from explorer.kernels.loops.nest import accesses_in, extent_of, index_of
from explorer.kernels.sections.phases import Phase

MAX_WEIGHTS = 8
"""Times the bytes of all else: beyond, that every thread reads all weights costs too much."""
IMAGE_DIMENSIONS = 5
"""Of activations in blocks of channels: block, image, row, column, channel."""


@dataclass(frozen=True)
class Rounds:
    """Which tasks are rounds over the same rows."""

    first: int = 0
    """Tasks before the first round."""
    rows: int = 0
    """Tasks of a round; 0: the tasks have no rows in common."""


def rounds_of(
    phase: Phase, weights: Collection[SSAValue], activations: Collection[SSAValue]
) -> Rounds:
    """Those of the phase's largest nest. `weights`, `activations`: the kernel's buffers.

    The rows' loop is the first of the parallel ones with which no weight is addressed, or the last
    one of a kernel without weights over images.
    """
    nest = max(phase.nests, key=lambda nest: nest.tasks)
    wide = [loop for loop in nest.parallel if extent_of(loop) > 1]
    if len(wide) < 2:
        return Rounds()
    accesses = accesses_in(nest.operation)
    used = {access.memref for access in accesses}
    read_weights = used.intersection(weights)
    others = used.intersection(activations)
    addressing = {
        index for access in accesses if access.memref in read_weights for index in access.indices
    }
    free = [loop for loop in wide if index_of(loop) not in addressing]
    if len(free) == len(wide):
        is_image = any(_dimensions(buffer) >= IMAGE_DIMENSIONS for buffer in others)
        free = wide[-1:] if is_image else []
    if not free or free[0] is wide[0]:
        return Rounds()
    if sum(map(_size_bytes, read_weights)) > MAX_WEIGHTS * sum(map(_size_bytes, others)):
        return Rounds()
    inside = nest.parallel[_position(nest.parallel, free[0]) :]
    return Rounds(nest.first_task, prod(extent_of(loop) for loop in inside))


def _position(loops: Collection[affine.ForOp], wanted: affine.ForOp) -> int:
    return next(number for number, loop in enumerate(loops) if loop is wanted)


def _dimensions(buffer: SSAValue) -> int:
    return len(_type_of(buffer).get_shape())


def _size_bytes(buffer: SSAValue) -> int:
    kind = _type_of(buffer)
    return prod(kind.get_shape()) * numpy_dtype(kind.element_type).itemsize


def _type_of(buffer: SSAValue) -> MemRefType:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type
