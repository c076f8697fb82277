"""The pass that plans memory: every value and scratch buffer gets an address, views share one."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from explorer.errors import MemoryBudgetError
from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.memory.planners import GreedyPlanner, NoSharingPlanner
from explorer.memory.planning import MEMORY, PlanMemory, value_offsets
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.lower_to_kernels import LowerToKernels
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.results import MemoryPlan

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

# Values of 4 floats: 16 bytes each, placed at multiples of 64.
CHAIN = """
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %a = top.unary(%x) {kind = "exp"} : tensor<4xf32>
  %b = top.unary(%a) {kind = "exp"} : tensor<4xf32>
  %c = top.unary(%b) {kind = "exp"} : tensor<4xf32>
  %y = top.unary(%c) {kind = "exp"} : tensor<4xf32>
  top.return(%y)
}
"""


def planned(text: str, pass_: PlanMemory, lanes: int = 4):
    working = programs.program(text)
    passes = [PlaceOnDevice("cpu"), AssignLayouts(lanes), LowerToKernels()]
    programs.run_passes(working, passes)
    result = run_pass(pass_, working, RewriteOptions())
    plan = result.artifacts[MEMORY]
    assert isinstance(plan, MemoryPlan)
    return result, plan


def lifetimes(plan: MemoryPlan) -> dict[str, tuple[int, int]]:
    return {p.buffer.id: (p.buffer.first, p.buffer.last) for p in plan.placements}


def test_values_live_from_the_launch_that_writes_to_the_last_that_reads():
    _, plan = planned(CHAIN, PlanMemory())
    assert plan.steps == ("a", "b", "c", "y")
    assert lifetimes(plan) == {
        "x.device": (0, 1),
        "a": (0, 2),
        "b": (1, 3),
        "c": (2, 4),
        "y": (3, 4),
    }


def test_buffers_that_never_live_together_share_bytes():
    _, plan = planned(CHAIN, PlanMemory())
    assert plan.peak_bytes == 64 + 16  # two at a time, the second behind the first's 64 bytes
    assert plan.total_bytes == 5 * 16
    _, apart = planned(CHAIN, PlanMemory(NoSharingPlanner()))
    assert apart.peak_bytes == 4 * 64 + 16


def test_every_launch_learns_its_address():
    result, plan = planned(CHAIN, PlanMemory())
    offsets = value_offsets(plan)
    launches = {k: op for k, op in result.after.operations.items() if isinstance(op, LaunchOp)}
    assert {name: op.get("offset") for name, op in launches.items()} == {
        name: offsets[name] for name in "abcy"
    }
    assert result.after.level == "memory"
    (event,) = [r for r in result.rewrites if r.site == "a"]
    assert event.explanation == f"lies at byte {offsets['a']} of the arena"


def test_a_view_has_the_address_of_what_it_views_and_keeps_it_alive():
    text = """func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
      %a = top.unary(%x) {kind = "exp"} : tensor<4xf32>
      %v = top.reshape(%a) {shape = [2, 2]} : tensor<2x2xf32>
      %b = top.unary(%a) {kind = "neg"} : tensor<4xf32>
      %c = top.unary(%b) {kind = "exp"} : tensor<4xf32>
      %w = top.unary(%v) {kind = "abs"} : tensor<2x2xf32>
      top.return(%c, %w)
    }"""
    _, plan = planned(text, PlanMemory())
    offsets = value_offsets(plan)
    assert offsets["v"] == offsets["a"]
    (placed,) = [p for p in plan.placements if p.buffer.id == "a"]
    assert placed.buffer.values == ("a", "v")
    assert (placed.buffer.first, placed.buffer.last) == (0, 4)


def test_outputs_stay_alive_to_the_end():
    text = CHAIN.replace("-> tensor<4xf32>", "-> (tensor<4xf32>, tensor<4xf32>)").replace(
        "top.return(%y)", "top.return(%a, %y)"
    )
    _, plan = planned(text, PlanMemory())
    assert lifetimes(plan)["a"] == (0, 4)


def test_sizes_count_rounded_channels_and_the_halo():
    text = """func.func @main(%x : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32> {
      %w = top.weight() {weight = "w"} : tensor<5x5x3x3xf32>
      %a = top.conv(%x, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}
        : tensor<1x5x4x4xf32>
      %y = top.conv(%a, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}
        : tensor<1x5x4x4xf32>
      top.return(%y)
    }"""
    _, plan = planned(text, PlanMemory(), lanes=4)
    sizes = {p.buffer.id: p.buffer.size_bytes for p in plan.placements}
    assert sizes["x.device"] == 5 * 4 * 4 * 4
    assert sizes["a"] == 8 * 6 * 6 * 4
    assert sizes["y"] == 8 * 4 * 4 * 4


def test_scratch_lives_during_its_launch_only():
    text = """func.func @main(%x : tensor<3x4xf32>) -> tensor<3x1xf32> {
      %a = top.unary(%x) {kind = "exp"} : tensor<3x4xf32>
      %y = top.reduce(%a) {kind = "log_sum_exp", axes = [1], keepdims = true} : tensor<3x1xf32>
      top.return(%y)
    }"""
    _, plan = planned(text, PlanMemory())
    assert lifetimes(plan)["y/scratch_0"] == (1, 2)
    assert "y/scratch_0" in value_offsets(plan)


def test_a_budget_is_kept_or_refused():
    _, plan = planned(CHAIN, PlanMemory(budget_bytes=80))
    assert plan.peak_bytes == 80
    with pytest.raises(MemoryBudgetError) as raised:
        planned(CHAIN, PlanMemory(budget_bytes=79))
    assert raised.value.budget_bytes == 79


def test_planning_changes_no_number():
    working = programs.program(CHAIN)
    inputs = programs.random_inputs(working.snapshot)
    expected = working.snapshot.run(inputs)["y"]
    results = programs.lower(working, lanes=4)
    values = programs.run_binary(results, inputs, "c")
    # exp of exp of exp: each library rounds once, the next exp multiplies that error.
    assert programs.max_relative(values["y"], expected) <= 1e-5


@pytest.mark.parametrize("alignment", [4, 64, 4096])
def test_addresses_are_multiples_of_the_alignment(alignment):
    _, plan = planned(CHAIN, PlanMemory(GreedyPlanner(), alignment_bytes=alignment))
    assert all(p.offset_bytes % alignment == 0 for p in plan.placements)
    assert sorted({p.offset_bytes for p in plan.placements}) == [0, max(alignment, 16)]
