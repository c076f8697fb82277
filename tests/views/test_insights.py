"""Finders of what stands out: each finds what it is for in a small trace, and nothing without."""

import math
from dataclasses import replace

import pytest

from explorer.results import (
    AccuracyReport,
    BufferLifetime,
    Candidate,
    Graph,
    GraphEdge,
    GraphNode,
    KernelRecord,
    KernelSearch,
    MemoryPlan,
    PassAccuracy,
    PlacedBuffer,
    ProfileRecord,
    RewriteEvent,
    SourceText,
    TensorError,
    TimedEvent,
    Trace,
)
from explorer.results.passes import Delta
from explorer.results.program import Tap
from explorer.results.trace import SnapshotRecord
from explorer.views.catalog.insights import insights as insights_view
from explorer.views.insights import in_compiling, in_memory, in_numbers, in_time
from explorer.views.insights.finding import FINDERS, found
from explorer.views.renderers.html import html_of
from explorer.views.renderers.text import text_of


def node(id: str, operation: str = "top.unary", shape: str = "1x8 f32", **more) -> GraphNode:
    return GraphNode(
        id=id,
        operation=operation,
        label=id,
        family=more.pop("family", "elementwise"),
        shape=shape,
        sources=(),
        device="cpu",
        **more,
    )


def with_graph(trace: Trace, nodes: list[GraphNode], edges: list[tuple[str, str]]) -> Trace:
    graph = Graph(tuple(nodes), tuple(GraphEdge(a, b, a, "") for a, b in edges))
    last = SnapshotRecord(SourceText("mlir", (), ()), graph)
    return replace(trace, snapshots=(*trace.snapshots[:-1], last))


def plan(*buffers: tuple[str, int, int, int], steps: tuple[str, ...]) -> MemoryPlan:
    """Buffers as (value, bytes, first step, step behind the last)."""
    live = tuple(
        sum(size for _, size, first, last in buffers if first <= i < last)
        for i in range(len(steps))
    )
    placed = tuple(
        PlacedBuffer(
            BufferLifetime(id=name, values=(name,), size_bytes=size, first=first, last=last), 0
        )
        for name, size, first, last in buffers
    )
    return MemoryPlan(
        placements=placed,
        peak_bytes=max(live),
        bound_bytes=max(live),
        optimal=True,
        attempts=(),
        live_bytes=live,
        steps=steps,
        total_bytes=sum(size for _, size, _, _ in buffers),
    )


STEPS = ("fill", "conv", "pool", "relu", "add")


@pytest.mark.parametrize("first", [0, 3])
def test_a_constant_that_is_filled_early_is_found(trace: Trace, first: int):
    made = with_graph(
        trace,
        [node(name) for name in STEPS],
        [("conv", "pool"), ("pool", "relu"), ("relu", "add"), ("fill", "add")],
    )
    memory = plan(("fill", 800, first, 5), ("conv", 400, 1, 3), steps=STEPS)
    insights = list(in_memory.kept_through_the_peak(replace(made, memory=memory, program=None)))
    if first == 3:
        assert insights == []
        return
    (constant,) = insights
    assert constant.place.selection == "fill" and constant.place.dock == "memory"
    assert constant.effect == "800 B of 1.2 KiB"
    assert "lives in 5 of 5 steps" in constant.text and "made from nothing" in constant.text


@pytest.mark.parametrize(("stored", "finds"), [((1, 1, 4, 4, 8), True), ((1, 1, 1, 1, 8), False)])
def test_blocks_that_are_not_filled_are_found(trace: Trace, stored: tuple[int, ...], finds: bool):
    logical = (1, 3, 4, 4) if finds else (1, 8, 1, 1)
    tap = Tap(
        operation="conv", result=0, step=0, offset_bytes=0, size_bytes=4 * math.prod(stored),
        element_type="float32", shape=stored, logical_shape=logical, block=8,
    )  # fmt: skip
    assert trace.program is not None
    insights = list(in_memory.padding(replace(trace, program=replace(trace.program, taps=(tap,)))))
    assert [insight.effect for insight in insights] == (
        ["320 B of 512 B of all activations"] if finds else []
    )


def profile(*events: tuple[str, int, int], gflops: float = 1.0) -> ProfileRecord:
    """Launches as (kernel, nanoseconds, FLOP), on a device that does `gflops`."""
    timed = tuple(
        TimedEvent(f"{kernel}", f"{kernel}_op", kernel, "lane", 0, time, flops=flops)
        for kernel, time, flops in events
    )
    return ProfileRecord(
        device="d", threads=1, repeats=1, milliseconds=1.0, events=timed,
        peak_gflops=gflops, peak_gbytes_per_second=1.0,
    )  # fmt: skip


