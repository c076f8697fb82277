"""Cycles of a tiled layer, predicted from its tiles, and what they are made of.

    predicted = predict(compile_layer(layer, machine).tiled)
    predicted.cycles
    predicted.terms          of every queue: what it does, for how long, and why
    predicted.waits          of every queue: what it waits for

No numbers are made, and nothing is run: what each step of a tile occupies, and for how long,
follows from its sizes (`explorer.npu.cost.steps`). The rules of docs/npu-instructions.md are
followed here on these steps, and in the simulator on instruction bytes, by other code; that both
come to the same cycle is a check of both.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from explorer.npu.cost.steps import ON_CHIP, Bank, Step, Traffic, steps_of
from explorer.npu.program.addresses import ANYWHERE, Addresses
from explorer.npu.program.compiling import Tiled, write_layer
from explorer.targets.npu.machine import Machine

CAUSES = ("fetch", "token", "room", "channel", "bank")
ENGINE_STEPS = {"reset": "element", "multiply": "block of the array"}
"""What a step of the matrix engine is; of the vector engine it is an element."""


@dataclass(frozen=True, kw_only=True)
class CycleTerm:
    """What one kind of step takes altogether in its queue."""

    queue: str
    name: str
    """See `Step.what`."""
    count: int
    """Steps of that kind."""
    cycles: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Of each queue, its terms and waits and the rest behind its last step are `cycles`."""

    cycles: int
    traffic: Traffic
    micro_operation_bytes: int
    """Loaded, with repetitions: they are no part of `traffic`."""
    terms: tuple[CycleTerm, ...]
    waits: dict[str, dict[str, int]]
    """By queue and cause (see `CAUSES`); zeros are left out."""

    @property
    def bound(self) -> str:
        """The queue that is busy for longest."""
        busy: Counter[str] = Counter()
        for term in self.terms:
            busy[term.queue] += term.cycles
        return busy.most_common(1)[0][0]


@dataclass(frozen=True)
class StepTime:
    """When a step runs, and what it waits for before."""

    step: Step
    start_cycle: int
    end_cycle: int
    waits: tuple[tuple[str, int], ...]
    """Cycles by cause (see `CAUSES`)."""


def predict(tiled: Tiled, addresses: Addresses = ANYWHERE) -> Prediction:
    """Of a layer whose tensors lie there, as `compile_layer` has it."""
    steps, traffic = steps_of(write_layer(tiled, addresses))
    return predict_steps(tiled.machine, steps, traffic)


def predict_steps(machine: Machine, steps: Sequence[Step], traffic: Traffic) -> Prediction:
    """Of a program, of whatever layers its steps are."""
    return predict_times(machine, times_of(machine, steps), traffic)


def predict_times(machine: Machine, times: Sequence[StepTime], traffic: Traffic) -> Prediction:
    """What so timed steps come to."""
    steps = [time.step for time in times]
    return Prediction(
        cycles=max(time.end_cycle for time in times),
        traffic=traffic,
        micro_operation_bytes=micro_operation_bytes(steps),
        terms=terms_of(machine, steps),
        waits=waits_of(machine, times),
    )


def micro_operation_bytes(steps: Iterable[Step]) -> int:
    """See `Prediction.micro_operation_bytes`."""
    return sum(step.amount for step in steps if step.what == "micro_operations")


def times_of(machine: Machine, steps: Sequence[Step]) -> tuple[StepTime, ...]:
    """When each step runs, in the order of the program."""
    return _Timeline(machine, steps).run()


def waits_of(machine: Machine, times: Iterable[StepTime]) -> dict[str, dict[str, int]]:
    """See `Prediction.waits`."""
    waits: Counter[tuple[int, str]] = Counter()
    for time in times:
        for cause, waited in time.waits:
            waits[time.step.queue, cause] += waited
    return {
        queue.name: {cause: waits[place, cause] for cause in CAUSES if waits[place, cause]}
        for place, queue in enumerate(machine.queues)
    }


def terms_of(machine: Machine, steps: Iterable[Step]) -> tuple[CycleTerm, ...]:
    """What each kind of step takes, queue by queue."""
    return tuple(_terms(steps, [queue.name for queue in machine.queues]))


def _terms(steps: Iterable[Step], queues: list[str]) -> Iterator[CycleTerm]:
    groups: defaultdict[tuple[int, str], list[Step]] = defaultdict(list)
    for step in steps:
        groups[step.queue, step.what].append(step)
    for (queue, what), members in sorted(groups.items(), key=lambda entry: entry[0][0]):
        cycles = sum(step.cycles for step in members)
        fixed = sum(min(step.fixed_cycles, step.cycles) for step in members)
        amount = sum(step.amount for step in members)
        why = "the last instruction" if what == "finish" else "until the layer before is stored"
        if what not in ("finish", "wait"):
            is_transfer = members[0].dma >= 0 or what.endswith(ON_CHIP)
            of = "transfer" if is_transfer else "instruction"
            each = ENGINE_STEPS.get(what, "element of an operation")
            unit = "bytes" if is_transfer else f"steps, one {each} each"
            why = (
                f"{fixed:,} for starts and latencies of {len(members):,} "
                f"{of}{'s' if len(members) > 1 else ''}, {cycles - fixed:,} for {amount:,} {unit}"
            )
        yield CycleTerm(queue=queues[queue], name=what, count=len(members), cycles=cycles, why=why)


