"""Recorded rewriting: rules, the driver that applies them, and the events that it logs.

A rule states its before -> after in its docstring, which is shown wherever it fired:

    class FuseRelu(Rule):
        '''conv(x, w) -> relu   =>   conv(x, w) {activation = "relu"}'''
        matches = (UnaryOp,)

        def rewrite(self, op, rewriter):
            if op.kind.data != "relu":
                return                                   # not a candidate: nothing is logged
            conv = op.input.owner
            if not isinstance(conv, ConvOp):
                raise Declined("the operand is no convolution")      # a candidate, and why not
            rewriter.replace(op, conv.with_...(...), absorbs=[conv])

The rewriter gives new operations the sources of what they replace and keeps origins; the driver
applies rules to a fixpoint in program order and logs, for each rewrite, an event that can be
replayed forwards and backwards.
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from explorer.errors import PassError
from explorer.ir.deferred import ArrayForm
from explorer.ir.operation import IDENTITY, TopOperation, identity_of, set_identity, to_attribute
from explorer.ir.origins import (
    Origin,
    location_of,
    origin_of,
    origins_of,
    set_origins,
    sources_of,
)
from explorer.ir.rewriting.events import Log, Rewrite, make_event, replay
from explorer.ir.structure import functions, operations, record
from explorer.ir.weights import Weights

OVERRIDDEN = "declined by an override"


class Declined(Exception):
    """A candidate that a rule does not rewrite. The message says why, for people."""


class Names:
    """Makes identities: the first `conv` is `conv1`; none is ever used twice in a compilation."""

    def __init__(self, taken: set[str] | None = None):
        self._taken = set(taken or ())
        self._next: dict[str, int] = {}
        self.kernels: frozenset[str] = frozenset()
        """Names of kernels of other devices, which this program's kernels do without."""

    def fresh(self, stem: str) -> str:
        stem = stem.rsplit(".", 1)[-1].rstrip("0123456789") or "value"
        number = self._next.get(stem, 1)
        while f"{stem}{number}" in self._taken:
            number += 1
        self._next[stem] = number + 1
        identity = f"{stem}{number}"
        self._taken.add(identity)
        return identity

    def copy(self) -> Names:
        other = Names(self._taken)
        other._next = dict(self._next)
        other.kernels = self.kernels
        return other

    def including(self, module: ModuleOp) -> Names:
        """A copy in which the module's identities are taken, too."""
        other = self.copy()
        other._taken.update(identity_of(op) for op in operations(module))
        return other

    @staticmethod
    def of(module: ModuleOp) -> Names:
        """Names that are free in the module."""
        return Names().including(module)


@dataclass
class Fuel:
    """How many rewrites may still happen; None for no limit. Shared by all passes of a run."""

    remaining: int | None = None

    @property
    def is_empty(self) -> bool:
        return self.remaining == 0

    def burn(self) -> None:
        if self.remaining is not None:
            self.remaining -= 1


class Rule(ABC):
    """One rewrite. Its docstring explains it; `matches` lists the operations that it looks at."""

    matches: ClassVar[tuple[type[Operation], ...]]

    @cached_property
    def name(self) -> str:
        """`FuseRelu` -> `fuse-relu`."""
        text = type(self).__name__
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in text).lstrip("-")

    @cached_property
    def explanation(self) -> str:
        return inspect.cleandoc(type(self).__doc__ or "").split("\n\n")[0]

    @property
    def source(self) -> str:
        """`path:line` of the rule, relative to the package's parent; just the name in a cell."""
        return _source_of(type(self))

    @abstractmethod
    def rewrite(self, op: Any, rewriter: RecordedRewriter) -> None:
        """Rewrites `op`, returns without a change where it is no candidate, or raises Declined.

        `op` is one of `matches`, which a subclass narrows; hence Any.
        """


@lru_cache(maxsize=512)
def _source_of(rule: type[Rule]) -> str:
    try:
        path = Path(inspect.getsourcefile(rule) or "")
        line = inspect.getsourcelines(rule)[1]
    except (OSError, TypeError):
        return rule.__name__
    package = Path(__file__).parents[3]
    shown = path.relative_to(package) if path.is_relative_to(package) else path.name
    return f"{shown}:{line}"


