"""A pass of one's own in a pipeline: rules or a whole pass, inserted behind a pass by its name.

    class MergeRelus(Rule): ...
    d = c.insert(MergeRelus, after="fold-batch-norm")      a fork; `c` stays as it is

    fold-batch-norm, recognize-activations, ...
 => fold-batch-norm, merge-relus, recognize-activations, ...

What comes from outside of the package is guarded: whatever it raises, and every program that it
leaves invalid, becomes a PassError that names the pass, the rule and the operation.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation
from xdsl.utils.exceptions import VerifyException

from explorer.compilation.rule_sources import place_of
from explorer.compilation.settings import near_name
from explorer.errors import ExplorerError, InputError, PassError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.passes import LEVELS, Pass, RulePass
from explorer.ir.rewriting import Declined, RecordedRewriter, Rewrite, RewriteOptions, Rule
from explorer.ir.top.data import ReturnOp

Insertable = type[Rule] | Sequence[type[Rule]] | Pass | type[Pass]
"""Classes of rules, which become a pass, or a pass (its class where it takes no options)."""

IMPORT = "import"
"""What stands before the first pass."""


@dataclass(frozen=True)
class Insertion:
    """A pass and the name of the one that it follows."""

    pass_: Pass
    after: str


def make_insertion(what: Insertable, after: str, name: str, pipeline: Sequence[Pass]) -> Insertion:
    """Checks what is to be inserted into a pipeline, and guards it.

    A pass made of rules is called after the first of them (`MergeRelus` -> `merge-relus`) and
    works on whatever level the program has there. Raises InputError for what is neither rules nor
    a pass, for a name that is taken and for a place that there is not.
    """
    level = _level_after(after, pipeline)
    pass_ = _guarded_pass(what, name, level)
    if not re.fullmatch(r"[^\s/]+", pass_.name):
        raise InputError(
            f"a pass cannot be called {pass_.name!r}: names are parts of addresses",
            hint="a name without blanks and slashes",
        )
    if pass_.name in (IMPORT, *(p.name for p in pipeline)):
        raise InputError(
            f"there is a pass {pass_.name!r} already", hint="another name: insert(..., name=...)"
        )
    if LEVELS.index(pass_.level) < LEVELS.index(level):
        raise InputError(
            f"{pass_.name} makes a program of level {pass_.level}, but after {after} it has level "
            f"{level} already",
            hint="insert it earlier",
        )
    return Insertion(pass_, after)


def with_insertions(pipeline: Sequence[Pass], insertions: Iterable[Insertion]) -> tuple[Pass, ...]:
    """The pipeline with every inserted pass at its place, in the order of insertion."""
    passes = list(pipeline)
    for insertion in insertions:
        _level_after(insertion.after, passes)
        names = [IMPORT, *(p.name for p in passes)]
        passes.insert(names.index(insertion.after), insertion.pass_)
    return tuple(passes)


def _level_after(after: str, pipeline: Sequence[Pass]) -> str:
    levels = {IMPORT: "top", **{p.name: p.level for p in pipeline}}
    if after not in levels:
        raise InputError(
            f"there is no pass {after!r} to insert after", hint=near_name(after, list(levels))
        )
    return levels[after]


# -- guards ----------------------------------------------------------------------------------------


def _guarded_pass(what: Any, name: str, level: str) -> Pass:  # anything a person may give
    if isinstance(what, type) and issubclass(what, Pass):
        what = what()
    if isinstance(what, RulePass) and type(what).run is RulePass.run:
        return _pass_of_rules(what.rules, name or what.name, what.description, what.level)
    if isinstance(what, Pass):
        return _pass_of_pass(what, name or what.name)
    rules = what if isinstance(what, list | tuple) else [what]
    if not rules or not all(isinstance(r, type) and issubclass(r, Rule) for r in rules):
        raise InputError(
            f"cannot insert {what!r}: expected a class derived from Rule, several, or a pass",
            hint="the class itself, not an instance of it" if isinstance(what, Rule) else "",
        )
    chosen = name or rules[0]().name
    description = "\n\n".join(rule().explanation for rule in rules)
    return _pass_of_rules(rules, chosen, description, level)


def _pass_of_rules(
    rules: Sequence[type[Rule]], name: str, description: str, level: str
) -> RulePass:
    """A pass of guarded rules. Names of passes belong to classes, so this makes one."""

    def run(self: RulePass, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        try:
            rewrites = RulePass.run(self, rewriter, options)
        except RuntimeError as error:  # what a rule raises is a PassError already
            raise PassError(str(error), pass_name=name, hint=_ENDLESS_HINT) from error
        require_valid(self.name, rewriter.module, rewrites)
        return rewrites

    members = {
        "__doc__": description,
        "name": name,
        "level": level,
        "rules": tuple(_guarded_rule(rule, name) for rule in rules),
        "run": run,
    }
    return type("InsertedRules", (RulePass,), members)()


def _pass_of_pass(inner: Pass, name: str) -> Pass:
    def run(self: Pass, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        try:
            rewrites = inner.run(rewriter, options)
        except ExplorerError:
            raise
        except Exception as error:
            raise PassError(what_happened("the pass", error), pass_name=name) from error
        require_valid(name, rewriter.module, rewrites)
        return rewrites

    members = {
        "__doc__": inner.description,
        "name": name,
        "level": inner.level,
        "is_required": inner.is_required,
        "run": run,
    }
    return type("InsertedPass", (Pass,), members)()


def _guarded_rule(rule: type[Rule], pass_name: str) -> type[Rule]:
    """The rule, watched: it has the same name, docstring and source."""

    @functools.wraps(rule.rewrite)
    def rewrite(self: Rule, op: Any, rewriter: RecordedRewriter) -> None:
        site = identity_of(op)
        try:
            rule.rewrite(self, op, rewriter)
        except Declined:
            if rewriter.log.is_empty:
                raise
            raise PassError(
                f"rule {self.name} declined after it had changed something",
                pass_name=pass_name,
                operation=site,
                hint="raise Declined before the first change",
            ) from None
        except ExplorerError:
            raise
        except Exception as error:
            raise PassError(
                what_happened(f"rule {self.name}", error), pass_name=pass_name, operation=site
            ) from error
        touched = [*rewriter.log.added, *rewriter.touched]
        for changed in dict.fromkeys(o for o in touched if o.parent is not None):
            reason = _why_invalid(changed)
            if reason:
                raise PassError(
                    f"rule {self.name}, applied to {site}, leaves an invalid operation: {reason}",
                    pass_name=pass_name,
                    operation=identity_of(changed),
                    hint=_HINT,
                )

    members = {
        "__doc__": rule.__doc__,
        "__module__": rule.__module__,
        "rewrite": rewrite,
        "source": place_of(rule),
    }
    return type(rule.__name__, (rule,), members)


_ENDLESS_HINT = "a rule must not match what it, or another one of the pass, makes"
_HINT = "results must have the shapes and element types that operands and properties give"


def what_happened(who: str, error: Exception) -> str:
    """One line about an exception that is none of ours."""
    return f"{who} failed with {type(error).__name__}: {error}"


# -- validity --------------------------------------------------------------------------------------


def require_valid(pass_name: str, module: ModuleOp, rewrites: Sequence[Rewrite]) -> None:
    """PassError for the first operation that is not valid, with the rule that touched it last."""
    for op in module.walk():
        reason = _why_invalid(op) or _why_misplaced(op)
        if not reason:
            continue
        identity = identity_of(op)
        guilty = next((r for r in reversed(rewrites) if identity in (r.site, *r.produced)), None)
        after = f" after rule {guilty.rule} at {guilty.site}" if guilty else ""
        raise PassError(
            f"the program is not valid{after}: {reason}",
            pass_name=pass_name,
            operation=identity,
            hint="look at what the rule replaces, and where it inserts",
        )


def _why_invalid(op: Operation) -> str:
    """What the operation's own verifier says against it; empty if nothing."""
    try:
        op.verify(verify_nested_ops=False)
    except (VerifyException, ValueError) as error:
        return str(error).splitlines()[0]
    return ""


def _why_misplaced(op: Operation) -> str:
    """Empty unless it reads what is made later, or returns what its function does not promise."""
    for operand in op.operands:
        maker = operand.owner
        if isinstance(operand, BlockArgument) or isinstance(maker, Block):
            continue
        reader = _ancestor_in(op, maker.parent)
        if reader is None or not maker.is_before_in_block(reader):
            return f"{_name(op)} reads {identity_of(maker)}, which is made later or elsewhere"
    function = op.parent_op()
    if isinstance(op, ReturnOp) and isinstance(function, func.FuncOp):
        promised = list(function.function_type.outputs.data)
        returned = [o.type for o in op.operands]
        if returned != promised:
            return (
                f"{function.sym_name.data} returns {', '.join(map(str, returned))}, but promises "
                f"{', '.join(map(str, promised))}"
            )
    return ""


def _ancestor_in(op: Operation, block: Block | None) -> Operation | None:
    """The operation itself, or the one around it, that stands in the block."""
    found: Operation | None = op
    while found is not None and found.parent is not block:
        found = found.parent_op()
    return found


def _name(op: Operation) -> str:
    return f"{op.name} {identity_of(op)}" if isinstance(op, TopOperation) else op.name
