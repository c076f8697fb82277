"""Pass infrastructure: a pass changes the working module; the runner snapshots, verifies, times.

    working = Working(module, weights)
    result = run_pass(FuseActivation(), working, RewriteOptions())
    result.before, result.after, result.rewrites, result.diff, result.seconds

A pass that only applies rules names them:

    class FuseActivation(RulePass):
        '''Activations become part of the convolution or matmul that feeds them.'''
        name = "fuse-activation"
        rules = (FuseUnary,)
"""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import ClassVar, NoReturn

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from explorer.errors import InputError, PassError
from explorer.ir.operation import identity_of
from explorer.ir.program import Executor, Snapshot
from explorer.ir.rewriting import (
    Names,
    RecordedRewriter,
    Rewrite,
    RewriteOptions,
    Rule,
    apply_rules,
    make_event,
)
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.difference import program_difference
from explorer.ir.structure import kernel_functions
from explorer.ir.verification import Verifier
from explorer.ir.weights import Weights
from explorer.results import GraphDiff, MemoryPlan, PassRecord, RewriteEvent, SourceText
from explorer.results.deferring import Later, deferring
from explorer.results.displayed import Displayed

LEVELS = (
    "top", "kernels", "loops", "scheduled", "memory", "tiled", "addressed", "instructions",
)  # fmt: skip
"""From tensors to what a device is given: of no program is a later level an earlier one's. Kernels
of loops go down to `memory`; instructions are made of `tiled` and `addressed` operations."""

KNOBS = "knobs"
"""Name of the artifact in which a pass says what it may decide otherwise: a tuple of Knob."""


class Pass(ABC):
    """One step of a compilation. The docstring's first paragraph describes it to people.

    Options are fields of frozen dataclass subclasses; a pass keeps no state.
    """

    name: ClassVar[str]
    level: ClassVar[str] = "top"
    """Level of the IR after the pass, one of LEVELS."""
    is_required: ClassVar[bool] = False
    """A required pass cannot be disabled: what follows needs it."""

    @property
    def description(self) -> str:
        return inspect.cleandoc(type(self).__doc__ or "").split("\n\n")[0]

    @abstractmethod
    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        """Changes `rewriter.module` through the rewriter only; returns what it did."""


class RulePass(Pass):
    """A pass that applies its rules to a fixpoint."""

    rules: ClassVar[tuple[type[Rule], ...]]
    choices: ClassVar[tuple[str, ...]] = ()
    """Decisions beside the rules, `pass/choice/operation`; `run` checks their values."""

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        return apply_rules(self.name, [rule() for rule in self.rules], rewriter, options)


class EventLog:
    """For passes that are not lists of rules: logs one event per decision.

    events = EventLog("assign-layouts", rewriter)
    with events.rewrite("blocked", op, "convolutions are fastest on blocked channels"):
        ... changes through the rewriter ...
    events.decline("blocked", op, "its channels are not a multiple of the group")
    """

    def __init__(self, pass_name: str, rewriter: RecordedRewriter):
        self.pass_name = pass_name
        self.rewriter = rewriter
        self.rewrites: list[Rewrite] = []

    def address(self, rule: str, op) -> str:
        return f"{self.pass_name}/{rule}/{identity_of(op)}"

    @contextmanager
    def rewrite(self, rule: str, op, explanation: str) -> Iterator[None]:
        """Everything that the rewriter does inside belongs to one event at `op`."""
        site, address = identity_of(op), self.address(rule, op)
        self.rewriter.take_log()
        begin = time.perf_counter()
        yield
        microseconds = (time.perf_counter() - begin) * 1e6
        log = self.rewriter.take_log()
        self.rewriter.touched.clear()
        if not log.is_empty:
            self.rewrites.append(
                make_event(address, rule, site, log, "", self.pass_name, explanation, microseconds)
            )

    def decline(self, rule: str, op, reason: str, explanation: str = "") -> None:
        self.rewriter.take_log()
        event = make_event(
            self.address(rule, op),
            rule,
            identity_of(op),
            self.rewriter.take_log(),
            reason,
            self.pass_name,
            explanation,
            0.0,
        )
        self.rewrites.append(event)


