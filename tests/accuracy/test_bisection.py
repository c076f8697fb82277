"""Planted faults: each is found, with the pass, the rule and the operation that made it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import explorer
from explorer.accuracy.bisection import Suspect, bisect, first_bad_pass
from explorer.compilation import Compilation
from explorer.errors import ExplorerError, PassError
from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.functions.calls import device_functions
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions, Rule
from explorer.ir.rewriting.passes import EventLog, Pass, RulePass
from explorer.ir.structure import kernel_functions, operations
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.reductions.normalization import BatchNormOp
from explorer.ir.types import layout_of, with_layout
from explorer.kernels.passes import ScheduleLoops
from explorer.memory.planners import GreedyPlanner
from explorer.memory.planning import MEMORY, plan_function
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.simplify.fold_batch_norm import factor_and_offset
from explorer.results import AccuracyReport, PassAccuracy, PlacedBuffer, TensorError

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))


@pytest.fixture(scope="module")
def right(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu; compiled as it should be."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    return explorer.compile(model, "cpu")


def with_pass(compilation: Compilation, planted: Pass, name: str = "") -> Compilation:
    """The same compilation with another pass in the place of the one that has the name."""
    place = name or planted.name
    pipeline = [planted if p.name == place else p for p in compilation.pipeline]
    assert planted in pipeline
    return explorer.compile(compilation.model, compilation.target, pipeline=pipeline)


def after_pass(compilation: Compilation, planted: Pass, name: str) -> Compilation:
    """The same compilation with one more pass, behind the one that has the name."""
    pipeline: list[Pass] = []
    for pass_ in compilation.pipeline:
        pipeline += [pass_, planted] if pass_.name == name else [pass_]
    assert planted in pipeline
    return explorer.compile(compilation.model, compilation.target, pipeline=pipeline)


def first_convolution(rewriter: RecordedRewriter) -> ConvOp:
    return next(op for op in operations(rewriter.module) if isinstance(op, ConvOp))


def test_a_right_compilation_has_no_fault(right):
    accuracy = right.accuracy()
    assert accuracy.passed
    assert accuracy.bisect() is None
    assert len(accuracy.report.passes) == len(right.passes) + 1
    assert accuracy.report.passes[-1].name == "binary on cpu"


# -- a wrong epilogue ------------------------------------------------------------------------------


class FuseReluButLeaky(Rule):
    """relu(conv(x, w))   =>   conv(x, w) {activation = "relu"}, wrongly for four channels"""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        linear = op.input.owner
        if not isinstance(linear, ConvOp):
            return
        is_second = linear.output.type.get_shape()[1] == 4
        kind = "leaky_relu" if is_second else "relu"
        rewriter.replace(op, linear.altered(activation=kind), absorbs=[linear])


@dataclass(frozen=True)
class WrongFusion(RulePass):
    """Fuses activations, the second one wrongly."""

    name = "fuse-activation"
    rules = (FuseReluButLeaky,)


def test_the_one_wrong_rewrite_of_several_is_named(right):
    compilation = with_pass(right, WrongFusion())
    accuracy = compilation.accuracy()
    assert not accuracy.passed
    fault = accuracy.bisect()
    assert fault is not None
    fused = [r for r in compilation["fuse-activation"].rewrites if r.applied]
    assert [r.site for r in fused] == ["relu1", "relu2"]
    assert (fault.pass_name, fault.rule) == ("fuse-activation", "fuse-relu-but-leaky")
    assert fault.operation == fused[1].produced[-1]
    assert fault.tensor == "y"
    assert fault.address == "fuse-activation/fuse-relu-but-leaky/relu2"
    assert 1e-4 < fault.max_relative < 0.1


def test_the_address_of_a_fault_switches_it_off(right):
    compilation = with_pass(right, WrongFusion())
    fault = compilation.accuracy().bisect()
    repaired = compilation.fork(decisions={fault.address: False})
    assert repaired.accuracy().passed


class ReluToAbs(Rule):
    """relu(x) -> abs(x), wrongly."""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data == "relu":
            rewriter.update(op, kind="abs")


def test_an_inserted_rule_that_is_wrong_is_found_and_stays_in_the_report(right):
    compilation = right.insert(ReluToAbs, after="fold-batch-norm")
    accuracy = compilation.accuracy()
    assert accuracy.report.fault is None
    fault = accuracy.bisect()
    assert fault is not None
    assert (fault.pass_name, fault.rule, fault.operation) == ("relu-to-abs", "relu-to-abs", "relu1")
    assert accuracy.report.fault == fault
    saved = compilation.trace(with_code=False).accuracy
    assert saved is not None
    assert saved.fault == fault
    wrong = accuracy.report.passes[-1].worst
    assert wrong is not None
    assert wrong.detail is not None
    first = accuracy.report.details[wrong.detail].worst[0]
    assert (first.index, first.value) == (wrong.worst_index, wrong.worst_value)
    assert first.difference == wrong.max_absolute > 0


# -- swapped axes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwapAxes(Pass):
    """Turns the first convolution's filters over."""

    name = "swap-axes"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events, conv = EventLog(self.name, rewriter), first_convolution(rewriter)
        owner = conv.weight.owner
        assert isinstance(owner, WeightOp)
        array = np.swapaxes(rewriter.weights[owner.weight.data], 2, 3)
        with events.rewrite("swap", conv, "columns become rows"):
            value = rewriter.add_weight(conv, "swapped", np.ascontiguousarray(array))
            rewriter.set_operand(conv, 1, value)
        return events.rewrites


