"""A compiled program as the search for a fit sees it: its plan, its knobs, its predicted time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import KNOBS, PassResult
from explorer.ir.structure import own_functions, value_name
from explorer.memory.planning import MEMORY
from explorer.passes.lower.lower_to_kernels import LowerToKernels
from explorer.passes.lower.stream_rows import CHAIN, StreamRows, parse_choice
from explorer.results import Knob, MemoryPlan


@dataclass(frozen=True)
class Program:
    """The results of all passes under some decisions."""

    results: Sequence[PassResult]
    decisions: Mapping[str, object]
    """Those of the fit and those of the person."""
    seconds: Mapping[str, float]
    """Predicted, by launch; empty where nothing is known."""
    launch_seconds: float
    """Of a launch that computes nothing."""

    @cached_property
    def plan(self) -> MemoryPlan:
        plan = self.results[-1].artifacts[MEMORY]
        assert isinstance(plan, MemoryPlan)
        return plan

    @property
    def bound_bytes(self) -> int:
        return self.plan.bound_bytes

    @property
    def microseconds(self) -> float:
        return 1e6 * sum(self.seconds.values())

    @cached_property
    def rank(self) -> tuple[int, int, int]:
        """Less is better: the peak, what is live at most, and in how many steps."""
        plan = self.plan
        return plan.peak_bytes, plan.bound_bytes, plan.live_bytes.count(plan.bound_bytes)

    @cached_property
    def fullest_step(self) -> int:
        return self.plan.live_bytes.index(self.plan.bound_bytes)

    @cached_property
    def knobs(self) -> dict[str, Knob]:
        found: dict[str, Knob] = {}
        for result in self.results:
            knobs = result.artifacts.get(KNOBS, ())
            assert isinstance(knobs, tuple)
            found |= {knob.address: knob for knob in knobs}
        return found

    @cached_property
    def kernels(self) -> dict[str, str]:
        """By launch the kernel of the schedule that it runs."""
        for result in self.results:
            if result.name == LowerToKernels.name:
                return {
                    identity_of(op): op.kernel.data
                    for function in own_functions(result.after.program)
                    for op in function.body.block.ops
                    if isinstance(op, LaunchOp)
                }
        return {}

    @cached_property
    def laid_out(self) -> Snapshot:
        """The program with layouts, before anything runs in bands."""
        return self._result(StreamRows.name).before

    @cached_property
    def live_values(self) -> list[SSAValue]:
        """Values that are live at the fullest step."""
        step = self.fullest_step
        names = {
            name
            for placed in self.plan.placements
            if placed.buffer.first <= step < placed.buffer.last
            for name in placed.buffer.values
        }
        values: list[SSAValue] = []
        for function in own_functions(self._result(StreamRows.name).after.program):
            for op in function.body.block.ops:
                if isinstance(op, TopOperation):
                    values += [result for result in op.results if value_name(result) in names]
        return values

    def name_of(self, value: SSAValue) -> str:
        return value_name(value)

    @cached_property
    def chain_starts(self) -> dict[str, str]:
        """By the last operation of each chain that runs in bands its first one."""
        head = f"{StreamRows.name}/{CHAIN}/"
        return {
            address.removeprefix(head): parse_choice(address, value)[0]
            for address, value in self.decisions.items()
            if address.startswith(head) and value
        }

    @cached_property
    def chains(self) -> dict[str, frozenset[str]]:
        """By the last operation of each chain the operations that its bands are made of."""
        return {
            rewrite.site: frozenset(record.identity for record in rewrite.added)
            for rewrite in self._result(StreamRows.name).rewrites
        }

    def _result(self, name: str) -> PassResult:
        return next(result for result in self.results if result.name == name)
