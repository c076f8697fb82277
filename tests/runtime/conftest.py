"""Hand-written programs that obey the contract of generated code, one in C and one in OpenCL C.

Both compute, from x and the weights w (4 floats each):

    launch 0, add_0:    s = x + w
    launch 1, scale_1:  y = s * 2
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from explorer.results import (
    Argument,
    KernelRecord,
    Launch,
    PhaseRecord,
    Port,
    Program,
    SourceText,
    WeightSlot,
)
from explorer.results.program import Tap
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.folder import open_cache

C_SOURCE = """
#include <time.h>
#include <stddef.h>

static void add_phase0(const float *x, const float *w, float *y, long lo, long hi) {
    for (long i = lo; i < hi; i++) y[i] = x[i] + w[i];
}

static void scale_phase0(const float *x, float *y, long lo, long hi) {
    for (long i = lo; i < hi; i++) y[i] = x[i] * 2.0f;
}

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

int explorer_run(char *arena, const char *weights, int threads,
                 void (*tap)(int launch, void *context), void *context,
                 unsigned long long *nanoseconds) {
    const unsigned long long begin = now();
    (void)threads;
    if (nanoseconds) nanoseconds[0] = now() - begin;
    add_phase0((const float *)(arena + 0), (const float *)weights, (float *)(arena + 64), 0, 4);
    if (nanoseconds) nanoseconds[1] = now() - begin;
    if (tap) tap(0, context);
    if (nanoseconds) nanoseconds[2] = now() - begin;
    scale_phase0((const float *)(arena + 64), (float *)(arena + 64), 0, 4);
    if (nanoseconds) nanoseconds[3] = now() - begin;
    if (tap) tap(1, context);
    return 0;
}
"""

OPENCL_SOURCE = """
__kernel void add_phase0(__global char *arena, __global const char *weights,
                         const ulong offset0, const ulong offset1, const ulong offset2) {
    __global const float *x = (__global const float *)(arena + offset0);
    __global const float *w = (__global const float *)(weights + offset1);
    __global float *y = (__global float *)(arena + offset2);
    y[get_global_id(0)] = x[get_global_id(0)] + w[get_global_id(0)];
}

__kernel void scale_phase0(__global char *arena, __global const char *weights,
                           const ulong offset0, const ulong offset1) {
    __global const float *x = (__global const float *)(arena + offset0);
    __global float *y = (__global float *)(arena + offset1);
    y[get_global_id(0)] = x[get_global_id(0)] * 2.0f;
}
"""


def make_program(target: str, source: str) -> Program:
    """The table of the program above: x at byte 0 of the arena, s and y (in place) at byte 64."""

    def argument(name: str, space: str, offset_bytes: int, role: str) -> Argument:
        return Argument(name, space, offset_bytes, 16, role)

    def kernel(name: str, operation: str, flops: int) -> KernelRecord:
        phases = (PhaseRecord(f"{name}_phase0", 4),)
        return KernelRecord(
            name=name,
            kind=name,
            operations=(operation,),
            flops=flops,
            bytes_moved=48,
            steps=(),
            phases=phases,
            source=SourceText("c", (), ()),
        )

    def tap(operation: str, step: int) -> Tap:
        return Tap(
            operation=operation,
            result=0,
            step=step,
            offset_bytes=64,
            size_bytes=16,
            element_type="float32",
            shape=(1, 1, 1, 1, 4),
            logical_shape=(4,),
            block=4,
        )

    lines = tuple(source.splitlines())
    return Program(
        target=target,
        source=SourceText(target, lines, ((),) * len(lines)),
        kernels=(kernel("add", "add_0", 4), kernel("scale", "scale_1", 4)),
        launches=(
            Launch(
                "add_0",
                "add",
                (
                    argument("x", "arena", 0, "input"),
                    argument("w", "weights", 0, "weight"),
                    argument("y", "arena", 64, "output"),
                ),
                ("Add",),
            ),
            Launch(
                "scale_1",
                "scale",
                (argument("x", "arena", 64, "input"), argument("y", "arena", 64, "output")),
                (),
            ),
        ),
        inputs=(
            Port(name="x", element_type="float32", shape=(2, 2), offset_bytes=0, size_bytes=16),
        ),
        outputs=(
            Port(name="y", element_type="float32", shape=(2, 2), offset_bytes=64, size_bytes=16),
        ),
        taps=(tap("add_0", 0), tap("scale_1", 1)),
        weights=(WeightSlot("w", 0, 16),),
        arena_bytes=128,
        weights_bytes=16,
    )


@pytest.fixture
def c_program() -> Program:
    return make_program("cpu", C_SOURCE)


@pytest.fixture
def opencl_program() -> Program:
    return make_program("opencl", OPENCL_SOURCE)


@pytest.fixture
def with_source() -> Callable[[Program, str, str], Program]:
    """`with_source(program, old, new)`: the program with one piece of its source replaced."""

    def replace(program: Program, old: str, new: str) -> Program:
        text = "\n".join(program.source.lines)
        assert old in text
        lines = tuple(text.replace(old, new).splitlines())
        return dataclasses.replace(
            program, source=SourceText(program.source.language, lines, ((),) * len(lines))
        )

    return replace


@pytest.fixture
def weights() -> np.ndarray:
    return np.array([1, 2, 3, 4], dtype=np.float32)


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    return {"x": np.array([[10, 20], [30, 40]], dtype=np.float32)}


@pytest.fixture
def cache(tmp_path: Path) -> ProgramCache:
    return open_cache(tmp_path / "programs")
