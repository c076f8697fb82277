"""The device of every operation, at the least total cost of all operations and transfers.

    %y = top.conv(%x, %w)    device = "opencl"    assign/device/y: of cpu (120 µs), opencl (30 µs)

The model's inputs come from the host and its outputs go there; what has no compiled form runs
there. `assign/device/OPERATION` pins one, and the others follow; `assign/device` pins all that the
device can run. A pin gives way where the device runs the operation only together with one that is
pinned elsewhere (`needs`). `assign/minimum`: a region on another device than the first one has at
least so many operations, constants and views not counted; smaller ones go back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import DEVICE, value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.types import is_static, size_bytes
from explorer.placement.choosing import OBJECTIVES, Assignment, least_cost, total_cost
from explorer.placement.cluster import BY_PRICE, readers_of
from explorer.placement.marks import (
    MARKS,
    cluster_of,
    devices_of,
    needs_of,
    placed_operations,
    seconds_of,
)
from explorer.placement.price import LINKS_MARK, Links, links_of
from explorer.results import Knob
from explorer.results.names import near_name

ASSIGNMENT = "assignment"
"""Artifact: the `Assignment` of all operations, the pseudo-operations of the host included."""
QUESTION = "question"
"""Artifact: what `least_cost` was asked, so that it can be asked again with other transfers."""
INPUTS, OUTPUTS = "(inputs)", "(outputs)"
"""Pseudo-operations that make the model's inputs and read its outputs."""
CHOSEN = "chosen"
"""Rule of the events; what a decision names is the device itself."""
RULE, MINIMUM, OBJECTIVE = "device", "assign/minimum", "assign/objective"


@dataclass(frozen=True)
class AssignDevices(Pass):
    """Every operation goes to a device, so that all operations and transfers cost least."""

    devices: tuple[str, ...]
    host: str
    """The device that shares the host's memory; `host` where none does."""
    watts: tuple[tuple[str, float], ...] = ()
    """Of every device, where all are known."""

    name = "assign"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        entry = entry_function(rewriter.module)
        block = entry.body.block
        ops = placed_operations(block)
        pins = {op: pin for op in ops if (pin := self._pin(op, options))}
        needs = _Needs(ops)
        lost = needs.lost(pins)
        for op, reason in lost.items():
            events.decline("needs", op, reason)
        minimum = _count(MINIMUM, options.decision(MINIMUM))
        objective = options.decision(OBJECTIVE) or "sum"
        if objective not in OBJECTIVES:
            raise InputError(
                f"{OBJECTIVE} cannot be {objective!r}", hint=near_name(str(objective), OBJECTIVES)
            )
        if objective == "energy" and not self.watts:
            raise InputError(
                f"{OBJECTIVE} cannot be energy: a target does not state its watts",
                hint="give costs.watts in the file of every target",
            )
        prices = dict(
            seconds_by_operation(ops, {op: p for op, p in pins.items() if op not in lost})
        )
        for op in lost:
            prices[identity_of(op)].pop(pins.pop(op))
        problem = _Problem(ops, block, self, pins, prices)
        solve = problem.solver(links_of(entry), str(objective))
        found = solve()
        while minimum > 1 and (small := self._small(ops, found, pins, minimum, needs)):
            for op in small:
                reason = f"fewer than {minimum} operations would run there"
                events.decline("minimum", op, reason)
                problem.costs[identity_of(op)].pop(found.devices[identity_of(op)])
            found = solve()
        knobs = [
            Knob(MINIMUM, minimum, (), "operations of a region on another device than the first"),
            Knob(OBJECTIVE, objective, OBJECTIVES, "what is least"),
        ]
        for op in ops:
            self._note(op, found, pins, events, knobs)
        rewriter.artifacts[QUESTION] = problem.asked
        entry.attributes.pop(LINKS_MARK, None)
        rewriter.has_changed = True
        rewriter.artifacts[ASSIGNMENT], rewriter.artifacts[KNOBS] = found, tuple(knobs)
        return events.rewrites

    def _pin(self, op: TopOperation, options: RewriteOptions) -> str:
        """The device that a decision asks for; InputError where it cannot run the operation."""
        address = f"{self.name}/{RULE}/{identity_of(op)}"
        wanted, legal = options.decision(address), devices_of(op)
        if wanted is None:
            return ""
        if wanted not in self.devices:
            raise InputError(
                f"{address} cannot be {wanted!r}", hint=near_name(str(wanted), self.devices)
            )
        if wanted in legal:
            return str(wanted)
        if address not in options.decisions:  # of all operations: those that it can run
            return ""
        raise InputError(
            f"{address} cannot be {wanted!r}: {wanted} cannot run it",
            hint=f"find-devices has the reason; legal: {', '.join(legal) or 'the host alone'}",
        )

    def _small(
        self,
        ops: Sequence[TopOperation],
        found: Assignment,
        pins: Mapping[TopOperation, str],
        minimum: int,
        needs: _Needs,
    ) -> list[TopOperation]:
        """Operations of regions on other devices that are too small, and that can go elsewhere."""
        small: list[TopOperation] = []
        for region in regions(ops, found.devices):
            device = found.devices[identity_of(region[0])]
            count = sum(not op.is_view for op in region)
            if device != self.devices[0] and device in self.devices and count < minimum:
                fixed = {op for op in region if op in pins or len(devices_of(op)) == 1}
                fixed |= {other for op in fixed for other in needs.of(op, device)}
                small += [op for op in region if op not in fixed]
        return small

    def _note(
        self,
        op: TopOperation,
        found: Assignment,
        pins: Mapping[TopOperation, str],
        events: EventLog,
        knobs: list[Knob],
    ) -> None:
        rewriter, legal = events.rewriter, devices_of(op)
        if not legal:
            with events.rewrite("host", op, "it has no compiled form"):
                rewriter.remove_attributes(op, MARKS)
            return
        device = found.devices[identity_of(op)]
        prices = seconds_of(op)
        listed = ", ".join(f"{name} ({prices.get(name, 0) * 1e6:.3g} µs)" for name in legal)
        why = f"pinned; of {listed}" if op in pins else f"of {listed}"
        address = events.address(RULE, op)
        knobs.append(Knob(address, device, tuple(legal), why))
        with events.rewrite(CHOSEN, op, f"{device}, {why}"):
            rewriter.remove_attributes(op, MARKS)
            rewriter.set_attribute(op, DEVICE, StringAttr(device))