def test_swapped_axes_of_a_weight_are_found_where_they_are_swapped(right):
    compilation = after_pass(right, SwapAxes(), "fuse-residual")
    fault = compilation.accuracy().bisect()
    assert fault is not None
    conv = next(
        n for n, op in compilation["swap-axes"].after.operations.items() if op.name == "top.conv"
    )
    assert (fault.pass_name, fault.rule, fault.operation) == ("swap-axes", "swap", conv)


# -- off by one ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShiftPads(Pass):
    """Moves the window of one convolution up by a row: the shape stays."""

    name = "shift-pads"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        conv = [op for op in operations(rewriter.module) if isinstance(op, ConvOp)][1]
        with events.rewrite("shift", conv, "one row too far up"):
            rewriter.update(conv, pads=[2, 1, 0, 1])
        return events.rewrites


def test_a_window_that_is_off_by_one_is_found(right):
    compilation = after_pass(right, ShiftPads(), "fuse-activation")
    fault = compilation.accuracy().bisect()
    assert fault is not None
    assert (fault.pass_name, fault.rule, fault.tensor) == ("shift-pads", "shift", "y")
    assert compilation["shift-pads"].after.operations[fault.operation].get("pads") == (2, 1, 0, 1)


@dataclass(frozen=True)
class ShrinkHalo(AssignLayouts):
    """Assigns layouts, then takes a row from the first convolution's input."""

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        rewrites = super().run(rewriter, options)
        value = first_convolution(rewriter).input
        layout = replace(layout_of(value), halo=(0, 1, 1, 1))
        rewriter.set_type(value, with_layout(value.type, layout))
        return rewrites


def test_a_halo_that_is_too_small_is_refused_by_the_verifier(right):
    with pytest.raises(
        PassError, match=r"after pass lower-to-kernels: dimension 2 of x has 9 elem"
    ):
        with_pass(right, ShrinkHalo(16), "assign-layouts")


@dataclass(frozen=True)
class FillHalo(AssignLayouts):
    """Assigns layouts, but fills the first convolution's halo with ones."""

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        rewrites = super().run(rewriter, options)
        value = first_convolution(rewriter).input
        layout = replace(layout_of(value), fill=1.0)
        rewriter.set_type(value, with_layout(value.type, layout))
        return rewrites


def test_a_wrong_halo_is_found_where_buffers_begin(right):
    """Layouts mean nothing to NumPy: the first level that has the halo shows the fault."""
    fault = with_pass(right, FillHalo(16), "assign-layouts").accuracy().bisect()
    assert fault is not None
    assert fault.pass_name == "lower-to-kernels"
    assert fault.rule == "lower"
    assert fault.operation.startswith("conv")
    assert fault.tensor == "r1"


# -- a stale weight --------------------------------------------------------------------------------


class FoldButKeepBias(Rule):
    """batch_norm(conv(x, w, b))   =>   conv(x, f * w, b), where the bias should follow"""

    matches = (BatchNormOp,)

    def rewrite(self, op: BatchNormOp, rewriter: RecordedRewriter) -> None:
        conv = op.input.owner
        assert isinstance(conv, ConvOp) and isinstance(conv.weight.owner, WeightOp)
        factor, _ = factor_and_offset(op, rewriter)
        array = rewriter.weights[conv.weight.owner.weight.data]
        scaled = (array * factor.reshape(-1, 1, 1, 1)).astype(array.dtype)
        value = rewriter.add_weight(op, "scaled", scaled)
        rewriter.replace(op, conv.altered(weight=value), absorbs=[conv])


@dataclass(frozen=True)
class StaleBias(RulePass):
    """Folds batch normalization into the filters and forgets the bias."""

    name = "fold-batch-norm"
    rules = (FoldButKeepBias,)


def test_a_stale_bias_is_found_where_it_was_left(right):
    compilation = with_pass(right, StaleBias())
    fault = compilation.accuracy().bisect()
    assert fault is not None
    assert (fault.pass_name, fault.rule) == ("fold-batch-norm", "fold-but-keep-bias")
    assert compilation["fold-batch-norm"].after.operations[fault.operation].name == "top.conv"
    assert fault.tensor == "n1"


# -- a weight packed wrongly -----------------------------------------------------------------------


@dataclass(frozen=True)
class PackBackwards(ScheduleLoops):
    """Schedules loops, then turns over the packed weights of one launch."""

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        rewrites = super().run(rewriter, options)
        launches = [
            op
            for op in operations(rewriter.module)
            if isinstance(op, LaunchOp) and op.operation.data == "top.conv"
        ]
        owner = launches[1].operands[1].owner
        assert isinstance(owner, WeightOp)
        array = rewriter.weights[owner.weight.data]
        turned = np.ascontiguousarray(array.reshape(-1)[::-1].reshape(array.shape))
        rewriter.set_operand(launches[1], 1, rewriter.add_weight(launches[1], "turned", turned))
        return rewrites


