"""The pass that plans memory: every launch learns where its result lies in the arena.

   %conv1 = kernel.launch(...) {...}
=> %conv1 = kernel.launch(...) {..., offset = 4096}
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr, TensorType, i1
from xdsl.ir import BlockArgument, SSAValue

from explorer.errors import InputError
from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.functions.calls import only_device_function
from explorer.ir.functions.states import StatePlace, call_arguments, device_states
from explorer.ir.layout import Runs, physical_shape, rounded_channels, runs_of
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.parts import BufferPart
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import kernel_functions, own_functions, value_name
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import element_type_of, layout_of, numpy_dtype, static_shape
from explorer.memory.budget import refuse
from explorer.memory.exact import ExactPlanner
from explorer.memory.liveness import lifetimes, places_in
from explorer.memory.pinned import PinnedPlanner
from explorer.memory.places import Containment, Place
from explorer.memory.planners import Planner
from explorer.memory.several import SeveralMemories, Space, plans_by_memory
from explorer.memory.sharing import share_arena
from explorer.memory.uses import Use
from explorer.memory.verify import verify_plan
from explorer.results import MemoryPlan
from explorer.results.memory import PlacedBuffer

MEMORY = "memory"
"""Name of the artifact that holds the plan, of all functions in one arena."""
PLANS = "memory plans"
"""Name of the artifact that holds the plan of every device function by the function's name."""
MEMORIES = "plans of memories"
"""Name of the artifact that holds the plan of every memory by the memory's name."""
IN_PLACE = "in_place"
"""Attribute of a device function: pairs of a written value and the argument that it replaces."""
MOVED = "moved"
"""Attribute of a device function: values that were copied out of the fastest memory."""
DEFAULT_ALIGNMENT_BYTES = 64
"""A cache line, and a vector of 512 bits."""


@dataclass(frozen=True)
class PlanMemory(Pass):
    """All activations get addresses in one arena; buffers that never live together share bytes."""

    planner: Planner = field(default_factory=ExactPlanner)
    budget_bytes: int | None = None
    alignment_bytes: int = DEFAULT_ALIGNMENT_BYTES
    """At least; wider elements lie at multiples of their own size."""
    spaces: tuple[Space, ...] = ()
    """The target's memories for activations, where there are several."""

    name = "plan-memory"
    level = "memory"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        kernels = kernel_functions(rewriter.module)
        plans: dict[str, MemoryPlan] = {}
        memories: dict[str, dict[str, MemoryPlan]] = {space.name: {} for space in self.spaces}
        states = device_states(rewriter.module)
        for function in own_functions(rewriter.module):
            planner: Planner | SeveralMemories = self.planner
            if self.spaces:
                planner = SeveralMemories(planner, self.spaces)
            plan = plan_function(function, kernels, planner, self.alignment_bytes)
            for name, own in plans_by_memory(plan, self.spaces).items():
                memories[name][function.sym_name.data] = own
            plan = with_states(plan, function, states.get(function.sym_name.data, ()))
            verify_plan(plan)
            plans[function.sym_name.data] = plan
            offsets = value_offsets(plan)
            for op in function.body.block.ops:
                if isinstance(op, LaunchOp):
                    first, *others = (offsets[value_name(r)] for r in op.results)
                    places = ", ".join(map(str, (first, *others)))
                    with events.rewrite("place", op, f"lies at byte {places} of the arena"):
                        rewriter.update(op, offset=first, other_offsets=others or None)
        whole = share_arena(plans)
        if self.budget_bytes is not None:
            refuse(whole, self.budget_bytes)
        rewriter.artifacts[MEMORY], rewriter.artifacts[PLANS] = whole, plans
        rewriter.artifacts[MEMORIES] = {
            name: share_arena(own) for name, own in memories.items() if own
        } or {"arena": whole}
        return events.rewrites


def with_states(
    plan: MemoryPlan, function: func.FuncOp, states: Sequence[StatePlace]
) -> MemoryPlan:
    """The plan, in which buffers that states keep from call to call have their names."""
    block = function.body.block
    assert block.last_op is not None
    names = {
        value_name(block.args[state.argument]): (
            state.name,
            value_name(block.last_op.operands[state.result]),
        )
        for state in states
    }

    def named(placed: PlacedBuffer) -> PlacedBuffer:
        values = placed.buffer.values
        for argument, (name, result) in names.items():
            if argument in values and result in values:
                return replace(placed, buffer=replace(placed.buffer, state=name))
        return placed

    return replace(plan, placements=tuple(map(named, plan.placements))) if names else plan


def plans_of(artifacts: Mapping[str, object], program: ModuleOp) -> dict[str, MemoryPlan]:
    """The plan of every device function by its name, out of what planning memory left.

    A pass of one's own may leave the plan of the only function and nothing else.
    """
    plans, whole = artifacts.get(PLANS), artifacts.get(MEMORY)
    if isinstance(plans, dict):
        return plans
    assert isinstance(whole, MemoryPlan)
    return {only_device_function(program).sym_name.data: whole}


