"""Where a program's time goes, line by line: sampled by Linux' `perf` while it runs.

    7f0c1a4e conv_1_phase0+0x9c    312 times     312 samples of line 41 of the kernel's source,
    7f0c1a52 conv_1_phase0+0xa0    105 times  -> which objdump names for the address, and of the
                                                 instruction itself in the kernel's assembly

The program is built once more, as it runs, with a table of lines; the compiler makes the same
instructions (`native.py` compares them). It runs over and over in its worker process, which `perf`
looks at a few thousand times a second. An instruction that waits is seen at the one behind it.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.errors import BuildError, DeviceError
from explorer.results import KernelRecord, Program
from explorer.runtime.assembly.attribution import kernel_ranges
from explorer.runtime.assembly.disassembler import (
    Instruction,
    disassembled_text,
    instructions_of,
)
from explorer.runtime.assembly.native import LINE_TABLE
from explorer.runtime.compilers import compile_shared_library, divisible_parts, find_compiler
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.processes import run_command
from explorer.runtime.scratch import own_folder

SECONDS = 1.5
START_SECONDS = 20.0
TIME_LIMIT_SECONDS = 60.0
SAMPLES_PER_SECOND = 4000
EVENTS = ("cycles:u", "cpu-clock:u")
"""What is counted between two samples: cycles, or time where the processor tells nothing (a
virtual machine)."""
INSTALL_HINT = "install perf (Debian: apt install linux-perf) so that it is found on the PATH"
FORBIDDEN_HINT = "sysctl kernel.perf_event_paranoid=2 allows it for one's own processes"
SAMPLE = re.compile(r"\s*[0-9a-f]+\s+(\S+)\+0x([0-9a-f]+)")


@dataclass(frozen=True)
class KernelSamples:
    """How often each line was at work, by its index."""

    source: Mapping[int, int]
    assembly: Mapping[int, int]
    """Empty where instructions could not be told apart."""


@dataclass(frozen=True)
class ProgramSamples:
    event: str
    count: int
    """Of all samples of the program's worker."""
    kernels: Mapping[str, KernelSamples]


def sample_program(
    program: Program,
    weights: bytes | np.ndarray,
    inputs: Mapping[str, np.ndarray],
    kernels: Mapping[str, KernelRecord],
    seconds: float = SECONDS,
) -> ProgramSamples:
    """Runs a program in C on one thread for some seconds.

    `kernels`: with their assembly, where that is to be told, too.

    Raises:
        BuildError: where perf or objdump is missing, or the compiler refuses.
        DeviceError: where the system forbids it, or nothing was seen.
    """
    perf, objdump = shutil.which("perf"), shutil.which("objdump")
    if perf is None:
        raise BuildError("perf is not installed on this machine", hint=INSTALL_HINT)
    if objdump is None:
        raise BuildError("objdump is not installed on this machine", hint="apt install binutils")
    source = "\n".join(program.source.lines) + "\n"
    with tempfile.TemporaryDirectory(prefix="samples-", dir=own_folder()) as name:
        folder = Path(name)
        library = compile_shared_library(
            source, folder, find_compiler(), LINE_TABLE, parts=divisible_parts(source)
        )
        with NativeProgram(program, weights, build=lambda _: library) as executable:
            event, places = _sampled(executable, inputs, seconds, perf, folder)
        if not places:
            raise DeviceError("perf saw nothing of the program", hint=FORBIDDEN_HINT)
        text = disassembled_text(library.read_bytes(), objdump)
    instructions = [found for found in instructions_of(text) if not found.is_padding]
    found = {kernel.name: _of_kernel(program, kernel, instructions, places)
             for kernel in kernels.values()}  # fmt: skip
    return ProgramSamples(event, sum(places.values()), found)


def _sampled(
    executable: NativeProgram,
    inputs: Mapping[str, np.ndarray],
    seconds: float,
    perf: str,
    folder: Path,
) -> tuple[str, Counter[tuple[str, int]]]:
    """(event, how often each (symbol, offset) was at work)."""
    (once,) = executable.time(inputs, 1)
    repeats = max(1, min(10_000, round(0.1 / max(once, 1e-6))))
    words = ""
    for event in EVENTS:
        data = folder / "samples"
        command = (
            perf, "record", "--quiet", "--event", event, "--freq", str(SAMPLES_PER_SECOND),
            "--pid", str(executable.worker_process_id), "--output", str(data),
        )  # fmt: skip
        recorder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + START_SECONDS  # where perf never begins
            while time.monotonic() < until and recorder.poll() is None:
                executable.time(inputs, repeats)
                if data.is_file():  # it looks from now on
                    until = min(until, time.monotonic() + seconds)
            if recorder.poll() is None:
                recorder.send_signal(signal.SIGINT)
            output, _ = recorder.communicate(timeout=TIME_LIMIT_SECONDS)
        finally:
            recorder.kill()
            recorder.wait()
        words = output.decode("utf-8", errors="replace").strip() or words
        if data.is_file():
            script = (perf, "script", "--input", str(data), "--fields", "ip,sym,symoff")
            finished = run_command(script, seconds=TIME_LIMIT_SECONDS)
            matches = map(SAMPLE.match, finished.output.splitlines())
            places = Counter((found[1], int(found[2], 16)) for found in matches if found)
            if places:
                return event, places
    first = next((line for line in words.splitlines() if line.strip()), "it wrote nothing")
    raise DeviceError(f"perf recorded nothing: {first}", device="cpu", hint=FORBIDDEN_HINT)


def _of_kernel(
    program: Program,
    kernel: KernelRecord,
    instructions: list[Instruction],
    places: Counter[tuple[str, int]],
) -> KernelSamples:
    own = kernel_ranges(program)[kernel.name]
    source: Counter[int] = Counter()
    by_symbol: dict[str, list[int]] = {}
    for instruction in instructions:
        count = places[instruction.symbol, instruction.offset]
        by_symbol.setdefault(instruction.symbol, []).append(count)
        # Of what the prelude has inline, the line that calls it.
        line = next((line for line in instruction.source_lines if line in own), None)
        if line is not None:
            source[line - own.start] += count
    return KernelSamples(+source, _of_assembly(kernel, by_symbol))


def _of_assembly(kernel: KernelRecord, by_symbol: Mapping[str, list[int]]) -> dict[int, int]:
    """Counts by line of the kernel's assembly, whose functions begin with their labels."""
    if kernel.assembly is None:
        return {}
    counts: dict[int, int] = {}
    symbol, number = "", 0
    written: Counter[str] = Counter()
    for index, line in enumerate(kernel.assembly.lines):
        label = line.removesuffix(":")
        if label != line and label in by_symbol:
            symbol, number = label, 0
        elif line.startswith("\t") and symbol:
            written[symbol] += 1
            if number < len(by_symbol[symbol]):
                counts[index] = by_symbol[symbol][number]
            number += 1
    is_alike = all(len(by_symbol[name]) == count for name, count in written.items())
    return {index: count for index, count in counts.items() if count} if is_alike else {}
