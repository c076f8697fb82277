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
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

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


class StepTime(NamedTuple):
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
    times: list[StepTime | None] = [None] * len(steps)
    Timeline(machine, times).run(steps)
    return tuple(time for time in times if time is not None)


def end_cycle(machine: Machine, steps: Sequence[Step]) -> int:
    """When the last step ends."""
    return Timeline(machine).run(steps)


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


class Timeline:
    """When each step begins: the earliest of those that can, of several that of the first queue."""

    def __init__(self, machine: Machine, times: list[StepTime | None] | None = None) -> None:
        """`times`: a list for the times of all steps; None where the end alone is wanted."""
        self._machine, self._times = machine, times
        count = len(machine.queues)
        self._left: deque[Step] = deque()
        """Those that are in no queue yet."""
        self._waiting: list[deque[tuple[int, int, Step]]] = [deque() for _ in range(count)]
        """By queue: when a step arrived, and its number in the program."""
        self._free = [deque([0] * queue.entries) for queue in machine.queues]
        """By queue: when the entries became free that hold no step."""
        self._ready = [0] * count
        self._given: list[deque[int]] = [deque() for _ in range(2 * count)]
        """By token: when those came that are not taken yet."""
        self._room = [
            # A token waits in the queue that takes it: forwards the next one, else the one before.
            deque([0] * machine.queues[min(token // 2 + (token % 2 == 0), count - 1)].tokens)
            for token in range(2 * count)
        ]
        """By token: when the places became free that hold none."""
        self._channels = [[0] * engine.channels for engine in machine.dma_engines]
        self._ports: dict[Bank, list[int]] = {
            (memory, bank): [0] * pad.ports
            for memory, pad in enumerate(machine.scratchpads)
            for bank in range(pad.banks)
        }
        self._fetched = self._fetch_cycle = 0
        self._known: list[tuple[int, list[list[int]]] | None] = [None] * count
        """By queue: of its first step, if the steps that it waits for have begun, the cycle before
        which it does not begin, and what it occupies."""
        self.end_cycle = 0

    def end_of(self, queue: int) -> int:
        """When the last step of a queue ends, of those that have begun."""
        return self._ready[queue]

    def copy(self) -> Timeline:
        """The same so far, for other steps after these."""
        found = copy(self)
        found._left = deque(self._left)
        for name in ("_waiting", "_free", "_given", "_room"):
            setattr(found, name, [deque(one) for one in getattr(self, name)])
        found._ready = list(self._ready)
        found._channels = [list(one) for one in self._channels]
        found._ports = {bank: list(one) for bank, one in self._ports.items()}
        found._known = [None] * len(self._known)  # found again, of the lists of the copy
        return found

    def run(self, steps: Sequence[Step], is_last: bool = True) -> int:
        """The cycle in which the last of all steps ends. With others after them (`is_last`): as far
        as these change nothing, which are the first of a queue as soon as it is empty."""
        self._left.extend(steps)
        waiting, known, queues = self._waiting, self._known, range(len(self._waiting))
        while True:
            self._fetch()
            best, chosen = -1, -1
            for queue in queues:
                if not waiting[queue]:
                    if not is_last and not self._left:
                        return self.end_cycle
                    continue
                first = known[queue]
                if first is None:
                    first = known[queue] = self._first(queue)
                    if first is None:
                        continue
                cycle, occupied = first
                for places in occupied:
                    free = min(places)
                    if free > cycle:
                        cycle = free
                if chosen < 0 or cycle < best:
                    best, chosen = cycle, queue
            if chosen < 0:
                assert not self._left and not any(waiting), "steps wait for each other"
                return self.end_cycle
            self._begin(chosen, best)

    def _fetch(self) -> None:
        """Hands steps to their queues while there is room; all wait for the next one's."""
        left, fetch_cycles = self._left, self._machine.instructions.fetch_cycles
        while left and (free := self._free[left[0].queue]):
            step = left.popleft()
            self._fetch_cycle = max(self._fetch_cycle + fetch_cycles, free.popleft())
            self._waiting[step.queue].append((self._fetch_cycle, self._fetched, step))
            self._fetched += 1

    def _first(self, queue: int) -> tuple[int, list[list[int]]] | None:
        """Of the first step in a queue, what no step of another queue changes any more."""
        cycle, _, step = self._waiting[queue][0]
        given, room = self._given, self._room
        cycle = max(cycle, self._ready[queue])
        for token in step.takes:
            if not given[token]:
                return None
            cycle = max(cycle, given[token][0])
        for token in step.gives:
            if not room[token]:
                return None
            cycle = max(cycle, room[token][0])
        occupied = [self._ports[bank] for bank in step.banks]
        if step.dma >= 0:
            occupied.append(self._channels[step.dma])
        return cycle, occupied

    def _waits(self, queue: int) -> Iterator[tuple[str, int]]:
        """What the first step waits for before it begins."""
        arrival, _, step = self._waiting[queue][0]
        limits = [("fetch", arrival)]
        limits += [("token", self._given[token][0]) for token in step.takes]
        limits += [("room", self._room[token][0]) for token in step.gives]
        if step.dma >= 0:
            limits.append(("channel", min(self._channels[step.dma])))
        limits += [("bank", min(self._ports[bank])) for bank in step.banks]
        cycle = self._ready[queue]
        for cause, limit in limits:
            if limit > cycle:
                yield cause, limit - cycle
                cycle = limit

    def _begin(self, queue: int, cycle: int) -> None:
        known = self._known[queue]
        assert known is not None
        waits = () if self._times is None else tuple(self._waits(queue))
        _, number, step = self._waiting[queue].popleft()
        end = cycle + step.cycles
        if self._times is not None:
            self._times[number] = StepTime(step, cycle, end, waits)
        self._known[queue] = None
        for token in step.takes:
            self._given[token].popleft()
            self._room[token].append(cycle)
        for token in step.gives:
            self._room[token].popleft()
            self._given[token].append(end)
        for places in known[1]:
            places[places.index(min(places))] = end
        self._ready[queue] = end
        self._free[queue].append(cycle)
        if end > self.end_cycle:
            self.end_cycle = end
