"""Runs the instructions of a program: numbers to the last bit, and the cycle of each.

    found = simulate(program, image, machine)
    found.image[offset:]       global memory afterwards
    found.cycles               until the last instruction has ended
    found.counters.macs        and bytes by content
    found.events[3]            when instruction 3 began and ended, and what it waited for

The native code runs in a child process within limits of time and work: no stream of instructions,
however damaged, ends or hangs the caller. What is wrong with a program is a `SimulationFault` with
the number and text of the instruction.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from explorer.errors import DeviceError, InputError
from explorer.runtime.compilers import compile_shared_library
from explorer.runtime.native.isolation import shared_file
from explorer.runtime.npu import block, child
from explorer.runtime.npu.cycles import Durations, durations
from explorer.runtime.processes import kill_group, signal_name
from explorer.runtime.scratch import own_folder
from explorer.targets.npu.assembly import line_of
from explorer.targets.npu.encoding import COLUMN, cached_formats, decode, field_table
from explorer.targets.npu.machine import CONTENTS, Machine

MAX_WORK = 1 << 38
"""Multiply-accumulates and numbers of vector instructions: minutes."""
SECONDS = 600.0
MAX_IMAGE_BYTES = 1 << 32
SCHEMES = ("multiplier_shift", "doubling_high_multiply", "shift")
ROUNDINGS = ("nearest_even", "nearest_up", "nearest_away_from_zero", "down", "to_zero")
FLAGS = ("-O3", "-ftree-vectorize")


class SimulationFault(InputError):
    """A program that cannot go on: which instruction, and why."""

    def __init__(self, message: str, *, instruction: int = -1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.instruction = instruction


@dataclass(frozen=True, kw_only=True)
class Tap:
    """Bytes of global memory, or of the scratchpad of activations, read when an instruction has
    ended."""

    name: str
    instruction: int
    offset_bytes: int
    size_bytes: int
    on_chip: bool = False


@dataclass(frozen=True, kw_only=True)
class InstructionEvent:
    """When an instruction ran, and how many cycles it waited for what."""

    number: int
    queue: str
    start_cycle: int
    end_cycle: int
    waits: tuple[tuple[str, int], ...] = ()
    """By cause, in the order of `WAITS`: fetch, token, room, channel, bank; without zeros."""


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What a program did, counted while it ran."""

    macs: int
    """Multiply-accumulates of the matrix engine, whether their results are used or not."""
    vector_operations: int
    """Numbers that vector, table, requantize and resetting instructions wrote."""
    loaded_bytes: dict[str, int]
    """From global memory, by content."""
    stored_bytes: dict[str, int]
    on_chip_bytes: dict[str, int]
    """Moved inside the chip: loaded and stored."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What came out of a run."""

    image: bytes
    """Global memory afterwards, from its first byte on."""
    taps: dict[str, bytes]
    cycles: int
    counters: Counters
    events: tuple[InstructionEvent, ...]
    """In program order."""
    busy_cycles: dict[str, int]
    """By queue: the sum of what its instructions took."""
    stalls: dict[str, dict[str, int]]
    """By queue and cause: what its instructions waited for."""
    utilization: float
    """Multiply-accumulates over what the matrix engine could have done in as many cycles."""


def simulate(
    program: bytes,
    image: bytes | np.ndarray,
    machine: Machine,
    *,
    taps: Sequence[Tap] = (),
    on_chip: np.ndarray | None = None,
    max_work: int = MAX_WORK,
    time_limit_seconds: float = SECONDS,
) -> Simulation:
    """Runs the program on a copy of the image.

    `on_chip`: u8, what the scratchpad of activations begins with; the rest is 0.

    Raises `InputError` for bytes that are no program of this machine, `SimulationFault` for one
    that leaves a memory, waits forever or works for too long, and `DeviceError` where the child
    process ends by itself or does not end.
    """
    table = field_table(program, machine)
    _check_tokens(table, machine, found := durations(table, machine))
    content = np.frombuffer(image, np.uint8) if isinstance(image, bytes) else image
    content = content.reshape(-1).view(np.uint8)
    if content.size > MAX_IMAGE_BYTES:
        raise InputError(f"an image has at most {MAX_IMAGE_BYTES} bytes, not {content.size}")
    rows = _tap_rows(taps, len(table), content.size, activation_bytes(machine))
    laid_out = block.plan_block(machine, len(table), content.size, rows)
    descriptor = shared_file(laid_out.size_bytes)
    try:
        shared = mmap.mmap(descriptor, laid_out.size_bytes)
        memory = np.frombuffer(shared, np.uint8)
        _fill(memory, laid_out, table, found, machine, content, rows, max_work)
        if on_chip is not None:
            start = block.scratchpad_starts(machine)[machine.by_content["activations"].memory]
            laid_out.view(memory, "scratchpads")[start : start + on_chip.size] = on_chip
        _run_child(descriptor, laid_out, memory, time_limit_seconds)
        _raise_fault(memory, laid_out, program, machine)
        return _read(memory, laid_out, machine, found, taps, rows)
    finally:
        os.close(descriptor)