def search(gain: float) -> KernelSearch:
    candidates = (
        Candidate(choices=(), predicted_us=1.0, measured_us=2.0, default_us=2.0, status="measured"),
        Candidate(
            choices=(), predicted_us=1.0, measured_us=2.0 / gain, default_us=2.0, status="measured"
        ),
    )
    return KernelSearch(
        kernel="slow", workload="w", target="cpu", device="d", seed=0, default=0,
        chosen=1 if gain > 1 else 0, candidates=candidates, seconds=1.0,
    )  # fmt: skip


def test_a_kernel_far_below_its_roof_is_found(trace: Trace):
    made = replace(trace, profile=profile(("slow", 1000, 100), ("fast", 1000, 900)), searches=())
    (insight,) = in_time.below_the_roof(made)
    assert insight.text.startswith("slow reaches 10 % of its roof in 1 launch")
    assert "No search" in insight.text
    assert insight.effect == "up to 900 ns of 2 µs" and insight.share == pytest.approx(0.45)
    assert insight.place.selection == "slow_op"
    (tried,) = in_time.below_the_roof(replace(made, searches=(search(2.5),)))
    assert "2.5 times as fast" in tried.text


def test_kernels_near_the_roof_are_not_named(trace: Trace):
    near = profile(("slow", 1000, 600), ("small", 10, 0))
    assert list(in_time.below_the_roof(replace(trace, profile=near))) == []
    unmeasured = profile(("slow", 1000, 100), gflops=0.0)
    assert list(in_time.below_the_roof(replace(trace, profile=unmeasured))) == []


@pytest.mark.parametrize("gain", [2.0, 1.0])
def test_a_better_schedule_is_found_where_a_search_has_one(trace: Trace, gain: float):
    kernel = replace(trace.kernels[0], name="slow")
    made = replace(trace, kernels=(kernel,), searches=(search(gain),),
                   profile=profile(("slow", 1000, 1)))  # fmt: skip
    insights = list(in_time.better_schedules(made))
    assert [insight.effect for insight in insights] == (["500 ns of 1 µs"] if gain > 1 else [])


@pytest.mark.parametrize(("time", "finds"), [(500, True), (20, False)])
def test_copies_that_take_long_are_found(trace: Trace, time: int, finds: bool):
    kinds: list[KernelRecord] = [
        replace(trace.kernels[0], name=name, kind=kind)
        for name, kind in (("move", "copy"), ("conv", "convolution"))
    ]
    made = replace(
        trace, kernels=tuple(kinds), profile=profile(("move", time, 0), ("conv", 980, 1))
    )
    insights = list(in_time.copies(made))
    assert len(insights) == finds
    assert all(i.place.selection == "move_op" and "move" in i.text for i in insights)


def report(*passes: tuple[str, float], isolated: tuple[float, ...] = ()) -> AccuracyReport:
    def error(name: str, value: float) -> TensorError:
        return TensorError(
            tensor=f"{name}_tensor", operation=f"{name}_op", max_absolute=value,
            max_relative=value, cosine=1.0, sqnr_db=1.0,
        )  # fmt: skip

    rows = tuple(PassAccuracy(name, "accumulated", (error(name, v),)) for name, v in passes)
    alone = PassAccuracy(
        passes[-1][0], "isolated", tuple(error(f"layer{i}", v) for i, v in enumerate(isolated))
    )
    return AccuracyReport(
        target="cpu", oracle="o", tolerance=1e-4, passes=rows, isolated=(alone,), outputs=(),
        passed=True,
    )  # fmt: skip


def test_the_pass_at_which_an_error_jumps_is_found(trace: Trace):
    accuracy = report(("import", 1e-7), ("fold", 2e-7), ("quantize", 3e-3), ("plan", 3.1e-3))
    (insight,) = in_numbers.jumps_at_passes(replace(trace, accuracy=accuracy))
    assert insight.place.pass_name == "quantize" and insight.place.selection == "quantize_op"
    assert insight.share == 1 and "beyond the tolerance" in insight.text


def test_an_error_that_is_not_a_number_is_a_jump(trace: Trace):
    accuracy = report(("import", 1e-7), ("fold", math.nan))
    assert len(list(in_numbers.jumps_at_passes(replace(trace, accuracy=accuracy)))) == 1


def test_rounding_is_no_jump(trace: Trace):
    accuracy = report(("import", 0.0), ("fold", 2e-7), ("fuse", 5e-6))
    assert list(in_numbers.jumps_at_passes(replace(trace, accuracy=accuracy))) == []


