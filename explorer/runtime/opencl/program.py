"""Run an OpenCL C program on a device: build, set all arguments once, enqueue.

    with OpenCLProgram(program, weights, device) as executable:
        scores = executable.run({"images": images})["scores"]

Two buffers hold everything: the arena and the weights. Every phase of a kernel is an OpenCL
kernel that gets both and one offset per argument, and runs as many work-items as it has tasks:

    __kernel void conv_1_phase0(__global char *arena, __global const char *weights,
                                const ulong offset0, const ulong offset1, ...)

The queue is in order, so launches need no events between them. This runs in the caller's
process: a driver that crashes takes it along. `devices.list_devices` has tried each device.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyopencl as cl

from explorer.closing import Closing
from explorer.errors import BuildError, DeviceError
from explorer.results.kernels import PhaseRecord
from explorer.results.program import Chain, Launch, Port, Program, Tap
from explorer.results.runs.events import ProfileRecord, TimedEvent
from explorer.runtime.cache import ProgramCache, default_cache
from explorer.runtime.cache.opencl_programs import cached_program
from explorer.runtime.caller_devices import (
    device_for,
)
from explorer.runtime.compilers import first_error_line
from explorer.runtime.devices import DeviceRecord, opencl_device
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
from explorer.runtime.native.direct import DirectCalls
from explorer.runtime.native.shared_arena import SharedArena
from explorer.runtime.opencl.handles import check_part, find_device, open_device, part_of
from explorer.runtime.opencl.memory import SharedCall, arena_on
from explorer.runtime.profiles import median_events, median_intervals
from explorer.runtime.sizes import shape_at, size_of_inputs

PHASES = "-DPHASES"
"""Makes every phase of a chain a kernel of its own, in place of the chain."""
NO_WARNINGS = "-w"
"""OpenCL's own option: PoCL's compiler prints "2 warnings generated." to standard error."""
PROGRESS_BYTES = 128
"""Of the chain's account, for each of its steps."""
RUN_ARGUMENT = 5
"""Of the chain: the number of the run."""


@dataclass(frozen=True)
class Dispatch:
    """One phase of one launch, with its arguments already set."""

    kernel: cl.Kernel
    work_items: int
    group_items: int | None
    """Work-items per work-group; None leaves it to the driver."""
    counts_runs: bool = False
    """Whether the number of the run is an argument."""


