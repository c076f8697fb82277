"""The search for one match: what was found, what the search remembers, and where it failed.

Every part of a pattern matches a value and then calls what comes behind it (continuation-passing
style). A part that has several ways (the orders of a commutative operation, alternatives) tries
the next one when what comes behind it fails; what it had bound is undone on the way back. The
search ends: a pattern is finite, the same part means the same value, and after `MAX_VISITS`
visits of parts a search is given up.

Of all that failed, the failure that got furthest is told, with everything that was expected there
(Ford, "Parsing Expression Grammars", 2004, reports syntax errors so).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined
from explorer.ir.weights import Weights

Then = Callable[[], bool]
"""What has to match behind a part. True ends the search: a match was found."""

MAX_VISITS = 4000
"""Patterns of the package's rules visit less than a hundred parts where they match."""

Thing = TypeVar("Thing")


class Use(Enum):
    """What becomes of an operation that a pattern finds behind its root."""

    ONCE = "taken over; nothing outside of the match may read it"
    SHARED = "taken over; it stays where something else reads it"
    KEPT = "not taken over"


@dataclass(frozen=True)
class Binding:
    """What a part of a pattern stands for."""

    value: SSAValue | None
    """None for a property."""
    thing: object


class Searched(Generic[Thing]):
    """A part of a pattern as a search knows it; see `parts.Pattern`."""

    name: str = ""

    def at(self, value: SSAValue, search: Search, then: Then) -> bool:
        """Does the value match, and then all that comes behind it?"""
        raise NotImplementedError

    def read(self, value: SSAValue | None, thing: Any, weights: Weights) -> Thing:
        """What `found[part]` is. Any: it was bound by this very part."""
        return thing


@dataclass
class Found:
    """A match: `found[part]` is what a part of the pattern stands for."""

    root: TopOperation
    weights: Weights
    bound: dict[Searched, Binding] = field(default_factory=dict)
    entered: list[tuple[Operation, Use]] = field(default_factory=list)
    """The operations that were matched, the root first."""

    def __getitem__(self, part: Searched[Thing]) -> Thing:
        """A value, an operation, a number, an array or a property; KeyError where there is none."""
        binding = self.bound[part]
        return part.read(binding.value, binding.thing, self.weights)

    def get(self, part: Searched[Thing]) -> Thing | None:
        """As `found[part]`; None for a part in an alternative that was not taken."""
        return self[part] if part in self.bound else None

    def __contains__(self, part: Searched) -> bool:
        return part in self.bound

    def value(self, part: Searched) -> SSAValue:
        """The value that a part stands for: the weight of a constant, an operation's result."""
        value = self.bound[part].value
        assert value is not None, f"{part} is a property, no value"
        return value

    def all(self, name: str) -> list[object]:
        """What all parts of that name stand for, as the expression reads: what is repeated."""
        return [self[part] for part in self.bound if part.name == name]

    @property
    def steps(self) -> list[Operation]:
        """The operations behind the root whose work a replacement takes over, users first."""
        taken = dict.fromkeys(op for op, use in self.entered[1:] if use is not Use.KEPT)
        steps: list[Operation] = []
        while taken:
            step = next(op for op in taken if not any(user in taken for user in _users(op)))
            steps.append(step)
            del taken[step]
        return steps


def _users(op: Operation) -> list[Operation]:
    return [use.operation for result in op.results for use in result.uses]


class Search:
    """What one search has bound so far, and the failure that got furthest."""

    def __init__(self, root: TopOperation, weights: Weights) -> None:
        self.found = Found(root, weights)
        self.bound = self.found.bound
        self.entered = self.found.entered
        self.use = Use.ONCE
        self.telling = 0
        """How many of the operations that make a candidate are matched at the moment."""
        self.visits = 0
        self._furthest = -1
        self._reason = ""
        self._where: SSAValue | None = None
        self._expected: list[str] = []

    @property
    def weights(self) -> Weights:
        return self.found.weights

    def visit(self) -> None:
        """Counts; Declined where a pattern has been compared with too much."""
        self.visits += 1
        if self.visits > MAX_VISITS:
            name = identity_of(self.found.root)
            raise Declined(f"the search from {name} was given up after {MAX_VISITS} comparisons")

    def bind(self, part: Searched, value: SSAValue | None, thing: object, then: Then) -> bool:
        """Goes on with the part bound, and undoes it where that leads nowhere."""
        if part in self.bound:
            return then()
        self.bound[part] = Binding(value, thing)
        if then():
            return True
        del self.bound[part]
        return False

    def miss(self, value: SSAValue, expected: Callable[[], str]) -> bool:
        """Always False. Kept to be told where the match was a candidate already."""
        if self.telling:
            self._note(value, expected(), "")
        return False

    def refuse(self, reason: str) -> bool:
        """Always False: a condition that has a reason does not hold, which is told in any case."""
        self._note(None, "", reason)
        return False

    def _note(self, value: SSAValue | None, expected: str, reason: str) -> None:
        progress = len(self.bound) + len(self.entered)
        if progress < self._furthest:
            return
        if progress > self._furthest:
            self._furthest, self._reason, self._where, self._expected = progress, reason, value, []
        if expected and value is self._where and expected not in self._expected:
            self._expected.append(expected)

    def unread_elsewhere(self) -> bool:
        """The last condition: nothing outside of the match reads what the match takes over."""
        matched = {op for op, _ in self.entered}
        for op, use in self.entered[1:]:
            if use is Use.ONCE and any(user not in matched for user in _users(op)):
                return self.refuse(f"{identity_of(op)} is needed elsewhere too")
        return True

    @property
    def reason(self) -> str:
        """Which part of the pattern failed, for people; empty where there was no candidate."""
        if self._reason or self._where is None:
            return self._reason
        return f"expected {' or '.join(self._expected)}, found {_shown(self._where)}"


def _shown(value: SSAValue) -> str:
    """`add3 (add)`, `c1 (weight)`, `the input mask`."""
    op = value.owner
    if not isinstance(op, Operation):
        return f"the input {value.name_hint}" if value.name_hint else "an input"
    if not isinstance(op, TopOperation):
        return identity_of(op)
    return f"{identity_of(op)} ({'a weight' if op.is_data else op.label()})"


def match(pattern: Searched, op: TopOperation, weights: Weights) -> Found | None:
    """The first match of a pattern whose root is the operation; None where it is no candidate.

    Raises Declined for a near miss, with the part that failed.
    """
    search = Search(op, weights)
    if pattern.at(op.results[0], search, search.unread_elsewhere):
        return search.found
    if search.reason:
        raise Declined(search.reason)
    return None