@dataclass(frozen=True)
class _Known:
    """The first step of a queue."""

    step: Step
    cycle: int
    """Before which it does not begin, whatever is free then."""
    limits: list[tuple[str, int]]
    """Of which that is the last, by cause."""


class _Timeline:
    """When each step begins: the earliest of those that can, of several that of the first queue."""

    def __init__(self, machine: Machine, steps: Sequence[Step]) -> None:
        self.machine, self.steps = machine, steps
        count = len(machine.queues)
        self.waiting: list[deque[tuple[int, int]]] = [deque() for _ in range(count)]
        """By queue: when a step arrived, and its number in the program."""
        self.ready = [0] * count
        self.given: list[list[int]] = [[] for _ in range(2 * count)]
        self.taken: list[list[int]] = [[] for _ in range(2 * count)]
        self.channels = [[0] * engine.channels for engine in machine.dma_engines]
        self.ports: dict[Bank, list[int]] = {
            (memory, bank): [0] * pad.ports
            for memory, pad in enumerate(machine.scratchpads)
            for bank in range(pad.banks)
        }
        self.freed: list[deque[int]] = [deque() for _ in range(count)]
        """When the entries of a queue that steps left became free; not yet taken again."""
        self.fetched = self.fetch_cycle = 0
        self.times: dict[int, StepTime] = {}
        """By the step's number."""
        self.known: list[_Known | None] = [None] * count
        """By queue: of its first step, if the steps that it waits for have begun."""

    def run(self) -> tuple[StepTime, ...]:
        for _ in self.steps:
            self._fetch()
            cycle, queue = min(
                (found, queue)
                for queue in range(len(self.waiting))
                if self.waiting[queue] and (found := self._earliest(queue)) >= 0
            )
            self._begin(queue, cycle)
        return tuple(self.times[number] for number in range(len(self.steps)))

    def _fetch(self) -> None:
        """Hands steps to their queues while there is room; all wait for the next one's."""
        while self.fetched < len(self.steps):
            step = self.steps[self.fetched]
            waiting = self.waiting[step.queue]
            entries = self.machine.queues[step.queue].entries
            if len(waiting) >= entries:
                return
            self.fetch_cycle += self.machine.instructions.fetch_cycles
            freed = self.freed[step.queue]
            if len(waiting) + len(freed) >= entries:
                self.fetch_cycle = max(self.fetch_cycle, freed.popleft())
            waiting.append((self.fetch_cycle, self.fetched))
            self.fetched += 1

    def _earliest(self, queue: int) -> int:
        """When its first step can begin; -1: not known yet."""
        known = self.known[queue]
        if known is None:
            known = self.known[queue] = self._first(queue)
            if known is None:
                return -1
        cycle, step = known.cycle, known.step
        if step.dma >= 0:
            cycle = max(cycle, min(self.channels[step.dma]))
        for bank in step.banks:
            free = min(self.ports[bank])
            if free > cycle:
                cycle = free
        return cycle

    def _first(self, queue: int) -> _Known | None:
        """Of the first step in a queue, what no step of another queue changes any more."""
        arrival, place = self.waiting[queue][0]
        step = self.steps[place]
        limits = [("fetch", arrival)]
        for token in step.takes:
            number = len(self.taken[token])
            if number >= len(self.given[token]):
                return None
            limits.append(("token", self.given[token][number]))
        for token in step.gives:
            # A token waits in the queue that takes it: forwards the next one, else the one before.
            taker = token // 2 + (token % 2 == 0)
            number = len(self.given[token]) - self.machine.queues[taker].tokens
            if number >= len(self.taken[token]):
                return None
            if number >= 0:
                limits.append(("room", self.taken[token][number]))
        cycle = max(self.ready[queue], *(limit for _, limit in limits))
        return _Known(step, cycle, limits)

    def _waits(self, queue: int, known: _Known) -> Iterator[tuple[str, int]]:
        """What the first step waits for before it begins."""
        limits = list(known.limits)
        if known.step.dma >= 0:
            limits.append(("channel", min(self.channels[known.step.dma])))
        limits += [("bank", min(self.ports[bank])) for bank in known.step.banks]
        cycle = self.ready[queue]
        for cause, limit in limits:
            if limit > cycle:
                yield cause, limit - cycle
                cycle = limit

    def _begin(self, queue: int, cycle: int) -> None:
        known = self.known[queue]
        assert known is not None
        _, place = self.waiting[queue].popleft()
        step, end = known.step, cycle + known.step.cycles
        self.times[place] = StepTime(step, cycle, end, tuple(self._waits(queue, known)))
        self.known[queue] = None
        for token in step.takes:
            self.taken[token].append(cycle)
        for token in step.gives:
            self.given[token].append(end)
        busy = [self.ports[bank] for bank in step.banks]
        if step.dma >= 0:
            busy.append(self.channels[step.dma])
        for places in busy:
            places[places.index(min(places))] = end
        self.ready[queue] = end
        self.freed[queue].append(cycle)