def _check_tokens(table: np.ndarray, machine: Machine, found: Durations) -> None:
    """The first queue has no neighbour before it, the last none behind."""
    for side, end in (("before", 0), ("after", len(machine.queues) - 1)):
        for action in ("pop", "push"):
            wrong = table[:, COLUMN[f"{action}_{side}"]].astype(bool) & (found.queues == end)
            if wrong.any():
                number = int(np.flatnonzero(wrong)[0])
                raise SimulationFault(
                    f"instruction {number}: {action}_{side}, and no queue stands {side} "
                    f"{machine.queues[end].name}",
                    instruction=number,
                )


def activation_bytes(machine: Machine) -> int:
    """What the scratchpad of activations holds."""
    space = machine.by_content["activations"]
    return space.depth * space.element_bytes


def _tap_rows(
    taps: Sequence[Tap], instructions: int, image_bytes: int, chip_bytes: int
) -> np.ndarray:
    """One row per tap, by instruction, with the offset of its copy."""
    for tap in taps:
        if not 0 <= tap.instruction < instructions:
            raise InputError(f"tap {tap.name}: there is no instruction {tap.instruction}")
        most = chip_bytes if tap.on_chip else image_bytes
        if not 0 <= tap.offset_bytes <= tap.offset_bytes + tap.size_bytes <= most:
            raise InputError(f"tap {tap.name} lies outside of the image of {most} bytes")
    ordered = sorted(range(len(taps)), key=lambda i: taps[i].instruction)
    rows = np.zeros((len(taps), len(block.TAP)), np.int64)
    end = 0
    for row, i in enumerate(ordered):
        tap = taps[i]
        rows[row] = tap.instruction, tap.offset_bytes, tap.size_bytes, end, tap.on_chip
        end += tap.size_bytes
    return rows


def _fill(
    memory: np.ndarray,
    laid_out: block.Block,
    table: np.ndarray,
    found: Durations,
    machine: Machine,
    image: np.ndarray,
    taps: np.ndarray,
    max_work: int,
) -> None:
    header = laid_out.header(memory)
    for name, value in {
        **laid_out.offsets,
        "instructions": len(table),
        "image_bytes": image.size,
        "tap_count": len(taps),
        "max_work": max_work,
    }.items():
        header[block.HEADER.index(name)] = value
    laid_out.numbers(memory, "config")[:] = _configuration(machine, found.queues)
    laid_out.numbers(memory, "table")[:] = table.reshape(-1)
    laid_out.numbers(memory, "orders")[:] = np.argsort(found.queues, kind="stable")
    plans = laid_out.numbers(memory, "plans").reshape(-1, len(block.PLAN))
    plans[:, block.PLAN.index("queue")] = found.queues
    plans[:, block.PLAN.index("cycles")] = found.cycles
    plans[:, block.PLAN.index("dma")] = found.dma
    plans[:, block.PLAN.index("tap")] = -1
    for row in range(len(taps) - 1, -1, -1):
        plans[taps[row, 0], block.PLAN.index("tap")] = row
    laid_out.numbers(memory, "taps")[:] = taps.reshape(-1)
    laid_out.view(memory, "image")[:] = image


