"""The pass that writes results over operands that nobody reads any more.

    %b = kernel.launch(%a) {kernel = "relu_1"}   =>   {kernel = "relu_1", over = 0}

%b lies in the buffer of %a then, and the kernel reads it there (`loops/overwriting.py`). A state is
written where it lies, so that a call copies nothing of it: by the kernels that change it, or by
what makes it anew once its old contents were read for the last time:

    func @main_cpu(%h) {... in_place = [["matmul_3", "h"]]}

No number changes: a kernel that would read what it has overwritten keeps a buffer of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import BlockArgument, SSAValue

from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.functions.states import StatePlace, call_arguments, device_states
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.sizes.ranges import open_size
from explorer.ir.structure import kernel_functions, own_functions, value_name
from explorer.ir.top.data import ReturnOp
from explorer.kernels.loops.beginning import begin_at_changes
from explorer.kernels.loops.overwriting import NotInPlace, written_over
from explorer.memory.planning import IN_PLACE, activations, buffer_bytes
from explorer.results import Knob

DIES = "nobody reads the operand afterwards, and the kernel reads each element before it writes it"
KEPT = "the state is written where it lies: a call copies nothing of it"
STATE_COPIES = "state copies"
"""Name of the artifact that says by the state's name why a call copies it; "" where it does not."""
FORMS = "kernel forms"
"""Name of the artifact that has the kernels that write in place, by name."""


@dataclass(frozen=True)
class KernelForm:
    """A kernel that writes over an operand; `scheduled`: the name of the kernel that it is made of,
    which is the same where no launch runs that one any more."""

    scheduled: str
    function: func.FuncOp


@dataclass(frozen=True)
class WriteInPlace(Pass):
    """Results take the place of operands that die, and states are written where they lie.

    The decision write-in-place/over/VALUE, true or false, is whether a value takes such a place.
    """

    name = "write-in-place"
    level = "scheduled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        states = device_states(rewriter.module)
        variants = _Variants(kernel_functions(rewriter.module))
        knobs: list[Knob] = []
        copies: dict[str, str] = {}
        for function in own_functions(rewriter.module):
            own = states.get(function.sym_name.data, ())
            writing = _Writing(
                function=function,
                states=own,
                variants=variants,
                rewriter=rewriter,
                events=events,
                options=options,
                knobs=knobs,
            )
            writing.run()
            copies |= writing.copies()
        rewriter.artifacts[FORMS] = variants.settle(rewriter)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        rewriter.artifacts[STATE_COPIES] = copies
        return events.rewrites


@dataclass
class _Group:
    """Values in one buffer."""

    size_bytes: int
    values: list[str] = field(default_factory=list)
    first_write: int = -1
    """Step of the first write; -1: the caller's."""
    last_read: int = -1
    writers: int = 0
    is_returned: bool = False


class _Groups:
    """The buffers of a function: values that share bytes, and when they are read."""

    def __init__(self, function: func.FuncOp) -> None:
        self._parents: dict[str, str] = {}
        self._groups: dict[str, _Group] = {}
        self.sizes: dict[str, int] = {}
        self.launches: list[LaunchOp] = []
        block = function.body.block
        for argument in block.args:
            self._add(argument, -1)
        for op in block.ops:
            if isinstance(op, LaunchOp):
                step = len(self.launches)
                self.launches.append(op)
                for result in op.results:
                    self._add(result, step)
            elif isinstance(op, TopOperation) and (parts := op.parts()):
                for value in op.results:
                    self._add(value, None)
                for part in parts:
                    self.join(value_name(part.value), value_name(part.whole))
        for step, op in enumerate(self.launches):
            for operand in activations(op.operands):
                group = self.of(operand)
                group.last_read = max(group.last_read, step)
        last = block.last_op
        assert isinstance(last, ReturnOp)
        for operand in (*activations(last.operands), *call_arguments(function)):
            self.of(operand).is_returned = True

    def of(self, value: SSAValue) -> _Group:
        return self._groups[self._root(value_name(value))]

    def join(self, name: str, other: str) -> None:
        first, second = self._root(name), self._root(other)
        if first == second:
            return
        a, b = self._groups.pop(first), self._groups[second]
        self._parents[first] = second
        b.size_bytes = max(a.size_bytes, b.size_bytes)
        b.values += a.values
        writes = [g.first_write for g in (a, b) if g.writers]
        b.first_write = min(writes, default=-1)
        b.last_read = max(a.last_read, b.last_read)
        b.writers += a.writers
        b.is_returned = a.is_returned or b.is_returned

    def fills(self, value: SSAValue) -> bool:
        """Whether a value takes all bytes of its buffer."""
        return self.sizes[value_name(value)] == self.of(value).size_bytes

    def _add(self, value: SSAValue, step: int | None) -> None:
        name, size = value_name(value), buffer_bytes(value)
        self.sizes[name] = size
        writers = step is not None
        self._groups[name] = _Group(size, [name], -1 if step is None else step, -1, int(writers))

    def _root(self, name: str) -> str:
        while name in self._parents:
            name = self._parents[name]
        return name


