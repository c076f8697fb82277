"""Devices that work at the same time: when the last operation ends.

Every device runs its operations one after the other in the order of the problem. An operation
begins when its device is free and all that it reads has arrived. A transfer begins when its value
is made, once for each device, and keeps no device busy.

The best end is sought by branch and bound where operations are few, else by moving single
operations while that helps; the longest path and the work of all devices bound it from below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.placement.problem import Problem

MAX_NODES = 30_000
"""Beginnings that branch and bound looks at."""
MAX_EVALUATIONS = 400_000
"""Operations whose times the improvement computes."""


class Schedule:
    """Computes the end of assignments of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.read: list[list[int]] = [[] for _ in problem.operations]
        for number, value in enumerate(problem.values):
            for reader in value.readers:
                self.read[reader].append(number)
        self.least = [min(c for c in costs if c is not None) for costs in problem.costs]
        self.tails = self._tails()

    def _tails(self) -> list[int]:
        """Units that pass at least from the end of each operation, transfers not counted."""
        tails = [0] * len(self.problem.operations)
        for op in reversed(range(len(tails))):
            for number in self.read[op]:
                maker = self.problem.values[number].maker
                tails[maker] = max(tails[maker], self.least[op] + tails[op])
        return tails

    def bound(self) -> int:
        """The longest path, or the work shared by all devices."""
        longest = max((a + b for a, b in zip(self.least, self.tails, strict=True)), default=0)
        return max(longest, -(-sum(self.least) // max(1, len(self.problem.devices))))

    def end_of(self, op: int, device: int, chosen: Sequence[int], ends: Sequence[int],
               free: Sequence[int]) -> int | None:  # fmt: skip
        """When an operation ends on a device; None: impossible."""
        cost = self.problem.costs[op][device]
        if cost is None:
            return None
        begin = free[device]
        for number in self.read[op]:
            value = self.problem.values[number]
            sent = value.sent[chosen[value.maker]][device]
            if sent is None:
                return None
            begin = max(begin, ends[value.maker] + sent)
        return begin + cost

    def makespan(self, chosen: Sequence[int]) -> int | None:
        ends: list[int] = []
        free = [0] * len(self.problem.devices)
        for op, device in enumerate(chosen):
            end = self.end_of(op, device, chosen, ends, free)
            if end is None:
                return None
            ends.append(end)
            free[device] = end
        return max(ends, default=0)

    def earliest(self) -> list[int] | None:
        """Each operation where it ends first, in order (the rule of HEFT; Topcuoglu, 2002)."""
        chosen: list[int] = []
        ends: list[int] = []
        free = [0] * len(self.problem.devices)
        for op in range(len(self.problem.operations)):
            options = [
                (end, device)
                for device in range(len(free))
                if (end := self.end_of(op, device, chosen, ends, free)) is not None
            ]
            if not options:
                return None
            end, device = min(options)
            chosen.append(device)
            ends.append(end)
            free[device] = end
        return chosen


def least_makespan(
    problem: Problem, starts: Iterable[Sequence[int]]
) -> tuple[list[int] | None, int, int]:
    """An assignment, its makespan and the bound; never later than the starts.

    No assignment where none was found.
    """
    schedule = Schedule(problem)
    candidates = [list(start) for start in starts]
    earliest = schedule.earliest()
    if earliest is not None:
        candidates.append(earliest)
    timed = [(end, c) for c in candidates if (end := schedule.makespan(c)) is not None]
    bound = schedule.bound()
    best, chosen = min(timed, default=(None, None))
    if best is not None and chosen is not None and best > bound:
        best, chosen = _improved(schedule, chosen, best)
    if best is None or best > bound:
        best, chosen, is_exact = _branch(schedule, chosen, best)
        bound = best if is_exact and best is not None else bound
    return chosen, best or 0, bound


def _improved(schedule: Schedule, start: list[int], end: int) -> tuple[int, list[int]]:
    chosen, best = list(start), end
    count = len(chosen)
    left = MAX_EVALUATIONS // max(1, count)
    is_better = True
    while is_better and left > 0:
        is_better = False
        for op in range(count):
            for device in range(len(schedule.problem.devices)):
                own = chosen[op]
                if device == own or schedule.problem.costs[op][device] is None:
                    continue
                left -= 1
                if left < 0:
                    return best, chosen
                chosen[op] = device
                found = schedule.makespan(chosen)
                if found is not None and found < best:
                    best, is_better = found, True
                else:
                    chosen[op] = own
    return best, chosen


def _branch(
    schedule: Schedule, start: list[int] | None, end: int | None
) -> tuple[int | None, list[int] | None, bool]:
    """The exact answer where few enough beginnings have to be looked at."""
    problem = schedule.problem
    count, devices = len(problem.operations), len(problem.devices)
    best, chosen = end, start
    left = MAX_NODES
    stack: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = [
        ((), (), (0,) * devices, 0)
    ]
    while stack:
        places, ends, free, latest = stack.pop()
        if best is not None and latest >= best:
            continue
        op = len(places)
        if op == count:
            best, chosen = max(ends, default=0), list(places)
            continue
        left -= 1
        if left < 0:
            return best, chosen, False
        following = []
        for device in range(devices):
            own = schedule.end_of(op, device, places, ends, free)
            if own is None:
                continue
            lower = max(latest, own + schedule.tails[op])
            busy = (*free[:device], own, *free[device + 1 :])
            following.append((lower, (*places, device), (*ends, own), busy))
        following.sort(reverse=True)  # the most promising one is looked at first
        stack += [(places, ends, free, lower) for lower, places, ends, free in following]
    return best, chosen, True