class RecordedRewriter:
    """The only way in which passes change IR. Keeps sources and origins; notes what changed."""

    def __init__(self, module: ModuleOp, weights: Weights, names: Names):
        self.module = module
        self.weights = weights
        self.names = names
        self.log = Log()
        self.has_changed = False
        self.artifacts: dict[str, object] = {}
        """What a pass makes besides the IR, by name: a memory plan, schedules of kernels."""
        self.touched: list[Operation] = []
        """Operations to look at again: users of what changed, what is new, and who became the only
        reader of a value."""

    # -- changes -------------------------------------------------------------------------------
    def insert_before(
        self,
        anchor: Operation,
        op: Operation,
        stem: str | None = None,
        like: Operation | None = None,
        sources: Sequence[str] | None = None,
    ) -> Operation:
        """Inserts a new operation, which comes from `sources`: by default those of `like`.

        Without `like` it has those of the anchor.
        """
        block = anchor.parent
        assert block is not None
        Rewriter.insert_op(op, InsertPoint.before(anchor))
        self._adopt(op, stem, sources_of(like or anchor) if sources is None else sources)
        return op

    def replace(
        self,
        op: Operation,
        new: Operation | SSAValue | Sequence[Operation | SSAValue],
        absorbs: Sequence[Operation] = (),
        origins: Sequence[Origin | None] | None = None,
        stem: str | None = None,
    ) -> None:
        """Replaces `op` by a new operation, inserted before it, or by existing values.

        The new operation takes the sources of `op` and of `absorbs` (operations whose work it
        takes over; those that nothing uses any more are erased) and, unless `origins` says
        better, the origins of `op`'s results: it must compute the same values. An existing value
        without an origin takes over that of the result that it replaces.
        """
        news = list(new) if isinstance(new, Sequence) else [new]
        values: list[SSAValue] = []
        for item in news:
            if isinstance(item, SSAValue):
                values.append(item)
                continue
            Rewriter.insert_op(item, InsertPoint.before(op))
            sources = [s for o in (*absorbs, op) for s in sources_of(o)]
            self._adopt(item, stem, sources)
            set_origins(item, list(origins) if origins is not None else self._inherit(op, item))
            values.extend(item.results)
        if len(values) != len(op.results):
            raise ValueError(f"{op.name} has {len(op.results)} results, {len(values)} were given")
        for old, value in zip(op.results, values, strict=True):
            if old.type != value.type and not any(isinstance(i, Operation) for i in news):
                raise ValueError(f"replacement of {identity_of(op)} has another type")
            if isinstance(value, OpResult) and value.op not in news and origin_of(value) is None:
                kept = origins_of(value.op)
                kept[value.index] = origin_of(old)
                set_origins(value.op, kept)
            self.replace_uses(old, value)
        self.erase(op)
        for absorbed in absorbs:
            if absorbed.parent is not None and not any(r.uses for r in absorbed.results):
                self.erase(absorbed)

    def replace_uses(self, old: SSAValue, new: SSAValue) -> None:
        """All users of `old` read `new` instead."""
        for use in list(old.uses):
            self._changes(use.operation)
            use.operation.operands[use.index] = new
            self.touched.append(use.operation)

    def update(self, op: Operation, stem: str | None = None, **properties: Any) -> None:
        """Sets properties of an operation in place (None removes one); identity stays."""
        self._changes(op)
        for name, value in properties.items():
            if value is None:
                op.properties.pop(name, None)
            else:
                op.properties[name] = to_attribute(value)
        self.touched.append(op)

    def set_attribute(self, op: Operation, name: str, attribute: Attribute) -> None:
        """Sets what an operation carries besides its properties."""
        self._changes(op)
        op.attributes[name] = attribute

    def remove_attributes(self, op: Operation, names: Sequence[str]) -> None:
        """Takes away what an operation carries besides its properties."""
        present = [name for name in names if name in op.attributes]
        if present:
            self._changes(op)
            for name in present:
                del op.attributes[name]

    def set_origins(self, op: Operation, origins: Sequence[Origin | None]) -> None:
        """Says which tensors of the source its results are."""
        self._changes(op)
        set_origins(op, origins)

    def set_operand(self, op: Operation, index: int, value: SSAValue) -> None:
        self._changes(op)
        old = op.operands[index]
        op.operands[index] = value
        self.touched.append(op)
        self._touch_only_reader(old)

    def set_type(self, value: SSAValue, new_type: Any) -> SSAValue:
        """Gives a value another type (xDSL makes a new value; uses and names follow)."""
        if value.type == new_type:
            return value
        owner = value.owner
        if isinstance(owner, Operation):
            self._changes(owner)
        for use in value.uses:
            self.touched.append(use.operation)
        self.has_changed = True
        name = value.name_hint
        result = Rewriter.replace_value_with_new_type(value, new_type)
        result.name_hint = name
        return result

    def erase(self, op: Operation) -> None:
        """Removes an operation without uses; what it read may now be dead and is looked at."""
        read: list[SSAValue] = []
        for inner in op.walk():
            read.extend(inner.operands)
            if inner is op or IDENTITY in inner.attributes:
                self._forget(inner)
        self.touched.extend(o.owner for o in read if isinstance(o.owner, Operation))
        Rewriter.erase_op(op)
        for value in read:
            self._touch_only_reader(value)

    def move_before(self, op: Operation, anchor: Operation) -> None:
        """Moves an operation, out of a region too; it stays what it is."""
        block = anchor.parent
        assert block is not None
        self.has_changed = True
        op.detach()
        block.insert_op_before(op, anchor)
        self.touched.append(op)

    def update_signature(self, function: func.FuncOp) -> None:
        """Makes a function's type follow its arguments and what it returns."""
        block = function.body.block
        assert block.last_op is not None
        results = [o.type for o in block.last_op.operands]
        new_type = FunctionType.from_lists([a.type for a in block.args], results)
        if function.function_type != new_type:
            self.has_changed = True
            function.function_type = new_type

    def replace_function(self, old: func.FuncOp, new: func.FuncOp) -> None:
        """Puts another function in the place of one of the same name."""
        block = old.parent
        assert block is not None
        self.has_changed = True
        if old not in self.log.added:
            self.log.before[id(new)] = (new, record(old))
        block.insert_op_before(new, old)
        block.detach_op(old)

    def add_weight(
        self,
        anchor: Operation,
        name: str,
        array,
        like: Operation | None = None,
        element_type: Attribute | None = None,
    ):
        """Stores an array and inserts the `top.weight` that names it; returns its value.

        element_type: where it is not NumPy's (quantized numbers).
        """
        return self._insert_weight(anchor, self.weights.add(name, array), like, element_type)

    def add_weight_later(
        self,
        anchor: Operation,
        name: str,
        form: ArrayForm,
        make: Callable[[], np.ndarray],
        recipe: Hashable,
        like: Operation | None = None,
    ):
        """As `add_weight` of what `make` returns, which may be called later (`Weights`)."""
        stored = self.weights.add_later(name, form, make, recipe)
        return self._insert_weight(anchor, stored, like)

    def _insert_weight(
        self,
        anchor: Operation,
        stored: str,
        like: Operation | None,
        element_type: Attribute | None = None,
    ):
        from explorer.ir.top.data import WeightOp, weight_type

        kind = weight_type(self.weights.form(stored), element_type)
        op = WeightOp.make([], [kind], weight=stored)
        self.insert_before(anchor, op, stem="w", like=like)
        return op.output

    # -- bookkeeping -----------------------------------------------------------------------------
    def _adopt(self, op: Operation, stem: str | None, sources: Sequence[str]) -> None:
        self.has_changed = True
        if IDENTITY not in op.attributes:
            default = op.label().split(" ")[0] if isinstance(op, TopOperation) else op.name
            set_identity(op, self.names.fresh(stem or _stem(default)))
        op.location = location_of([*sources_of(op), *sources])
        self.log.added[op] = None
        self.touched.append(op)

    def _inherit(self, old: Operation, new: Operation) -> list[Origin | None]:
        inherited = [origin_of(r) for r in old.results]
        return inherited if len(inherited) == len(new.results) else [None] * len(new.results)

    def _touch_only_reader(self, value: SSAValue) -> None:
        """Many rules ask for a value that nothing else reads, which is so from now on."""
        first, *others = islice(value.uses, 2) if value.uses else (None,)
        if first is not None and not others:
            self.touched.append(first.operation)

    def _changes(self, op: Operation) -> None:
        self.has_changed = True
        if id(op) not in self.log.before and op not in self.log.added:
            self.log.before[id(op)] = (op, record(op))

    def _forget(self, op: Operation) -> None:
        self.has_changed = True
        if op in self.log.added:
            del self.log.added[op]
            return
        known = self.log.before.pop(id(op), None)
        self.log.removed.append(known[1] if known else record(op))

    def take_log(self) -> Log:
        log, self.log = self.log, Log()
        return log


