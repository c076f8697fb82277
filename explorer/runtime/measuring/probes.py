"""The program that measures a core: loops of one kind of instruction, the shortest of many rounds.

    double chain of additions      1 a cycle on every processor: what a cycle takes at that moment
    multiply-adds in many sums     how many begin in a cycle;  in one sum: until it is there
    loads, stores in 4 KiB         how many in a cycle
    arrays as large as each cache  bytes in a cycle from there, one thread
    a call, a claim, two threads   what a launch, a task, a barrier and waking a thread take

A round takes 20 to 500 microseconds, less than a process is left alone on a busy machine, so that
of hundreds of rounds some are undisturbed. Each of them is timed beside the chain of additions, for
the clock of a processor changes with what it executes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.processor import cache_bytes, core_count
from explorer.results.program import Port
from explorer.runtime.core_at_hand import lanes_at_hand
from explorer.runtime.measuring.figures import FIGURES, Measurement
from explorer.runtime.measuring.load import watching
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.roofline import one_launch

USUAL_CACHES = {"l1": 32 << 10, "l2": 1 << 20, "l3": 16 << 20}
MIN_MEMORY_BYTES, MAX_MEMORY_BYTES = 64 << 20, 256 << 20
TIME_LIMIT_SECONDS = 60.0


def measure_core(registers: int, floats: int | None = None, seconds: float = 10.0) -> Measurement:
    """The core of this machine, with vectors of `floats` float32 in `registers` registers.

    `seconds`: about how long it takes; less makes disturbances likelier to be believed.

    Raises BuildError where there is no compiler.
    """
    floats = lanes_at_hand() if floats is None else floats
    sizes = {**USUAL_CACHES, **cache_bytes()}
    source = source_c(floats, registers, sizes, seconds / ROUNDS_OF_BUDGET)
    arena = memory_bytes(sizes) + (1 << 16)
    program = one_launch("cpu", source, arena, 1)
    port = Port(
        name="figures",
        element_type="float64",
        shape=(len(FIGURES),),
        offset_bytes=0,
        size_bytes=8 * len(FIGURES),
    )
    program = replace(program, outputs=(port,))
    with (
        watching() as load,
        NativeProgram(
            program, b"", threads=min(core_count(), 2), time_limit_seconds=TIME_LIMIT_SECONDS
        ) as executable,
    ):
        figures = executable.run({})["figures"]
    values = dict(zip(FIGURES, figures.tolist(), strict=True))
    return Measurement(**values, vector_floats=floats, steal=load.steal, others=load.others)


def memory_bytes(sizes: Mapping[str, int]) -> int:
    """Of an array that no cache holds."""
    return min(max(4 * sizes["l3"], MIN_MEMORY_BYTES), MAX_MEMORY_BYTES)


def source_c(floats: int, registers: int, sizes: Mapping[str, int], budget_seconds: float) -> str:
    """`budget_seconds` for every one of the probes."""
    sums = range(12 if registers < 32 else 24)
    arrays = {
        "L1_BYTES": sizes["l1"] // 2,
        "L2_BYTES": sizes["l2"] // 2,
        "L3_BYTES": max(sizes["l3"] // 4, 2 * sizes["l2"]),
        "MEMORY_BYTES": memory_bytes(sizes),
    }
    defined = "".join(f"#define {name} {size // 4096 * 4096}L\n" for name, size in arrays.items())
    return (
        f"#define BUDGET {budget_seconds:g}\n{defined}{HEAD}"
        + "".join(
            _multiply(f"multiply_{name}", width, sums)
            for name, width in (("full", floats), ("half", max(floats // 2, 4)))
        )
        + _multiply("multiply_one", floats, range(1))
        + "".join(
            MOVES.replace("NAME", name).replace("WIDTH", str(4 * width))
            for name, width in (("full", floats), ("half", max(floats // 2, 4)))
        )
        + TAIL.replace("SUMS", str(len(sums)))
    )


def _multiply(name: str, floats: int, sums: range) -> str:
    """Seconds of MULTIPLIED rounds of a multiply-add in each sum."""
    begin = ", ".join(f"a{i} = b + {i}.0f" for i in sums)
    update = " ".join(f"a{i} = a{i} * b + c;" for i in sums)
    hold = " ".join(f"HOLD(a{i});" for i in sums)
    return f"""
