"""Rules and passes of one's own in a pipeline: where they go, what they may break, who is told."""

import linecache
import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

import explorer
from explorer.compilation import Compilation
from explorer.errors import InputError, PassError
from explorer.ir.rewriting import Declined, Rule
from explorer.ir.rewriting.passes import Pass, RulePass
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.reductions.reduction import ReduceOp

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Compilation:
    """Convolution, batch norm, relu, convolution, relu."""
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    return explorer.compile(model, "cpu")


class DoubleRelu(Rule):
    """relu(x)   =>   relu(relu(x))

    Once: what has another relu in front of it is declined, what stands in front no candidate.
    """

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if any(isinstance(use.operation, UnaryOp) for use in op.output.uses):
            return
        if isinstance(op.input.owner, UnaryOp):
            raise Declined("there are two already")
        first = op.altered()
        rewriter.insert_before(op, first)
        rewriter.replace(op, op.altered(input=first.output))


class DropRelu(Rule):
    """relu(x)   =>   x      (wrong, but of the right type)"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        rewriter.replace(op, op.altered(kind="abs"))
        self.seen = True


class OtherStrides(Rule):
    """A convolution of another result type."""

    matches = (ConvOp,)

    def rewrite(self, op, rewriter):
        if op.get("strides") == (1, 1):
            rewriter.update(op, strides=(2, 2))


class Crash(Rule):
    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        raise KeyError("no such thing")


class Endless(Rule):
    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        rewriter.update(op, kind="abs" if op.kind.data == "relu" else "relu")


class ChangesThenDeclines(Rule):
    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        rewriter.update(op, kind="abs")
        raise Declined("no")


class MovesUp(Rule):
    """Puts a relu before what it reads."""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if op.prev_op is not None and op.prev_op is op.input.owner:
            rewriter.move_before(op, op.input.owner)


class Shrinks(Rule):
    """relu(x)   =>   its sum, which has another shape"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        total = ReduceOp.make([op.input], kind="sum", axes=(1, 2, 3), keepdims=False)
        rewriter.replace(op, total)


class Behind(Rule):
    """Changes an operation behind the rewriter's back."""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        op.properties["kind"] = StringAttr("abs")


class Smuggles(Rule):
    """Puts an operation in without the rewriter."""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if not isinstance(op.input.owner, UnaryOp):
            op.parent.insert_op_before(op.altered(), op)