@dataclass
class _Needs:
    """What operations need on their devices."""

    ops: Sequence[TopOperation]

    def __post_init__(self) -> None:
        self.by_name = {identity_of(op): op for op in self.ops}

    def of(self, op: TopOperation, device: str) -> list[TopOperation]:
        """All that has to run on the device with an operation, and what that needs there."""
        found: dict[TopOperation, None] = {}
        stack = [op]
        while stack:
            for name in needs_of(stack.pop()).get(device, ()):
                other = self.by_name.get(name)
                if other is not None and other is not op and other not in found:
                    found[other] = None
                    stack.append(other)
        return list(found)

    def lost(self, pins: Mapping[TopOperation, str]) -> dict[TopOperation, str]:
        """The reasons of pins that those of needed operations contradict; InputError where there is
        no other device."""
        found: dict[TopOperation, str] = {}
        for op, device in pins.items():
            for other in self.of(op, device):
                if pins.get(other, device) == device and device in devices_of(other):
                    continue
                reason = (
                    f"{device} runs it only together with {identity_of(other)}, which is on "
                    f"{pins.get(other) or 'another device'}"
                )
                if len(devices_of(op)) == 1:
                    raise InputError(
                        f"{identity_of(op)}: {reason}",
                        hint=f"leave out assign/device/{identity_of(other)}",
                    )
                found[op] = reason
                break
        return found


def seconds_by_operation(
    ops: Sequence[TopOperation], pins: Mapping[TopOperation, str]
) -> Mapping[str, dict[str, float]]:
    found = {}
    for op in ops:
        prices = seconds_of(op)
        if op in pins:
            prices = {pins[op]: prices.get(pins[op], 0.0)}
        found[identity_of(op)] = prices
    return found


