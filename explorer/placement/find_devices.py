"""What each device can do: every operation gets the list of devices that can run it.

%s = top.sort(%x)      devices = ["cpu"]        find-devices/vta-16: it reads or makes floats
%i = top.nonzero(%x)   devices = []             find-devices/host: what it reads decides ...
%y = top.reshape(%x)   needs = {npu = ["z"]}    find-devices/needs: npu only together with z
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import HOST
from explorer.ir.types import is_static, size_bytes
from explorer.ir.weights import Weights
from explorer.placement.marks import (
    DEVICES,
    NEEDS,
    names_attribute,
    needs_attribute,
    placed_operations,
)

REFUSED = "refused"
"""Artifact: reasons by operation and device."""
Refuses = Callable[[TopOperation, Weights], str]
Needs = Callable[[TopOperation, Weights], Sequence[TopOperation]]


@dataclass(frozen=True)
class Candidate:
    """A device that operations may be assigned to."""

    name: str
    refuses: Refuses | None = None
    """Why it cannot run an operation that has a compiled form; None: it can run all."""
    memory_bytes: int | None = None
    """What the values of an operation have to fit into; None: no limit."""
    needs: Needs | None = None
    """What it has to run, too, where it runs an operation; None: nothing."""

    def refusal(self, op: TopOperation, weights: Weights) -> str:
        values = (*op.operands, *op.results)
        size = sum(size_bytes(value) for value in values if is_static(value))
        if self.memory_bytes is not None and size > self.memory_bytes:
            return f"its values take {size:,} bytes, and the memory has {self.memory_bytes:,}"
        return self.refuses(op, weights) if self.refuses is not None else ""


@dataclass(frozen=True)
class FindDevices(Pass):
    """Every device is asked which operations it can run; a refusal has its reason."""

    candidates: tuple[Candidate, ...]
    host_reason: Callable[[TopOperation], str]
    """Why an operation has no compiled form at all, so that the host runs it."""

    name = "find-devices"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        refused: dict[str, Mapping[str, str]] = {}
        ops = placed_operations(entry_function(rewriter.module).body.block)
        found_reasons = {op: self._reasons(op, rewriter.weights) for op in ops}
        needs = self._needs(found_reasons, rewriter.weights)
        for op, reasons in found_reasons.items():
            able = [c.name for c in self.candidates if c.name not in reasons]
            found = [] if HOST in reasons else able
            for device, reason in reasons.items():
                events.decline(device, op, reason)
            if reasons:
                refused[identity_of(op)] = reasons
            what = " or ".join(found) or "the host alone"
            with events.rewrite("devices", op, f"{what} can run it"):
                rewriter.set_attribute(op, DEVICES, names_attribute(found))
            if needs[op]:
                text = "; ".join(
                    f"{d} only together with {', '.join(n)}" for d, n in needs[op].items()
                )
                with events.rewrite("needs", op, text):
                    rewriter.set_attribute(op, NEEDS, needs_attribute(needs[op]))
        rewriter.artifacts[REFUSED] = refused
        return events.rewrites

    def _needs(
        self, reasons: Mapping[TopOperation, dict[str, str]], weights: Weights
    ) -> dict[TopOperation, dict[str, list[str]]]:
        """By operation and device, what has to run there, too. A device that cannot run that does
        not run the operation: its reason is added."""
        needs: dict[TopOperation, dict[str, list[str]]] = {op: {} for op in reasons}
        for one in self.candidates:
            if one.needs is None:
                continue
            left = {
                op: list(one.needs(op, weights))
                for op, own in reasons.items()
                if HOST not in own and one.name not in own
            }
            while lost := {
                op: missing[0] for op, others in left.items()
                if (missing := [other for other in others if other not in left])
            }:  # fmt: skip
                for op, missing in lost.items():
                    reasons[op][one.name] = f"it runs only together with {identity_of(missing)}"
                    left.pop(op)
            for op, others in left.items():
                if others:
                    needs[op][one.name] = [identity_of(other) for other in others]
        return needs

    def _reasons(self, op: TopOperation, weights: Weights) -> dict[str, str]:
        if reason := self.host_reason(op):
            return {HOST: reason}
        answers = {c.name: c.refusal(op, weights) for c in self.candidates}
        return {device: reason for device, reason in answers.items() if reason}