class Forgets(Rule):
    """relu(x)   =>   max(x, 0) of unknown origin"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data == "relu":
            new = op.altered(kind="leaky_relu", alpha=0.0)
            rewriter.replace(op, new, origins=[None])


class Quiet(Pass):
    """Does nothing."""

    name = "quiet"

    def run(self, rewriter, options):
        return []


# -- where it goes ---------------------------------------------------------------------------------


def test_a_rule_becomes_a_pass_behind_the_named_one(compiled):
    branch = compiled.insert(DoubleRelu, after="fold-batch-norm")
    at = branch.names.index("fold-batch-norm")
    assert branch.names[at + 1] == "double-relu"
    assert branch.label == "with double-relu after fold-batch-norm"
    assert "double-relu" not in compiled.names
    result = branch["double-relu"]
    assert result.description == "relu(x)   =>   relu(relu(x))"
    assert result.record.rules == {"double-relu": 2}
    assert {e.reason for e in result.events if not e.applied} == {"there are two already"}
    assert result.after.operation_count == result.before.operation_count + 2


def test_the_passes_before_it_are_shared(compiled):
    branch = compiled.insert(DoubleRelu, after="fold-batch-norm")
    at = compiled.names.index("fold-batch-norm")
    assert all(a is b for a, b in zip(compiled.passes[: at + 1], branch.passes, strict=False))
    assert branch.passes[at + 2] is not compiled.passes[at + 1]


def test_the_program_with_it_equals_the_source_model(compiled):
    branch = compiled.insert(DoubleRelu, after="fold-batch-norm")
    accuracy = branch.accuracy()
    assert accuracy.passed
    assert "double-relu" in [p.name for p in accuracy.report.passes]


def test_it_may_come_first(compiled):
    assert compiled.insert(DoubleRelu, after="import").names[1] == "double-relu"


def test_several_rules_and_whole_passes_can_be_inserted(compiled):
    class Both(RulePass):
        """Two rules."""

        name = "both"
        rules = (DoubleRelu, DropRelu)

    assert compiled.insert([DoubleRelu], after="import", name="mine").names[1] == "mine"
    assert compiled.insert(Quiet, after="import").names[1] == "quiet"
    assert compiled.insert(Quiet(), after="import")["quiet"].description == "Does nothing."
    branch = compiled.insert(DoubleRelu, after="import").insert(Quiet, after="double-relu")
    assert branch.names[1:3] == ["double-relu", "quiet"]
    with pytest.raises(PassError, match="both"):  # abs(x) => abs(x), without an end
        compiled.insert(Both, after="import")


def test_it_stays_in_forks_and_can_be_disabled(compiled):
    branch = compiled.insert(DoubleRelu, after="fold-batch-norm")
    other = branch.fork(budget_bytes=2**20)
    assert "double-relu" in other.names
    without = branch.fork(disable=["double-relu"])
    assert without.names == compiled.names
    assert without.final.text.lines == compiled.final.text.lines


def test_its_rewrites_have_addresses(compiled):
    branch = compiled.insert(DoubleRelu, after="fold-batch-norm")
    address = next(e.address for e in branch["double-relu"].events if e.applied)
    declined = branch.fork(decisions={address: False})
    assert declined["double-relu"].record.rules == {"double-relu": 1}


def test_a_rule_below_top_keeps_the_level_of_its_place(compiled):
    branch = compiled.insert(DoubleRelu, after="schedule-loops")
    assert branch["double-relu"].after.level == "scheduled"
    inputs = branch.example_inputs()
    for name, expected in compiled.run(inputs).items():
        np.testing.assert_array_equal(branch.run(inputs)[name], expected)


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (DoubleRelu, {"after": "fold-batchnorm"}, "did you mean 'fold-batch-norm'"),
        (DoubleRelu, {"after": "import", "name": "legalize"}, "'legalize' already"),
        (DoubleRelu, {"after": "import", "name": "a/b"}, "cannot be called 'a/b'"),
        (DoubleRelu(), {"after": "import"}, "the class itself"),
        (3, {"after": "import"}, "expected a class derived from Rule"),
        ([], {"after": "import"}, "expected a class derived from Rule"),
        (Quiet, {"after": "schedule-loops"}, "level scheduled already"),
    ],
)
def test_what_cannot_be_inserted_is_refused(compiled, what, options, message):
    with pytest.raises(InputError, match=message):
        compiled.insert(what, **options)


# -- what it breaks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "name", "message"),
    [
        (OtherStrides, "other-strides", "leaves an invalid operation: top.conv"),
        (Crash, "crash", "rule crash failed with KeyError: 'no such thing'"),
        (ChangesThenDeclines, "changes-then-declines", "declined after it had changed something"),
        (MovesUp, "moves-up", "which is made later or elsewhere"),
        (Shrinks, "shrinks", "leaves an invalid operation: "),
        (Behind, "behind", "relu1 was changed without the rewriter"),
        (Smuggles, "smuggles", "top.unary has no identity: it was not made through the rewriter"),
        (Forgets, "forgets", "has lost its origin after rule forgets at relu2"),
    ],
)
def test_a_rule_that_breaks_the_program_is_told_the_operation(compiled, rule, name, message):
    with pytest.raises(PassError, match=message) as raised:
        compiled.insert(rule, after="fold-batch-norm")
    assert raised.value.pass_name == name
    assert raised.value.operation
    assert f"operation {raised.value.operation}" in str(raised.value)


class Grows(Rule):
    """relu(x)   =>   relu(relu(x)), each of which is a relu again"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        first = op.altered()
        rewriter.insert_before(op, first)
        rewriter.replace(op, op.altered(input=first.output))


@pytest.mark.parametrize("rule", [Endless, Grows])
def test_a_rule_without_an_end_is_told_so(compiled, rule):
    name = rule.__name__.lower()
    with pytest.raises(PassError, match=f"the rules of {name} do not terminate") as raised:
        compiled.insert(rule, after="fold-batch-norm")
    assert (raised.value.pass_name, bool(raised.value.operation)) == (name, True)
    count = re.search(r"terminate: (\d+) rewrites", str(raised.value))
    assert count is not None
    assert int(count[1]) < 1000


def test_a_rule_that_is_not_complete_is_refused(compiled):
    class Blind(Rule):
        def rewrite(self, op, rewriter):
            return

    class Wrong(Blind):
        matches = ("relu",)

    class Idle(Rule):
        matches = (UnaryOp,)

    for rule in (Blind, Wrong):
        with pytest.raises(InputError, match="does not say which operations it looks at"):
            compiled.insert(rule, after="import")
    with pytest.raises(InputError, match="rule Idle has no rewrite"):
        compiled.insert(Idle, after="import")