@dataclass
class _Problem:
    """What `least_cost` is asked."""

    ops: Sequence[TopOperation]
    block: Block
    options: AssignDevices
    pins: Mapping[TopOperation, str]
    costs: dict[str, dict[str, float]]
    asked: dict[str, Any] = field(default_factory=dict)  # Any: arguments of `least_cost`

    def solver(self, links: Links, objective: str) -> Callable[[], Assignment]:
        host = self.options.host
        order = [*self.options.devices, *([host] if host not in self.options.devices else [])]
        values = self._values()
        transfers = {
            pair: (
                link.latency_seconds,
                1 / link.seconds_per_byte if link.seconds_per_byte else _INF,
            )
            for pair, link in links.items()
        }
        together = self._clusters(objective)
        watts = dict(self.options.watts) if objective == "energy" else None
        if watts is not None:
            watts.setdefault(host, 0.0)

        def solve() -> Assignment:
            costs = {INPUTS: {host: 0.0}}
            for op in self.ops:
                own = self.costs[identity_of(op)]
                costs[identity_of(op)] = {d: own[d] for d in order if d in own} or {host: 0.0}
            costs[OUTPUTS] = {host: 0.0}
            used = {device for of in costs.values() for device in of}
            known = {pair: link for pair, link in transfers.items() if used >= set(pair)}
            self.asked = {
                "costs": costs,
                "values": values,
                "transfers": known,
                "together": together,
                "needs": {identity_of(op): needs_of(op) for op in self.ops if needs_of(op)},
                "objective": objective,
                "watts": watts,
            }
            found = least_cost(**self.asked)
            self.asked["marked"] = self._clusters("")
            alone: dict[str, float] = {}
            for device in self.options.devices:
                everywhere = {op: next(iter(of)) for op, of in costs.items()}
                everywhere |= {identity_of(op): device for op in self.ops if devices_of(op)}
                everywhere |= {INPUTS: host, OUTPUTS: host}
                total = total_cost(
                    everywhere, costs, values, known, objective=objective, watts=watts
                )
                if total is not None:
                    alone[device] = total
            return replace(found, single=alone)

        return solve

    def _values(self) -> dict[str, tuple[str, int, list[str]]]:
        """Every value that operations read, by its name."""
        inside = {op: identity_of(op) for op in self.ops}
        made: list[tuple[SSAValue, str]] = [(argument, INPUTS) for argument in self.block.args]
        made += [(result, inside[op]) for op in self.ops for result in op.results]
        found: dict[str, tuple[str, int, list[str]]] = {}
        for value, maker in made:
            readers = [
                inside.get(reader, OUTPUTS)  # type: ignore[arg-type]
                for reader in readers_of(value, self.block)
                if not isinstance(reader, WeightOp)
            ]
            size = size_bytes(value) if is_static(value) else 0  # only the host has such values
            found[value_name(value)] = maker, size, list(dict.fromkeys(readers))
        return found

    def _clusters(self, objective: str) -> list[list[str]]:
        """Operations that stay on one device. Those that no cut pays between: where the sum of all
        seconds is what is least, and nothing is pinned among them."""
        groups: dict[str, list[str]] = {}
        released = {cluster_of(op) for op in self.pins if cluster_of(op).startswith(BY_PRICE)}
        for op in self.ops:
            name = cluster_of(op)
            if name.startswith(BY_PRICE) and (name in released or objective != "sum"):
                continue
            if name:
                groups.setdefault(name, []).append(identity_of(op))
        for name, members in groups.items():
            pinned = {
                self.pins[op] for op in self.ops if op in self.pins and cluster_of(op) == name
            }
            if len(pinned) > 1:
                raise InputError(
                    f"the cluster {name} is pinned to {' and '.join(sorted(pinned))}",
                    hint=f"it keeps {', '.join(members[:4])} on one device",
                )
        return list(groups.values())


_INF = float("inf")


def regions(ops: Sequence[TopOperation], devices: Mapping[str, str]) -> list[list[TopOperation]]:
    """Operations that are connected by values and run on one device, each region in order."""
    number_of = {op: number for number, op in enumerate(ops)}
    first = list(range(len(ops)))
    """Of every operation, one of its region; of the region's first operation itself."""

    def root(number: int) -> int:
        while first[number] != number:
            number = first[number]
        return number

    for op, number in number_of.items():
        for value in op.operands:
            maker = number_of.get(value.owner)  # pyright: ignore[reportArgumentType]
            is_near = (
                maker is not None and devices[identity_of(ops[maker])] == devices[identity_of(op)]
            )
            if maker is not None and is_near:
                one, other = sorted((root(maker), root(number)))
                first[other] = one
    found: dict[int, list[TopOperation]] = {}
    for op, number in number_of.items():
        found.setdefault(root(number), []).append(op)
    return list(found.values())


def _count(address: str, value: object) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{address} cannot be {value!r}", hint="a whole number, 1 or more")
    return value
