"""A worker process that runs a program's native code, so that a fault ends the worker only.

    caller ── one line of JSON per request ──▶ worker ── explorer_run ──▶ arena
       ▲ ◀──────── one line of JSON back ────────┘
       └── exchange: memory of both, with inputs, outputs, taps and the times of the launches

Whatever goes wrong (a signal, an endless loop, a failed start) is a `DeviceError` that names the
launch that was running, as far as the table of times tells.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from explorer.errors import DeviceError
from explorer.results.program import Launch, Program
from explorer.runtime.cache.weights import MappedWeights
from explorer.runtime.native import worker
from explorer.runtime.native.worker import Execution, ProgramLayout
from explorer.runtime.processes import kill_group, signal_name

START_LIMIT_SECONDS = 60.0
"""For starting Python, receiving the weights and loading the library on a busy machine."""


class WorkerProcess:
    """One worker with one loaded program. It is of no use any more after a `DeviceError`."""

    def __init__(
        self,
        program: Program,
        layout: ProgramLayout,
        weights: np.ndarray | MappedWeights,
        time_limit_seconds: float,
        arena: int | None = None,
    ) -> None:
        """`arena`: the descriptor of one that several programs share."""
        self.time_limit_seconds = time_limit_seconds
        self._launches = program.launches
        self._received = b""
        exchange_file = shared_file(layout.exchange_bytes)
        try:
            self.exchange = mmap.mmap(exchange_file, layout.exchange_bytes)
        except OSError as error:
            os.close(exchange_file)
            raise DeviceError(worker.why_not_loaded(error, layout), device="cpu") from error
        command_read, command_write = os.pipe()
        reply_read, reply_write = os.pipe()
        lifeline_read, lifeline_write = os.pipe()
        # Closed with the worker.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        theirs = (command_read, reply_write, lifeline_read, exchange_file)
        if arena is not None:
            theirs = (*theirs, os.dup(arena))
        if isinstance(weights, MappedWeights):
            theirs, content = (*theirs, os.dup(weights.descriptor)), None
        else:
            content = weights
        self._process = start_worker(theirs, self._log)
        self._commands = command_write
        self._replies = reply_read
        # Also runs when the interpreter ends, so that no worker outlives it.
        self._finalizer = weakref.finalize(
            self,
            _end,
            self._process,
            (command_write, reply_read, lifeline_write),
            self._log,
            os.getpid(),
        )
        self._ask(layout._asdict(), START_LIMIT_SECONDS, content)

    @property
    def is_alive(self) -> bool:
        return self._finalizer.alive and self._process.poll() is None

    @property
    def process_id(self) -> int:
        return self._process.pid

    def execute(
        self,
        *,
        repeats: int,
        with_taps: bool,
        with_times: bool,
        feeds: list[int],
        with_shares: bool = False,
    ) -> Execution:
        """Like `LoadedProgram.execute`; `time_limit_seconds` holds for every single repeat."""
        request = {
            "repeats": repeats,
            "with_taps": with_taps,
            "with_times": with_times,
            "feeds": feeds,
            "with_shares": with_shares,
        }
        return Execution(**self._ask(request, self.time_limit_seconds))

    def close(self) -> None:
        self._finalizer()

    def _ask(
        self, request: dict[str, Any], limit_seconds: float, content: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Send a request, with bytes that follow it, and wait for the answer.

        Any exception ends the worker, also Ctrl-C: it may be in the midst of a run.
        """
        try:
            self._send(memoryview(json.dumps(request).encode() + b"\n"))
            if content is not None and content.nbytes:
                self._send(content.data)
            answer = self._receive(limit_seconds)
            if "error" in answer:
                raise DeviceError(answer["error"], device="cpu", log=self._read_log())
            return answer
        except BaseException:
            self.close()
            raise

    def _send(self, content: memoryview) -> None:
        try:
            while content:
                content = content[os.write(self._commands, content) :]
        except BrokenPipeError:
            raise self._failure() from None

    def _receive(self, limit_seconds: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            self._wait_for_bytes(limit_seconds)
            received = os.read(self._replies, 1 << 16)
            if not received:
                raise self._failure()
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def _wait_for_bytes(self, limit_seconds: float) -> None:
        """Wait while repeats get finished; fail when one takes longer than the limit."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            finished = self._finished_repeats()
            while not selector.select(limit_seconds):
                if self._finished_repeats() == finished:
                    raise DeviceError(
                        f"the program did not finish within {limit_seconds:g} s"
                        + describe_progress(self._launches, self.exchange),
                        device="cpu",
                        log=self._read_log(),
                        hint="allow more time with `time_limit_seconds`, or look for an endless "
                        "loop in that kernel",
                    )
                finished = self._finished_repeats()

    def _finished_repeats(self) -> int:
        return int.from_bytes(self.exchange[:8], sys.byteorder)

    def _failure(self) -> DeviceError:
        """The error for a worker that closed its end of the pipe."""
        status = self._process.wait()
        signal = signal_name(status)
        log = self._read_log()
        last_words = f"; it wrote: {log.splitlines()[-1]}" if log else ""
        return DeviceError(
            f"the program was ended by {signal or f'status {status}'}"
            f"{describe_progress(self._launches, self.exchange)}{last_words}",
            device="cpu",
            signal=signal,
            log=log,
            hint="look at the subscripts of that kernel; the next run starts a fresh worker",
        )

    def _read_log(self) -> str:
        """The end of what the worker wrote."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 8192))
        return self._log.read().decode("utf-8", errors="replace").strip()


def describe_progress(launches: Sequence[Launch], exchange: mmap.mmap) -> str:
    """`, in launch 3 of 60, conv_2 (kernel conv_1)`: the first launch that has no end time.

    Empty when no times were asked for. Launches count from 1 here, as people do.
    """
    count = worker.TIMES_PER_LAUNCH * len(launches)
    times = np.frombuffer(exchange, np.uint64, count, worker.TIMES_OFFSET)
    unfinished = np.flatnonzero(times[1::2] == worker.NOT_FINISHED)
    if len(unfinished) == 0:
        return ""
    index = int(unfinished[0])
    launch = launches[index]
    return (
        f", in launch {index + 1} of {len(launches)}, {launch.operation} (kernel {launch.kernel})"
    )


def start_worker(descriptors: tuple[int, ...], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start worker.py with these inherited descriptors, and close them here.

    By its path and without site-packages (-I -S): importing the package would take longer than
    most runs. In a session of its own, so that Ctrl-C is for the caller alone.
    """
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", worker.__file__, *map(str, descriptors)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        raise DeviceError(
            f"cannot start a worker process with `{sys.executable}`: {error.strerror}",
            hint="isolated=False runs the program in this process",
        ) from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def shared_file(size_bytes: int) -> int:
    """Descriptor of a nameless file that two processes can map; it takes no space until used."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("explorer-exchange")
    else:
        descriptor, name = tempfile.mkstemp(prefix="explorer-exchange-")
        Path(name).unlink()
    os.ftruncate(descriptor, size_bytes)
    return descriptor


def _end(
    process: subprocess.Popen[bytes], descriptors: tuple[int, ...], log: IO[bytes], owner: int
) -> None:
    """Kill the worker and collect it, so that it does not remain as a zombie."""
    if os.getpid() != owner:
        return  # a fork of the owner: the worker is not its own
    for descriptor in descriptors:
        os.close(descriptor)
    log.close()
    kill_group(process)
