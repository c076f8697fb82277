"""Several device functions in one program: plans, code, transfers and runs of each, and the sum."""

import json
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region

import explorer
from explorer.compilation import Compilation
from explorer.compilation.arena_check import check_arena
from explorer.errors import InputError, MemoryBudgetError
from explorer.ir.evaluation import entry_function
from explorer.ir.functions.calls import (
    calls_of,
    device_functions,
    only_device_function,
    returned_values,
)
from explorer.ir.operation import identity_of, set_identity
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import DEVICE, device_of, value_name
from explorer.ir.top.data import ReturnOp, TransferOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.kernels.program.parts import device_bases, region_bases
from explorer.memory.verify import verify_plan
from explorer.results.program import Program, ProgramPart, Transfer
from explorer.results.source import SourceText
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.parts import PartsProgram
from explorer.views.trace_payload import trace_payload

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

# Sums of 72 products in another order, and rounding in two libraries.
TOLERANCE = 2e-6


@dataclass(frozen=True)
class SplitInTwo(Pass):
    """main_cpu: a, b, c   =>   main_cpu: a, b    main_cpu_2: c

    What follows an operation goes to a function of its own on the same device.
    """

    last: str
    """Identity of the last operation of the first function."""

    name = "split-in-two"
    is_required = True

    def run(self, rewriter, options):
        events = EventLog(self.name, rewriter)
        entry = entry_function(rewriter.module)
        first = only_device_function(rewriter.module)
        call = next(op for op in entry.body.block.ops if isinstance(op, func.CallOp))
        device, name = device_of(first), first.sym_name.data
        operations = list(first.body.block.ops)
        place = [identity_of(op) for op in operations].index(self.last)
        moved = operations[place + 1 :]
        crossing = [operations[place].results[0]]
        types, results = [v.type for v in crossing], [r.type for r in call.results]
        body = Block(arg_types=types)
        with events.rewrite("split", operations[place], "for a test"):
            for op in moved:
                op.detach()
                for index, operand in enumerate(op.operands):
                    if operand in crossing:
                        op.operands[index] = body.args[crossing.index(operand)]
            body.add_ops(moved)
            first.body.block.add_op(ReturnOp.make([crossing]))
            first.function_type = func.FunctionType.from_lists(
                list(first.function_type.inputs), types
            )
            second = func.FuncOp(f"{name}_2", (types, results), Region(body))
            second.attributes[DEVICE] = StringAttr(device)
            rewriter.module.body.block.add_op(second)
            shorter = func.CallOp(name, list(call.operands), types)
            sent = []
            for value, result, argument in zip(crossing, shorter.results, body.args, strict=True):
                result.name_hint = f"{value_name(value)}.between"
                argument.name_hint = f"{value_name(value)}.second"
                transfer = TransferOp.make([result], to=device)
                set_identity(transfer, rewriter.names.fresh("send"))
                set_origins(transfer, [origin_of(value)])
                transfer.location = value.owner.location
                sent.append(transfer)
            last = func.CallOp(f"{name}_2", [t.output for t in sent], results)
            for old, new in zip(call.results, last.results, strict=True):
                new.name_hint = old.name_hint
                old.replace_all_uses_with(new)
            entry.body.block.insert_ops_before([shorter, *sent, last], call)
            call.detach()
            call.erase()
            rewriter.log.added.update(dict.fromkeys(sent))
            rewriter.has_changed = True
        return events.rewrites


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    return explorer.compile(model, "cpu")


@pytest.fixture(scope="module")
def halves(whole) -> Compilation:
    (function,) = device_functions(whole["place-on-device"].after.program)
    first = next(op for op in function.body.block.ops if isinstance(op, ConvOp))
    return whole.insert(SplitInTwo(identity_of(first)), after="place-on-device")


def test_a_program_of_one_device_has_no_parts(whole):
    assert whole.program.parts == ()
    assert whole.program.transfers == ()
    assert list(whole.plans) == ["main_cpu"]
    assert whole.memory is whole.plans["main_cpu"]