@dataclass(frozen=True, kw_only=True)
class Launches:
    """What the launches of a device function do to memory; values are named as in the IR."""

    uses: Sequence[Use]
    sizes_bytes: Mapping[str, int]
    inputs: Sequence[str]
    outputs: Sequence[str]
    views: Mapping[str, str]
    parts: Sequence[Containment]
    alignment_bytes: int
    """Of the widest element."""

    @property
    def places(self) -> dict[str, Place]:
        return places_in(self.uses, self.sizes_bytes, self.views, self.parts)


def launches_of(
    function: func.FuncOp, kernels: Mapping[str, func.FuncOp], is_packed: bool = True
) -> Launches:
    """What the launches of a device function read, write and need for themselves.

    is_packed: whether channels lie in blocks, as they do once kernels are scheduled.
    """
    block = function.body.block
    uses: list[Use] = []
    sizes: dict[str, int] = {}
    views: dict[str, str] = {}
    parts: list[Containment] = []
    outputs: list[str] = []
    anew = made_anew(function)
    scratch: dict[str, tuple[int, ...]] = {}
    for argument in block.args:
        sizes[value_name(argument)] = buffer_bytes(argument)
    for op in block.ops:
        if isinstance(op, LaunchOp):
            sizes.update({value_name(r): buffer_bytes(r, is_packed) for r in op.results})
            kernel = op.kernel.data
            if kernel not in scratch:
                scratch[kernel] = tuple(scratch_sizes(kernels[kernel]))
            uses.append(
                Use(
                    identity_of(op),
                    tuple(value_name(o) for o in activations(op.operands)),
                    tuple(value_name(r) for r in op.results),
                    aliases_of(op, anew),
                    scratch_bytes=scratch[kernel],
                )
            )
        elif isinstance(op, ReturnOp):
            kept = [a for a in call_arguments(function) if _is_kept(a, kernels)]
            outputs = [value_name(o) for o in (*op.operands, *kept)]
        elif isinstance(op, TopOperation) and (found := op.parts()):
            sizes[value_name(op.results[0])] = buffer_bytes(op.results[0], is_packed)
            for part in found:
                value, whole = value_name(part.value), value_name(part.whole)
                parts.append(Containment(value, whole, *place_in_whole(part, is_packed)))
                if part.is_view:
                    views[value] = whole
    return Launches(
        uses=uses,
        sizes_bytes=sizes,
        inputs=[value_name(a) for a in block.args],
        outputs=outputs,
        views=views,
        parts=parts,
        alignment_bytes=widest_element(function),
    )


def _is_kept(argument: BlockArgument, kernels: Mapping[str, func.FuncOp]) -> bool:
    """Whether the next call needs a number or a mask of this one: loops end with numbers, which
    their attributes name; of most masks nothing is read, as the numbers say it all."""
    return element_type_of(argument) != i1 or _is_read(argument, kernels)


def _is_read(value: SSAValue, kernels: Mapping[str, func.FuncOp]) -> bool:
    """Whether a kernel loads elements of a value, or of a view of it."""
    for use in value.uses:
        user = use.operation
        if not isinstance(user, LaunchOp):
            if any(_is_read(result, kernels) for result in user.results):
                return True
            continue
        kernel = kernels[user.kernel.data]
        arguments = zip(kernel.body.block.args, kernel_arguments(kernel), strict=True)
        own = [argument for argument, role in arguments if role.role not in ("output", "scratch")]
        if any(True for _ in own[use.index].uses):
            return True
    return False


def plan_function(
    function: func.FuncOp,
    kernels: dict[str, func.FuncOp],
    planner: Planner | SeveralMemories,
    alignment_bytes: int,
    is_packed: bool = True,
) -> MemoryPlan:
    """Plans the values of one device function; `is_packed` as in `launches_of`."""
    found = launches_of(function, kernels, is_packed)
    buffers = lifetimes(
        found.uses,
        found.sizes_bytes,
        inputs=found.inputs,
        outputs=found.outputs,
        views=found.views,
        parts=found.parts,
        alignment_bytes=max(alignment_bytes, found.alignment_bytes),
    )
    steps = [use.operation for use in found.uses]
    if isinstance(planner, SeveralMemories):
        plan = planner.divide(buffers, steps, found.uses, moved_values(function))
    else:
        plan = planner(buffers, steps)
    if not isinstance(plan, MemoryPlan):
        name = getattr(planner, "__name__", type(planner).__name__)
        raise InputError(
            f"the planner {name} returned {reprlib.repr(plan)}: expected a MemoryPlan",
            hint="`explorer.memory.planners.Planner` says what a planner takes and returns",
        )
    return plan


