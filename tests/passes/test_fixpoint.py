"""Passes that walk over the program until nothing changes."""

from typing import ClassVar

from explorer.ir.rewriting import Declined, Fuel, RewriteOptions, Rule, apply_rules
from explorer.ir.rewriting.passes import RulePass, run_pass
from explorer.ir.top.elementwise import UnaryOp
from explorer.passes.analysis.matching import is_used_once
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.eliminate_dead_code import EraseUnused

X = "tensor<4xf32>"


class ReluForTanh(Rule):
    """tanh(f(x)), if nothing but f reads x   =>   relu(f(x))"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data != "tanh":
            return
        before = op.input.owner
        if not isinstance(before, UnaryOp):
            return
        if not isinstance(before.input.owner, UnaryOp):
            return
        if not is_used_once(before.input.owner):
            raise Declined("what it is made of is needed elsewhere too")
        rewriter.replace(op, op.altered(kind="relu"))


class Walks(FixpointPass):
    """Counts uses, and erases what is not read."""

    name = "walks"
    rules: ClassVar = (ReluForTanh, EraseUnused)


TEXT = f"""func.func @main(%x: {X}) {{
  %a = top.unary(%x) {{kind = "neg"}} : {X}
  %f = top.unary(%a) {{kind = "exp"}} : {X}
  %y = top.unary(%f) {{kind = "tanh"}} : {X}
  %b = top.unary(%a) {{kind = "abs"}} : {X}
  %c = top.unary(%b) {{kind = "abs"}} : {X}
  top.return(%y)
}}"""


def test_what_becomes_possible_far_away_is_found_by_another_walk(make_program):
    """%a loses its second reader only after %c and %b are erased, which come after %y."""
    result = run_pass(Walks(), make_program(TEXT), RewriteOptions())
    fired = [f"{r.rule} {r.site}" for r in result.rewrites if r.applied]
    assert fired == ["erase-unused c", "erase-unused b", "relu-for-tanh y"]


def test_a_single_walk_does_not_find_it(make_program):
    class Once(FixpointPass):
        """The same rules in one walk."""

        name = "once"
        rules: ClassVar = Walks.rules

        def run(self, rewriter, options):
            return apply_rules(self.name, [rule() for rule in self.rules], rewriter, options)

    once = run_pass(Once(), make_program(TEXT), RewriteOptions())
    again = run_pass(Walks(), make_program(TEXT), RewriteOptions())
    assert sum(r.applied for r in once.rewrites) < sum(r.applied for r in again.rewrites)


class AbsForExp(Rule):
    """exp(x), if nothing else reads x   =>   abs(x)"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data == "exp" and is_used_once(op.input.owner):
            rewriter.replace(op, op.altered(kind="abs"))


def test_the_only_reader_that_is_left_is_looked_at_in_the_same_walk(make_program):
    """Else a walk would find one step of an unrolled loop, and the next walk the next one."""

    class Once(RulePass):
        """Both rules."""

        name = "once"
        rules: ClassVar = (AbsForExp, EraseUnused)

    result = run_pass(Once(), make_program(TEXT), RewriteOptions())
    fired = [f"{r.rule} {r.site}" for r in result.rewrites if r.applied]
    assert fired == ["erase-unused c", "erase-unused b", "abs-for-exp f"]


def test_a_reason_is_reported_once_however_many_walks_there_are(make_program):
    result = run_pass(Walks(), make_program(TEXT), RewriteOptions())
    declined = [r.reason for r in result.rewrites if not r.applied]
    assert declined == ["what it is made of is needed elsewhere too"]


def test_walks_end_when_there_is_no_fuel_left(make_program):
    result = run_pass(Walks(), make_program(TEXT), RewriteOptions(fuel=Fuel(1)))
    assert [r.rule for r in result.rewrites if r.applied] == ["erase-unused"]


def test_a_program_with_nothing_to_do_is_walked_once_and_unchanged(make_program):
    operation = f'%y = top.unary(%x) {{kind = "neg"}} : {X}'
    text = f"func.func @main(%x: {X}) {{\n{operation}\ntop.return(%y)\n}}"
    result = run_pass(Walks(), make_program(text), RewriteOptions())
    assert not result.rewrites and not result.changed