static double {name}(void) {{
    typedef float vector __attribute__((vector_size({4 * floats})));
    vector b = (vector){{0}} + near_one, c = (vector){{0}} + small, {begin};
    const double start = now();
    for (long round = 0; round < MULTIPLIED; round++) {{ {update} {hold} }}
    return now() - start;
}}
"""


ROUNDS_OF_BUDGET = 15
"""Probes, each of which has its part of the time."""

HEAD = r"""
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__AVX512F__)
#define HOLD(value) __asm__ volatile("" : "+v"(value))
#define READ(value) __asm__ volatile("" : : "v"(value))
#elif defined(__x86_64__)
#define HOLD(value) __asm__ volatile("" : "+x"(value))
#define READ(value) __asm__ volatile("" : : "x"(value))
#else
#define HOLD(value) __asm__ volatile("" : "+w"(value))
#define READ(value) __asm__ volatile("" : : "w"(value))
#endif
#define MULTIPLIED 2048
#define ADDED 1024
#define SMALL_BYTES 4096
#define PASSES 64

static volatile float near_one = 0.9999f, small = 0.0001f;
static char *memory;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Each waits for the one before. What is added is in a register: some cores add constants for free.
static double add(void) {
    static volatile unsigned long one = 1;
    unsigned long sum = 0, step = one;
#define ADD sum += step; __asm__ volatile("" : "+r"(sum));
    const double start = now();
    for (long round = 0; round < ADDED; round++) {
        ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD
        ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD
    }
    return now() - start;
}

static double fastest_clock;

// Cycles of a probe: its shortest round, by the shortest chain of additions of the same time.
static double cycles(double (*probe)(void)) {
    double best = 1e9, chain = 1e9;
    const double end = now() + BUDGET;
    for (int round = 0; round < 8 || now() < end; round++) {
        const double added = add(), took = probe();
        if (added < chain) chain = added;
        if (took < best) best = took;
    }
    const double clock = 32.0 * ADDED / chain;
    if (clock > fastest_clock) fastest_clock = clock;
    return best * clock;
}

static double seconds(double (*probe)(void)) {
    double best = 1e9;
    const double end = now() + BUDGET;
    for (int round = 0; round < 8 || now() < end; round++) {
        const double took = probe();
        if (took < best) best = took;
    }
    return best;
}
"""

MOVES = r"""
typedef float vector_NAME __attribute__((vector_size(WIDTH)));

static double load_NAME(void) {
    const vector_NAME *from = (const vector_NAME *)memory;
    const double start = now();
    for (int pass = 0; pass < PASSES; pass++) {
        for (long i = 0; i < SMALL_BYTES / WIDTH; i += 8) {
            vector_NAME v0 = from[i], v1 = from[i + 1], v2 = from[i + 2], v3 = from[i + 3];
            READ(v0); READ(v1); READ(v2); READ(v3);
            vector_NAME v4 = from[i + 4], v5 = from[i + 5], v6 = from[i + 6], v7 = from[i + 7];
            READ(v4); READ(v5); READ(v6); READ(v7);
        }
        __asm__ volatile("" : : : "memory");
    }
    return now() - start;
}

static double store_NAME(void) {
    vector_NAME *to = (vector_NAME *)memory, value = (vector_NAME){0} + small;
    const double start = now();
    for (int pass = 0; pass < PASSES; pass++) {
        for (long i = 0; i < SMALL_BYTES / WIDTH; i += 4) {
            to[i] = value; to[i + 1] = value; to[i + 2] = value; to[i + 3] = value;
            __asm__ volatile("" : : : "memory");
        }
    }
    return now() - start;
}

static inline double read_NAME(long bytes, int passes) {
    const double start = now();
    for (int pass = 0; pass < passes; pass++) {
        const vector_NAME *from = (const vector_NAME *)memory;
        for (long i = 0; i < bytes / WIDTH; i += 8) {
            vector_NAME v0 = from[i], v1 = from[i + 1], v2 = from[i + 2], v3 = from[i + 3];
            READ(v0); READ(v1); READ(v2); READ(v3);
            vector_NAME v4 = from[i + 4], v5 = from[i + 5], v6 = from[i + 6], v7 = from[i + 7];
            READ(v4); READ(v5); READ(v6); READ(v7);
        }
        __asm__ volatile("" : : : "memory");
    }
    return now() - start;
}
"""

TAIL = r"""
static double read_l1(void) { return read_full(L1_BYTES, 16); }
static double read_l2(void) { return read_full(L2_BYTES, 2); }
static double read_l3(void) { return read_full(L3_BYTES, 1); }
static double read_memory(void) { return read_full(MEMORY_BYTES, 1); }