def test_a_person_sees_what_a_rule_of_ten_lines_did(compiled):
    """Where it fired, where not and why, what it did to the numbers, and where branches part."""

    class SoftenRelu(Rule):
        """relu(x)   =>   leaky_relu(x, 0.01)      but for the last one"""

        matches = (UnaryOp,)

        def rewrite(self, op, rewriter):
            if op.kind.data != "relu":
                return
            if any(use.operation.name == "top.return" for use in op.output.uses):
                raise Declined("it is the program's output")
            rewriter.replace(op, op.altered(kind="leaky_relu", alpha=0.01))

    branch = compiled.insert(SoftenRelu, after="fold-batch-norm")
    fired, declined = branch["soften-relu"].events
    assert (fired.applied, fired.site) == (True, "relu1")
    assert (declined.site, declined.reason) == ("relu2", "it is the program's output")
    accuracy = branch.accuracy()
    assert not accuracy.passed
    fault = accuracy.bisect()
    assert fault is not None
    assert (fault.pass_name, fault.address) == ("soften-relu", fired.address)
    found = compiled.compare(branch)
    assert found.first_difference == ("soften-relu", "", "true")
    changed = {change.field: change.after for change in found.graph_diff("legalize").changed}
    assert changed == {"activation": "leaky_relu", "alpha": "0.01"}
    branch.close()


def test_the_compilation_is_kept_when_a_rule_fails(compiled):
    inputs = compiled.example_inputs()
    before = compiled.run(inputs)
    text = compiled.final.text.lines
    for rule in (OtherStrides, Crash, MovesUp):
        with pytest.raises(PassError):
            compiled.insert(rule, after="fold-batch-norm")
    assert compiled.final.text.lines == text
    for name, expected in before.items():
        np.testing.assert_array_equal(compiled.run(inputs)[name], expected)


def test_a_pass_that_fails_is_named(compiled):
    class Fails(Pass):
        """Fails."""

        name = "fails"

        def run(self, rewriter, options):
            raise ZeroDivisionError("of all things")

    with pytest.raises(PassError, match="the pass failed with ZeroDivisionError") as raised:
        compiled.insert(Fails, after="import")
    assert raised.value.pass_name == "fails"


def test_a_later_pass_that_fails_points_at_the_inserted_one(compiled):
    class WithoutMeaning(Rule):
        """relu => a kind that no kernel can compute on floats."""

        matches = (UnaryOp,)

        def rewrite(self, op, rewriter):
            if op.kind.data == "relu":
                rewriter.update(op, kind="not")

    with pytest.raises(
        PassError, match="lower-to-kernels, which follows, failed with TypeError"
    ) as raised:
        compiled.insert(WithoutMeaning, after="fold-batch-norm")
    assert raised.value.pass_name == "without-meaning"


def test_bisection_blames_the_rewrite_that_breaks_the_numbers(compiled):
    class AbsOfLast(Rule):
        """relu(x)   =>   abs(x)      where the program returns it"""

        matches = (UnaryOp,)

        def rewrite(self, op, rewriter):
            returns = any(use.operation.name == "top.return" for use in op.output.uses)
            if op.kind.data != "relu":
                return
            rewriter.replace(op, op.altered(kind="abs" if returns else "leaky_relu", alpha=0.0))

    branch = compiled.insert(AbsOfLast, after="fold-batch-norm")
    applied = [e for e in branch["abs-of-last"].events if e.applied]
    accuracy = branch.accuracy()
    assert not accuracy.passed
    fault = accuracy.bisect()
    assert fault is not None
    assert (fault.pass_name, fault.rule) == ("abs-of-last", "abs-of-last")
    assert fault.address == applied[1].address


# -- where it is written ---------------------------------------------------------------------------

CELL = '''\
from explorer.ir.rewriting import Rule
from explorer.ir.top.elementwise import UnaryOp


class FromACell(Rule):
    """relu(x)   =>   relu(x)"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        pass
'''


def test_the_text_of_a_rule_from_a_cell_is_found(compiled):
    """As IPython does it: compiled under a name of its own, the text kept in linecache."""
    name = "<ipython-input-5-0123456789ab>"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    # __main__ is a module without a file.
    namespace = {"__name__": "__main__"}
    exec(compile(CELL, name, "exec"), namespace)
    branch = compiled.insert(namespace["FromACell"], after="import")
    text = branch.rule_source("from-a-cell")
    assert text.language == "python"
    assert text.lines[0] == "class FromACell(Rule):"
    assert text.lines[-1] == "        pass"
    assert len(text.owners) == len(text.lines)


def test_the_place_of_an_inserted_rule_is_in_its_events(compiled):
    events = compiled.insert(DoubleRelu, after="import")["double-relu"].events
    assert all(re.search(r"test_inserting\.py:\d+$", e.rule_source) for e in events)


def test_the_text_of_a_rule_of_the_package_is_found(compiled):
    assert compiled.rule_source("fuse-unary").lines[0] == "class FuseUnary(Rule):"
    with pytest.raises(InputError, match="did you mean 'fuse-unary'"):
        compiled.rule_source("fuse-unari")


def test_a_rule_without_a_text_says_so(compiled):
    namespace = {"__name__": "__main__"}
    exec(compile(CELL, "<stdin>", "exec"), namespace)
    branch = compiled.insert(namespace["FromACell"], after="import")
    assert branch.rule_source("from-a-cell").lines == (
        "# the text of FromACell is not kept anywhere",
    )