def test_a_fault_of_one_kernel_is_blamed_on_its_launch(right):
    scheduling = next(p for p in right.pipeline if isinstance(p, ScheduleLoops))
    compilation = with_pass(right, PackBackwards(scheduling.machine))
    fault = compilation.accuracy().bisect()
    assert fault is not None
    assert (fault.pass_name, fault.tensor) == ("schedule-loops", "y")
    assert compilation.final.operations[fault.operation].get("operation") == "top.conv"


# -- a wrong address -------------------------------------------------------------------------------


@dataclass(frozen=True)
class EverythingAtZero:
    """A planner that gives every buffer the same bytes."""

    planner: GreedyPlanner = field(default_factory=GreedyPlanner)

    def __call__(self, buffers, steps: Sequence[str] = ()):
        plan = self.planner(buffers, steps)
        placements = tuple(PlacedBuffer(p.buffer, 0) for p in plan.placements)
        peak = max(p.buffer.size_bytes for p in placements)
        return replace(plan, placements=placements, peak_bytes=peak)


def test_a_plan_in_which_live_buffers_overlap_is_refused(right):
    with pytest.raises(ExplorerError, match="overlap and are both live in step"):
        right.fork(planner=EverythingAtZero())


@dataclass(frozen=True)
class PlanWithoutVerification(Pass):
    """As plan-memory, but nobody looks at the plan."""

    planner: EverythingAtZero = field(default_factory=EverythingAtZero)
    name: ClassVar[str] = "plan-memory"
    level: ClassVar[str] = "memory"
    is_required: ClassVar[bool] = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        for function in device_functions(rewriter.module):
            kernels = kernel_functions(rewriter.module)
            rewriter.artifacts[MEMORY] = plan_function(function, kernels, self.planner, 64)
        return []


def test_a_wrong_address_is_found(right):
    compilation = with_pass(right, PlanWithoutVerification())
    accuracy = compilation.accuracy()
    assert not accuracy.passed
    fault = accuracy.bisect()
    assert fault is not None
    good = [p.name for p in accuracy.report.passes if p.worst.max_relative <= 1e-4]
    assert fault.pass_name == "plan-memory"
    assert good == compilation.names[:-1]
    assert fault.operation in compilation.final.operations


# -- the search itself -----------------------------------------------------------------------------


def accuracy(name: str, *errors: float) -> PassAccuracy:
    tensors = [
        TensorError(
            tensor=f"t{i}",
            operation=f"op{i}",
            max_absolute=e,
            max_relative=e,
            cosine=1.0,
            sqnr_db=0.0,
        )
        for i, e in enumerate(errors)
    ]
    return PassAccuracy(name, "accumulated", tuple(tensors))


def report(*passes: PassAccuracy, isolated: tuple[PassAccuracy, ...] = ()) -> AccuracyReport:
    return AccuracyReport(
        target="cpu",
        oracle="",
        tolerance=1e-4,
        passes=passes,
        isolated=isolated,
        outputs=(),
        passed=False,
    )


def test_the_first_bad_pass_is_the_first_that_is_wrong_in_either_mode():
    good, bad = accuracy("a", 1e-6), accuracy("b", 1e-2)
    assert first_bad_pass(report(good, good)) is None
    assert first_bad_pass(report(good, bad, bad)) == 1
    assert first_bad_pass(report(good, good, bad, isolated=(good, bad, bad))) == 1
    assert first_bad_pass(report(good, accuracy("nan", float("nan")))) == 1


@pytest.mark.parametrize("guilty", range(1, 8))
def test_bisection_names_the_guilty_rewrite_in_few_probes(guilty):
    suspects = [Suspect(f"rule{i}", (f"op{i}",), f"p/rule{i}/op{i}") for i in range(1, 8)]
    probes: list[int] = []

    def is_right_with(rewrites: int) -> bool:
        probes.append(rewrites)
        return rewrites < guilty

    fault = bisect(report(accuracy("p", 1e-2)), suspects, is_right_with)
    assert fault is not None
    assert (fault.rule, fault.operation) == (f"rule{guilty}", f"op{guilty}")
    assert fault.address == f"p/rule{guilty}/op{guilty}"
    assert len(probes) <= 4  # all of them once, then the binary logarithm of seven


def test_a_fault_that_no_rewrite_explains_names_the_first_wrong_tensor():
    suspects = [Suspect("rule1", ("op1",), "p/rule1/op1")]
    fault = bisect(report(accuracy("p", 0.0, 1e-2)), suspects, None)
    assert (fault.operation, fault.tensor, fault.rule) == ("op1", "t1", "rule1")
    assert str(fault) == "pass p, rule rule1, operation op1: tensor t1 is off by 0.01"
    fault = bisect(report(accuracy("p", 1e-2, 1e-2)), suspects, None)
    assert (fault.operation, fault.rule) == ("op0", "")
