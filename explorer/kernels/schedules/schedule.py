"""A schedule: the list of steps that were applied to a kernel, each of which can be looked at.

    schedule = Schedule(function)                      # step 1: lower
    schedule.apply(split, loop="j", into="jt jp", factors=(14,))
    schedule.apply(reorder, order="o jt c jp")
    schedule.steps[1].function                         # the nest after the split

Steps are data: name and arguments. The nest after a step is made when somebody asks for it, by
replaying the steps up to there; compiling doesn't pay for it. `replayed` gives the nests after all
steps in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects import func

from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import (
    LoopNest,
    ScheduleError,
    shape_of,
)
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.pack import Pack, identity_pack, pack
from explorer.results import Knob

Choice = int | str

STEP_NAMES = {fuse_producer: "fuse", fuse_consumer: "fuse"}
"""Steps that are shown under another name than their function's."""


@dataclass(frozen=True)
class StepCall:
    """One application of a step: `function(nest, **arguments)`."""

    function: Callable[..., None]
    arguments: Mapping[str, Any]
    """Strings, integers, tuples and layouts: what the steps take."""

    @property
    def name(self) -> str:
        return STEP_NAMES.get(self.function, getattr(self.function, "__name__", "step"))


@dataclass(frozen=True)
class Step:
    """One named step, possibly of several calls (split o, split j), with the nest after it."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    origin: func.FuncOp = field(repr=False, compare=False)
    """The kernel before scheduling."""
    calls: tuple[StepCall, ...] = field(repr=False, compare=False)
    """Everything that was applied up to and with this step."""

    @cached_property
    def function(self) -> func.FuncOp:
        """The loop nest after the step."""
        ((_, function),) = replayed([self])
        return function


def replayed(steps: Iterable[Step]) -> Iterator[tuple[Step, func.FuncOp]]:
    """The steps of one schedule in turn, each with the loop nest after it.

    The next step changes that very nest, so that all of them cost one replay.
    """
    nest: LoopNest | None = None
    done = 0
    for step in steps:
        nest = nest or LoopNest(lower_to_loops(step.origin))
        for call in step.calls[done:]:
            call.function(nest, **call.arguments)
        done = len(step.calls)
        yield step, nest.function


@dataclass(frozen=True, kw_only=True)
class ScheduledKernel:
    """A kernel in the form in which it is printed."""

    name: str
    function: func.FuncOp
    steps: tuple[Step, ...]
    packs: dict[str, Pack]
    """Layout of every argument, the chosen ones of weights included."""
    choices: dict[str, Choice]
    """What was decided: pass these back with changes to decide otherwise."""
    knobs: tuple[Knob, ...] = ()
    """The same with the values that would be legal; an address is the choice's name here."""
    given: Mapping[str, Choice] = field(default_factory=dict)
    """Overrides that it was scheduled with."""
    given_packs: Mapping[str, Pack] = field(default_factory=dict)
    """Layouts that arguments came with."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Schedules that would have come first and could not be applied, each with the reason."""
    tuned: str = ""
    """`tuned: 41.2 µs against 48.0` where the overrides come from a search."""


class Schedule:
    """Applies steps to a kernel and remembers them."""

    def __init__(self, function: func.FuncOp):
        self.origin = function
        self.nest = LoopNest(lower_to_loops(function))
        self.packs: dict[str, Pack] = {}
        self.choices: dict[str, Choice] = {}
        self.knobs: tuple[Knob, ...] = ()
        self._calls: list[StepCall] = []

    def apply(self, function: Callable[..., None], **arguments: Any) -> None:
        """Runs a step; `arguments` are the step's own (see `explorer.kernels.steps`)."""
        function(self.nest, **arguments)
        self._calls.append(StepCall(function, arguments))

    def attempt(self, function: Callable[..., None], **arguments: Any) -> str:
        """Runs a step that refuses before it changes anything; returns its reason, or ""."""
        try:
            self.apply(function, **arguments)
        except ScheduleError as error:
            return error.reason
        return ""

    def replay(self, call: StepCall) -> None:
        """A call of another schedule, or of a list that was given."""
        if call.function is pack:
            self.pack(**call.arguments)
        else:
            self.apply(call.function, **call.arguments)

    def pack(self, buffer: str, layout: Pack) -> None:
        """The step `pack`, with the layout noted for the caller."""
        self.apply(pack, buffer=buffer, layout=tuple(layout))
        self.packs[buffer] = tuple(layout)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The calls so far, consecutive ones of one name taken together; `lower` is the first."""
        steps = [Step("lower", (), self.origin, ())]
        for position, call in enumerate(self._calls):
            arguments = tuple((key, _shown(value)) for key, value in call.arguments.items())
            upto = tuple(self._calls[: position + 1])
            if steps[-1].name == call.name:
                arguments = (*steps.pop().arguments, *arguments)
            steps.append(Step(call.name, arguments, self.origin, upto))
        return tuple(steps)

    def finish(self, packs: Mapping[str, Pack]) -> ScheduledKernel:
        """`packs`: the layouts that arguments came with; missing ones are row-major."""
        layouts: dict[str, Pack] = {}
        original = LoopNest(self.origin)
        for name, value in original.buffers.items():
            rank = len(shape_of(value))
            given = self.packs.get(name, packs.get(name))
            layouts[name] = list(given) if given else identity_pack(rank)
        return ScheduledKernel(
            name=self.nest.kernel,
            function=self.nest.function,
            steps=self.steps,
            packs=layouts,
            choices=dict(self.choices),
            knobs=self.knobs,
        )


def _shown(value: object) -> str:
    """An argument as a person reads it: `14`, `2 x 16`, `(0,1) (1,16) (2,1) (3,1) (1,1,16)`."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return str(value)
    if any(isinstance(item, tuple) for item in value):
        entries = [tuple(part for part in item if part is not None) for item in value]
        return " ".join("(" + ",".join(map(str, entry)) + ")" for entry in entries)
    return " x ".join(map(str, value))