def plan_as_written(
    function: func.FuncOp,
    kernels: dict[str, func.FuncOp],
    plan: MemoryPlan,
    alignment_bytes: int = DEFAULT_ALIGNMENT_BYTES,
) -> MemoryPlan:
    """The plan for a function whose launches carry addresses, as edited text has them.

    That is `plan` where it says the same; else what has no address in the text (inputs, scratch
    buffers) is placed anew around the launches. InputError where addresses cannot be kept.
    """
    launches = [op for op in function.body.block.ops if isinstance(op, LaunchOp)]
    written = {
        value_name(r): o for op in launches for r, o in zip(op.results, op.offsets, strict=True)
    }
    planned = value_offsets(plan)
    same_steps = tuple(identity_of(op) for op in launches) == plan.steps
    if same_steps and all(planned.get(n) == o for n, o in written.items()):
        return plan
    pins = tuple((name, offset) for name, offset in written.items() if offset is not None)
    if plan.placements:
        alignment_bytes = plan.placements[0].buffer.alignment_bytes
    again = plan_function(function, kernels, PinnedPlanner(pins), alignment_bytes)
    verify_plan(again)
    return again


def aliases_of(op: LaunchOp, anew: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(result, value) where the result is written over another value."""
    over = op.overwritten
    pairs = [] if over is None else [(value_name(op.output), value_name(over))]
    pairs += [(name, anew[name]) for r in op.results if (name := value_name(r)) in anew]
    return tuple(pairs)


def made_anew(function: func.FuncOp) -> dict[str, str]:
    """Values that are written where an argument lay that nobody reads any more, and those."""
    attribute = function.attributes.get(IN_PLACE)
    if not isinstance(attribute, ArrayAttr):
        return {}
    pairs = [pair.data for pair in attribute.data if isinstance(pair, ArrayAttr)]
    return {
        value.data: place.data
        for value, place in pairs
        if isinstance(value, StringAttr) and isinstance(place, StringAttr)
    }


def moved_values(function: func.FuncOp) -> tuple[str, ...]:
    """Values that belong into another memory than the fastest one."""
    attribute = function.attributes.get(MOVED)
    if not isinstance(attribute, ArrayAttr):
        return ()
    return tuple(name.data for name in attribute.data if isinstance(name, StringAttr))


def activations(operands: Sequence[SSAValue]) -> list[SSAValue]:
    """The operands that live in the arena: arguments, results of launches, and those of what no
    kernel runs (views, concats in place)."""
    return [
        o
        for o in operands
        if isinstance(o, BlockArgument)
        or isinstance(o.owner, LaunchOp)
        or (isinstance(o.owner, TopOperation) and o.owner.parts())
    ]


def widest_element(function: func.FuncOp) -> int:
    """Bytes of the widest element of any value; every size is a power of two."""
    values = [*function.body.block.args, *(r for op in function.body.block.ops for r in op.results)]
    types = {element_type_of(value) for value in values if isinstance(value.type, TensorType)}
    return max((numpy_dtype(kind).itemsize for kind in types), default=1)


def buffer_bytes(value: SSAValue, is_packed: bool = True) -> int:
    """Bytes of a value's buffer: rounded channels and halo included. Of a band of rows in another
    value's buffer: from its first byte there to its last one."""
    if layout_of(value).pitch:
        return _runs(value, is_packed).span_bytes
    itemsize = numpy_dtype(element_type_of(value)).itemsize
    return prod(physical_shape(static_shape(value), layout_of(value))) * itemsize


def place_in_whole(part: BufferPart, is_packed: bool) -> tuple[int, int, int]:
    """Byte where a part begins, bytes of each of its runs, and from one to the next (0: one)."""
    layout = layout_of(part.value)
    if not layout.pitch:
        return part.offset_bytes, 0, 0
    runs = _runs(part.value, is_packed)
    # Rows of a block of channels are so many rows of single channels.
    rows = 1 if is_packed else layout.block or 1
    return part.offset_bytes // rows, runs.run_bytes, runs.pitch_bytes


def _runs(value: SSAValue, is_packed: bool) -> Runs:
    shape, layout = static_shape(value), layout_of(value)
    if not is_packed and layout.block:
        shape = (shape[0], rounded_channels(shape[1], layout), *shape[2:])
        layout = replace(layout, block=1)
    found = runs_of(shape, layout, numpy_dtype(element_type_of(value)).itemsize)
    assert found is not None
    return found


def scratch_sizes(kernel: func.FuncOp) -> list[int]:
    """Bytes of the scratch arguments of a kernel, in order."""
    sizes = []
    for argument in kernel_arguments(kernel):
        if argument.role == "scratch":
            assert isinstance(argument.type, MemRefType)
            element = numpy_dtype(argument.type.element_type)
            sizes.append(prod(argument.type.get_shape()) * element.itemsize)
    return sizes


def value_offsets(plan: MemoryPlan) -> dict[str, int]:
    """Offset of every value (not only of every buffer) and of every scratch buffer, by name."""
    offsets: dict[str, int] = {}
    for placed in plan.placements:
        offsets[placed.buffer.id] = placed.offset_bytes
        if "/scratch_" not in placed.buffer.id:
            inside = {part.value: part.offset_bytes for part in placed.buffer.parts}
            for value in placed.buffer.values:
                offsets[value] = placed.offset_bytes + inside.get(value, 0)
    return offsets
