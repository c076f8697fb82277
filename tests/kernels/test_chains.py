"""Chains: the table of steps that work-items run together."""

import importlib.util
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import IntegerAttr, i64

from explorer.kernels.cost import CostMachine
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.program.sharing import MAX_COMPARED_FLOPS, judged_chain
from explorer.kernels.program.translation_unit import emit_program
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.results.kernels import KernelRecord
from explorer.results.program import Argument, Launch, Program
from explorer.results.source import SourceText
from explorer.targets.schema import Core

EMPTY = SourceText("opencl", (), ())

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)


def launch(operation: str, kernel: str, offsets: list[int]) -> Launch:
    arguments = [Argument(f"a{i}", "arena", o, 64, "input") for i, o in enumerate(offsets)]
    return Launch(operation, kernel, tuple(arguments), ())


def relu(count: int):
    return lower_to_loops(samples.elementwise((1, 1, 1, count)))


def table(lines, name: str) -> list[int]:
    start = next(i for i, line in enumerate(lines) if f" {name}[] = {{" in line)
    text = "".join(lines[start + 1 : lines.index("};", start)])
    return [int(number) for number in text.split(",")]


def test_steps_are_numbered_through_all_launches_and_share_a_case_per_phase():
    chained = print_opencl(relu(16), "chained", is_chained=True)
    apart = print_opencl(relu(16), "apart")
    launches = [
        launch("a", "chained", [0, 64, 128]),
        launch("b", "apart", [64, 128, 192]),
        launch("c", "chained", [128, 192, 0]),
    ]
    emitted = emit_program("opencl", [chained, apart], launches)
    assert emitted.chain is not None
    assert emitted.chain.function == "chain"
    assert emitted.chain.steps == ((0, 0), (2, 0))
    lines = emitted.source.lines
    assert table(lines, "chain_phases") == [0, 0]
    assert table(lines, "chain_places") == [0, 3]
    assert table(lines, "chain_offsets") == [0, 64, 128, 128, 192, 0, 0]
    assert sum("case " in line for line in lines) == 1


def test_small_neighbours_are_one_claim_unless_a_launch_stands_between():
    small = print_opencl(relu(16), "small", is_chained=True)
    apart = print_opencl(relu(16), "apart")
    one, two, three = (launch(name, "small", [0, 64, 128]) for name in "abd")
    between = launch("c", "apart", [0, 64, 128])
    emitted = emit_program("opencl", [small, apart], [one, two, between, three])
    assert table(emitted.source.lines, "chain_claims") == [1, 1, 1]
    assert table(emitted.source.lines, "chain_together") == [2, 0, 1]
    assert emitted.chain is not None
    assert not emitted.chain.is_shared


def test_the_tasks_of_a_large_phase_are_claimed_in_portions():
    scheduled = schedule_kernel(
        samples.matmul(512, 256, 256), Machine(vector_floats=16, language="opencl"), {}
    ).function
    kernel = print_opencl(scheduled, "large", is_chained=True)
    places = [("weights" if p.role == "weight" else "arena", p.role) for p in kernel.parameters]
    arguments = tuple(Argument(f"a{i}", s, 64 * i, 64, r) for i, (s, r) in enumerate(places))
    emitted = emit_program("opencl", [kernel], [Launch("a", "large", arguments, ())])
    (tasks,) = table(emitted.source.lines, "chain_tasks")
    (claims,) = table(emitted.source.lines, "chain_claims")
    assert tasks == kernel.phases[0].tasks
    assert 1 < claims <= 64
    assert emitted.chain is not None
    assert emitted.chain.is_shared


def test_a_program_without_chained_kernels_has_no_chain():
    emitted = emit_program("opencl", [print_opencl(relu(16), "apart")], [])
    assert emitted.chain is None
    assert not any("chain" in line for line in emitted.source.lines)


def test_a_chained_phase_is_a_kernel_of_its_own_only_with_phases():
    """Its function has typed arguments; the kernel finds them by the launch's offsets."""
    lines = print_opencl(relu(16), "k", is_chained=True).lines
    assert lines[1] == "TASK void k_phase0_task("
    kernel = lines.index("__kernel void k_phase0(")
    assert lines[kernel - 1] == "#ifdef PHASES"
    assert lines[-1] == "#endif"
    assert any("(arena + offset0)" in line for line in lines[kernel:])


def test_a_convolution_in_groups_is_chained():
    """The number of its groups is no number of work-items."""
    function = lower_to_loops(samples.grouped(2, 8, 4, 6, 6))
    function.attributes["kernel.group"] = IntegerAttr(2, i64)  # as the operation gives it
    assert print_opencl(function, "k", is_chained=True).is_chained


def judged(wake_seconds: float, threads: int = 2) -> Program:
    """A product of 2 MFLOP as a program, its chain judged."""
    function = schedule_kernel(
        samples.matmul(64, 128, 128), Machine(vector_floats=8, language="opencl"), {}
    ).function
    printed = print_opencl(function, "product", is_chained=True)
    places = [("weights" if p.role == "weight" else "arena", p.role) for p in printed.parameters]
    arguments = tuple(Argument(f"a{i}", s, 64 * i, 64, r) for i, (s, r) in enumerate(places))
    launch = Launch("a", "product", arguments, ())
    emitted = emit_program("opencl", [printed], [launch])
    kernel = KernelRecord(
        name="product", kind="matmul", operations=("a",), flops=2 << 20, bytes_moved=0, steps=(),
        phases=printed.phases, source=EMPTY,
    )  # fmt: skip
    program = Program(
        target="opencl", source=EMPTY, kernels=(kernel,), launches=(launch,), inputs=(),
        outputs=(), taps=(), weights=(), arena_bytes=64, weights_bytes=64, chain=emitted.chain,
    )  # fmt: skip
    machine = CostMachine(8, threads=threads, core=Core(wake_seconds=wake_seconds))
    return replace(program, chain=judged_chain(program, {"product": function}, machine))


def test_cores_share_what_is_worth_waking_them():
    """Some 20 us: two cores save half of it, less two wakings."""
    cheap, dear = judged(wake_seconds=1e-7).chain, judged(wake_seconds=2e-5).chain
    assert cheap is not None and dear is not None
    assert cheap.is_shared
    assert not dear.is_shared
    assert cheap.reason.startswith("2 work-items share it: predicted are ")
    assert dear.reason.startswith("one work-item runs all of it: predicted are ")
    assert "40 us to wake them" in dear.reason
    assert dear.steps == cheap.steps


def test_more_cores_save_more_and_a_large_program_is_not_asked_about():
    wake = 4e-6
    two, eight = judged(wake).chain, judged(wake, threads=8).chain
    assert two is not None and eight is not None
    assert (two.is_shared, eight.is_shared) == (False, True)
    program = judged(1.0)
    assert program.chain is not None
    (kernel,) = program.kernels
    large = replace(
        program,
        kernels=(replace(kernel, flops=MAX_COMPARED_FLOPS + 1),),
        chain=replace(program.chain, is_shared=True, reason=""),
    )
    kept = judged_chain(large, {}, CostMachine(8, threads=2))
    assert kept == large.chain
