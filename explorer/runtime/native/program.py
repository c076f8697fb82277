"""Run a C program: build its shared library, load it into a worker process, call it.

    with NativeProgram(program, weights, threads=2) as executable:
        scores = executable.run({"images": images})["scores"]

The library's one function runs all launches (its tables and threads are generated with it):

    int explorer_run(char *arena, const char *weights, int threads,
                     void (*tap)(int launch, void *context), void *context,
                     unsigned long long *nanoseconds);
"""

from __future__ import annotations

import math
import mmap
import shutil
import statistics
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from explorer.closing import Closing
from explorer.errors import DeviceError, InputError
from explorer.files import temporary_files
from explorer.processor import processor_name
from explorer.results.program import OpenDimension, Port, Program, Tap
from explorer.results.runs.events import ProfileRecord
from explorer.runtime.cache import Entry, ProgramCache, default_cache
from explorer.runtime.cache.c_programs import cached_library, write_library
from explorer.runtime.cache.weights import MappedWeights
from explorer.runtime.compilers import compiler_for
from explorer.runtime.executable import (
    Arrays,
    TapKey,
    Taps,
    check_fed,
    check_inputs,
    check_program,
    check_repeats,
    check_weights,
)
from explorer.runtime.native.affinity import check_affinity
from explorer.runtime.native.direct import DirectCalls
from explorer.runtime.native.isolation import WorkerProcess
from explorer.runtime.native.shared_arena import SharedArena
from explorer.runtime.native.worker import (
    ALIGNMENT_BYTES,
    TIMES_OFFSET,
    TIMES_PER_LAUNCH,
    ExchangeCopy,
    Execution,
    LoadedProgram,
    ProgramLayout,
    why_not_loaded,
)
from explorer.runtime.profiles import median_events, median_shares
from explorer.runtime.scratch import own_folder
from explorer.runtime.sizes import shape_at, size_of_inputs

Build = Callable[[str], Path]
"""C source -> path of the shared library."""


