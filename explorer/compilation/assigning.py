"""The passes that choose between several targets, with the prices of this machine.

find-devices  price  cluster  assign       then `place-on-device` makes functions of what they chose

The price of an operation on a target is the time of its launches where the target alone compiles
the program: by the cost model of kernels, or the predicted cycles of an NPU. A transfer costs what
`explorer devices --measure` measured, what the target's file states, or what is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from explorer.accuracy.execution import execute_compiled
from explorer.backends import backend_of
from explorer.errors import ExplorerError
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import identity_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Names, RewriteOptions
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import Pass, Working, run_pass
from explorer.ir.structure import HOST
from explorer.ir.types import is_static, size_bytes
from explorer.ir.weights import Weights
from explorer.passes.lower.partition import host_reason
from explorer.placement.assign import AssignDevices
from explorer.placement.cluster import ClusterOperations
from explorer.placement.find_devices import Candidate, FindDevices
from explorer.placement.marks import MARKS, placed_operations
from explorer.placement.price import LINKS_MARK, Link, Price, PriceOperations
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.measuring.links import saved_link
from explorer.targets import Target

ASSUMED_MACS_PER_SECOND = 1e10
"""Of one compute unit of a device of which nothing is known."""
ASSUMED_BYTES_PER_SECOND = 1e11
ASSUMED_LAUNCH_SECONDS = 5e-6
SHARED = Link(0.0, 0.0, "the same memory")


def assigning_passes(
    pricers: Sequence[AlonePricer], clusters: tuple[tuple[str, str], ...]
) -> tuple[Pass, ...]:
    """The passes for targets, of each its pricer. `clusters`: names and patterns of operations."""
    targets = tuple(pricer.target for pricer in pricers)
    memory = {t.name: size for t in targets if (size := memory_bytes(t)) is not None}
    host = host_device(targets)
    names = [t.name for t in targets]
    ends = [*targets, *([] if host in names else [None])]
    watts = {t.name: t.costs.watts for t in targets}
    return (
        FindDevices(
            tuple(_candidate(t, memory.get(t.name)) for t in targets),
            host_reason,
        ),
        PriceOperations(
            tuple((pricer.target.name, pricer) for pricer in pricers),
            tuple(
                ((_name(a), _name(b)), link_between(a, b)) for a in ends for b in ends if a is not b
            ),
        ),
        ClusterOperations(clusters, tuple(memory.items())),
        AssignDevices(
            tuple(names),
            host,
            tuple((n, w) for n, w in watts.items() if w is not None)
            if None not in watts.values()
            else (),
        ),
    )


def _candidate(target: Target, memory: int | None) -> Candidate:
    backend = backend_of(target)
    refuses = backend.refusals(target)
    return Candidate(target.name, refuses, memory, backend.needs(refuses))


def host_device(targets: Sequence[Target]) -> str:
    """The target that computes in the host's memory; `host` where none does."""
    return next((t.name for t in targets if shares_memory(t)), HOST)


def shares_memory(target: Target) -> bool:
    """Whether a target's programs run on this processor, called like functions."""
    return backend_of(target).shares_memory


def memory_bytes(target: Target) -> int | None:
    """What the values of an operation have to fit into: the arenas of the target."""
    sizes = [memory.size_bytes for memory in target.arenas]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _name(target: Target | None) -> str:
    return HOST if target is None else target.name


def link_between(source: Target | None, target: Target | None) -> Link:
    """Transfers from one target to another, through the host's memory; None is the host."""
    away, to = (_to_host(one) for one in (source, target))
    if away.seconds_per_byte == to.seconds_per_byte == 0 and away.latency_seconds == 0:
        return to
    sources = dict.fromkeys(one.source for one in (away, to) if one is not SHARED)
    return Link(
        away.latency_seconds + to.latency_seconds,
        away.seconds_per_byte + to.seconds_per_byte,
        ", ".join(sources),
    )


def _to_host(target: Target | None) -> Link:
    """Transfers between a target and the host's memory, in either direction."""
    if target is None:
        return SHARED
    stated = target.costs
    if stated.transfer_seconds or stated.transfer_bytes_per_second:
        rate = stated.transfer_bytes_per_second
        return Link(stated.transfer_seconds, 1 / rate if rate else 0.0, "the target's file")
    if shares_memory(target):
        return SHARED
    measured = saved_link(backend_of(target).device())
    if measured is not None:
        latency = measured.latency_seconds + measured.launch_seconds / 2
        return Link(latency, 1 / measured.bytes_per_second, "measured")
    return Link(2e-5, 2e-10, "assumed: 20 µs and 5 GB/s")


@dataclass(frozen=True)
class AlonePricer:
    """Prices of a target by compiling the program for it alone, from placement on."""

    target: Target
    device: DeviceRecord | None
    lanes: int
    passes: tuple[Pass, ...]
    """The target's own from placement on."""

    def __call__(self, module: ModuleOp, weights: Weights) -> Mapping[str, Price]:
        try:
            seconds = self._predicted(module, weights)
            why = ""
        except ExplorerError as error:  # the whole program may be too much for it, and parts not
            seconds, why = None, f"; alone: {error.message}"
        if seconds is None:
            return self._assumed(module, why)
        return {op: Price(number, "cost model") for op, number in seconds.items()}

    def _predicted(self, module: ModuleOp, weights: Weights) -> Mapping[str, float] | None:
        copy = ModuleOp([copy_operation(op) for op in module.ops])
        entry = entry_function(copy)
        entry.attributes.pop(LINKS_MARK, None)
        for op in placed_operations(entry.body.block):
            for mark in MARKS:
                op.attributes.pop(mark, None)
        executor = backend_of(self.target).executor(self.target) or execute_compiled
        working = Working.at(Snapshot(copy, weights.copy(), "top", executor), Names.of(copy))
        results = [run_pass(pass_, working, RewriteOptions()) for pass_ in self.passes]
        return backend_of(self.target).predicted_seconds(
            results, self.target, self.device, self.lanes
        )

    def _assumed(self, module: ModuleOp, why: str) -> Mapping[str, Price]:
        """By work and bytes alone, where no model is there."""
        units = 1 if self.device is None else max(1, self.device.compute_units)
        launch = self.target.costs.launch_seconds or ASSUMED_LAUNCH_SECONDS
        rate = ASSUMED_MACS_PER_SECOND * units
        source = (
            f"assumed: {rate:.0e} multiply-adds and {ASSUMED_BYTES_PER_SECOND:.0e} bytes/s{why}"
        )
        found = {}
        for op in placed_operations(entry_function(module).body.block):
            if op.is_view:
                continue
            values = [v for v in (*op.operands, *op.results) if is_static(v)]
            moved = sum(size_bytes(value) for value in values)
            work = op.macs() if all(is_static(v) for v in (*op.operands, *op.results)) else 0
            seconds = launch + max(work / rate, moved / ASSUMED_BYTES_PER_SECOND)
            found[identity_of(op)] = Price(seconds, source)
        return found
