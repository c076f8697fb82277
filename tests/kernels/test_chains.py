"""Chains of short kernels: which kernels are short, and the table that one work-item runs."""

import importlib.util
from pathlib import Path

from explorer.kernels.chains import is_short
from explorer.kernels.emit import emit_program
from explorer.kernels.lowering import lower_to_loops
from explorer.kernels.opencl import print_opencl
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.results.program import Argument, Launch

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


def test_a_kernel_is_short_by_the_operations_that_all_its_tasks_execute():
    assert is_short(relu(100))
    assert not is_short(relu(100_000))


def test_a_vector_counts_as_one_operation():
    """16 times the elements in vectors of 16: what a schedule makes of a kernel is what counts."""
    textbook = lower_to_loops(samples.matmul(16, 32, 64))
    scheduled = schedule_kernel(samples.matmul(16, 32, 64), Machine(16, "opencl"), {}).function
    assert not is_short(textbook)
    assert is_short(scheduled)


def test_steps_are_numbered_through_all_launches_and_share_a_case_per_phase():
    short = print_opencl(relu(16), "short", is_chained=True)
    long = print_opencl(relu(16), "long")
    launches = [
        launch("a", "short", [0, 64, 128]),
        launch("b", "long", [64, 128, 192]),
        launch("c", "short", [128, 192, 0]),
    ]
    emitted = emit_program("opencl", [short, long], launches)
    assert emitted.chain is not None
    assert emitted.chain.function == "chain"
    assert emitted.chain.steps == ((0, 0), (2, 0))
    lines = emitted.source.lines
    assert lines[lines.index("__constant int chain_phases[] = {") + 1].strip() == "0, 0"
    assert lines[lines.index("__constant int chain_places[] = {") + 1].strip() == "0, 3"
    offsets = lines[lines.index("__constant ulong chain_offsets[] = {") + 1].strip()
    assert offsets == "0, 64, 128, 128, 192, 0, 0"
    assert sum("case " in line for line in lines) == 1


def test_a_program_without_short_kernels_has_no_chain():
    emitted = emit_program("opencl", [print_opencl(relu(16), "long")], [])
    assert emitted.chain is None
    assert not any("chain" in line for line in emitted.source.lines)


def test_the_kernel_of_a_chained_phase_calls_its_function_with_its_own_task():
    lines = print_opencl(relu(16), "k", is_chained=True).lines
    assert lines[1] == "INLINE void k_phase0_task("
    assert "__kernel void k_phase0(" in lines
    assert any("(int)get_global_id(0));" in line for line in lines)