class NativeProgram(Closing):
    """A program in C, on the processor of this machine. See `executable.Executable`."""

    def __init__(
        self,
        program: Program,
        weights: bytes | np.ndarray | MappedWeights,
        isolated: bool = True,
        threads: int = 1,
        *,
        affinity: Sequence[int] = (),
        build: Build | None = None,
        binary: Entry | None = None,
        time_limit_seconds: float = 120.0,
        name: str = "",
        cache: ProgramCache | None = None,
        arena: SharedArena | None = None,
    ) -> None:
        """Build the library, or take it from the program cache; the worker starts with a run.

        `isolated=False` loads the library into this process: no time limit then, and a fault
        ends this process. `affinity`: a processor for each thread, the caller's first; in this
        process the caller's own thread stays as it is (`os.sched_setaffinity` binds it). `build`
        replaces cache and compiler; `binary` is what the cache has given for the program already.
        Mapped weights are mapped by the worker, too, instead of sent to it. `time_limit_seconds`
        is for one inference. `name` is the model's, for the cache's reasons; `cache`: the
        environment's. `arena`: one that other programs use between the runs of this one.
        """
        if threads < 1:
            raise InputError(f"threads: expected 1 or more, got {threads}")
        check_program(program)
        self.program = program
        self.isolated = isolated
        self.threads = threads
        self.affinity = check_affinity(affinity)
        if self.affinity and len(self.affinity) != threads:
            raise InputError(
                f"affinity: {len(self.affinity)} processors for {threads} threads",
                hint="name one for each thread",
            )
        self.time_limit_seconds = time_limit_seconds
        self._mapped = weights if isinstance(weights, MappedWeights) else None
        self._weights = check_weights(
            program, weights.array if isinstance(weights, MappedWeights) else weights
        )
        self._binary = binary
        self._lock = threading.RLock()
        self._remove_folder: Callable[[], object] = lambda: None
        self._loaded: LoadedProgram | WorkerProcess | None = None
        self._direct: DirectCalls | None = None
        self._is_closed = False
        self._size = 0
        """Of the open dimension, in the run before."""
        self._name = name
        self._cache = cache
        self.library = (build or self._build)("\n".join(program.source.lines) + "\n")
        self._arena = arena
        layout = plan_exchange(program, self.library, threads, self.affinity)
        shared = 0 if arena is None else arena.size_bytes
        self._layout = layout._replace(shared_arena_bytes=shared)

    @property
    def takes_parts(self) -> bool:
        """Whether `run` takes inputs of a call's sizes, and gives outputs of them."""
        has_parts = self.program.sizes is not None or self.program.length is not None
        return not self.isolated and has_parts

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._lock:
            if self._direct is None and not self.isolated:
                loaded = self._load()
                assert isinstance(loaded, LoadedProgram)
                own = self._arena is None
                self._direct = DirectCalls(self.program, loaded, owns_arena=own)
            if self._direct is not None:
                return self._direct.run(inputs)
            self._execute(inputs, with_times=True)  # the times tell where a crash happened
            return self._read_outputs()

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        with self._lock:
            self._execute(inputs, with_taps=True, with_times=True, fed=fed or {})
            places = zip(self.program.taps, self._layout.taps, strict=True)
            taps = {(tap.operation, tap.result): self._read(tap, place) for tap, place in places}
            return self._read_outputs(), taps

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        check_repeats(repeats)
        with self._lock:
            milliseconds = statistics.median(self.time(inputs, repeats)) * 1e3
            execution = self._execute(
                inputs, repeats=repeats, with_times=True, with_shares=self.threads > 1
            )
        events = median_events(self.program, execution.nanoseconds, lane="cpu")
        return ProfileRecord(
            device=processor_name(),
            threads=self.threads,
            repeats=repeats,
            milliseconds=milliseconds,
            events=events,
            shares=median_shares(events, execution.nanoseconds, execution.shares),
        )

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        check_repeats(repeats)
        with self._lock:
            return self._execute(inputs, repeats=repeats + 1).seconds[1:]

    @property
    def worker_process_id(self) -> int | None:
        """Number of the process that holds the program; None while there is none."""
        loaded = self._loaded
        return loaded.process_id if isinstance(loaded, WorkerProcess) and loaded.is_alive else None

    def bind(self, program: Program, kept: Sequence[tuple[Port, Port]]) -> DirectCalls | None:
        """Calls of a program in this process, some outputs of which are inputs of the next call;
        None where it is in another process.

        `program`: this one without their ports. The caller makes no other calls meanwhile.
        """
        if self.isolated:
            return None
        with self._lock:
            loaded = self._load()
            assert isinstance(loaded, LoadedProgram)
            return DirectCalls(program, loaded, kept=kept)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._loaded is not None:
                self._loaded.close()
            self._loaded = self._direct = None
            self._remove_folder()

    def _build(self, source: str) -> Path:
        """Compile into a folder that goes with this object, or at the interpreter's end."""
        with temporary_files():
            folder = tempfile.mkdtemp(prefix="build-", dir=own_folder())
        self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, True)
        if self._binary is not None:
            return write_library(self._binary, Path(folder))
        cache = default_cache() if self._cache is None else self._cache
        compiler = compiler_for(self.program.processor)
        return cached_library(source, Path(folder), cache, name=self._name, compiler=compiler)

    def _execute(
        self,
        inputs: Mapping[str, np.ndarray],
        *,
        repeats: int = 1,
        with_taps: bool = False,
        with_times: bool = False,
        with_shares: bool = False,
        fed: Mapping[TapKey, np.ndarray] | None = None,
    ) -> Execution:
        if self._direct is not None:
            self._direct.forget()
        arrays = check_inputs(self.program, inputs)
        self._size = size_of_inputs(self.program, inputs)
        if self.program.size is not None:
            arrays.append(np.array([self._size], np.int64))
        loaded = self._load()
        for array, place in zip(arrays, self._layout.inputs, strict=True):
            self._write(loaded, place, array)
        feeds = []
        for number, (tap, place) in enumerate(
            zip(self.program.taps, self._layout.taps, strict=True)
        ):
            array = (fed or {}).get((tap.operation, tap.result))
            if array is not None:
                self._write(loaded, place, check_fed(tap, array))
                feeds.append(number)
        try:
            return loaded.execute(
                repeats=repeats,
                with_taps=with_taps,
                with_times=with_times,
                feeds=feeds,
                with_shares=with_shares,
            )
        except RuntimeError as error:  # in this process; a worker's is a DeviceError already
            raise DeviceError(str(error), device="cpu") from error

    def _load(self) -> LoadedProgram | WorkerProcess:
        """The loaded program; a fresh worker where there is none or it died."""
        if self._is_closed:
            raise DeviceError("the program was closed", hint="build it again")
        if isinstance(self._loaded, WorkerProcess) and not self._loaded.is_alive:
            self._loaded.close()
            self._loaded = None
        if self._loaded is None:
            self._loaded = self._start_worker() if self.isolated else self._load_here()
        return self._loaded

    def _start_worker(self) -> WorkerProcess:
        weights = self._weights if self._mapped is None else self._mapped
        arena = None if self._arena is None else self._arena.descriptor
        limit = self.time_limit_seconds
        return WorkerProcess(self.program, self._layout, weights, limit, arena)

    def _load_here(self) -> LoadedProgram:
        address = self._weights.ctypes.data
        is_constant = self._weights.nbytes > 0 and not self._weights.flags.writeable
        in_place = is_constant and address % ALIGNMENT_BYTES == 0
        try:
            exchange = mmap.mmap(-1, self._layout.exchange_bytes)
            arena = None if self._arena is None else self._arena.memory
            loaded = LoadedProgram(self._layout, exchange, address if in_place else 0, arena)
        except (OSError, AttributeError) as error:  # also a system that binds no threads
            raise DeviceError(why_not_loaded(error, self._layout), device="cpu") from error
        if not in_place:
            np.frombuffer(loaded.weights, np.uint8)[: self._weights.nbytes] = self._weights
        return loaded

    def _write(
        self, loaded: LoadedProgram | WorkerProcess, place: ExchangeCopy, array: np.ndarray
    ) -> None:
        target = np.frombuffer(loaded.exchange, np.uint8, place.size_bytes, place.exchange_offset)
        # At less than the largest size the array is the first part of its place.
        target[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def _read_outputs(self) -> Arrays:
        places = zip(self.program.outputs, self._layout.outputs, strict=True)
        return {
            port.name: self._read(port, place, shape_at(port, self._size)) for port, place in places
        }

    def _read(
        self, value: Port | Tap, place: ExchangeCopy, shape: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """A copy of an array in the exchange: the next run overwrites what lies there."""
        assert self._loaded is not None
        shape = value.shape if shape is None else shape
        size_bytes = math.prod(shape) * np.dtype(value.element_type).itemsize
        content = np.frombuffer(self._loaded.exchange, np.uint8, size_bytes, place.exchange_offset)
        return content.copy().view(value.element_type).reshape(shape)


def plan_exchange(
    program: Program, library: Path, threads: int, affinity: tuple[int, ...] = ()
) -> ProgramLayout:
    """Where inputs, outputs and taps lie in the memory between caller and worker."""
    launches = len(program.launches)
    next_offset = TIMES_OFFSET + launches * TIMES_PER_LAUNCH * 8

    def place(
        values: Iterable[Port | Tap | OpenDimension], steps: Sequence[int]
    ) -> tuple[ExchangeCopy, ...]:
        nonlocal next_offset
        transfers = []
        for value, step in zip(values, steps, strict=True):
            next_offset = -(-next_offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            transfers.append(ExchangeCopy(value.offset_bytes, next_offset, value.size_bytes, step))
            next_offset += value.size_bytes
        return tuple(transfers)

    sizes = () if program.size is None else (program.size,)
    inputs = place((*program.inputs, *sizes), [0] * (len(program.inputs) + len(sizes)))
    outputs = place(program.outputs, [launches] * len(program.outputs))
    taps = place(program.taps, [tap.step for tap in program.taps])
    return ProgramLayout(
        library=str(library),
        threads=threads,
        affinity=affinity,
        launches=launches,
        arena_bytes=program.arena_bytes,
        weights_bytes=program.weights_bytes,
        exchange_bytes=next_offset,
        inputs=inputs,
        outputs=outputs,
        taps=taps,
    )