@dataclass(kw_only=True)
class Working:
    """The module that passes change, with what they share."""

    module: ModuleOp
    weights: Weights
    names: Names
    level: str = "top"
    execute_compiled: Executor | None = None
    start: InitVar[Snapshot | None] = None
    """The snapshot that the module is a copy of, where there is one."""
    snapshot: Snapshot = field(init=False)
    verifier: Verifier = field(init=False, default_factory=Verifier, repr=False)
    kernel_texts: dict[func.FuncOp, SourceText] = field(
        init=False, default_factory=dict, repr=False
    )
    """Of kernels that snapshots share: each is printed once."""

    def __post_init__(self, start: Snapshot | None) -> None:
        self.snapshot = start or self.take_snapshot()

    def take_snapshot(self, earlier: Snapshot | None = None) -> Snapshot:
        """The program as it is now, with what it was before the pass. Kernels are shared: passes
        replace one, they change none."""
        kernels = tuple(kernel_functions(self.module).values())
        others = [copy_operation(op) for op in self.module.ops if op not in kernels]
        program = ModuleOp(others, self.module.attributes)
        return Snapshot(
            program,
            self.weights,
            self.level,
            execute_compiled=self.execute_compiled,
            shared_kernels=kernels,
            kernel_texts=self.kernel_texts,
            earlier=earlier,
        )

    @staticmethod
    def at(snapshot: Snapshot, names: Names) -> Working:
        """A fresh start from a snapshot: forks and edited text continue from here."""
        return Working(
            module=snapshot.module.clone(),
            weights=snapshot.weights.copy(),
            names=names.copy(),
            level=snapshot.level,
            execute_compiled=snapshot.execute_compiled,
            start=snapshot,
        )


@dataclass(eq=False, kw_only=True, repr=False)
class PassResult(Displayed):
    """What one pass did, as objects that can be looked at, executed and compared."""

    name: str
    description: str
    before: Snapshot
    after: Snapshot
    rewrites: tuple[Rewrite, ...]
    seconds: float
    """Time of the pass itself, events included; snapshot and verification are not."""
    recording_seconds: float
    """Time of the snapshot."""
    names: Names
    """Identities taken after the pass: what a fork continues with."""
    artifacts: Mapping[str, object] = field(default_factory=dict)
    """What the pass made besides the IR: `memory` (MemoryPlan), `kernels` (ScheduledKernel)."""
    met: frozenset[str] = frozenset()
    """Overrides that the pass asked for."""

    @property
    def changed(self) -> bool:
        return self.after is not self.before

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "the result of a pass shares its program with other passes, and cannot be pickled",
            hint="pickle its record and diff, or c.trace(), or use c.save(path)",
        )

    @property
    def events(self) -> tuple[RewriteEvent, ...]:
        """All events as records, applied and declined (`results.RewriteEvent`)."""
        return tuple(r.to_record() for r in self.rewrites)

    @cached_property
    def diff(self) -> GraphDiff:
        """Operations added, removed, changed and fused."""
        if not self.changed:
            return GraphDiff()
        return program_difference(self.before, self.after, self.rewrites)

    @cached_property
    def record(self) -> PassRecord:
        return deferring(
            PassRecord,
            name=self.name,
            description=self.description,
            level=self.after.level,
            seconds=self.seconds,
            changed=self.changed,
            operations_before=self.before.operation_count,
            operations_after=self.after.operation_count,
            macs=Later(lambda: self.after.macs),
            peak_bytes=Later(self._peak_bytes),
            events=self.events,
        )

    def _peak_bytes(self) -> int:
        """What the pass planned; else what lives at once in program order."""
        plan = self.artifacts.get("memory")
        return plan.peak_bytes if isinstance(plan, MemoryPlan) else self.after.peak_bytes


def run_pass(pass_: Pass, working: Working, options: RewriteOptions) -> PassResult:
    """Runs one pass on the working module, verifies the result and takes a snapshot if it changed.

    PassError names the pass when the IR does not verify afterwards.
    """
    before = working.snapshot
    rewriter = RecordedRewriter(working.module, working.weights, working.names)
    begin = time.perf_counter()
    try:
        rewrites = pass_.run(rewriter, options)
    except MemoryError as error:
        raise PassError(
            "it asks for more memory than there is",
            pass_name=pass_.name,
            hint="give smaller sizes with --dim (dimensions=), or use a machine with more memory",
        ) from error
    seconds = time.perf_counter() - begin
    recording = 0.0
    if rewriter.has_changed or pass_.level != before.level:
        verify_after(pass_.name, working)
        begin = time.perf_counter()
        working.level = pass_.level
        working.snapshot = working.take_snapshot(before)
        recording = time.perf_counter() - begin
    return PassResult(
        name=pass_.name,
        description=pass_.description,
        before=before,
        after=working.snapshot,
        rewrites=tuple(rewrites),
        seconds=seconds,
        recording_seconds=recording,
        names=working.names.copy(),
        artifacts=dict(rewriter.artifacts),
        met=frozenset(options.met),
    )


def verify_after(pass_name: str, working: Working) -> None:
    """Every stage has a verifier, and it runs after every pass."""
    try:
        working.verifier.verify(working.module)
    except (VerifyException, ValueError) as error:
        raise PassError(
            f"the IR is not valid after pass {pass_name}: {str(error).splitlines()[0]}",
            hint=f"disable the pass (disable=[{pass_name!r}]) or look at its last rewrite",
        ) from error
