"""The recorded rewriter: events replay, origins and sources survive, rules are driven as asked."""

from collections.abc import Sequence

import numpy as np
import pytest

from explorer.errors import PassError
from explorer.ir.inspection.printing import parse
from explorer.ir.origins import Origin, location_of, origin_of, set_origins, sources_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import (
    Declined,
    Fuel,
    Names,
    RecordedRewriter,
    Rewrite,
    RewriteOptions,
    Rule,
    apply_rules,
    replay,
)
from explorer.ir.rewriting.passes import PassResult, Working, run_pass
from explorer.ir.structure import index_operations, operations
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.weights import Weights
from explorer.passes import top_pipeline

# Every pass of the pipeline finds something to do here.
EVERYTHING = """
func.func @main(%x: tensor<?x3x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>) {
  %w = top.weight() {weight = "w"} : tensor<4x3x3x3xf32>
  %w2 = top.weight() {weight = "w2"} : tensor<4x4x1x1xf32>
  %s = top.weight() {weight = "s"} : tensor<4xf32>
  %b = top.weight() {weight = "b"} : tensor<4xf32>
  %m = top.weight() {weight = "m"} : tensor<4xf32>
  %v = top.weight() {weight = "v"} : tensor<4xf32>
  %rest = top.weight() {weight = "rest"} : tensor<1xi64>
  %conv1 = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1],
    strides = [1, 1]} : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %bn1 = top.batch_norm(%conv1, %s, %b, %m, %v) {epsilon = 0.001}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %gate1 = top.unary(%bn1) {kind = "sigmoid"}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %silu1 = top.binary(%bn1, %gate1) {kind = "mul"}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %t1 = top.transpose(%silu1) {permutation = [0, 2, 3, 1]}
    : tensor<?x8x8x4xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %abs1 = top.unary(%t1) {kind = "abs"}
    : tensor<?x8x8x4xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %abs2 = top.unary(%t1) {kind = "abs"}
    : tensor<?x8x8x4xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %sum1 = top.binary(%abs1, %abs2) {kind = "add"}
    : tensor<?x8x8x4xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %t2 = top.transpose(%sum1) {permutation = [0, 3, 1, 2]}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %conv2 = top.conv(%t2, %w2) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0],
    strides = [1, 1]} : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %res1 = top.binary(%conv2, %t2) {kind = "add"}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %relu1 = top.unary(%res1) {kind = "relu"}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %pool1 = top.pool(%relu1) {kind = "average", window = [3, 3], strides = [1, 1],
    pads = [1, 1, 1, 1], dilations = [1, 1], includes_padding = false}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %cast1 = top.cast(%pool1) {to = f32}
    : tensor<?x4x8x8xf32, #top.encoding<dims = ["batch", "", "", ""]>>
  %shape1 = top.shape(%x) {start = 0, end = 1} : tensor<1xi64>
  %target1 = top.concat(%shape1, %rest) {axis = 0} : tensor<2xi64>
  %flat1 = top.reshape(%cast1, target = %target1) : tensor<?x?xf32>
  top.return(%flat1)
}
"""


def working_on(text: str) -> Working:
    """Random weights by order; every value is its own origin and has its own source."""
    module, weights, random = parse(text), Weights(), np.random.default_rng(0)
    for op in operations(module):
        if op.name == "top.weight":
            name = op.get("weight")
            shape = op.results[0].type.get_shape()
            array = np.abs(random.normal(size=shape)).astype(np.float32)
            weights.add(name, np.array([-1], np.int64) if name == "rest" else array)
        elif op.results:
            name = op.results[0].name_hint or ""
            op.location = location_of([name])
            set_origins(op, [Origin(name)])
    return Working(module=module, weights=weights, names=Names.of(module))


@pytest.fixture(scope="module")
def results() -> list[PassResult]:
    working = working_on(EVERYTHING)
    return [run_pass(p, working, RewriteOptions()) for p in top_pipeline({"batch": 2})]


IDLE = {
    "infer-shapes",
    "simplify-movement",
    "recognize-normalization",
    "recognize-attention",
    "split-attention",
    "compute-in-integers",
    "fuse-quantization",
    "narrow-transposes",
    "fuse-bias",
    "eliminate-dead-code",
}


def test_most_passes_have_work_on_this_program(results):
    idle = {r.name for r in results if not r.changed}
    assert idle == IDLE


