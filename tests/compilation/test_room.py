"""Room that a budget leaves goes to faster schedules of bands, and is never exceeded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.compilation.fitting.chains import regions_of
from explorer.compilation.fitting.search import _Search, _Way
from explorer.compilation.running import program_of
from explorer.ir.top.linear.convolution import ConvOp
from explorer.results import Knob
from explorer.targets import load_target

LIVE = 60
"""Bytes at every step without scratch."""
NET = """<ir_version: 8, opset_import: ["": 17]>
  net (float[1, 16, 32, 32] x) => (float[1, 16, 8, 8] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w1)
    c = Conv<pads = [1, 1, 1, 1]>(a, w2)
    y = MaxPool<kernel_shape = [4, 4], strides = [4, 4]>(c)
  }"""


COLUMNS = 8


def program(
    decisions: Mapping[str, object],
    launches: Mapping[str, str],
    gains: Mapping,
    tile: int = 2,
    gap: int = 0,
) -> Any:
    """Launches by name with their kernels. Direct kernels take 10 us and no scratch, those with
    `winograd2` so many times less, and 40 bytes of scratch for all parts.

    tile: columns of a register tile; narrower ones take longer. gap: bytes that scratch adds to the
    plan and that live in no step.
    """
    knobs, live, seconds = {}, [], {}
    for name, kernel in launches.items():
        head = f"schedule-loops/{kernel}"
        schedule = str(decisions.get(f"{head}/schedule", "direct"))
        parts = int(str(decisions.get(f"{head}/parts", 1)))
        is_fast = schedule == "winograd2"
        knobs[f"{head}/schedule"] = Knob(
            f"{head}/schedule", schedule, ("direct", "winograd2", "plain"), ""
        )
        if is_fast:
            assert decisions[f"{head}/order"] == "bands"
            pixels = int(str(decisions.get(f"{head}/pixels", tile)))
            legal = tuple(d for d in (1, 2, 4, 8) if COLUMNS // d % pixels == 0)
            assert parts in legal
            knobs[f"{head}/parts"] = Knob(f"{head}/parts", parts, legal, "")
            knobs[f"{head}/pixels"] = Knob(f"{head}/pixels", pixels, tuple(range(1, 9)), "")
        live.append(LIVE + (40 // parts if is_fast else 0))
        seconds[name] = 1e-5 / gains[kernel] * tile / pixels if is_fast else 1e-5
    gap = gap if max(live) > LIVE else 0
    plan = SimpleNamespace(
        steps=tuple(launches), live_bytes=tuple(live), peak_bytes=max(live) + gap
    )
    return SimpleNamespace(
        plan=plan,
        knobs=knobs,
        kernels=launches,
        seconds=seconds,
        microseconds=1e6 * sum(seconds.values()),
        chains={"last": frozenset(launches)},
    )


def used(
    budget: int,
    gains: Mapping[str, float],
    fixed: Mapping[str, object] | None = None,
    **fields: int,
) -> tuple[_Way, list[int]]:
    """The way after room is used, and the peaks of what was compiled."""
    launches = {f"{kernel}_{i}": kernel for kernel in gains for i in range(3)}
    peaks: list[int] = []

    def compile_with(decisions: Mapping[str, object]) -> Any:
        made = program(decisions, launches, gains, **fields)
        peaks.append(made.plan.peak_bytes)
        return made

    way = _Way(program({}, launches, gains, **fields))
    _Search(compile_with, fixed or {}).use_room(way, budget)
    assert way.program.plan.peak_bytes <= budget
    return way, peaks


def test_the_faster_schedule_is_taken_where_its_scratch_fits():
    way, _ = used(100, {"a": 2.0})
    assert way.decisions == {
        "schedule-loops/a/schedule": "winograd2",
        "schedule-loops/a/order": "bands",
    }
    (step,) = way.steps
    assert (step.address, step.value, step.taken) == (
        "schedule-loops/a/schedule", "winograd2", True,
    )  # fmt: skip
    assert (step.bytes_before, step.bytes_after) == (60, 100)
    assert step.microseconds == pytest.approx(-15)  # of three launches


@pytest.mark.parametrize(("budget", "parts"), [(99, 2), (80, 2), (79, 4), (70, 4)])
def test_parts_share_scratch_where_all_of_it_does_not_fit(budget: int, parts: int):
    way, _ = used(budget, {"a": 2.0})
    assert way.decisions["schedule-loops/a/parts"] == parts


def test_tiles_are_as_narrow_as_parts_that_fit():
    way, _ = used(80, {"a": 3.0}, tile=8)
    assert way.decisions["schedule-loops/a/pixels"] == 4
    assert way.decisions["schedule-loops/a/parts"] == 2


def test_a_kernel_that_narrow_tiles_make_slower_stays_direct():
    way, _ = used(70, {"a": 3.0, "b": 5.0}, tile=8)
    assert {a.split("/")[1] for a in way.decisions} == {"b"}
    assert way.decisions["schedule-loops/b/pixels"] == 2


def test_gaps_of_the_plan_are_made_up_for_by_smaller_parts():
    way, _ = used(100, {"a": 2.0, "b": 2.0}, gap=12)
    assert way.program.plan.peak_bytes == 92
    assert [way.decisions[f"schedule-loops/{k}/parts"] for k in "ab"] == [2, 2]


@pytest.mark.parametrize("budget", [LIVE, 64])
def test_nothing_is_taken_where_no_part_fits(budget: int):
    way, peaks = used(budget, {"a": 2.0, "b": 3.0})
    assert way.decisions == {} and way.steps == [] and min(peaks) > budget


def test_a_small_gain_is_no_reason():
    way, _ = used(1000, {"a": 1.2, "b": 1.3})
    assert {a.split("/")[1] for a in way.decisions} == {"b"}


def test_a_kernel_of_which_a_person_decided_something_stays():
    way, _ = used(1000, {"a": 2.0, "b": 2.0}, fixed={"schedule-loops/a/vectors": 1})
    assert {a.split("/")[1] for a in way.decisions} == {"b"}


@pytest.fixture
def net(tmp_path: Path) -> explorer.Compilation:
    proto, rng = onnx.parser.parse_model(NET), np.random.default_rng(7)
    for name in ("w1", "w2"):
        array = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(proto, tmp_path / "net.onnx")
    core = load_target("cpu", {"vector_floats": 8, "core": {"family": "zen3"}})
    return explorer.compile(tmp_path / "net.onnx", core)


def test_bands_of_an_even_number_of_rows_cost_less(net):
    """A kernel with scratch keeps a form of Winograd in them: more bands may take less time."""
    made = program_of(net._run)
    (region,) = regions_of(made.laid_out, made.plan, made.seconds, launch_seconds=0.0)
    first, last = (i for i, op in enumerate(region.operations) if isinstance(op, ConvOp))
    assert {region.names[first], region.names[last]} <= region._with_scratch
    prices = {
        c.count: c.microseconds
        for c in region.candidates((first, last), [], 0)
        if c.window == (first, last) and c.halo == "roll"
    }
    assert prices[8] < prices[16] < prices[11] < prices[32]  # bands of 4, 2, 3 and 1 rows


@pytest.mark.sweep
def test_bands_use_winograd_within_the_budget(net):
    plain = net
    small = plain.fork(budget_bytes=115_000)
    assert small.memory.peak_bytes <= 115_000 < plain.memory.peak_bytes
    taken = {step.address: step.value for step in small.memory.fit if step.taken}
    assert any(str(value).startswith("winograd") for value in taken.values())
    inputs = plain.example_inputs()
    assert small.accuracy(inputs, golden={}).passed
    assert plain.fork(decisions=small.decisions()).memory.peak_bytes == small.memory.peak_bytes