class OpenCLProgram(Closing):
    """A program in OpenCL C on one device. See `executable.Executable`."""

    def __init__(
        self,
        program: Program,
        weights: bytes | np.ndarray,
        device: DeviceRecord | None = None,
        *,
        options: Sequence[str] = (),
        compute_units: int | None = None,
        name: str = "",
        cache: ProgramCache | None = None,
        arena: SharedArena | None = None,
    ) -> None:
        """Build the program, or take it from the program cache, and move its weights over.

        Without a `device` all are tried (about a second) and the first usable one is taken, a
        GPU before a CPU. `options` go to the OpenCL compiler. `compute_units` takes only so many
        of the device's (a sub-device), where it is a processor; all by default. `name` is the
        model's, for the cache's reasons; `cache`: the environment's. `arena`: one that other
        programs use between the runs of this one.
        """
        check_program(program)
        self.program = program
        flat_weights = check_weights(program, weights)
        self.device = device or opencl_device()
        self._lock = threading.RLock()
        self._is_closed = False
        with self._device_errors("cannot be prepared"):
            self._runs_on, self._compute_units, handle = self._choose_device(compute_units)
            self._check_memory(handle)
            self._handle = handle
            shared = SharedArena(program.arena_bytes) if arena is None else arena
            self._context = shared.kept(("context", handle), lambda: cl.Context([handle]))
            self._queue = cl.CommandQueue(self._context)
            self._profiling_queue = cl.CommandQueue(
                self._context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
            self._cache = default_cache() if cache is None else cache
            self._options, self._name = tuple(options), name
            chain = program.chain
            if chain is not None and self.device.processor != "cpu":
                self._options, chain = (*self._options, PHASES), None
            self._chain_steps = {step: i for i, step in enumerate(chain.steps if chain else ())}
            self._arena = shared.kept(
                ("arena", handle),
                lambda: arena_on(self._context, self._queue, handle, shared.size_bytes),
            )
            self._owns_arena = arena is None
            self._weights = cl.Buffer(
                self._context, cl.mem_flags.READ_ONLY, max(program.weights_bytes, 64)
            )
            if flat_weights.nbytes:
                cl.enqueue_copy(self._queue, self._weights, flat_weights)
            self._queue.finish()
            self._sized_kernels: list[cl.Kernel] = []
            """Kernels whose last argument is the size of the open dimension."""
            self._size = 0
            self._run: int | None = 0
            """The number of the next run; None after one that failed."""
            self._built = self._build(self._options, chain)
            self._plan = self._make_plan(chain)
            """What a run enqueues: launches, on a processor those of the chain together."""
            self._calls = self._direct_calls()

    def _choose_device(self, compute_units: int | None) -> tuple[DeviceRecord, int, cl.Device]:
        """What runs the program: one thread is the caller's where the driver allows it."""
        record = self.device
        units = record.compute_units if compute_units is None else compute_units
        check_part(record, units)
        caller = device_for(self.program, record, units)
        if caller != record and (handle := find_device(caller)) is not None:
            return caller, 1, handle
        handle = open_device(record)
        if units == record.compute_units:
            return record, units, handle
        # A part has no address to try a cached binary at.
        return replace(record, address=""), units, part_of(handle, record, units)

    def _build(self, options: Sequence[str], chain: Chain | None) -> cl.Program:
        def build() -> cl.Program:
            built = build_program(self._context, self._handle, self.program, options)
            if chain is not None:
                # No step is run, but the driver compiles the kernel now, not in the first run.
                self._enqueue(self._queue, self._chain_part(built, 0, 0))
                self._queue.finish()
            return built

        if not self._runs_on.address:
            return build()
        source = "\n".join(self.program.source.lines) + "\n"
        return cached_program(
            self._context,
            self._handle,
            self._runs_on,
            source,
            options,
            self._cache,
            build,
            self._name,
        )

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with self._using("run"):
            if self._calls is not None:
                return self._calls.run(inputs)
            self._write_inputs(self._queue, inputs)
            self._enqueue_plan()
            return self._read_outputs(self._queue)[0]

    def run_with_taps(
        self, inputs: Mapping[str, np.ndarray], fed: Mapping[TapKey, np.ndarray] | None = None
    ) -> tuple[Arrays, Taps]:
        taps: Taps = {}
        by_step: dict[int, list[Tap]] = {}
        for tap in self.program.taps:
            by_step.setdefault(tap.step, []).append(tap)

        def read_taps(step: int) -> None:
            for tap in by_step.get(step, ()):
                taps[_tap_key(tap)] = self._read(self._queue, tap)[0]
                array = (fed or {}).get(_tap_key(tap))
                if array is not None:
                    dense = check_fed(tap, array)
                    self._arena.write(self._queue, tap.offset_bytes, dense)
                    self._queue.finish()  # before the copied array may go

        with self._using("run"):
            self._write_inputs(self._queue, inputs)
            self._launch_all(self._queue, after_launch=read_taps)
            outputs, _ = self._read_outputs(self._queue)
        return outputs, {key: taps[key] for key in map(_tap_key, self.program.taps)}

    def profile(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> ProfileRecord:
        """Besides the launches, the copies of inputs and outputs are events of a lane.

        Launches that run in a chain are timed one by one: together they take less.
        """
        check_repeats(repeats)
        with self._using("be profiled"):
            milliseconds = statistics.median(self.time(inputs, repeats)) * 1e3
            tables = [self._timed_run(inputs) for _ in range(repeats)]
        return ProfileRecord(
            device=self.device.name,
            threads=self._compute_units,
            repeats=repeats,
            milliseconds=milliseconds,
            events=self._median_events(tables),
        )

    def time(self, inputs: Mapping[str, np.ndarray], repeats: int = 20) -> list[float]:
        check_repeats(repeats)
        seconds = []
        with self._using("be timed"):
            for _ in range(repeats + 1):
                self._write_inputs(self._queue, inputs)
                self._queue.finish()
                started = time.perf_counter()
                self._enqueue_plan()
                self._queue.finish()
                seconds.append(time.perf_counter() - started)
        return seconds[1:]

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._plan, self._calls = [], None
                self.__dict__.pop("_launches", None)
                if self._owns_arena:  # else the driver takes it back with the last program
                    self._arena.release()
                self._weights.release()

    def _check_memory(self, handle: cl.Device) -> None:
        for name, size in (
            ("arena", self.program.arena_bytes),
            ("weights", self.program.weights_bytes),
        ):
            if size > handle.max_mem_alloc_size:
                raise DeviceError(
                    f"the {name} takes {size} bytes, and the device allows buffers of "
                    f"{handle.max_mem_alloc_size}",
                    device=self.device.name,
                    hint="a smaller model or batch, or the target cpu",
                )

    @cached_property
    def _launches(self) -> list[list[Dispatch]]:
        """Every launch by itself, for taps and profiles. Those of a chain are built for it now."""
        built = self._built
        if self._chain_steps:
            built = self._build((*self._options, PHASES), None)
        return [self._prepare(launch, built) for launch in self.program.launches]

    def _prepare(self, launch: Launch, built: cl.Program) -> list[Dispatch]:
        """The phases of a launch, each an own kernel object that keeps its arguments."""
        dispatches = []
        for phase in self._phases_of(launch):
            kernel = cl.Kernel(built, phase.function)
            if phase.group_items:
                self._check_group(kernel, phase, launch)
            expected = 2 + len(launch.arguments)
            takes_size = self.program.size is not None and kernel.num_args == expected + 1
            if kernel.num_args != expected and not takes_size:
                raise BuildError(
                    f"kernel `{phase.function}` takes {kernel.num_args} arguments, its launch "
                    f"has {expected}",
                    node=launch.operation,
                )
            kernel.set_arg(0, self._arena.argument)
            kernel.set_arg(1, self._weights)
            for index, argument in enumerate(launch.arguments, start=2):
                kernel.set_arg(index, np.uint64(argument.offset_bytes))
            if takes_size:
                self._takes_size(kernel)
            if phase.tasks:
                group_items = phase.group_items or work_group_items(phase.tasks, self.device)
                work_items = phase.work_items or phase.tasks
                dispatches.append(Dispatch(kernel, work_items, group_items))
        return dispatches

    def _make_plan(self, chain: Chain | None) -> list[Dispatch]:
        """All phases in order; neighbours of the program's chain in one dispatch."""
        if chain is None:
            return [dispatch for dispatches in self._launches for dispatch in dispatches]
        plan: list[Dispatch] = []
        first = last = 0
        for number, launch in enumerate(self.program.launches):
            if (number, 0) in self._chain_steps:
                last = self._chain_steps[number, 0] + len(self._phases_of(launch))
                continue
            if first < last:
                plan.append(self._chain_part(self._built, first, last))
            plan += self._prepare(launch, self._built)
            first = last
        return [*plan, self._chain_part(self._built, first, last)] if first < last else plan

    def _chain_part(self, built: cl.Program, first: int, last: int) -> Dispatch:
        """The dispatch of the chain's steps from `first` to before `last`."""
        chain = self.program.chain
        assert chain is not None
        kernel = cl.Kernel(built, chain.function)
        kernel.set_arg(0, self._arena.argument)
        kernel.set_arg(1, self._weights)
        kernel.set_arg(2, self._progress)
        kernel.set_arg(3, np.int32(first))
        kernel.set_arg(4, np.int32(last))
        kernel.set_arg(RUN_ARGUMENT, np.uint32(0))
        if kernel.num_args > RUN_ARGUMENT + 1:
            self._takes_size(kernel)
        groups = self._compute_units if chain.is_shared else 1
        return Dispatch(kernel, groups, 1, counts_runs=groups > 1)

    @cached_property
    def _progress(self) -> cl.Buffer:
        """Claims of the chain's steps, which count on from run to run."""
        chain = self.program.chain
        assert chain is not None
        size = PROGRESS_BYTES * len(chain.steps)
        return cl.Buffer(
            self._context,
            cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
            hostbuf=np.zeros(size, np.uint8),
        )

    def _takes_size(self, kernel: cl.Kernel) -> None:
        kernel.set_arg(kernel.num_args - 1, np.int64(self._size))
        self._sized_kernels.append(kernel)

    def _phases_of(self, launch: Launch) -> tuple[PhaseRecord, ...]:
        record = next((k for k in self.program.kernels if k.name == launch.kernel), None)
        if record is None:
            raise DeviceError(f"the program has no kernel `{launch.kernel}`", node=launch.operation)
        return record.phases

    def _enqueue_plan(self) -> None:
        """Enqueue a whole run without waiting; nothing between its dispatches can be read."""
        run, self._run = self._next_run(), None
        for dispatch in self._plan:
            if dispatch.counts_runs:
                dispatch.kernel.set_arg(RUN_ARGUMENT, np.uint32(run))
            self._enqueue(self._queue, dispatch)
        self._queue.flush()
        # Only a run that was handed over whole counts: else not all of its claims are taken.
        self._run = (run + 1) % 2**32

    def _next_run(self) -> int:
        """After a run that was not handed over whole the account of claims begins anew."""
        if self._run is not None:
            return self._run
        if any(dispatch.counts_runs for dispatch in self._plan):
            self._queue.finish()
            zero = np.zeros(1, np.uint8)
            cl.enqueue_fill_buffer(self._queue, self._progress, zero, 0, self._progress.size)
        return 0

    def bind(self, program: Program, kept: Sequence[tuple[Port, Port]]) -> DirectCalls | None:
        """As `NativeProgram.bind`; None where the host does not see the arena."""
        return self._direct_calls(program, kept)

    def _direct_calls(
        self, program: Program | None = None, kept: Sequence[tuple[Port, Port]] = ()
    ) -> DirectCalls | None:
        """Calls at little cost, where the host sees the arena."""
        shared = self._arena.shared
        if shared is None:
            return None
        size = self.program.size

        def run() -> int:
            if size is not None:
                place = shared[size.offset_bytes :][: size.size_bytes]
                self._set_size(int(place.view(np.int64)[0]))
            self._enqueue_plan()
            self._queue.finish()
            return 0

        call = SharedCall(shared, run)
        return DirectCalls(program or self.program, call, self.device.name, kept)

    def _check_group(self, kernel: cl.Kernel, phase: PhaseRecord, launch: Launch) -> None:
        """The device may allow smaller groups, and have less local memory, than others have."""
        (handle,) = self._context.devices
        info = cl.kernel_work_group_info
        most = kernel.get_work_group_info(info.WORK_GROUP_SIZE, handle)
        taken = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, handle)
        if phase.group_items <= most and taken <= handle.local_mem_size:
            return
        raise BuildError(
            f"kernel `{phase.function}` needs groups of {phase.group_items} work-items and {taken} "
            f"bytes of local memory; the device allows {most} and has {handle.local_mem_size}",
            node=launch.operation,
            hint=f"choose smaller tiles: schedule-loops/{launch.kernel}/row_items, column_items, "
            "depth; or schedule = items",
        )

    def _launch_all(
        self, queue: cl.CommandQueue, after_launch: Callable[[int], None] | None = None
    ) -> list[list[cl.Event]]:
        """Enqueue everything without waiting. The events of each launch's phases."""
        events = []
        for index, dispatches in enumerate(self._launches):
            events.append([self._enqueue(queue, dispatch) for dispatch in dispatches])
            if after_launch is not None:
                after_launch(index)
        return events

    def _enqueue(self, queue: cl.CommandQueue, dispatch: Dispatch) -> cl.Event:
        group = None if dispatch.group_items is None else (dispatch.group_items,)
        return cl.enqueue_nd_range_kernel(queue, dispatch.kernel, (dispatch.work_items,), group)

    def _write_inputs(
        self, queue: cl.CommandQueue, inputs: Mapping[str, np.ndarray]
    ) -> list[list[cl.Event]]:
        """Start copying the inputs into the arena; the events of each."""
        arrays = check_inputs(self.program, inputs)
        self._set_size(size_of_inputs(self.program, inputs))
        return [
            self._arena.write(queue, port.offset_bytes, array)
            for port, array in zip(self.program.inputs, arrays, strict=True)
        ]

    def _set_size(self, size: int) -> None:
        """Gives the size of the open dimension to the kernels that take it, where it is new."""
        if size != self._size:
            self._size = size
            for kernel in self._sized_kernels:
                kernel.set_arg(kernel.num_args - 1, np.int64(size))

    def _read_outputs(self, queue: cl.CommandQueue) -> tuple[Arrays, list[list[cl.Event]]]:
        """All outputs after waiting for everything in the queue."""
        outputs: Arrays = {}
        events = []
        for port in self.program.outputs:
            outputs[port.name], copied = self._read(queue, port, shape_at(port, self._size))
            events.append(copied)
        queue.finish()
        return outputs, events

    def _read(
        self, queue: cl.CommandQueue, place: Port | Tap, shape: tuple[int, ...] | None = None
    ) -> tuple[np.ndarray, list[cl.Event]]:
        """Start copying a part of the arena; valid once the queue is finished."""
        shape = place.shape if shape is None else shape
        return self._arena.read(queue, place.offset_bytes, shape, place.element_type)

    def _timed_run(self, inputs: Mapping[str, np.ndarray]) -> list[int]:
        """Start and end in nanoseconds of every input's copy, launch and output's copy."""
        events = self._write_inputs(self._profiling_queue, inputs)
        events += self._launch_all(self._profiling_queue)
        events += self._read_outputs(self._profiling_queue)[1]
        table: list[int] = []
        now = 0
        for step in events:
            start = step[0].profile.start if step else now
            now = step[-1].profile.end if step else now
            table += [start, now]
        begin = next((event.profile.start for step in events for event in step), 0)
        return [max(0, nanoseconds - begin) for nanoseconds in table]

    def _median_events(self, tables: list[list[int]]) -> tuple[TimedEvent, ...]:
        inputs, outputs = self.program.inputs, self.program.outputs
        first, last = len(inputs), len(inputs) + len(self.program.launches)
        intervals = median_intervals(tables, last + len(outputs))

        def transfer(name: str, port: Port, interval: tuple[int, int]) -> TimedEvent:
            return TimedEvent(
                name=f"{name} {port.name}",
                operation="",
                kernel="",
                lane="transfers",
                start_ns=interval[0],
                end_ns=interval[1],
                bytes_moved=port.size_bytes,
            )

        launches = [[time for interval in intervals[first:last] for time in interval]]
        return (
            *(transfer("write", p, i) for p, i in zip(inputs, intervals[:first], strict=True)),
            *median_events(self.program, launches, lane="kernels"),
            *(transfer("read", p, i) for p, i in zip(outputs, intervals[last:], strict=True)),
        )

    @contextlib.contextmanager
    def _using(self, action: str) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise DeviceError("the program was closed", hint="build it again")
            with self._device_errors(f"cannot {action}"):
                yield

    @contextlib.contextmanager
    def _device_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except cl.Error as error:
            raise DeviceError(
                f"the program {action}: {error}",
                device=self.device.name,
                hint="`list_devices()` says whether the device still works",
            ) from error


def work_group_items(tasks: int, device: DeviceRecord) -> int | None:
    """How many tasks share a work-group: on a CPU the tasks that one core takes at a time.

    PoCL left alone puts up to 56 tasks into one group, hence onto one core (measured on two
    cores: 115 GFLOP/s in place of 230). A group of one task costs about 6 ns per task, which
    only counts where there are many; so groups grow while every core still has eight of them.
    """
    if device.processor != "cpu":
        return None
    group = 1
    while (
        group < 64 and tasks % (2 * group) == 0 and tasks // (2 * group) >= 8 * device.compute_units
    ):
        group *= 2
    return group


def build_program(
    context: cl.Context, device: cl.Device, program: Program, options: Sequence[str]
) -> cl.Program:
    """Compile the program's source; the driver's words are in `BuildError.log`."""
    built = cl.Program(context, "\n".join(program.source.lines) + "\n")
    with warnings.catch_warnings():
        # Whatever a driver prints is a warning of pyopencl's, and so is what comes next.
        warnings.simplefilter("ignore")
        # Asking for anything before the build keeps pyopencl's cache of binaries out of it: it
        # is shared with other programs, and drivers have caches of their own.
        _ = built.int_ptr
        try:
            return built.build([NO_WARNINGS, *options], devices=[device])
        except cl.RuntimeError as error:
            log = str(built.get_build_info(device, cl.program_build_info.LOG)).strip() or str(error)
    raise BuildError(
        f"the OpenCL compiler refused the program: {first_error_line(log)}",
        log=log,
        hint="read the compiler's whole output in this error's `log`",
    )


def _tap_key(tap: Tap) -> tuple[str, int]:
    return tap.operation, tap.result
