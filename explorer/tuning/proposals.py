"""What to try next: the default, then what the cost model likes best, then relatives of the best.

    proposals = Proposals(workload, seed=0)
    proposals.next(results=(), count=4)       -> [Proposal(choices, kernel, predicted_us, origin)]

The same seed and the same results give the same proposals, so that a search that was killed comes
by the same way to where it was. Nothing is proposed twice: neither choices, nor other choices
that make the same nest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.schedules import ScheduledKernel
from explorer.kernels.schedules.listing import as_data, as_text
from explorer.kernels.schedules.schedule import Choice
from explorer.results import Candidate
from explorer.results.runs.tuning import ChoicePair
from explorer.tuning.workloads import Workload

POOL = 24
"""Schedules that are predicted before the first is measured."""
PREDICTED_SHARE = 2
"""One of so many candidates comes straight from the cost model, the others are mutations."""
PARENTS = 3
"""The best so far, of which relatives are tried."""
RELATIVES = 3
"""Mutations of which the best predicted one is proposed."""
MAX_ATTEMPTS = 200
"""Mutations without anything new: then there is nothing left to try."""


@dataclass(frozen=True)
class Proposal:
    choices: tuple[ChoicePair, ...]
    kernel: ScheduledKernel
    predicted_us: float
    origin: str


class Proposals:
    """The candidates of one kernel, in turn."""

    def __init__(self, workload: Workload, seed: int):
        self.workload = workload
        self.random = random.Random(f"{seed} {workload.key.workload}")
        self._asked: set[tuple[ChoicePair, ...]] = set()
        self._nests: set[str] = set()
        """Schedules as lists of steps: equal ones make the same nest."""
        self._pool: list[Proposal] | None = None
        self._proposed: list[Proposal] = []

    def default(self) -> Proposal:
        """The schedule that a kernel has without a search: the first proposal."""
        if not self._proposed:
            made = self._make({}, "default")
            assert made is not None, "the default is legal"
            self._proposed.append(made)
        return self._proposed[0]

    def next(self, results: Sequence[Candidate], count: int) -> list[Proposal]:
        """Up to `count` new ones; none when nothing new is found any more.

        `results`: of everything that was proposed, in the same order.
        """
        self.default()
        assert len(results) == len(self._proposed)
        if self._pool is None:
            self._pool = self._sample()
        found: list[Proposal] = []
        for _ in range(count):
            is_turn = (len(self._proposed) + len(found)) % PREDICTED_SHARE == 0
            made = None if is_turn else self._relative(results)
            made = made or (self._pool.pop(0) if self._pool else self._relative(results))
            if made is None:
                break
            found.append(made)
        self._proposed.extend(found)
        return found

    def _sample(self) -> list[Proposal]:
        """Some schedules of all kinds, the best predicted first."""
        found: list[Proposal] = []
        parents = [self.default(), *self._other_schedules()]
        found.extend(parents[1:])
        for _ in range(MAX_ATTEMPTS):
            if len(found) >= POOL:
                break
            parent = self.random.choice([*parents, *found])
            made = self._mutated(parent, "predicted")
            if made is not None:
                found.append(made)
        return sorted(found, key=lambda proposal: proposal.predicted_us)

    def _other_schedules(self) -> Iterator[Proposal]:
        """One of each kind that fits the kernel: their choices have other names."""
        for knob in self.default().kernel.knobs:
            if knob.address != "schedule":
                continue
            for value in knob.choices:
                if value != knob.value and isinstance(value, str):
                    made = self._make({"schedule": value}, "predicted")
                    if made is not None:
                        yield made

    def _relative(self, results: Sequence[Candidate]) -> Proposal | None:
        """The best predicted of some mutations of the fastest so far."""
        measured = [n for n, r in enumerate(results) if r.status == "measured"]
        best = sorted(measured, key=lambda n: (results[n].ratio, n))[:PARENTS]
        if not best:
            return None
        found: list[Proposal] = []
        for _ in range(MAX_ATTEMPTS // RELATIVES):
            number = self.random.choice(best)
            made = self._mutated(self._proposed[number], f"mutation of {number}")
            if made is not None:
                found.append(made)
            if len(found) == RELATIVES:
                break
        if not found:
            return None
        chosen = min(found, key=lambda proposal: proposal.predicted_us)
        others = [proposal for proposal in found if proposal is not chosen]
        self._pool = sorted([*(self._pool or []), *others], key=lambda p: p.predicted_us)
        return chosen

    def _mutated(self, parent: Proposal, origin: str) -> Proposal | None:
        """One or two choices of a schedule changed; None where that is illegal or not new."""
        choices = dict(parent.choices)
        for _ in range(self.random.choice((1, 1, 2))):
            knobs = [k for k in parent.kernel.knobs if len(k.choices) > 1 and k.address in choices]
            knobs = [k for k in knobs if k.address != "schedule"]
            if not knobs:
                return None
            knob = self.random.choice(knobs)
            others = [v for v in knob.choices if v != choices[knob.address]]
            if not others:
                return None
            value = self._near(choices[knob.address], others)
            names = list(choices)
            kept = names[: names.index(knob.address)]
            changed = {**choices, knob.address: value}
            made = self._make(changed, origin)
            if made is None:
                # What comes after it may not be legal any more: that is decided anew.
                made = self._make({n: changed[n] for n in [*kept, knob.address]}, origin)
            if made is None:
                return None
            parent, choices = made, dict(made.choices)
        return parent

    def _near(self, value: Choice, others: Sequence[object]) -> Choice:
        """A neighbour of a number as often as any other value."""
        legal = [v for v in others if isinstance(v, int | str)]
        if isinstance(value, int) and self.random.random() < 0.5:
            numbers = [v for v in legal if isinstance(v, int)]
            return min(numbers, key=lambda v: (abs(v - value), self.random.random()))
        return self.random.choice(legal)

    def _make(self, choices: Mapping[str, Choice], origin: str) -> Proposal | None:
        """The schedule of these choices; None where they are illegal or nothing new."""
        asked = tuple(choices.items())
        if asked in self._asked:
            return None
        self._asked.add(asked)
        try:
            kernel = self.workload.schedule(choices)
        except ScheduleError:
            return None
        made = tuple(kernel.choices.items())
        self._asked.add(made)
        steps = as_text(as_data(kernel.steps[-1].calls))
        if steps in self._nests:
            return None
        self._nests.add(steps)
        predicted = self.workload.predict(kernel).microseconds
        return Proposal(made, kernel, predicted, origin)
