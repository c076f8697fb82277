"""The cost model: what makes a kernel slower in truth makes its estimate larger."""

from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import f32

import explorer
from explorer.ir.compute import KernelBuilder
from explorer.kernels.cost import CacheLevel, CostMachine, estimate
from explorer.kernels.cost.machine import cost_machine
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.schedules.schedule import ScheduledKernel
from explorer.results import CostEstimate
from explorer.targets import load_target
from explorer.targets.core_families import core_family, describe_core

MODELS = Path(__file__).parents[2] / "sample_models"
MACHINE = CostMachine(
    16,
    clock_hz=1e9,
    caches=(
        CacheLevel("l1", 32 << 10, 32),
        CacheLevel("l2", 1 << 20, 16),
        CacheLevel("l3", 16 << 20, 8, is_shared=True),
    ),
)


@pytest.fixture(scope="module")
def kernels() -> dict[str, ScheduledKernel]:
    target = load_target("cpu", {"vector_floats": 16})
    return explorer.compile(MODELS / "digits_cnn.onnx", target)._scheduled


def cost(kernel: ScheduledKernel, machine: CostMachine = MACHINE, **choices) -> CostEstimate:
    scheduled = schedule_kernel(
        kernel.steps[0].origin, Machine(vector_floats=16, language="c"), kernel.given_packs, choices
    )
    return estimate(scheduled.function, machine)


def term(estimate: CostEstimate, name: str) -> float:
    return next(t.microseconds for t in estimate.terms if t.name == name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_every_kernel_has_an_estimate_that_its_terms_explain(path):
    compilation = explorer.compile(path, load_target("cpu", {"vector_floats": 16}))
    for name in compilation._scheduled:
        found = compilation.cost(name)
        longest = max(t.microseconds for t in found.terms if not t.is_added)
        added = sum(t.microseconds for t in found.terms if t.is_added)
        assert 0 < found.microseconds < 1e5
        assert found.microseconds == pytest.approx(longest + added)
        assert all(t.why for t in found.terms)


def test_multiply_adds_of_a_convolution_are_counted_exactly(kernels):
    # 32 x 8 x 8 sums of 16 x 9 products in vectors of 16; a 64-byte vector takes a unit twice.
    convolution = kernels["conv_3x3_2"]
    cycles = 32 * 8 * 8 * 16 * 9 / 16 * 2 / 2
    found = term(cost(convolution, epilogue="separate"), "arithmetic") * 1e3
    assert cycles <= found <= 1.1 * cycles  # the activation is a few more


def test_the_textbook_is_slower_than_registers(kernels):
    convolution = kernels["conv_3x3_2"]
    textbook = estimate(convolution.steps[0].function, MACHINE)
    assert textbook.microseconds > 5 * cost(convolution).microseconds
    assert cost(convolution).microseconds < cost(convolution, schedule="plain").microseconds


def test_a_tile_that_needs_more_registers_than_there_are_spills(kernels):
    convolution = kernels["conv_3x3_2"]
    small = cost(convolution, vectors=2, pixels=8, rows=1)
    large = cost(convolution, vectors=2, pixels=8, rows=3)
    assert term(small, "spills") == 0
    assert term(large, "spills") > 0
    assert "there are 32 registers" in next(t.why for t in large.terms if t.name == "spills")


def test_few_sums_wait_for_their_additions(kernels):
    convolution = kernels["conv_3x3_2"]
    alone = cost(convolution, vectors=1, pixels=1)
    assert alone.bound == "latency"
    assert alone.microseconds > 2 * cost(convolution).microseconds


def test_a_smaller_cache_fetches_more_and_a_large_one_nothing_again(kernels):
    convolution = kernels["conv_3x3_3"]

    def fetched(size_bytes: int) -> float:
        first = replace(MACHINE.caches[0], size_bytes=size_bytes)
        machine = replace(MACHINE, caches=(first, *MACHINE.caches[1:]))
        return term(cost(convolution, machine), "l2")

    assert fetched(2 << 10) > fetched(32 << 10) > 0
    assert fetched(16 << 20) == 0


def test_threads_share_the_tasks_as_evenly_as_they_divide(kernels):
    convolution = kernels["conv_3x3_2"]
    one = cost(convolution)
    two = cost(convolution, replace(MACHINE, threads=2))
    many = cost(convolution, replace(MACHINE, threads=10_000))
    assert term(two, "arithmetic") == pytest.approx(term(one, "arithmetic") / 2, rel=0.3)
    tasks = 8 * 2  # rows and pairs of vectors
    assert term(many, "arithmetic") >= term(one, "arithmetic") / tasks / 2
    assert "of 2 threads busy" in next(t.why for t in two.terms if t.name == "tasks")


def test_the_numbers_come_from_the_target_and_what_it_leaves_open_from_the_machine():
    target = load_target("cpu", {"core.vector_registers": 16, "caches.l2.size_bytes": 262144})
    sizes = {"l1": 49152, "l2": 1}
    core = describe_core(
        core_family("zen4"), "its name", ["avx512"], target.core, target.caches, sizes=sizes
    )
    machine = cost_machine(core.core, core.caches, {}, 8, 2e9)
    assert machine.registers == 16
    assert [level.size_bytes for level in machine.caches[:2]] == [49152, 262144]
    assert machine.caches[2].is_shared
    assert machine.caches[2].size_bytes > 0


def test_divisions_wait_for_the_one_divider_of_a_core():
    builder = KernelBuilder("quotients")
    x, z = (builder.argument(name, (64,), f32, "input") for name in "xz")
    y = builder.argument("y", (64,), f32, "output")
    d = builder.dimensions(i=64)
    builder.generic("plain", [(x, d), (z, d)], (y, d), lambda s, x, z: x / z)
    scheduled = schedule_kernel(
        builder.finish("elementwise"), Machine(vector_floats=16, language="c"), {}
    )
    core = replace(MACHINE.core, division_cycles=7, unit_bytes=32)
    found = estimate(scheduled.function, replace(MACHINE, core=core))
    vectors, parts = 4, 2
    assert term(found, "arithmetic") * 1e3 == pytest.approx(7 * vectors * parts)
