"""Load a compiled program's shared library and call it; alone in a process of its own.

    python -I -S worker.py COMMAND_FD REPLY_FD LIFELINE_FD EXCHANGE_FD [WEIGHTS_FD]

The parent writes one line of JSON (a `ProgramLayout`) and the bytes of the weights, where they do
not lie in a file that is open already, then one line per request, `{"repeats": 20, "with_taps":
false, "with_times": true, "feeds": []}`; each is answered by one line.
Arrays travel through the exchange, memory that both processes map:

    count of finished repeats | nanoseconds of every launch | inputs | outputs | taps

This file is run by its path and imports little of the standard library and nothing of ours, so
that a worker is ready in some 50 ms. `NativeProgram(isolated=False)` uses the same class without
a process around it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import mmap
import os
import resource
import sys
import threading
import time
from typing import Any, NamedTuple

ALIGNMENT_BYTES = 64
"""Of arena, weights and all arrays in the exchange: one cache line, one AVX-512 vector."""

COUNT_OFFSET = 0
TIMES_OFFSET = 64
TIMES_PER_LAUNCH = 2
NOT_FINISHED = 2**64 - 1
"""What the table of nanoseconds holds for a launch that has not started or not ended."""

NANOSECONDS = ctypes.POINTER(ctypes.c_ulonglong)
NUMBERS_OF_SHARE = 5
"""What `explorer_shares` says of one: first launch, last launch, beginning, end, tasks."""
TAP_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)


class ExchangeCopy(NamedTuple):
    """An array that is copied between arena and exchange, after the launch `step`."""

    arena_offset: int
    exchange_offset: int
    size_bytes: int
    step: int


class ProgramLayout(NamedTuple):
    """What a worker has to know of a program."""

    library: str
    threads: int
    affinity: tuple[int, ...]
    """A processor for each thread, or none."""
    launches: int
    arena_bytes: int
    weights_bytes: int
    exchange_bytes: int
    inputs: tuple[ExchangeCopy, ...]
    outputs: tuple[ExchangeCopy, ...]
    taps: tuple[ExchangeCopy, ...]
    shared_arena_bytes: int = 0
    """Of an arena that the programs of several processes use in turn; 0: it has its own."""

    @classmethod
    def from_json(cls, text: str) -> ProgramLayout:
        fields = json.loads(text)
        for name in ("inputs", "outputs", "taps"):
            fields[name] = tuple(ExchangeCopy(*transfer) for transfer in fields[name])
        fields["affinity"] = tuple(fields["affinity"])
        return cls(**fields)


class Execution(NamedTuple):
    """What one request brought, besides the arrays in the exchange."""

    seconds: list[float]
    """Per repeat: the call of the program alone, without copying inputs and outputs."""
    nanoseconds: list[list[int]]
    """Per repeat, when asked for: start and end of launch 0, start and end of launch 1 ..."""
    shares: list[list[list[int]]]
    """Per repeat, when asked for: thread, first launch, last launch, beginning, end and tasks of
    all that a thread did at once."""


def why_not_loaded(error: Exception, layout: ProgramLayout | None) -> str:
    """In words; with the memory that it asks for where there is too little."""
    is_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    size = f", with an arena of {layout.arena_bytes:,} bytes" if layout and is_memory else ""
    return f"cannot load the program{size}: {error}"


class LoadedProgram:
    """A shared library with its arena and weights, in this process."""

    def __init__(
        self,
        layout: ProgramLayout,
        exchange: mmap.mmap,
        weights_address: int = 0,
        arena: mmap.mmap | None = None,
    ) -> None:
        """The arena starts zeroed. Fill `weights` before the first `execute`.

        `weights_address`: of weights that lie aligned in this process already, and stay there.
        `arena`: memory that other programs use between the runs of this one.
        """
        self.layout = layout
        self.exchange = exchange
        self.arena = aligned_memory(layout.arena_bytes) if arena is None else arena
        self.weights = aligned_memory(0 if weights_address else layout.weights_bytes)
        self._exchange_address = address_of(exchange)
        self._arena_address = address_of(self.arena)
        self._weights_address = weights_address or address_of(self.weights)
        self._count = ctypes.c_ulonglong.from_buffer(exchange, COUNT_OFFSET)
        times = ctypes.c_ulonglong * (TIMES_PER_LAUNCH * layout.launches)
        self._times = times.from_buffer(exchange, TIMES_OFFSET)
        self._library = ctypes.CDLL(layout.library)
        self._function: Any = self._library.explorer_run  # no types for C functions
        self._function.restype = ctypes.c_int
        self._function.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int,
            TAP_FUNCTION,
            ctypes.c_void_p,
            NANOSECONDS,
        )
        if layout.affinity:
            self._bind(layout.affinity)

    def execute(
        self,
        *,
        repeats: int,
        with_taps: bool,
        with_times: bool,
        feeds: list[int],
        with_shares: bool = False,
    ) -> Execution:
        """Run the program `repeats` times with the inputs that lie in the exchange.

        `feeds` are numbers of taps for which another value lies in the exchange: it takes the
        place of the value in the arena when that has been read.

        The inputs are copied in before every repeat, since the memory plan may reuse their
        bytes. Outputs, and taps if asked for, are those of the last repeat.
        """
        taps = self._tap_function(frozenset(feeds)) if with_taps else TAP_FUNCTION()
        times = ctypes.cast(self._times, NANOSECONDS) if with_times else NANOSECONDS()
        seconds: list[float] = []
        nanoseconds: list[list[int]] = []
        shares: list[list[list[int]]] = []
        self._count.value = 0
        if with_shares:
            self._library.explorer_record(ctypes.c_int(1))
        for _ in range(repeats):
            # All bits set is NOT_FINISHED; without times the table stays empty.
            filler = 0xFF if with_times else 0
            ctypes.memset(ctypes.addressof(self._times), filler, ctypes.sizeof(self._times))
            self._copy_in(self.layout.inputs)
            started = time.perf_counter_ns()
            status = self._function(
                self._arena_address, self._weights_address, self.layout.threads, taps, None, times
            )
            seconds.append((time.perf_counter_ns() - started) * 1e-9)
            if status != 0:
                raise RuntimeError(
                    f"explorer_run returned {status} instead of 0 ({os.strerror(status)})"
                )
            if with_times:
                nanoseconds.append(self._finished_times())
            if with_shares:
                shares.append(self._recorded_shares())
            self._count.value += 1
        if with_shares:
            self._library.explorer_record(ctypes.c_int(0))
        self._copy_out(self.layout.outputs)
        return Execution(seconds, nanoseconds, shares)

    def execute_watched(self, watch: Any) -> None:
        """Run the program once; `watch` is a `TAP_FUNCTION`, called after every launch."""
        self._copy_in(self.layout.inputs)
        status = self._function(
            self._arena_address, self._weights_address, self.layout.threads, watch, None, None
        )
        if status != 0:
            raise RuntimeError(f"explorer_run returned {status} instead of 0")
        self._copy_out(self.layout.outputs)

    def bound_call(self) -> tuple[Any, tuple[Any, ...]]:
        """The function and its arguments for a run without tap and times, as C values.

        Where no types are declared ctypes converts nothing, which halves the cost of a call: None
        is a null pointer, a number an int.
        """
        function: Any = self._library["explorer_run"]  # an object of its own, without types
        function.restype = ctypes.c_int
        return function, (
            ctypes.c_void_p(self._arena_address),
            ctypes.c_void_p(self._weights_address),
            self.layout.threads,
            None,
            None,
            None,
        )

    def close(self) -> None:
        """End the threads that the library keeps; it needs no end where it has none."""
        stop = getattr(self._library, "explorer_stop", None)
        if stop is not None:
            stop()

    def _bind(self, processors: tuple[int, ...]) -> None:
        """Tell the library which processors its threads run on. OSError where it cannot."""
        status = self._library.explorer_bind(
            (ctypes.c_int * len(processors))(*processors), ctypes.c_int(len(processors))
        )
        if status:
            raise OSError(f"threads cannot be bound to processors ({os.strerror(status)})")

    def _recorded_shares(self) -> list[list[int]]:
        """Of all threads, in the run before."""
        found: list[list[int]] = []
        for thread in range(self.layout.threads):
            count = self._library.explorer_shares(thread, None, 0)
            numbers = (ctypes.c_ulonglong * (NUMBERS_OF_SHARE * count))()
            self._library.explorer_shares(thread, numbers, count)
            found += (
                [thread, *numbers[place : place + NUMBERS_OF_SHARE]]
                for place in range(0, len(numbers), NUMBERS_OF_SHARE)
            )
        return found

    def _finished_times(self) -> list[int]:
        """The table after a run; a launch that has nothing to run takes no time."""
        times = list(self._times)
        for index, nanoseconds in enumerate(times):
            if nanoseconds == NOT_FINISHED:
                times[index] = times[index - 1] if index else 0
        return times

    def _tap_function(self, feeds: frozenset[int]) -> Any:  # ctypes functions have no named type
        read: dict[int, list[ExchangeCopy]] = {}
        swapped: dict[int, list[ExchangeCopy]] = {}
        for number, tap in enumerate(self.layout.taps):
            chosen = swapped if number in feeds else read
            chosen.setdefault(tap.step, []).append(tap)

        def copy_taps(step: int, _context: int | None) -> None:
            self._copy_out(read.get(step, ()))
            for tap in swapped.get(step, ()):
                self._swap(tap)

        return TAP_FUNCTION(copy_taps)

    def _swap(self, transfer: ExchangeCopy) -> None:
        """Exchange the contents of arena and exchange."""
        fed = ctypes.string_at(
            self._exchange_address + transfer.exchange_offset, transfer.size_bytes
        )
        self._copy_out((transfer,))
        ctypes.memmove(self._arena_address + transfer.arena_offset, fed, transfer.size_bytes)

    def _copy_in(self, transfers: tuple[ExchangeCopy, ...]) -> None:
        for transfer in transfers:
            ctypes.memmove(
                self._arena_address + transfer.arena_offset,
                self._exchange_address + transfer.exchange_offset,
                transfer.size_bytes,
            )

    def _copy_out(self, transfers: tuple[ExchangeCopy, ...] | list[ExchangeCopy]) -> None:
        for transfer in transfers:
            ctypes.memmove(
                self._exchange_address + transfer.exchange_offset,
                self._arena_address + transfer.arena_offset,
                transfer.size_bytes,
            )


def aligned_memory(size_bytes: int) -> mmap.mmap:
    """Zeroed private memory, aligned to a page and in huge pages where the system has them."""
    memory = mmap.mmap(-1, max(size_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them: small pages are only slower
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def mapped_file(descriptor: int, size_bytes: int) -> mmap.mmap:
    """The file's bytes; what would be written to them stays with this process."""
    return mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_COPY)


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def serve(
    commands: io.BufferedReader,
    replies: io.BufferedWriter,
    exchange_descriptor: int,
    *others: int,
) -> None:
    """Answer requests until the parent closes its end.

    `others`: descriptors of a shared arena where the layout has one, and of weights in a file.
    """

    def reply(answer: dict[str, object]) -> None:
        replies.write(json.dumps(answer).encode() + b"\n")
        replies.flush()

    layout: ProgramLayout | None = None
    try:
        layout = ProgramLayout.from_json(commands.readline().decode())
        exchange = mmap.mmap(exchange_descriptor, layout.exchange_bytes)
        found = list(others)
        shared = layout.shared_arena_bytes
        arena = mmap.mmap(found.pop(0), shared) if shared else None
        weights = mapped_file(found[0], layout.weights_bytes) if found else None
        address = address_of(weights) if weights else 0
        program = LoadedProgram(layout, exchange, address, arena)
        if layout.affinity:
            os.sched_setaffinity(0, layout.affinity[:1])  # of this thread alone
        if weights is None:
            receive(commands, memoryview(program.weights)[: layout.weights_bytes])
        reply({"ready": True})
    except (OSError, AttributeError, EOFError) as error:
        reply({"error": why_not_loaded(error, layout)})
        return
    for line in commands:
        try:
            execution = program.execute(**json.loads(line))
        except RuntimeError as error:
            reply({"error": str(error)})
        else:
            reply(execution._asdict())


def receive(source: io.BufferedReader, target: memoryview) -> None:
    """Fill `target` with the next bytes of `source`."""
    received = 0
    while received < len(target):
        count = source.readinto(target[received:])
        if not count:
            raise EOFError("the parent ended while it sent the weights")
        received += count


def end_with_parent(lifeline: int) -> None:
    """End this process when the parent does, even in the midst of an endless kernel.

    Nothing is ever written to the lifeline: a read returns when its other end is closed.
    """
    os.read(lifeline, 1)
    os._exit(1)


def main() -> None:
    command_descriptor, reply_descriptor, lifeline, *rest = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected, its memory of no use
    threading.Thread(target=end_with_parent, args=(lifeline,), daemon=True).start()
    with os.fdopen(command_descriptor, "rb") as commands, os.fdopen(reply_descriptor, "wb") as out:
        serve(commands, out, *rest)


if __name__ == "__main__":
    main()