@dataclass
class _Writing:
    """One function of a device."""

    function: func.FuncOp
    states: Sequence[StatePlace]
    variants: _Variants
    rewriter: RecordedRewriter
    events: EventLog
    options: RewriteOptions
    knobs: list[Knob]
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a value does not take the place of a state that its launch reads."""
    anew: list[tuple[str, str]] = field(default_factory=list)
    """(written value, state) where a state is made anew in its place."""

    def run(self) -> None:
        self.groups = _Groups(self.function)
        if open_size(self.function) is not None:
            return
        for state in self.states:
            self._make_anew(state)
        ways = {id(self._argument(s)): self._way_to(s) for s in self.states}
        for step, op in enumerate(self.groups.launches):
            self._decide(step, op, ways)
        if self.anew:
            pairs = [ArrayAttr([StringAttr(name) for name in pair]) for pair in self.anew]
            self.rewriter.set_attribute(self.function, IN_PLACE, ArrayAttr(pairs))

    def copies(self) -> dict[str, str]:
        """By the state: why a call copies it; empty where it is written where it lies."""
        found = {}
        for state in self.states:
            argument, result = self._argument(state), self._result(state)
            if self.groups.of(argument) is self.groups.of(result):
                found[state.name] = ""
                continue
            reason = self.reasons.get(state.name, "") or self._reason(state)
            found[state.name] = reason
        return found

    # -- states --------------------------------------------------------------------------------
    def _argument(self, state: StatePlace) -> BlockArgument:
        return self.function.body.block.args[state.argument]

    def _result(self, state: StatePlace) -> SSAValue:
        last = self.function.body.block.last_op
        assert last is not None
        return last.operands[state.result]

    def _make_anew(self, state: StatePlace) -> None:
        """A state that is written after it was read for the last time lies in its place."""
        argument, result = self._argument(state), self._result(state)
        old, new = self.groups.of(argument), self.groups.of(result)
        if old is new or self._reason(state):
            return
        writer = self.groups.launches[new.first_write]
        name = value_name(writer.output)
        with self.events.rewrite("state", writer, KEPT):
            self.rewriter.set_attribute(writer, "state", StringAttr(state.name))
        self.anew.append((name, value_name(argument)))
        self.groups.join(value_name(result), value_name(argument))

    def _reason(self, state: StatePlace) -> str:
        """Why a state cannot be made anew in its place."""
        argument, result = self._argument(state), self._result(state)
        old, new = self.groups.of(argument), self.groups.of(result)
        if open_size(self.function) is not None:
            return "a dimension's size is open"
        if old.is_returned or old.writers > 1:
            return "its buffer holds other values as well"
        if new.writers > 1 or not (self.groups.fills(argument) and self.groups.fills(result)):
            return "what a call leaves of it is made in several pieces, or is one"
        if old.size_bytes != new.size_bytes:
            return "what a call leaves of it has another size in memory"
        if old.last_read >= new.first_write:
            reader = identity_of(self.groups.launches[old.last_read])
            return f"{reader} reads it when {value_name(result)} is written already"
        return ""

    def _way_to(self, state: StatePlace) -> set[str]:
        """Values of the state's size from which what a call leaves of it is made: its changes."""
        wanted = self.groups.sizes[value_name(self._argument(state))]
        pending, found = [self._result(state)], set()
        while pending:
            value = pending.pop()
            name = value_name(value)
            if name in found or isinstance(value, BlockArgument):
                continue
            if self.groups.sizes.get(name) != wanted:
                continue
            found.add(name)
            assert isinstance(value.owner, TopOperation)
            pending += activations(value.owner.operands)
        return found

    # -- operands that die ---------------------------------------------------------------------
    def _decide(self, step: int, op: LaunchOp, ways: Mapping[int, set[str]]) -> None:
        if len(op.results) != 1:
            return
        result = op.output
        own = self.groups.of(result)
        if own.writers != 1 or not self.groups.fills(result) or not own.size_bytes:
            return
        for index, state in self._candidates(step, op, ways):
            address = self.events.address("over", op)
            try:
                self.variants.over(op, index)
            except NotInPlace as error:
                why = KEPT if state else DIES
                self.events.decline("over", op, f"{value_name(op.operands[index])}: {error}", why)
                if state:
                    self.reasons[state] = str(error)
                continue
            wanted = self.options.decision(address) is not False
            self.knobs.append(Knob(address, wanted, (True, False), KEPT if state else DIES))
            if not wanted or self.options.fuel.is_empty:
                if not wanted:
                    self.events.decline("over", op, OVERRIDDEN, DIES)
                return
            with self.events.rewrite("over", op, KEPT if state else DIES):
                self.rewriter.update(op, over=index)
                self.variants.take(op, index)
            self.options.fuel.burn()
            self.groups.join(value_name(result), value_name(op.operands[index]))
            return

    def _candidates(
        self, step: int, op: LaunchOp, ways: Mapping[int, set[str]]
    ) -> list[tuple[int, str]]:
        """Operands that die in a launch and have the result's size, states first; with the name of
        the state, where one is a state."""
        own = self.groups.of(op.output)
        found = []
        live = {id(value): value for value in activations(op.operands)}
        groups = [self.groups.of(value) for value in live.values()]
        for index, operand in enumerate(op.operands):
            if id(operand) not in live:
                continue
            group = self.groups.of(operand)
            dies = group.last_read == step and not group.is_returned
            if not dies or group is own or not self.groups.fills(operand):
                continue
            if group.size_bytes != own.size_bytes:
                continue
            is_twice = sum(o is operand for o in op.operands) > 1
            if is_twice or sum(other is group for other in groups) > 1:
                continue
            state = self._state_in(group)
            if state is not None:
                way = ways[id(self._argument(state))]
                if value_name(op.output) not in way:
                    continue
            found.append((index, "" if state is None else state.name))
        return sorted(found, key=lambda pair: not pair[1])

    def _state_in(self, group: _Group) -> StatePlace | None:
        for state in self.states:
            if self.groups.of(self._argument(state)) is group:
                return state
        return None


