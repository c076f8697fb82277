"""Builds and runs printed kernels: through gcc and ctypes, and through an OpenCL device."""

import ctypes
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func

from explorer.kernels.printing.c import print_c
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.printing.printer import PrintedKernel
from explorer.kernels.program.translation_unit import EmittedProgram, emit_program
from explorer.results.program import Argument, Launch
from explorer.runtime.core_at_hand import restrictions_at_hand

without_driver = run_path(str(Path(__file__).parents[1] / "alone.py"))["without_driver"]

# The flags of the runtime, and warnings as errors: generated code is clean.
FLAGS = (
    "-O2 -march=native -mprefer-vector-width=512 -ffp-contract=fast -fno-math-errno "
    "-fno-trapping-math -fno-signed-zeros -fno-tree-vectorize -fno-ipa-modref -fno-ipa-pure-const "
    "-std=gnu11 -shared -fPIC -pthread "
    "-Wall -Wno-unused-function -Werror " + " ".join(restrictions_at_hand())
)
ALIGNMENT = 64
# Kernels run once here, and compiling them is all that takes time: the driver optimizes less.
QUICK = ["-cl-opt-disable"]

Arrays = Mapping[str, np.ndarray]
CompileC = Callable[..., ctypes.CDLL]
Run = Callable[..., dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[str, ...], bytes]:
    """The libraries of a module's tests by text and flags: many ask for the same program."""
    return {}


@pytest.fixture
def compile_c(tmp_path: Path, compiled: dict[tuple[str, ...], bytes]) -> CompileC:
    """`compile_c(text)` builds a shared library with gcc and loads it: each time from a file of
    its own, so that no test sees the variables of another one's library."""

    def compile_text(text: str, *flags: str) -> ctypes.CDLL:
        source = tmp_path / f"program{len(list(tmp_path.iterdir()))}.c"
        source.write_text(text)
        library = source.with_suffix(".so")
        if (text, *flags) not in compiled:
            command = ["gcc", *FLAGS.split(), *flags, str(source), "-o", str(library), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            compiled[text, *flags] = library.read_bytes()
        library.write_bytes(compiled[text, *flags])
        return ctypes.CDLL(str(library))

    return compile_text


@pytest.fixture
def run_c(compile_c: CompileC) -> Run:
    """`run_c(function, arrays)` gives the buffers by name after one launch in C."""

    def run(function: func.FuncOp, arrays: Arrays, threads: int = 1) -> dict[str, np.ndarray]:
        printed = print_c(function, "kernel_1")
        memory = {"arena": bytearray(), "weights": bytearray()}
        launch = place(printed, arrays, memory)
        program = emit_program("c", [printed], [launch])
        text = text_of(program) if threads > 1 else without_driver(program.source.lines)
        library = compile_c(text)
        buffers = {space: aligned(data) for space, data in memory.items()}
        status = library.explorer_run(
            ctypes.c_void_p(buffers["arena"].ctypes.data),
            ctypes.c_void_p(buffers["weights"].ctypes.data),
            threads,
            None,
            None,
            None,
        )
        library.explorer_stop()
        assert status == 0
        return read_back(launch, arrays, buffers)

    return run


@pytest.fixture(scope="session")
def opencl_context() -> Any:
    """A context on the first OpenCL device that works."""
    return _opencl_context(pytest.importorskip("pyopencl"))


@pytest.fixture
def run_opencl(opencl_context: Any) -> Run:
    """`run_opencl(function, arrays)` does the same on the first OpenCL device that works."""
    cl: Any = pytest.importorskip("pyopencl")
    context = opencl_context

    def run(function: func.FuncOp, arrays: Arrays) -> dict[str, np.ndarray]:
        printed = print_opencl(function, "kernel_1")
        memory = {"arena": bytearray(), "weights": bytearray()}
        launch = place(printed, arrays, memory)
        text = text_of(emit_program("opencl", [printed], [launch]))
        program = cl.Program(context, text).build(QUICK)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        hosts = {space: aligned(data) for space, data in memory.items()}
        devices = {space: cl.Buffer(context, flags, hostbuf=host) for space, host in hosts.items()}
        queue = cl.CommandQueue(context)
        offsets = [np.uint64(argument.offset_bytes) for argument in launch.arguments]
        for phase in printed.phases:
            kernel = getattr(program, phase.function)
            group = (phase.group_items,) if phase.group_items else None
            work_items = (phase.work_items or phase.tasks,)
            kernel(queue, work_items, group, devices["arena"], devices["weights"], *offsets)
        cl.enqueue_copy(queue, hosts["arena"], devices["arena"]).wait()
        return read_back(launch, arrays, hosts)

    return run


def _opencl_context(cl: Any) -> Any:
    """A context on the first device that can build a kernel; skips with the reason otherwise."""
    reasons = []
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        pytest.skip(f"no OpenCL platform: {error}")
    for platform in platforms:
        for device in platform.get_devices():
            context = cl.Context([device])
            try:
                cl.Program(context, "__kernel void probe(__global int *x) { x[0] = 1; }").build()
            except cl.Error as error:
                reasons.append(f"{device.name}: {error}")
                continue
            return context
    pytest.skip(f"no OpenCL device builds a kernel: {'; '.join(reasons) or 'no device'}")


def text_of(program: EmittedProgram) -> str:
    return "\n".join(program.source.lines) + "\n"


def place(
    printed: PrintedKernel,
    arrays: Arrays,
    memory: Mapping[str, bytearray],
    operation: str = "kernel_1",
    offsets: Mapping[str, int] | None = None,
) -> Launch:
    """Appends the arrays to the arena or weights; `offsets` says where some already lie."""
    arguments = []
    for parameter in printed.parameters:
        array = arrays[parameter.argument]
        space = "weights" if parameter.role == "weight" else "arena"
        offset = (offsets or {}).get(parameter.argument)
        if offset is None:
            memory[space].extend(bytes(-len(memory[space]) % ALIGNMENT))
            offset = len(memory[space])
            memory[space].extend(np.ascontiguousarray(array).tobytes())
        arguments.append(Argument(parameter.argument, space, offset, array.nbytes, parameter.role))
    return Launch(operation, printed.name, tuple(arguments), ())


def aligned(data: Sequence[int]) -> np.ndarray:
    """A copy of bytes in memory that begins at a multiple of ALIGNMENT."""
    room = np.zeros(len(data) + 2 * ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    view = room[start : start + max(len(data), 1)]
    view[: len(data)] = np.frombuffer(bytes(data), np.uint8)
    return view


def read_back(launch: Launch, arrays: Arrays, memory: Arrays) -> dict[str, np.ndarray]:
    found = {}
    for argument in launch.arguments:
        like = arrays[argument.name]
        data = memory[argument.space][argument.offset_bytes :][: argument.size_bytes]
        found[argument.name] = data.view(like.dtype).reshape(like.shape).copy()
    return found
