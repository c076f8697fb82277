"""Published rules against their definitions, and every planner against the laws of a plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.memory import default_planners, verify_plan
from explorer.memory.published import PublishedPlanner, Rule
from explorer.results import BufferLifetime


def buffer(name: str, size: int, first: int, last: int, alignment: int = 1) -> BufferLifetime:
    return BufferLifetime(
        id=name, values=(name,), size_bytes=size, first=first, last=last, alignment_bytes=alignment
    )


@st.composite
def problems(draw: st.DrawFn) -> list[BufferLifetime]:
    """Up to 16 buffers, sizes of zero among them."""
    buffers = []
    for i in range(draw(st.integers(0, 16))):
        first = draw(st.integers(0, 8))
        last = first + draw(st.integers(1, 5))
        alignment = draw(st.sampled_from([1, 8, 64]))
        buffers.append(buffer(f"b{i}", draw(st.integers(0, 99)), first, last, alignment))
    return buffers


@given(problems())
@settings(max_examples=30, deadline=None)
def test_every_planner_keeps_the_laws_and_none_beats_a_proven_optimum(buffers):
    plans = {name: planner(buffers) for name, planner in default_planners().items()}
    for plan in plans.values():
        verify_plan(plan)
        assert plan.peak_bytes >= plan.bound_bytes
    least = min(plan.peak_bytes for plan in plans.values())
    assert plans["exact"].peak_bytes <= plans["greedy"].peak_bytes
    assert all(plan.peak_bytes == least for plan in plans.values() if plan.optimal)


@given(problems())
@settings(max_examples=60, deadline=None)
def test_portions_are_as_few_as_buffers_live_at_once(buffers):
    plan = PublishedPlanner("portions")(buffers)
    starts = {p.offset_bytes for p in plan.placements if p.buffer.size_bytes}
    kept = [b for b in buffers if b.size_bytes]
    at_once = (sum(b.first <= step < b.last for b in kept) for step in range(len(plan.steps)))
    assert len(starts) == max(at_once, default=0)


@pytest.mark.parametrize(
    ("rule", "offsets"),
    [
        # c, the largest, first; d before a, of the same size, only where the order says so.
        ("tflite-micro", {"a": 8, "b": 12, "c": 0, "d": 8, "e": 12}),
        # a, b, c in turn; then d into the gap of 4 bytes, e of 3 below the peak rather than on top.
        ("onnxruntime", {"a": 0, "b": 4, "c": 6, "d": 0, "e": 14}),
        # d and e take the portions of a and b, and e makes that of b a byte larger.
        ("portions", {"a": 0, "b": 4, "c": 7, "d": 0, "e": 4}),
    ],
)
def test_the_rules_on_five_buffers(rule: Rule, offsets: dict[str, int]):
    buffers = [
        buffer("a", 4, 0, 2),
        buffer("b", 2, 0, 3),
        buffer("c", 8, 1, 5),
        buffer("d", 4, 2, 5),
        buffer("e", 3, 3, 5),
    ]
    plan = PublishedPlanner(rule)(buffers)
    verify_plan(plan)
    assert plan.offsets == offsets
