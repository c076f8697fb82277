"""The pass that moves values from a fast memory to a slow one between two of their uses.

    %a = ...                                   %a = ...            fast
    %b = f(%a)                                 %b = f(%a)
    ... %a lives on, nothing reads it    =>    %m = copy %a        slow
    %c = g(%a, ...)                            %n = copy %m        fast, where several read it
    %d = h(%a, ...)                            %c = g(%n, ...)

A value that does not fit the fast memory for its whole life may do so until its last use before a
gap. The copy reads it once there and writes it once where memory is slow; that pays where it has
several uses before the gap. What reads it later does so in the slow memory, or in a copy back in
the fast one, which pays where several do. Each move is tried on the buffers alone, with the planner
that divides them among memories afterwards, and taken if the predicted time of all traffic falls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, OpResult, SSAValue

from explorer.errors import MemoryBudgetError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.sizes.ranges import open_size
from explorer.ir.structure import own_functions, value_name
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp, WeightOp
from explorer.memory.exact import ExactPlanner
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.planners import Planner
from explorer.memory.planning import (
    DEFAULT_ALIGNMENT_BYTES,
    MOVED,
    buffer_bytes,
    moved_values,
)
from explorer.memory.several import Space, plan_several
from explorer.results import Knob
from explorer.results.memory import BufferLifetime, MemoryPlan

MAX_CANDIDATES = 8
"""Values that are tried for each move, those first that idle with most bytes for most steps."""
MAX_MOVES = 16
"""In one function."""


@dataclass(frozen=True)
class MoveBuffers(Pass):
    """Values leave the fast memory while nothing uses them, where that saves time.

    The decision move-buffers/move/VALUE, true or false, is whether a value may be moved, and
    move-buffers/return/VALUE whether it is copied back.
    """

    spaces: tuple[Space, ...]
    planner: Planner = field(default_factory=ExactPlanner)
    alignment_bytes: int = DEFAULT_ALIGNMENT_BYTES

    name = "move-buffers"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        # Pins are those of buffers, which have names when memory is planned.
        if isinstance(self.planner, PinnedPlanner):
            return replace(self, planner=ExactPlanner()).run(rewriter, options)
        for function in own_functions(rewriter.module):
            if open_size(function) is None:
                self._move(function, rewriter, options, events, knobs)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _move(
        self,
        function: func.FuncOp,
        rewriter: RecordedRewriter,
        options: RewriteOptions,
        events: EventLog,
        knobs: list[Knob],
    ) -> None:
        barred: set[str] = set()
        for _ in range(MAX_MOVES):
            if options.fuel.is_empty:
                return
            lives = lives_of(function)
            best = self._best(lives, barred, moved_values(function))
            if best is None:
                return
            assert isinstance(best.life.value, OpResult)
            op = best.life.value.op
            address = events.address("move", op)
            wanted = options.decision(address) is not False
            knobs.append(Knob(address, wanted, (True, False), best.saved))
            barred.add(best.life.name)
            if not wanted:
                events.decline("move", op, OVERRIDDEN, best.saved)
                continue
            returns = best.is_back_better
            if best.returned < math.inf:
                address = events.address("return", op)
                asked = options.decision(address)
                returns = asked if isinstance(asked, bool) else returns
                knobs.append(Knob(address, returns, (True, False), best.difference))
            with events.rewrite("move", op, f"{best.saved}; {best.difference}"):
                insert_copies(function, best.life, best.gap, returns, rewriter)
            options.fuel.burn()

    def _best(self, lives: Sequence[Life], barred: set[str], moved: tuple[str, ...]) -> Move | None:
        """The move that saves most; None where none saves anything."""
        seconds = self._seconds(lives, moved)
        if seconds == math.inf:
            return None
        candidates = [
            life
            for life in lives
            if life.is_movable and life.gap is not None and life.name not in barred
        ]
        candidates.sort(key=lambda life: (-life.size_bytes * life.longest_gap[0], life.name))
        best: Move | None = None
        for life in candidates[:MAX_CANDIDATES]:
            assert life.gap is not None
            out = (*moved, moved_name(life.name))
            late = sum(step > life.gap for step in life.accesses)
            tried = Move(
                life=life,
                gap=life.gap,
                before=seconds,
                stays=self._seconds(with_move(lives, life, life.gap), out),
                returned=self._seconds(with_move(lives, life, life.gap, returns=True), out)
                if late > 1
                else math.inf,
            )
            if tried.after < (seconds if best is None else best.after) * (1 - 1e-9):
                best = tried
        return best

    def _seconds(self, lives: Sequence[Life], moved: tuple[str, ...]) -> float:
        """Seconds of all traffic; infinity where something fits no memory."""
        steps = max((life.last for life in lives), default=1)
        buffers = [life.buffer(self.alignment_bytes) for life in lives]
        traffic = {life.name: life.size_bytes * len(life.accesses) for life in lives}
        try:
            plans = plan_several(
                buffers, tuple(map(str, range(steps))), traffic, self.spaces, self.planner, moved
            )
        except MemoryBudgetError:  # planning says so, of the program as it is
            return math.inf
        return traffic_seconds(plans, traffic, self.spaces)


def traffic_seconds(
    plans: Mapping[str, MemoryPlan], traffic: Mapping[str, int], spaces: Sequence[Space]
) -> float:
    """Seconds in which all buffers are read and written where they lie."""
    speeds = {space.name: space.bytes_per_second for space in spaces}
    return sum(
        traffic[placed.buffer.id] / speeds[name]
        for name, plan in plans.items()
        for placed in plan.placements
    )


@dataclass(frozen=True, kw_only=True)
class Move:
    """A value that leaves the fast memory, with the seconds of all traffic."""

    life: Life
    gap: int
    """The step after which it is copied."""
    before: float
    stays: float
    """Where what comes later reads it in the slow memory."""
    returned: float
    """Where it is copied back first; infinity where one step alone reads it."""

    @property
    def is_back_better(self) -> bool:
        return self.returned < self.stays

    @property
    def after(self) -> float:
        return min(self.stays, self.returned)

    @property
    def saved(self) -> str:
        gain, before = (self.before - self.after) * 1e6, self.before * 1e6
        return f"saves {gain:.3g} of {before:.3g} us of traffic"

    @property
    def difference(self) -> str:
        """Of reading it in the slow memory, and in a copy back in the fast one."""
        if self.returned == math.inf:
            return "one step reads it later, so that a copy back would save nothing"
        if self.stays == math.inf:
            return "the copy back alone fits"
        more = (self.returned - self.stays) * 1e6
        return f"a copy back {'takes' if more > 0 else 'saves'} {abs(more):.3g} us of traffic"


@dataclass(frozen=True)
class Life:
    """A buffer and the steps that touch it, in order; values that share bytes are one."""

    name: str
    value: SSAValue
    size_bytes: int
    accesses: tuple[int, ...]
    last: int
    """The end of its life, exclusive."""
    is_movable: bool

    @property
    def longest_gap(self) -> tuple[int, int]:
        """(steps to the next access, the step before) of the longest gap, of equal ones the
        first."""
        gaps = [(later - step, step) for step, later in pairwise(self.accesses)]
        return max(gaps, default=(0, 0), key=lambda gap: gap[0])

    @property
    def gap(self) -> int | None:
        """The step after which nothing uses it for a while; None where there is none."""
        steps, before = self.longest_gap
        return before if steps > 1 else None

    def buffer(self, alignment_bytes: int) -> BufferLifetime:
        return BufferLifetime(
            id=self.name,
            values=(self.name,),
            size_bytes=self.size_bytes,
            first=self.accesses[0],
            last=self.last,
            alignment_bytes=alignment_bytes,
        )


def lives_of(function: func.FuncOp) -> list[Life]:
    """The values of a function as buffers; what lies in another value counts as that."""
    ops = [op for op in function.body.block.ops if isinstance(op, TopOperation)]
    whole: dict[SSAValue, SSAValue] = {}
    for op in ops:
        for part in op.parts():
            whole[part.value] = part.whole
    steps = [op for op in ops if is_step(op)]
    end = max(len(steps), 1)
    touched: dict[SSAValue, list[int]] = {}
    lasts: dict[SSAValue, int] = {}

    def touch(value: SSAValue, step: int) -> None:
        while value in whole:
            value = whole[value]
        touched.setdefault(value, []).append(step)
        lasts[value] = step + 1

    for argument in function.body.block.args:
        touch(argument, 0)
    for step, op in enumerate(steps):
        for operand in op.operands:
            if not (isinstance(operand, OpResult) and isinstance(operand.op, WeightOp)):
                touch(operand, step)
        for result in op.results:
            touch(result, step)
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    returned = set(last.operands)
    for value in returned:
        touch(value, end - 1)
    shared = {*whole, *whole.values()}
    return [
        Life(
            name=value_name(value),
            value=value,
            size_bytes=buffer_bytes(value),
            accesses=tuple(accesses),
            last=lasts[value],
            is_movable=isinstance(value, OpResult)
            and value not in shared
            and value not in returned
            and not isinstance(value.op, ConvertLayoutOp),
        )
        for value, accesses in touched.items()
    ]


def moved_name(name: str) -> str:
    """The name of a copy that is not made yet."""
    return f"{name}/moved"


def returned_name(name: str) -> str:
    """The name of a copy back that is not made yet."""
    return f"{name}/returned"


def is_step(op: TopOperation) -> bool:
    """Whether an operation becomes a launch."""
    return not isinstance(op, WeightOp | ReturnOp | TransferOp) and not op.parts()


def with_move(lives: Sequence[Life], moved: Life, gap: int, returns: bool = False) -> list[Life]:
    """The buffers after a copy was inserted after the step `gap`, and one back before the next
    access where it `returns`."""
    reader = min(step for step in moved.accesses if step > gap)

    def later(step: int) -> int:
        return step + (step > gap) + (returns and step >= reader)

    found = []
    for life in lives:
        accesses = tuple(map(later, life.accesses))
        last = later(life.last - 1) + 1
        if life is not moved:
            found.append(replace(life, accesses=accesses, last=last))
            continue
        early = tuple(step for step in accesses if step <= gap)
        late = tuple(step for step in accesses if step > gap)
        found.append(replace(life, accesses=(*early, gap + 1), last=gap + 2))
        name = moved_name(life.name)
        if not returns:
            found.append(replace(life, name=name, accesses=(gap + 1, *late), last=last))
            continue
        back = reader + 1
        found.append(replace(life, name=name, accesses=(gap + 1, back), last=back + 1))
        name = returned_name(life.name)
        found.append(replace(life, name=name, accesses=(back, *late), last=last))
    return found


def insert_copies(
    function: func.FuncOp, life: Life, gap: int, returns: bool, rewriter: RecordedRewriter
) -> None:
    """Copies a value after a step, and back before its next reader where it `returns`; what comes
    later reads the copy."""
    steps = [op for op in function.body.block.ops if isinstance(op, TopOperation) and is_step(op)]
    place = {id(op): index for index, op in enumerate(steps)}
    value = life.value
    assert isinstance(value, OpResult)
    anchor = steps[gap].next_op
    assert anchor is not None
    late = [use for use in value.uses if place.get(id(use.operation), -1) > gap]

    def copy_before(anchor: Operation, of: OpResult, stem: str) -> ConvertLayoutOp:
        copy = ConvertLayoutOp.make([of], [value.type])
        rewriter.insert_before(anchor, copy, stem=f"{identity_of(value.op)}_{stem}", like=value.op)
        set_origins(copy, [origin_of(value)])
        return copy

    copy = copy_before(anchor, value, "moved")
    names = [*moved_values(function), value_name(copy.output)]
    rewriter.set_attribute(function, MOVED, ArrayAttr([StringAttr(name) for name in names]))
    if returns:
        reader = min((use.operation for use in late), key=lambda op: place[id(op)])
        copy = copy_before(reader, copy.output, "returned")
    for use in late:
        rewriter.set_operand(use.operation, use.index, copy.output)