#define CALLS 4096
static void nothing(char *arena, long lo, long hi) {
    __asm__ volatile("" : : "r"(arena), "r"(lo), "r"(hi) : "memory");
}
static void (*volatile table[4])(char *, long, long) = {nothing, nothing, nothing, nothing};
static double launch(void) {
    const double start = now();
    for (long i = 0; i < CALLS; i++) table[i & 3](memory, 0, i);
    return now() - start;
}

static double claim(void) {
    static _Atomic long next;
    atomic_store(&next, 0);
    const double start = now();
    for (long task = atomic_load(&next); task < CALLS; task = atomic_load(&next)) {
        atomic_compare_exchange_strong(&next, &task, task + 1);
    }
    return now() - start;
}

// Two threads: a number goes to and fro, and one wakes the other.
#define TURNS 64
static _Atomic int turn, is_over;
static sem_t asked, answered;
static double woken_at;

static void wait_for(int value) {
    for (long spins = 0; atomic_load(&turn) != value; spins++) if (spins > 4096) sched_yield();
}

static void *other(void *unused) {
    for (;;) {
        while (sem_wait(&asked)) {}
        woken_at = now();
        if (atomic_load(&is_over)) return unused;
        sem_post(&answered);
        for (int i = 0; i < TURNS; i++) { wait_for(2 * i + 1); atomic_store(&turn, 2 * i + 2); }
    }
}

static void both(double *handover, double *wake) {
    *handover = *wake = 1e9;
    const double end = now() + 2 * BUDGET;
    for (int round = 0; round < 8 || now() < end; round++) {
        atomic_store(&turn, 0);
        for (const double rest = now() + 50e-6; now() < rest;) {}  // the other one sleeps by then
        const double start = now();
        sem_post(&asked);
        while (sem_wait(&answered)) {}
        if (woken_at - start < *wake) *wake = woken_at - start;
        const double first = now();
        for (int i = 0; i < TURNS; i++) { atomic_store(&turn, 2 * i + 1); wait_for(2 * i + 2); }
        const double took = (now() - first) / (2 * TURNS);
        if (took < *handover) *handover = took;
    }
}

int explorer_run(char *arena, const char *weights, int threads,
                 void (*tap)(int launch, void *context), void *context,
                 unsigned long long *nanoseconds) {
    double *figures = (double *)arena;
    memory = arena + (1 << 15);
    for (long i = 0; i < MEMORY_BYTES; i += 64) memory[i] = 0;
    const double warm = now() + 2 * BUDGET;
    while (now() < warm) add();
    figures[1] = MULTIPLIED * (double)SUMS / cycles(multiply_full);
    figures[2] = MULTIPLIED * (double)SUMS / cycles(multiply_half);
    figures[3] = cycles(multiply_one) / MULTIPLIED;
    figures[4] = PASSES * (SMALL_BYTES / sizeof(vector_full)) / cycles(load_full);
    figures[5] = PASSES * (SMALL_BYTES / sizeof(vector_half)) / cycles(load_half);
    figures[6] = PASSES * (SMALL_BYTES / sizeof(vector_full)) / cycles(store_full);
    figures[7] = 16.0 * L1_BYTES / cycles(read_l1);
    figures[8] = 2.0 * L2_BYTES / cycles(read_l2);
    figures[9] = L3_BYTES / cycles(read_l3);
    figures[10] = MEMORY_BYTES / cycles(read_memory);
    figures[0] = fastest_clock;
    figures[11] = seconds(launch) / CALLS;
    figures[12] = seconds(claim) / CALLS;
    figures[13] = figures[14] = 0;
    pthread_t thread;
    if (threads > 1 && !sem_init(&asked, 0, 0) && !sem_init(&answered, 0, 0)
        && !pthread_create(&thread, 0, other, 0)) {
        both(&figures[13], &figures[14]);
        atomic_store(&is_over, 1);
        sem_post(&asked);
        pthread_join(thread, 0);
    }
    (void)weights; (void)tap; (void)context; (void)nanoseconds;
    (void)store_half; (void)read_half;
    return 0;
}
"""
