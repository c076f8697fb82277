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
import inspect
import re
from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from explorer.compilation.custom_passes.guarding import Guard, why_invalid
from explorer.compilation.custom_passes.pipelines import IMPORT, Insertion, level_after
from explorer.compilation.custom_passes.rule_sources import place_of
from explorer.errors import ExplorerError, InputError, PassError
from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rewrite, RewriteOptions, Rule
from explorer.ir.rewriting.passes import LEVELS, Pass, RulePass

Insertable = type[Rule] | Sequence[type[Rule]] | Pass | type[Pass]
"""Classes of rules, which become a pass, or a pass (its class where it takes no options)."""


def make_insertion(what: Insertable, after: str, name: str, pipeline: Sequence[Pass]) -> Insertion:
    """Checks what is to be inserted into a pipeline, and guards it.

    A pass made of rules is called after the first of them (`MergeRelus` -> `merge-relus`) and
    works on whatever level the program has there. Raises InputError for what is neither rules nor
    a pass, for a name that is taken and for a place that there is not.
    """
    level = level_after(after, pipeline)
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
    for rule in rules:
        _require_complete(rule)
    chosen = name or rules[0]().name
    description = "\n\n".join(rule().explanation for rule in rules)
    return _pass_of_rules(rules, chosen, description, level)


def _require_complete(rule: type[Rule]) -> None:
    """InputError for a rule that says nothing about what it matches or does."""
    if inspect.isabstract(rule):
        raise InputError(
            f"rule {rule.__name__} has no rewrite", hint="def rewrite(self, op, rewriter): ..."
        )
    matches = getattr(rule, "matches", ())
    kinds = matches if isinstance(matches, tuple) else (matches,)
    if not kinds or not all(isinstance(k, type) and issubclass(k, Operation) for k in kinds):
        raise InputError(
            f"rule {rule.__name__} does not say which operations it looks at",
            hint="matches = (UnaryOp,), classes of explorer.ir.top",
        )


def _pass_of_rules(
    rules: Sequence[type[Rule]], name: str, description: str, level: str
) -> RulePass:
    """A pass of guarded rules. Names of passes belong to classes, so this makes one."""

    def run(self: RulePass, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        guard = Guard.of(rewriter)
        rewrites = RulePass.run(self, rewriter, options)
        guard.check(self.name, rewriter, rewrites)
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
        guard = Guard.of(rewriter)
        try:
            rewrites = inner.run(rewriter, options)
        except ExplorerError:
            raise
        except Exception as error:
            raise PassError(what_happened("the pass", error), pass_name=name) from error
        guard.check(name, rewriter, rewrites, is_recorded=False)
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
            reason = why_invalid(changed)
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


_HINT = "results must have the shapes and element types that operands and properties give"


def what_happened(who: str, error: Exception) -> str:
    """One line about an exception that is none of ours."""
    return f"{who} failed with {type(error).__name__}: {error}"
