"""`least_cost`: the cheapest assignment of operations to devices, and how far that is proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from explorer.errors import InputError
from explorer.placement.cut import cheapest_of_two
from explorer.placement.makespan import Schedule, least_makespan
from explorer.placement.messages import make_model, raise_bound
from explorer.placement.problem import (
    Costs,
    Groups,
    Needs,
    Problem,
    Transfers,
    Values,
    checked,
    make_problem,
)
from explorer.placement.search import search
from explorer.placement.starts import greedy, improved, singles
from explorer.results.names import near_name

OBJECTIVES = ("sum", "makespan", "energy")
MAX_SEARCHED_DEVICES = 6
"""A value's variable has a label for every set of devices: 64 of six."""


@dataclass(frozen=True)
class Transferred:
    """A value that goes from one device to another, once."""

    value: str
    source: str
    target: str
    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class Assignment:
    """Which device runs each operation, and what that costs.

    `seconds` and `bound` are what the objective counts: seconds of all operations and transfers,
    seconds until the last one ends, or joules.
    """

    devices: Mapping[str, str]
    """By operation, in the order in which the operations were given."""
    seconds: float
    bound: float
    """No assignment costs less."""
    optimal: bool
    """Whether `seconds` is the least, computed without rounding."""
    transferred: tuple[Transferred, ...]
    single: Mapping[str, float]
    """What every device costs that can run all operations alone."""
    greedy: float | None
    """The cheapest result of the greedy rules; None where all of them are impossible."""

    @property
    def gap(self) -> float:
        """How much of the cost is not proven to be needed, from 0 (optimal) to 1."""
        return 0.0 if self.optimal or not self.seconds else 1 - self.bound / self.seconds


def least_cost(
    costs: Costs,
    values: Values,
    transfers: Transfers,
    *,
    together: Groups = (),
    needs: Needs = MappingProxyType({}),
    objective: str = "sum",
    watts: Mapping[str, float] | None = None,
) -> Assignment:
    """The assignment of operations to devices that costs least.

    `costs`: operation -> device -> seconds; a device that is missing cannot run the operation.
    `values`: name -> (operation that makes it, bytes, operations that read it). `transfers`:
    (from, to) -> (seconds, bytes per second); a direction that is missing is impossible. A value is
    sent once to each device on which something reads it. Devices take the order in which `costs`
    names them: of equal costs the first device is taken more often. `together`: groups of
    operations that run on one device, whichever it is. `needs`: operation -> device -> operations
    that run there, too, where this one does.

    `objective`: `sum` of all seconds; `makespan`, the end of the last operation where devices work
    at the same time; `energy`, joules by the `watts` of each device, a transfer with the watts of
    both ends.

    Two devices and the sum: exact, by a minimum cut (Stone, 1977). More: exact where few values are
    live at a time, else with a bound. Never above a single device or a greedy rule.

    Raises InputError for prices that are negative or NaN, names and directions that do not exist,
    cycles, and where no assignment is possible.
    """
    if objective not in OBJECTIVES:
        raise InputError(
            f"there is no objective {objective!r}", hint=near_name(str(objective), OBJECTIVES)
        )
    if (objective == "energy") != (watts is not None):
        raise InputError("watts belong to the objective 'energy', which needs those of all devices")
    groups = [list(group) if not isinstance(group, str) else group for group in together]
    problem = make_problem(costs, values, transfers, groups, needs)
    counted = problem
    if watts is not None:
        counted = _in_joules(costs, values, transfers, groups, needs, watts)
    if objective == "makespan":
        return _least_makespan(problem, list(costs))
    chosen, bound = _least_sum(counted)
    total = counted.total(chosen)
    assert total is not None
    rules = [units for found in greedy(counted) if (units := counted.total(found)) is not None]
    return _assignment(
        problem,
        list(costs),
        chosen,
        seconds=counted.seconds(total),
        bound=counted.seconds(min(bound, total)),
        optimal=bound >= total,
        single={problem.devices[d]: counted.seconds(u) for d, u in singles(counted).items()},
        greedy=counted.seconds(min(rules)) if rules else None,
    )


def total_cost(
    devices: Mapping[str, str],
    costs: Costs,
    values: Values,
    transfers: Transfers,
    *,
    objective: str = "sum",
    watts: Mapping[str, float] | None = None,
) -> float | None:
    """What a given assignment costs, as `least_cost` counts; None where it is impossible."""
    problem = make_problem(costs, values, transfers)
    counted = problem if watts is None else _in_joules(costs, values, transfers, (), {}, watts)
    if any(devices[op] not in costs[op] for op in problem.operations):
        return None
    chosen = [problem.devices.index(devices[op]) for op in problem.operations]
    if objective == "makespan":
        units = Schedule(problem).makespan(chosen)
    else:
        units = counted.total(chosen)
    return None if units is None else counted.seconds(units)