def test_every_device_function_has_a_plan_and_the_sum_is_valid(halves):
    first, second = halves.plans.values()
    assert list(halves.plans) == ["main_cpu", "main_cpu_2"]
    assert halves.memory.steps == (*first.steps, *second.steps)
    assert halves.memory.peak_bytes == max(first.peak_bytes, second.peak_bytes)
    assert halves.memory.total_bytes == first.total_bytes + second.total_bytes
    verify_plan(halves.memory)


def test_parts_hold_their_own_launches_and_the_sum_has_them_in_turn(halves, whole):
    program = halves.program
    first, second = program.parts
    assert (first.function, first.device) == ("main_cpu", "cpu")
    assert first.inputs == tuple(p.name for p in whole.program.inputs)
    assert second.inputs == first.outputs
    assert program.results == second.outputs
    assert [n.operation for n in program.launches] == [
        n.operation for part in program.parts for n in part.program.launches
    ]
    assert {n.kernel for n in program.launches} == {k.name for k in program.kernels}
    ends = [a.offset_bytes + a.size_bytes for n in program.launches for a in n.arguments]
    assert max(ends) <= max(program.arena_bytes, program.weights_bytes)
    assert [port.name for port in program.outputs] == [p.name for p in whole.program.outputs]


def test_transfers_lead_from_the_caller_through_the_parts_and_back(halves):
    program = halves.program
    (port,), (result,) = program.inputs, program.outputs
    (between,) = program.parts[0].outputs
    size = program.parts[0].program.outputs[0].size_bytes
    assert program.transfers == (
        Transfer(port.name, "", "main_cpu", port.size_bytes),
        Transfer(between, "main_cpu", "main_cpu_2", size),
        Transfer(program.results[0], "main_cpu_2", "", result.size_bytes),
    )


def test_both_ways_give_the_same_numbers(halves, whole):
    inputs = whole.example_inputs()
    assert isinstance(halves.executable, PartsProgram)
    expected, actual = whole.run(inputs), halves.run(inputs)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=TOLERANCE, atol=TOLERANCE)


def test_every_pass_and_the_binary_are_checked_with_the_source(halves):
    accuracy = halves.accuracy()
    assert accuracy.passed, str(accuracy)
    assert {p.name for p in accuracy.report.passes if p.tensors} >= {"split-in-two", "plan-memory"}


def test_a_profile_has_the_launches_of_all_parts_one_after_the_other(halves):
    profile = halves.profile(repeats=2)
    assert [e.operation for e in profile.events] == list(halves.memory.steps)
    starts = [e.start_ns for e in profile.events]
    assert starts == sorted(starts)
    assert profile.milliseconds > 0
    with halves.open() as executable:
        assert len(executable.time(halves.example_inputs(), 3)) == 3