def _stem(text: str) -> str:
    kept = "".join(c for c in text if c.isalnum())
    return kept or "value"


@dataclass(frozen=True)
class RewriteOptions:
    """How a pass's rules are driven: overrides by address, and fuel."""

    decisions: Mapping[str, object] = field(default_factory=dict)
    """By `pass/rule/site`, or by `pass/rule` for all sites at once."""
    fuel: Fuel = field(default_factory=Fuel)
    met: set[str] = field(default_factory=set, compare=False)
    """Overrides that something asked for; the others decide nothing."""

    def decision(self, address: str) -> object | None:
        """The override of a site, else of its rule; None where there is none."""
        if not self.decisions:
            return None
        for name in (address, "/".join(address.split("/", 2)[:2])):
            if name in self.decisions:
                self.met.add(name)
                return self.decisions[name]
        return None

    def is_wanted(self, pass_name: str, rule: Rule, op: Operation) -> bool:
        """Whether an override asks for a rule at this very operation."""
        return self.decision(f"{pass_name}/{rule.name}/{identity_of(op)}") is True


def apply_rules(
    pass_name: str,
    rules: Sequence[Rule],
    rewriter: RecordedRewriter,
    options: RewriteOptions,
) -> list[Rewrite]:
    """Applies the rules to a fixpoint, in program order, and returns the events.

    Every operation is visited once; a rewrite puts the operations that it touched back on the
    list. Rules that an override switches off are used only where another one asks for them. Raises
    PassError, naming rule and operation, when the rules do not terminate.
    """
    events: list[Rewrite] = []
    declined: set[tuple[str, str, str]] = set()
    by_type: dict[type, list[Rule]] = {}
    off = {r for r in rules if options.decision(f"{pass_name}/{r.name}") is False}
    pending = [op for f in functions(rewriter.module) for op in f.body.walk()]
    pending.reverse()
    queued = {id(op) for op in pending}
    ending = _Termination(pass_name, len(pending))
    while pending:
        op = pending.pop()
        queued.discard(id(op))
        if op.parent is None:
            continue
        kind = type(op)
        if kind not in by_type:
            by_type[kind] = [r for r in rules if isinstance(op, r.matches)]
        for rule in by_type[kind]:
            if options.fuel.is_empty:
                return events
            if rule in off and not options.is_wanted(pass_name, rule, op):
                continue
            applied = _apply(pass_name, rule, op, rewriter, options)
            if applied is None:
                continue
            event, made = applied
            if not event.applied:
                key = (event.rule, event.site, event.reason)
                if key not in declined:
                    declined.add(key)
                    events.append(event)
                continue
            events.append(event)
            options.fuel.burn()
            ending.note(rule, event.site, op, made)
            for touched in [*rewriter.touched, op]:
                if touched.parent is not None and id(touched) not in queued:
                    pending.append(touched)
                    queued.add(id(touched))
            rewriter.touched.clear()
            break
    return events