def _least_sum(problem: Problem) -> tuple[list[int], int]:
    """Devices by operation, and a bound of the cost."""
    count = len(problem.operations)
    if len(problem.devices) <= 1:
        return [0] * count, problem.total([0] * count) or 0
    if len(problem.devices) == 2:
        chosen = cheapest_of_two(problem, 0, 1)
        return chosen, problem.total(chosen) or 0
    alone = [[device] * count for device in singles(problem)]
    starts = [
        (total, start) for start in (*alone, *greedy(problem))
        if (total := problem.total(start)) is not None
    ]  # fmt: skip
    distinct = list({tuple(start): None for _, start in sorted(starts)})
    better = [improved(problem, start) for start in distinct[:3]]
    timed = [(total, c) for c in better if (total := problem.total(c)) is not None]
    known, chosen = min(timed, default=(None, None))
    above = _above(problem) if known is None else known + 1
    if len(problem.devices) > MAX_SEARCHED_DEVICES:
        return _of_many(problem, chosen)
    model = make_model(problem, above)
    raise_bound(model, above)
    found = search(model, above if known is None else known)
    if found.labels is not None:
        pairs = zip(model.operations, model.labels, found.labels, strict=True)
        by_operation = {op: labels[label] for op, labels, label in pairs if op >= 0}
        chosen = [by_operation[op] for op in range(count)]
    if chosen is None or problem.total(chosen) is None:
        raise InputError("no assignment is possible", hint="give the transfers that are missing")
    return chosen, found.bound


def _of_many(problem: Problem, chosen: list[int] | None) -> tuple[list[int], int]:
    if chosen is None:
        raise InputError(
            f"no greedy assignment to {len(problem.devices)} devices is possible",
            hint="give the transfers that are missing",
        )
    return chosen, sum(min(c for c in costs if c is not None) for costs in problem.costs)


def _above(problem: Problem) -> int:
    """More units than any assignment takes."""
    costs = sum(max(c for c in costs if c is not None) for costs in problem.costs)
    sent = sum(c for v in problem.values for row in v.sent for c in row if c is not None)
    return costs + sent + 1


def _least_makespan(problem: Problem, order: Sequence[str]) -> Assignment:
    count = len(problem.operations)
    alone = {device: [device] * count for device in singles(problem)}
    rules = list(greedy(problem))
    try:
        summed = [_least_sum(problem)[0]]
    except InputError:
        summed = []
    chosen, end, bound = least_makespan(problem, [*alone.values(), *rules, *summed])
    if chosen is None:
        raise InputError("no assignment is possible", hint="give the transfers that are missing")
    schedule = Schedule(problem)
    ends = [found for rule in rules if (found := schedule.makespan(rule)) is not None]
    return _assignment(
        problem,
        order,
        chosen,
        seconds=problem.seconds(end),
        bound=problem.seconds(min(bound, end)),
        optimal=bound >= end,
        single={
            problem.devices[device]: problem.seconds(schedule.makespan(found) or 0)
            for device, found in alone.items()
        },
        greedy=problem.seconds(min(ends)) if ends else None,
    )


def _in_joules(
    costs: Costs,
    values: Values,
    transfers: Transfers,
    together: Groups,
    needs: Needs,
    watts: Mapping[str, float],
) -> Problem:
    """The same problem with joules instead of seconds."""
    devices = dict.fromkeys(device for of in costs.values() for device in of)
    power = {device: checked(watts.get(device), f"watts of {device!r}") for device in devices}
    joules = {op: {d: s * power[d] for d, s in of.items()} for op, of in costs.items()}
    links = {}
    for (source, target), (latency, rate) in transfers.items():
        both = power[source] + power[target]
        links[source, target] = latency * both, rate / both if both else float("inf")
    return make_problem(joules, values, links, together, needs)


def _assignment(
    problem: Problem,
    order: Sequence[str],
    chosen: Sequence[int],
    *,
    seconds: float,
    bound: float,
    optimal: bool,
    single: Mapping[str, float],
    greedy: float | None,
) -> Assignment:
    by_operation = {
        op: problem.devices[device] for op, device in zip(problem.operations, chosen, strict=True)
    }
    transferred = tuple(
        Transferred(
            value.name,
            problem.devices[own],
            problem.devices[device],
            value.size_bytes,
            problem.seconds(value.sent[own][device] or 0),
        )
        for value in problem.values
        if not value.is_rule
        for own in (chosen[value.maker],)
        for device in problem.reached(value, chosen)
    )
    return Assignment(
        devices={op: by_operation[op] for op in order},
        seconds=seconds,
        bound=bound,
        optimal=optimal,
        transferred=transferred,
        single=single,
        greedy=greedy,
    )
