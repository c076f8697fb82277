"""The arena of an OpenCL program: memory that host and processor share, or a buffer of a GPU.

    arena = arena_on(context, handle, size_bytes=4096)
    kernel.set_arg(0, arena.argument)
    arena.write(queue, 64, images)              shared: a plain copy; a buffer: one in the queue
    scores, events = arena.read(queue, 128, (1, 10), "float32")

Processors offer shared virtual memory of the fine-grained kind (OpenCL 2.0, section 3.3.3): what
the host writes while nothing runs is what kernels see, and the other way round. A copy in the queue
would wake a thread of the driver for every input and output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyopencl as cl

MIN_BYTES = 64
"""No buffer may be empty."""


class Arena(Protocol):
    """Zeroed memory of a program's activations."""

    @property
    def argument(self) -> Any:
        """What kernels are given; pyopencl has no type for it."""
        ...

    @property
    def shared(self) -> np.ndarray | None:
        """All bytes, where the host sees them."""
        ...

    def write(self, queue: cl.CommandQueue, offset_bytes: int, array: np.ndarray) -> list[cl.Event]:
        """Write a dense array; its event where the copy is in the queue."""
        ...

    def read(
        self, queue: cl.CommandQueue, offset_bytes: int, shape: tuple[int, ...], element_type: str
    ) -> tuple[np.ndarray, list[cl.Event]]:
        """An array of its own; valid once the queue is finished."""
        ...

    def release(self) -> None: ...


class SharedArena:
    def __init__(self, context: cl.Context, size_bytes: int) -> None:
        flags = cl.svm_mem_flags.READ_WRITE | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
        size = max(size_bytes, MIN_BYTES)
        self._bytes = cl.svm_empty(
            context,
            flags,  # pyright: ignore[reportArgumentType] (flags that are or-ed are an int)
            size,
            np.dtype(np.uint8),
            alignment=MIN_BYTES,
        )
        self._bytes[...] = 0

    @property
    def argument(self) -> Any:
        return cl.SVM(self._bytes)

    @property
    def shared(self) -> np.ndarray | None:
        return self._bytes

    def write(self, queue: cl.CommandQueue, offset_bytes: int, array: np.ndarray) -> list[cl.Event]:
        queue.finish()
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._bytes[offset_bytes : offset_bytes + flat.nbytes] = flat
        return []

    def read(
        self, queue: cl.CommandQueue, offset_bytes: int, shape: tuple[int, ...], element_type: str
    ) -> tuple[np.ndarray, list[cl.Event]]:
        queue.finish()
        array = np.empty(shape, element_type)
        flat = array.reshape(-1).view(np.uint8)
        flat[...] = self._bytes[offset_bytes : offset_bytes + array.nbytes]
        return array, []

    def release(self) -> None:
        """The driver takes it back with the last array over it."""


class BufferArena:
    def __init__(self, context: cl.Context, queue: cl.CommandQueue, size_bytes: int) -> None:
        size = max(size_bytes, MIN_BYTES)
        self._buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        cl.enqueue_fill_buffer(queue, self._buffer, np.zeros(1, np.uint8), 0, size)

    @property
    def argument(self) -> Any:
        return self._buffer

    @property
    def shared(self) -> np.ndarray | None:
        return None

    def write(self, queue: cl.CommandQueue, offset_bytes: int, array: np.ndarray) -> list[cl.Event]:
        if array.nbytes == 0:  # OpenCL refuses to copy nothing
            return []
        copied = cl.enqueue_copy(
            queue, self._buffer, array, dst_offset=offset_bytes, is_blocking=False
        )
        return [copied]

    def read(
        self, queue: cl.CommandQueue, offset_bytes: int, shape: tuple[int, ...], element_type: str
    ) -> tuple[np.ndarray, list[cl.Event]]:
        array = np.empty(shape, element_type)
        if array.nbytes == 0:
            return array, []
        copied = cl.enqueue_copy(
            queue, array, self._buffer, src_offset=offset_bytes, is_blocking=False
        )
        return array, [copied]

    def release(self) -> None:
        self._buffer.release()


@dataclass(frozen=True)
class SharedCall:
    """A program over shared memory, as `direct.DirectCalls` calls it."""

    arena: Any
    run: Callable[[], int]

    def bound_call(self) -> tuple[Callable[[], int], tuple[()]]:
        return self.run, ()


def arena_on(
    context: cl.Context, queue: cl.CommandQueue, handle: cl.Device, size_bytes: int
) -> Arena:
    """Shared memory on a processor that has it, else a buffer."""
    if handle.type & cl.device_type.CPU and shares_memory(handle):
        return SharedArena(context, size_bytes)
    return BufferArena(context, queue, size_bytes)


def shares_memory(handle: cl.Device) -> bool:
    try:
        found = handle.svm_capabilities
    except cl.Error:  # a driver of OpenCL 1.2 does not know the question
        return False
    return bool(found & cl.device_svm_capabilities.FINE_GRAIN_BUFFER)