@pytest.mark.parametrize(("last", "finds"), [(5e-4, True), (2e-6, False)])
def test_the_layer_that_is_less_exact_than_others_is_found(trace: Trace, last: float, finds: bool):
    accuracy = report(("plan", 1e-6), isolated=(1e-7, 1e-7, 2e-7, last))
    insights = list(in_numbers.jumps_at_layers(replace(trace, accuracy=accuracy)))
    assert [insight.place.selection for insight in insights] == ["layer3_op"] * finds


def declined(site: str) -> RewriteEvent:
    return RewriteEvent(
        address=f"fuse-activation/fuse-unary/{site}", rule="fuse-unary", applied=False, site=site,
        matched=(site,), produced=(), reason="the result is used twice", rule_source="",
        explanation="", microseconds=1.0, delta=Delta((), (), ()),
    )  # fmt: skip


@pytest.mark.parametrize("site", ["relu_9", "gone"])
def test_what_was_declined_and_runs_by_itself_is_found(trace: Trace, site: str):
    assert trace.program is not None
    launch = replace(trace.program.launches[0], operation="relu_9", kernel="relu")
    fusing = replace(trace.passes[5], name="fuse-activation", events=(declined(site),))
    made = replace(
        trace,
        passes=(*trace.passes[:5], fusing, *trace.passes[6:]),
        program=replace(trace.program, launches=(launch,)),
        profile=replace(profile(("relu", 1000, 0)), events=(
            TimedEvent("relu", "relu_9", "relu", "lane", 0, 1000),)),
    )  # fmt: skip
    insights = list(in_compiling.not_fused(made))
    if site == "gone":
        assert insights == []
        return
    (insight,) = insights
    assert "fuse-activation declined, for the result is used twice" in insight.text
    assert (insight.place.pass_name, insight.place.event) == ("fuse-activation", 0)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("x", "a"), ("x", "b")], "x is copied into 1x8 f32 2 times"),
        ([("x", "a"), ("a", "b")], "x is copied into 1x8 f32 as a, and that into 1x8 f32"),
        ([("x", "a"), ("a", "y"), ("y", "b")], ""),
    ],
)
def test_what_is_copied_twice_is_found(trace: Trace, edges: list[tuple[str, str]], words: str):
    copy = "top.convert_layout"
    nodes = [node("x"), node("y"), node("a", copy), node("b", copy)]
    insights = list(in_compiling.copied_twice(with_graph(trace, nodes, edges)))
    assert [insight.text.split(":")[0] for insight in insights] == ([words] if words else [])


@pytest.mark.parametrize("reason", ["its sizes are known at run time only", ""])
def test_what_the_host_runs_is_found_with_its_reason(trace: Trace, reason: str):
    there = (("on the host", reason),) if reason else ()
    made = with_graph(trace, [node("scan1", attributes=there), node("conv1")], [])
    insights = list(in_compiling.on_the_host(made))
    assert len(insights) == bool(reason)
    assert all(reason in i.text and i.place.selection == "scan1" for i in insights)


def test_insights_are_ranked_and_every_one_is_of_a_finder(trace: Trace):
    slow = profile(("slow", 1000, 100), ("fast", 1000, 900))
    made = replace(trace, profile=slow, accuracy=report(("import", 1e-7), ("fold", 1.0)))
    insights = found(made)
    shares = [insight.share for insight in insights]
    assert shares == sorted(shares, reverse=True) and insights[0].name == "error-jumps-at-pass"
    assert {insight.name for insight in insights} <= {finder.name for finder in FINDERS}


def test_what_was_not_looked_for_is_said(trace: Trace):
    bare = replace(trace, profile=None, accuracy=None)
    text = text_of(insights_view(bare), 100)
    assert "Without measured times nobody knows of kernels that reach less" in " ".join(
        text.split()
    )


def test_names_of_a_model_are_harmless(hostile_trace: Trace):
    slow = profile(("<script>", 1000, 1), ("fast", 1000, 900))
    html = html_of(insights_view(replace(hostile_trace, profile=slow)))
    assert "<script>" not in html and "&lt;script&gt;" in html


@pytest.mark.parametrize(("latency", "says"), [(0.5, True), (1.0, False), (1.04, False)])
def test_the_two_times_of_a_program_are_told_apart(trace: Trace, latency: float, says: bool):
    timed = replace(profile(("a", 600_000, 0), ("b", 400_000, 0)), milliseconds=latency)
    text = " ".join(text_of(insights_view(replace(trace, profile=timed)), 100).split())
    assert ("together 1 ms. One inference as a whole takes 500 µs" in text) == says, text
    without = text_of(insights_view(replace(trace, profile=None)), 100)
    assert "One inference as a whole" not in without