def test_functions_that_run_in_turn_share_their_arena_and_its_budget(halves):
    """Both begin at byte 0, and the budget is that of the larger one."""
    first, second = (plan.peak_bytes for plan in halves.plans.values())
    larger = max(first, second)
    assert halves.program.arena_bytes == -(-larger // 64) * 64
    assert {min(p.offset_bytes for p in plan.placements) for plan in halves.plans.values()} == {0}
    assert halves.fork(budget_bytes=larger).memory.peak_bytes == larger
    with pytest.raises(MemoryBudgetError):
        halves.fork(budget_bytes=64)


@pytest.mark.parametrize("isolated", [True, False])
def test_parts_of_a_device_use_the_same_memory(halves, isolated):
    """The next run finds what the other part has left there, and gives the same numbers."""
    inputs = halves.example_inputs()
    with halves.open(isolated=isolated) as executable:
        assert isinstance(executable, PartsProgram)
        first = executable.run(inputs)
        one, other = executable.executables.values()
        assert isinstance(one, NativeProgram) and isinstance(other, NativeProgram)
        assert one._arena is other._arena
        arena = one._arena
        assert arena is not None
        assert arena.size_bytes == max(one.program.arena_bytes, other.program.arena_bytes)
        again = executable.run(inputs)
    for name, array in first.items():
        assert array.tobytes() == again[name].tobytes()


def test_parts_on_an_opencl_device_share_a_buffer(whole):
    c = explorer.compile(whole.model, "opencl")
    (function,) = device_functions(c["place-on-device"].after.program)
    first = next(op for op in function.body.block.ops if isinstance(op, ConvOp))
    halves = c.insert(SplitInTwo(identity_of(first)), after="place-on-device")
    inputs = c.example_inputs()
    with halves.open() as executable:
        assert isinstance(executable, PartsProgram)
        one, other = executable.executables.values()
        assert one._arena is other._arena  # pyright: ignore[reportAttributeAccessIssue]
        found = [executable.run(inputs) for _ in range(2)]
    for name, array in c.run(inputs).items():
        np.testing.assert_allclose(found[0][name], array, rtol=TOLERANCE, atol=TOLERANCE)
        assert found[0][name].tobytes() == found[1][name].tobytes()


def test_the_arena_of_every_part_holds_its_plan_alone(halves):
    for record in check_arena(halves):
        assert record.passed
        assert record.planned_bytes == halves.plans[record.function].peak_bytes


def part(function: str, inputs: tuple[str, ...], outputs: tuple[str, ...], size: int, device="cpu"):
    program = Program(
        target=device, source=SourceText("c", (), ()), kernels=(), launches=(), inputs=(),
        outputs=(), taps=(), weights=(), arena_bytes=size, weights_bytes=0,
    )  # fmt: skip
    return ProgramPart(function=function, device=device, inputs=inputs, outputs=outputs,
                       program=program, reason="")  # fmt: skip


def test_devices_have_arenas_of_their_own():
    parts = [part("a", ("x",), ("y",), 128), part("n", ("y",), ("z",), 64, "npu"),
             part("b", ("z",), ("w",), 192)]  # fmt: skip
    assert device_bases(parts) == [0, 192, 0]


@pytest.mark.parametrize(
    ("parts", "results", "expected"),
    [
        # A chain: what is read lives on while the next one runs, and no longer.
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "d")], "d", 256),
        # The first result is read at last, so that its region stays.
        ([("x", "a"), ("a", "b"), ("b", "c"), ("ac", "d")], "d", 384),
        # It is an output, too.
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "d")], "ad", 384),
        # An input that the third one reads lies in its region from the beginning.
        ([("x", "a"), ("a", "b"), ("yb", "c"), ("c", "d")], "d", 384),
        # An input that is an output as it is.
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "d")], "dx", 384),
    ],
)
def test_regions_live_until_the_last_part_has_read_them(parts, results, expected):
    made = [part(f"f{i}", tuple(ins), tuple(outs), 128) for i, (ins, outs) in enumerate(parts)]
    bases = region_bases(made, "xy", tuple(results))
    assert max(bases) + 128 == expected


def test_kernels_of_all_parts_have_assembly(halves):
    kernels = halves.assembly()
    assert set(kernels) == {kernel.name for kernel in halves.program.kernels}
    assert {kernel.assembly_note for kernel in kernels.values()} == {""}


def test_a_trace_keeps_the_parts(halves, tmp_path):
    opened = explorer.open(halves.save(tmp_path / "halves.nnx")).trace()
    assert opened.program == halves.program
    assert opened.memory == halves.memory


def test_views_show_all_parts(halves):
    payload = trace_payload(halves.trace())
    assert [launch[0] for launch in payload.chunk("index")["launches"]] == list(halves.memory.steps)
    shown = json.dumps(payload.chunk("memory"))
    assert all(f'"{name}"' in shown for name in halves.memory.steps)
    assert any("main_cpu_2" in line for line in halves["split-in-two"].after.text.lines)
    assert halves._repr_html_()


def test_what_expects_one_function_says_that_there_are_two(halves):
    program = halves.final.program
    assert len(calls_of(program)) == 2
    assert len(returned_values(program)) == 1
    with pytest.raises(InputError, match="main_cpu, main_cpu_2"):
        only_device_function(program)