def _configuration(machine: Machine, queues: np.ndarray) -> np.ndarray:
    values: dict[str, list[int]] = {name: [] for name in block.CONFIG_SIZES}
    for name in ("rows", "columns", "rows_per_element", "input_bits", "weight_bits",
                 "accumulator_bits"):  # fmt: skip
        values[name] = [getattr(machine, name)]
    if machine.vector is not None and machine.vector.table_entries is not None:
        values["table_entries"] = [machine.vector.table_entries]
        values["table_bits"] = [machine.table_bits]
    if machine.scheme in SCHEMES:
        values["scheme"] = [SCHEMES.index(machine.scheme)]
        values["rounding"] = [ROUNDINGS.index(machine.rounding)]
    values["fetch_cycles"] = [machine.instructions.fetch_cycles]
    values["queues"] = [len(machine.queues)]
    values["scratchpads"] = [len(machine.scratchpads)]
    starts = block.scratchpad_starts(machine)
    for content in CONTENTS:
        space = machine.by_content.get(content)
        values["spaces"] += (
            [starts[space.memory], space.element_bytes, space.global_bytes, space.depth,
             space.memory] if space else [0, 0, 0, 0, -1]
        )  # fmt: skip
    for field in cached_formats(machine).micro_operation.fields:
        values["micro"] += [field.shift, field.bits]
    values["banks"] = [memory.banks for memory in machine.scratchpads]
    values["bank_bytes"] = [(m.size_bytes or 0) // m.banks for m in machine.scratchpads]
    values["ports"] = [memory.ports for memory in machine.scratchpads]
    ports = [memory.banks * memory.ports for memory in machine.scratchpads]
    values["first_port"] = np.cumsum([0, *ports])[:-1].tolist()
    values["channels"] = [engine.channels for engine in machine.dma_engines]
    values["queue_entries"] = [queue.entries for queue in machine.queues]
    values["queue_tokens"] = [queue.tokens for queue in machine.queues]
    lengths = np.bincount(queues, minlength=len(machine.queues))
    values["queue_lengths"] = lengths.tolist()
    values["queue_starts"] = np.cumsum([0, *lengths])[:-1].tolist()
    found = np.zeros(sum(block.CONFIG_SIZES.values()), np.int64)
    for name, numbers in values.items():
        start = block.CONFIG[name]
        found[start : start + len(numbers)] = numbers
    return found


@lru_cache(maxsize=1)
def library() -> Path:
    """The simulator, compiled once per process."""
    folder = own_folder() / "npu"
    folder.mkdir(exist_ok=True)
    return compile_shared_library(block.source(), folder, flags=FLAGS)


def _run_child(
    descriptor: int, laid_out: block.Block, memory: np.ndarray, time_limit_seconds: float
) -> None:
    command = [sys.executable, "-I", "-S", child.__file__]
    command += [str(library()), str(descriptor), str(laid_out.size_bytes)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            status = process.wait(time_limit_seconds)
        except subprocess.TimeoutExpired:
            number = int(laid_out.header(memory)[block.HEADER.index("progress")])
            raise DeviceError(
                f"the simulator did not end within {time_limit_seconds:g} s, "
                f"it was at instruction {number}",
                device="npu",
                hint="allow more time with `time_limit_seconds`",
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                kill_group(process)
        if status:
            log.seek(0)
            words = log.read().decode("utf-8", errors="replace").strip()
            ended = signal_name(status) or f"status {status}"
            number = int(laid_out.header(memory)[block.HEADER.index("progress")])
            raise DeviceError(
                f"the simulator was ended by {ended} at instruction {number}",
                device="npu",
                signal=signal_name(status),
                log=words,
            )


def _raise_fault(
    memory: np.ndarray, laid_out: block.Block, program: bytes, machine: Machine
) -> None:
    header = dict(zip(block.HEADER, laid_out.header(memory).tolist(), strict=True))
    if not header["fault"]:
        return
    number, value, limit = (
        header["fault_instruction"], header["fault_value"], header["fault_limit"]
    )  # fmt: skip
    size = cached_formats(machine).size_bytes
    (instruction,) = decode(program[number * size : (number + 1) * size], machine)
    content = CONTENTS[header["fault_content"]].replace("_", " ")
    reason = {
        1: f"{content} has {limit} elements, and element {value} is asked for",
        2: f"{content} end at byte {value} of global memory, of which there are {limit}",
        3: f"it waits forever: {value} of {limit} instructions have run, and no other can",
        4: f"the program takes more than {limit} steps of work",
        5: f"its block of {limit} bytes has no {value} numbers",
    }[header["fault"]]
    raise SimulationFault(
        f"instruction {number} ({line_of(instruction)}): {reason}", instruction=number
    )


def _read(
    memory: np.ndarray,
    laid_out: block.Block,
    machine: Machine,
    found: Durations,
    taps: Sequence[Tap],
    rows: np.ndarray,
) -> Simulation:
    events = laid_out.numbers(memory, "events").reshape(-1, block.EVENT_FIELDS)
    waits = events[:, 2:]
    cycles = int(events[:, 1].max(initial=0))
    counted = laid_out.numbers(memory, "counters").tolist()
    loaded, stored, moved = np.reshape(counted[2:], (3, len(CONTENTS))).tolist()
    counters = Counters(
        macs=counted[0],
        vector_operations=counted[1],
        loaded_bytes={c: n for c, n in zip(CONTENTS, loaded, strict=True) if n},
        stored_bytes={c: n for c, n in zip(CONTENTS, stored, strict=True) if n},
        on_chip_bytes={c: n for c, n in zip(CONTENTS, moved, strict=True) if n},
    )
    tapped = laid_out.view(memory, "tapped")
    ordered = sorted(range(len(taps)), key=lambda i: taps[i].instruction)
    copies = {taps[i].name: row for i, row in zip(ordered, rows, strict=True)}
    most = machine.batch * machine.rows * machine.columns * cycles
    names = [queue.name for queue in machine.queues]
    return Simulation(
        image=laid_out.view(memory, "image").tobytes(),
        taps={
            tap.name: tapped[row[3] : row[3] + row[2]].tobytes()
            for tap in taps
            for row in [copies[tap.name]]
        },
        cycles=cycles,
        counters=counters,
        events=tuple(
            InstructionEvent(
                number=number,
                queue=names[queue],
                start_cycle=start,
                end_cycle=end,
                waits=tuple((w, n) for w, n in zip(block.WAITS, waited, strict=True) if n),
            )
            for number, (queue, (start, end, *waited)) in enumerate(
                zip(found.queues.tolist(), events.tolist(), strict=True)
            )
        ),
        busy_cycles={
            name: int(found.cycles[found.queues == i].sum()) for i, name in enumerate(names)
        },
        stalls={
            name: {
                cause: int(total)
                for cause, total in zip(
                    block.WAITS, waits[found.queues == i].sum(axis=0), strict=True
                )
                if total
            }
            for i, name in enumerate(names)
        },
        utilization=counters.macs / most if most else 0.0,
    )