def test_events_replayed_forwards_give_what_every_pass_gave(results):
    for result in results:
        index = index_operations(result.before.walked)
        for rewrite in result.rewrites:
            index = replay(index, rewrite)
        assert index == index_operations(result.after.walked), result.name


def test_events_replayed_backwards_give_what_every_pass_was_given(results):
    for result in results:
        index = index_operations(result.after.walked)
        for rewrite in reversed(result.rewrites):
            index = replay(index, rewrite, backwards=True)
        assert index == index_operations(result.before.walked), result.name


def test_identities_are_never_used_again_for_another_operation(results):
    added = [r.identity for p in results for e in p.rewrites if e.applied for r in e.added]
    assert len(added) == len(set(added))


def test_events_name_rule_site_and_source_line(results):
    (event,) = next(r for r in results if r.name == "recognize-activations").events
    assert event.address == "recognize-activations/recognize-silu/silu1"
    assert event.rule_source.startswith("explorer/passes/recognize/recognize_activations.py:")
    assert event.explanation.startswith("x * sigmoid(x)   =>   silu(x);   ")
    assert event.matched == ("silu1", "gate1") and event.produced == ("silu2",)
    assert dict(event.delta.added)["silu2"].startswith("top.unary(%bn1)")


# -- small rules -----------------------------------------------------------------------------------

NEGATIONS = """
func.func @main(%x: tensor<4xf32>) {
  %a = top.unary(%x) {kind = "neg"} : tensor<4xf32>
  %b = top.unary(%a) {kind = "neg"} : tensor<4xf32>
  %c = top.unary(%b) {kind = "neg"} : tensor<4xf32>
  top.return(%c)
}
"""


class CancelNegations(Rule):
    """-(-x)   =>   abs(x) where x is known, in this test's arithmetic."""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = op.input.owner
        if op.kind.data != "neg" or not isinstance(inner, UnaryOp):
            return
        if inner.kind.data != "neg":
            raise Declined(f"{inner.kind.data} is no negation")
        rewriter.replace(op, UnaryOp.make([inner.input], kind="abs"), absorbs=[inner])


class GrowForever(Rule):
    """x   =>   abs(x), again and again."""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        rewriter.replace(op, UnaryOp.make([op.input], kind="abs"))


def drive(
    text: str, rules: Sequence[Rule], options: RewriteOptions | None = None
) -> tuple[RecordedRewriter, list[Rewrite]]:
    working = working_on(text)
    rewriter = RecordedRewriter(working.module, working.weights, working.names)
    return rewriter, apply_rules("test", rules, rewriter, options or RewriteOptions())


def lines(rewriter: RecordedRewriter) -> list[str]:
    text = Snapshot(rewriter.module, rewriter.weights).text
    return [line.strip() for line in text.lines[2:-3]]


def test_rules_run_in_program_order_to_a_fixpoint():
    rewriter, events = drive(NEGATIONS, [CancelNegations()])
    assert lines(rewriter) == [
        '%abs1 = top.unary(%x) {kind = "abs"} : tensor<4xf32>',
        '%c = top.unary(%abs1) {kind = "neg"} : tensor<4xf32>',
    ]
    assert [(e.site, e.applied, e.reason) for e in events] == [
        ("b", True, ""),
        ("c", False, "abs is no negation"),
    ]


def test_sources_are_united_and_the_origin_is_that_of_what_is_replaced():
    rewriter, _ = drive(NEGATIONS, [CancelNegations()])
    fused = next(op for op in operations(rewriter.module) if op.get("kind") == "abs")
    assert sources_of(fused) == ("a", "b")
    assert origin_of(fused.results[0]) == Origin("b")


def test_no_fuel_no_rewrite():
    rewriter, events = drive(NEGATIONS, [CancelNegations()], RewriteOptions(fuel=Fuel(0)))
    assert events == [] and not rewriter.has_changed


def test_fuel_is_shared_and_burns_with_every_rewrite():
    fuel = Fuel(3)
    drive(NEGATIONS, [CancelNegations()], RewriteOptions(fuel=fuel))
    assert fuel.remaining == 2


def test_an_override_declines_by_address():
    options = RewriteOptions({"test/cancel-negations/b": False})
    _, events = drive(NEGATIONS, [CancelNegations()], options)
    assert [(e.address, e.applied, e.reason) for e in events] == [
        ("test/cancel-negations/b", False, "declined by an override"),
        ("test/cancel-negations/c", True, ""),
    ]


