"""Measure what a device can do at best: multiply-adds per second, and bytes per second.

    measure_processor(device, threads=2)
    -> Peaks(device="AMD EPYC", threads=2, gflops=540.0, gbytes_per_second=61.0, caches=(...))

These are the lines of a roofline plot (Williams, Waterman, Patterson, CACM 52(4), 2009), on a
processor with one line per level of its caches (Ilic, Pratas, Sousa, "Cache-aware Roofline Model",
IEEE CAL 13(1), 2014). Programs of one launch each run like any other program: one keeps
`a = a * b + c` going in registers, the others are STREAM's triad, `a = b + s * c`, on arrays that
no cache holds, and on arrays that fill half of a level. The best of some repeats counts, since
whatever else runs on the machine only slows it down.
"""

from __future__ import annotations

from explorer.errors import BuildError
from explorer.processor import cache_bytes
from explorer.results.kernels import KernelRecord, PhaseRecord
from explorer.results.program import Argument, Launch, Program
from explorer.results.runs.events import CachePeak
from explorer.results.source import SourceText
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.executable import Executable
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.profiles import Peaks

REPEATS = 10
CHAINS = 12
"""Independent accumulators: more than latency times width of today's FMA units (4 cycles, 2 a
cycle), and few enough for the 16 registers of AVX2."""

CPU_ROUNDS = 1_000_000
GPU_ROUNDS = 4096
GPU_ITEMS_PER_UNIT = 2048
OPENCL_CPU_ITEMS_PER_UNIT = 256
ARRAY_BYTES = 64 << 20
"""Of each of the triad's three arrays."""
CACHED_BYTES = 256 << 20
"""That every thread moves while its arrays lie in a cache: a few milliseconds."""
PRIVATE_LEVELS = ("l1", "l2")
"""Caches that every core has for itself, on nearly all of today's processors."""

C_THREADS = """
#include <pthread.h>

typedef struct { char *arena; long lo, hi; } part_type;

int explorer_run(char *arena, const char *weights, int threads,
                 void (*tap)(int launch, void *context), void *context,
                 unsigned long long *nanoseconds) {
    pthread_t others[64];
    part_type parts[64];
    if (threads > 64) return 1;
    for (int i = 0; i < threads; i++) {
        parts[i] = (part_type){arena, TASKS / threads * i, TASKS / threads * (i + 1)};
        if (i > 0 && pthread_create(&others[i], 0, work, &parts[i])) return 2;
    }
    work(&parts[0]);
    for (int i = 1; i < threads; i++) pthread_join(others[i], 0);
    return 0;
}
"""
"""Starting threads anew takes some 50 microseconds, of runs of several milliseconds."""


def measure_processor(device: DeviceRecord, threads: int) -> Peaks:
    """Peaks of the processor by generated C, in a worker process."""
    gflops = measure_gflops(device, threads)
    triad = one_launch("cpu", triad_source_c(device.vector_floats), 3 * ARRAY_BYTES, 1)
    with NativeProgram(triad, b"", threads=threads) as executable:
        gbytes = 3 * ARRAY_BYTES / best_seconds(executable) * 1e-9
    return Peaks(device.name, threads, gflops, gbytes, measure_caches(device, threads))


def measure_gflops(device: DeviceRecord, threads: int) -> float:
    """Of multiply-adds in registers, on so many threads: some 50 ms."""
    multiply = one_launch("cpu", multiply_source_c(device.vector_floats), 0, 1)
    flops = 2 * CPU_ROUNDS * CHAINS * device.vector_floats * threads
    with NativeProgram(multiply, b"", threads=threads) as executable:
        return flops / best_seconds(executable) * 1e-9