class _Termination:
    """Notices rules that never come to an end.

    What a rewrite makes, or leaves at its site, descends from that site. A line of descent may be
    longer than the program (a transpose that moves through all of it), but not many times longer.
    """

    def __init__(self, pass_name: str, operations: int):
        self.pass_name = pass_name
        self.longest = 2 * operations + 200
        self.most = 50 * (operations + 20)
        self.rewrites = 0
        self._ages: dict[Operation, int] = {}
        """How many rewrites led to an operation, one after the other."""

    def note(self, rule: Rule, site: str, op: Operation, made: Sequence[Operation]) -> None:
        """Counts one rewrite; PassError where there have been too many."""
        self.rewrites += 1
        age = self._ages.get(op, 0) + 1
        for descendant in (op, *made):
            self._ages[descendant] = age
        if age <= self.longest and self.rewrites <= self.most:
            return
        raise PassError(
            f"the rules of {self.pass_name} do not terminate: {self.rewrites} rewrites, the last "
            f"by {rule.name}",
            pass_name=self.pass_name,
            operation=site,
            hint="a rule must not match what it, or another one of the pass, makes",
        )


def _apply(
    pass_name: str,
    rule: Rule,
    op: Operation,
    rewriter: RecordedRewriter,
    options: RewriteOptions,
) -> tuple[Rewrite, Sequence[Operation]] | None:
    """The event, with the operations that are new; None where the rule does not match."""
    site = identity_of(op)
    begin = time.perf_counter()
    reason = ""
    try:
        if options.decisions and options.decision(f"{pass_name}/{rule.name}/{site}") is False:
            raise Declined(OVERRIDDEN)
        rule.rewrite(op, rewriter)
    except Declined as declined:
        reason = str(declined)
        assert rewriter.log.is_empty, f"{rule.name} declined after it had changed something"
    if rewriter.log.is_empty and not reason:
        return None
    log = rewriter.take_log()
    microseconds = (time.perf_counter() - begin) * 1e6
    event = make_event(
        f"{pass_name}/{rule.name}/{site}",
        rule.name,
        site,
        log,
        reason,
        rule,
        rule.explanation,
        microseconds,
    )
    return event, list(log.added)


__all__ = [
    "OVERRIDDEN",
    "Declined",
    "Fuel",
    "Names",
    "RecordedRewriter",
    "Rewrite",
    "RewriteOptions",
    "Rule",
    "apply_rules",
    "make_event",
    "replay",
]