def test_a_rule_is_switched_off_by_its_own_address():
    rewriter, events = drive(
        NEGATIONS, [CancelNegations()], RewriteOptions({"test/cancel-negations": False})
    )
    assert events == [] and not rewriter.has_changed


def test_the_override_of_a_site_stands_above_that_of_its_rule():
    options = RewriteOptions({"test/rule": 1, "test/rule/b": 2, "other/rule/c": 3})
    assert [options.decision(f"test/rule/{site}") for site in "abc"] == [1, 2, 1]
    assert options.met == {"test/rule", "test/rule/b"}


def test_rules_that_do_not_end_are_named():
    with pytest.raises(PassError, match=r"rules of test do not terminate: .* by grow-forever"):
        drive(NEGATIONS, [GrowForever()])


class SinkNegation(Rule):
    """abs(neg(x))   =>   neg(abs(x))      through as many as there are"""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = op.input.owner
        if op.kind.data != "abs" or not isinstance(inner, UnaryOp) or inner.kind.data != "neg":
            return
        absolute = UnaryOp.make([inner.input], kind="abs")
        rewriter.insert_before(op, absolute)
        rewriter.replace(op, UnaryOp.make([absolute.output], kind="neg"), absorbs=[inner])


def test_a_long_way_through_the_program_has_an_end():
    kinds = enumerate(["neg"] * 40 + ["abs"] * 40)
    chain = "".join(
        f'  %v{i + 1} = top.unary(%v{i}) {{kind = "{kind}"}} : tensor<4xf32>\n' for i, kind in kinds
    )
    text = f"func.func @main(%v0: tensor<4xf32>) {{\n{chain}  top.return(%v80)\n}}"
    rewriter, events = drive(text, [SinkNegation()])
    assert len([e for e in events if e.applied]) == 40 * 40
    found = [op.get("kind") for op in operations(rewriter.module) if op.results]
    assert found == ["abs"] * 40 + ["neg"] * 40


class DeclineLate(Rule):
    """Changes first and declines then, which no rule may."""

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        rewriter.update(op, kind="abs")
        raise Declined("too late")


def test_a_rule_must_not_decline_after_it_changed_something():
    with pytest.raises(AssertionError, match="decline-late declined after it had changed"):
        drive(NEGATIONS, [DeclineLate()])


def rewriter_on(text: str) -> RecordedRewriter:
    working = working_on(text)
    return RecordedRewriter(working.module, working.weights, working.names)


def named(rewriter: RecordedRewriter, identity: str):
    return Snapshot(rewriter.module, rewriter.weights).operations[identity]


def test_a_value_without_an_origin_takes_that_of_what_it_replaces():
    rewriter = rewriter_on(NEGATIONS)
    a, b = named(rewriter, "a"), named(rewriter, "b")
    helper = BinaryOp.make([a.results[0], a.results[0]], kind="add")
    rewriter.insert_before(b, helper)
    assert origin_of(helper.results[0]) is None
    rewriter.replace(b, helper.results[0])
    assert origin_of(helper.results[0]) == Origin("b")
    rewriter.replace(named(rewriter, "c"), helper.results[0])
    assert origin_of(helper.results[0]) == Origin("b")


def test_a_replacement_of_another_type_is_refused():
    rewriter = rewriter_on(
        NEGATIONS.replace("%x: tensor<4xf32>", "%x: tensor<4xf32>, %s: tensor<f32>")
    )
    scalar = rewriter.module.body.block.first_op.body.block.args[1]
    with pytest.raises(ValueError, match="replacement of a has another type"):
        rewriter.replace(named(rewriter, "a"), scalar)


def test_erasing_an_operation_with_regions_records_what_was_in_it():
    rewriter = rewriter_on(
        """
        func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) {
          %y = top.if(%c) {
            %a = top.unary(%x) {kind = "neg"} : tensor<4xf32>
            top.return(%a)
          } {
            top.return(%x)
          } : tensor<4xf32>
          top.return(%x)
        }
        """
    )
    rewriter.erase(named(rewriter, "y"))
    assert [r.identity for r in rewriter.take_log().removed] == ["y", "a"]


def test_names_are_fresh_and_keep_their_stem():
    names = Names({"conv1", "conv3"})
    assert [names.fresh("conv9"), names.fresh("conv"), names.fresh("7")] == [
        "conv2",
        "conv4",
        "value1",
    ]
    copy = names.copy()
    assert copy.fresh("conv") == names.fresh("conv") == "conv5"