def measure_caches(device: DeviceRecord, threads: int) -> tuple[CachePeak, ...]:
    """Bandwidth of every level that the system tells of, the nearest first."""
    levels = []
    for name, size_bytes in cache_bytes().items():
        whole_bytes = size_bytes * (threads if name in PRIVATE_LEVELS else 1)
        unit = 4 * device.vector_floats * threads
        array_bytes = whole_bytes // 2 // 3 // unit * unit
        rounds = max(1, CACHED_BYTES * threads // (3 * array_bytes))
        source = triad_source_c(device.vector_floats, array_bytes, rounds)
        triad = one_launch("cpu", source, 3 * array_bytes, 1)
        with NativeProgram(triad, b"", threads=threads) as executable:
            gbytes = 3 * array_bytes * rounds / best_seconds(executable) * 1e-9
        levels.append(CachePeak(name, whole_bytes, gbytes))
    return tuple(levels)


def measure_opencl(device: DeviceRecord, threads: int) -> Peaks:
    """Peaks of an OpenCL device, in this process."""
    # Only here: a machine without pyopencl can measure its processor.
    from explorer.runtime.opencl.program import OpenCLProgram

    width = device.vector_floats
    is_gpu = device.processor == "gpu"
    rounds = GPU_ROUNDS if is_gpu else CPU_ROUNDS // 16
    per_unit = GPU_ITEMS_PER_UNIT if is_gpu else OPENCL_CPU_ITEMS_PER_UNIT
    items = device.compute_units * per_unit
    # Neighbouring work-items of a GPU read neighbouring vectors; a core reads a stretch of them.
    run = 1 if is_gpu else 4096
    runs = ARRAY_BYTES // 4 // width // run
    multiply = one_launch("opencl", multiply_source_opencl(width, rounds), 4 * items, items)
    triad = one_launch("opencl", triad_source_opencl(width, run), 3 * ARRAY_BYTES, runs)
    with OpenCLProgram(multiply, b"", device) as executable:
        gflops = 2 * rounds * CHAINS * width * items / best_seconds(executable) * 1e-9
    with OpenCLProgram(triad, b"", device) as executable:
        gbytes = 3 * ARRAY_BYTES / best_seconds(executable) * 1e-9
    return Peaks(device.name, threads, gflops, gbytes, () if is_gpu else _caches_by_c(device))


def _caches_by_c(device: DeviceRecord) -> tuple[CachePeak, ...]:
    """Caches of a processor that runs OpenCL; none where there is no C compiler."""
    try:
        return measure_caches(device, device.compute_units)
    except BuildError:
        return ()


def best_seconds(executable: Executable) -> float:
    return min(executable.time({}, REPEATS))


def multiply_source_c(vector_floats: int) -> str:
    """`CPU_ROUNDS` rounds of `CHAINS` vector multiply-adds, all in registers."""
    chains = range(CHAINS)
    names = ", ".join(f"a{i} = b + {i}.0f" for i in chains)
    updates = " ".join(f"a{i} = a{i} * b + c;" for i in chains)
    total = " + ".join(f"a{i}" for i in chains)
    # b < 1 lets every chain converge to c / (1 - b): nothing overflows or becomes denormal. They
    # are volatile, and so is the result, so that the compiler computes nothing beforehand.
    return f"""
typedef float vector __attribute__((vector_size({4 * vector_floats})));

static void *work(void *part) {{
    volatile float near_one = 0.9999f, small = 0.0001f;
    vector b = (vector){{0}} + near_one, c = (vector){{0}} + small, {names};
    for (long round = 0; round < {CPU_ROUNDS}; round++) {{ {updates} }}
    vector total = {total};
    volatile float kept = total[0];
    (void)kept;
    return 0;
}}
#define TASKS 64
{C_THREADS}"""


def triad_source_c(vector_floats: int, array_bytes: int = ARRAY_BYTES, rounds: int = 1) -> str:
    """STREAM's triad, `rounds` times; every thread works on its own part of the arrays."""
    return f"""
typedef float vector __attribute__((vector_size({4 * vector_floats})));
#define TASKS ({array_bytes} / (long)sizeof(vector))

static void *work(void *argument) {{
    const struct {{ char *arena; long lo, hi; }} *part = argument;
    vector *a = (vector *)part->arena;
    const vector *b = (const vector *)(part->arena + {array_bytes});
    const vector *c = (const vector *)(part->arena + {2 * array_bytes});
    for (int round = 0; round < {rounds}; round++) {{
        for (long i = part->lo; i < part->hi; i++) a[i] = b[i] + 3.0f * c[i];
        __asm__ volatile("" ::: "memory");  // every round counts
    }}
    return 0;
}}
{C_THREADS}"""


def multiply_source_opencl(vector_floats: int, rounds: int) -> str:
    """The same chains per work-item; its one result is stored, so that they are needed."""
    chains = range(CHAINS)
    vector = f"float{vector_floats}"
    names = ", ".join(f"a{i} = b + {i}.0f" for i in chains)
    updates = " ".join(f"a{i} = fma(a{i}, b, c);" for i in chains)
    total = " + ".join(f"a{i}" for i in chains)
    return f"""
__kernel void peak(__global char *arena, __global const char *weights, const ulong offset0) {{
    __global float *kept = (__global float *)(arena + offset0);
    const float start = kept[get_global_id(0)] * 1e-30f;
    const {vector} b = ({vector})(0.9999f + start), c = ({vector})(0.0001f + start);
    {vector} {names};
    for (int round = 0; round < {rounds}; round++) {{ {updates} }}
    const {vector} total = {total};
    kept[get_global_id(0)] = total.s0;
}}
"""


def triad_source_opencl(vector_floats: int, run: int) -> str:
    """The triad; every work-item works on `run` vectors in a row."""
    vector = f"float{vector_floats}"
    return f"""
__kernel void peak(__global char *arena, __global const char *weights, const ulong offset0) {{
    __global {vector} *a = (__global {vector} *)(arena + offset0);
    __global const {vector} *b = (__global const {vector} *)(arena + {ARRAY_BYTES});
    __global const {vector} *c = (__global const {vector} *)(arena + {2 * ARRAY_BYTES});
    const size_t first = get_global_id(0) * {run};
    for (size_t i = first; i < first + {run}; i++) a[i] = b[i] + 3.0f * c[i];
}}
"""


def one_launch(target: str, source: str, arena_bytes: int, tasks: int) -> Program:
    """A program without inputs and outputs whose only launch works on the whole arena."""
    lines = tuple(source.splitlines())
    text = SourceText(target, lines, ((),) * len(lines))
    phases = (PhaseRecord("peak", tasks),)
    kernel = KernelRecord(
        name="peak",
        kind="peak",
        operations=("peak",),
        flops=0,
        bytes_moved=0,
        steps=(),
        phases=phases,
        source=text,
    )
    argument = Argument("arena", "arena", 0, arena_bytes, "scratch")
    return Program(
        target=target,
        source=text,
        kernels=(kernel,),
        launches=(Launch("peak", "peak", (argument,), ()),),
        inputs=(),
        outputs=(),
        taps=(),
        weights=(),
        arena_bytes=arena_bytes,
        weights_bytes=0,
    )