class _Variants:
    """Kernels that write over an operand, made once for each kernel and operand."""

    def __init__(self, kernels: Mapping[str, func.FuncOp]) -> None:
        self.kernels = dict(kernels)
        self._made: dict[tuple[str, str], func.FuncOp | NotInPlace] = {}
        self._taken: dict[tuple[str, str], list[LaunchOp]] = {}

    def over(self, op: LaunchOp, index: int) -> func.FuncOp:
        """The launch's kernel over an operand. Raises NotInPlace."""
        name = op.kernel.data
        key = (name, self._argument(name, index))
        if key not in self._made:
            try:
                self._made[key] = made = written_over(self.kernels[name], key[1])
                names = [argument.name for argument in kernel_arguments(made)]
                begin_at_changes(made, names.index(key[1]))
            except NotInPlace as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, NotInPlace):
            raise found
        return found

    def take(self, op: LaunchOp, index: int) -> None:
        """A launch runs its kernel over an operand from now on."""
        key = op.kernel.data, self._argument(op.kernel.data, index)
        self._taken.setdefault(key, []).append(op)

    def settle(self, rewriter: RecordedRewriter) -> dict[str, KernelForm]:
        """Puts the kernels into the module: in the place of one that no launch runs any more, or
        under names of their own."""
        users = Counter(
            op.kernel.data
            for function in own_functions(rewriter.module)
            for op in function.body.block.ops
            if isinstance(op, LaunchOp)
        )
        forms: dict[str, KernelForm] = {}
        for (name, argument), launches in self._taken.items():
            kernel = self._made[name, argument]
            assert isinstance(kernel, func.FuncOp)
            if len(launches) == users[name]:
                rewriter.replace_function(self.kernels[name], kernel)
                forms[name] = KernelForm(name, kernel)
                continue
            own = self._fresh(f"{name}_over_{argument}")
            kernel.sym_name = StringAttr(own)
            rewriter.module.body.block.add_op(kernel)
            for op in launches:
                rewriter.update(op, kernel=own)
            forms[own] = KernelForm(name, kernel)
        return forms

    def _fresh(self, name: str) -> str:
        while name in self.kernels:
            name += "_"
        return name

    def _argument(self, kernel: str, index: int) -> str:
        """The kernel's name of a launch's operand."""
        read = [
            argument.name
            for argument in kernel_arguments(self.kernels[kernel])
            if argument.role not in ("output", "scratch")
        ]
        return read[index]
