"""Global memory of a function: where its tensors lie, and which of them share bytes.

    plan = plan_tensors(function, machine, GreedyPlanner())
    value_offsets(plan)["conv1"]

Tensors lie in the target's first memory; a step is a layer. Constants lie in the last one and are
no part of the plan: nothing shares their bytes. A sum of two tensors lies where one of them did, if
that is read for the last time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.dialects.npu import LayerOp, NpuOperation
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import value_name
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import static_shape
from explorer.memory.liveness import lifetimes
from explorer.memory.planners import Planner
from explorer.memory.uses import Use
from explorer.memory.verify import verify_plan
from explorer.npu.layers.elementwise import Elementwise
from explorer.npu.layers.tensors import alignment_bytes
from explorer.npu.layers.value_layout import stored_form
from explorer.results import MemoryPlan
from explorer.results.memory import BufferLifetime
from explorer.targets.npu.machine import Machine


def tensor_bytes(value: SSAValue, machine: Machine) -> int:
    """In global memory, in whole blocks of channels."""
    return stored_form(value).tensor.size_bytes(machine)


def plan_tensors(
    function: func.FuncOp, machine: Machine, planner: Planner, base_bytes: int = 0
) -> MemoryPlan:
    """The plan of a function of level `tiled`; values are named as in the IR. Those that stay on
    the chip are no part of it.

    Offsets count from `base_bytes`. UnsupportedError where there is too little memory behind it.
    """
    inside = kept_offsets(function)
    tensors = tensors_of(function, machine, apart=inside)
    buffers = [one for one in tensors.buffers if not any(name in inside for name in one.values)]
    plan = planner(buffers, tensors.steps)
    verify_plan(plan)
    first = machine.regions[0]
    end = base_bytes + plan.peak_bytes
    if first.size_bytes is not None and end > first.size_bytes:
        name = function.sym_name.data
        raise UnsupportedError(
            f"{name} does not fit {machine.name}: its tensors end at byte {end} of "
            f"{first.name}, {end - first.size_bytes} more than there are",
            hint="a smaller input, or a target with more memory",
        )
    return plan


def kept_offsets(function: func.FuncOp) -> dict[str, int]:
    """Where values that stay on the chip lie in the scratchpad of activations, in bytes."""
    return offsets_in(function, "on_chip", {})


def offsets_in(function: func.FuncOp, place: str, given: Mapping[str, int]) -> dict[str, int]:
    """By value: the offset that its layer has under the property `place`, and that of a view where
    its operand has one. `given`: of arguments."""
    found = dict(given)
    for op in function.body.block.ops:
        if isinstance(op, NpuOperation) and getattr(op, place, None) is not None:
            found[value_name(op.output)] = op.get(place)
        elif isinstance(op, TopOperation) and op.is_view:
            shown = value_name(op.operands[0])
            if shown in found:
                found[value_name(op.results[0])] = found[shown]
    return found


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """What holds the values of a function: from which layer to which."""

    buffers: tuple[BufferLifetime, ...]
    steps: tuple[str, ...]
    """Layers by name, in order."""
    ends: frozenset[str]
    """Arguments and results."""


def tensors_of(
    function: func.FuncOp, machine: Machine, apart: Collection[str] | None = None
) -> Tensors:
    """Of a function of level `tiled`.

    `apart`: values that lie elsewhere. Given, results of elementwise arithmetic lie in place of
    an operand of the same size that nothing reads afterwards.
    """
    uses: list[Use] = []
    replaceable: dict[str, tuple[str, ...]] = {}
    views: dict[str, str] = {}
    block = function.body.block
    sizes = {value_name(value): tensor_bytes(value, machine) for value in block.args}
    outputs: list[str] = []
    for op in block.ops:
        if isinstance(op, NpuOperation):
            name = value_name(op.output)
            sizes[name] = tensor_bytes(op.output, machine)
            reads = tuple(value_name(value) for value in op.data)
            into = op.shared_input
            aliases = () if into is None else ((name, value_name(into)),)
            uses.append(Use(identity_of(op), reads, (name,), aliases))
            if apart is not None and name not in apart:
                replaceable[name] = tuple(map(value_name, replaceable_inputs(op)))
        elif isinstance(op, ReturnOp):
            outputs = [value_name(value) for value in op.operands]
        elif isinstance(op, TopOperation) and op.is_view:
            name = value_name(op.results[0])
            sizes[name] = tensor_bytes(op.results[0], machine)
            views[name] = value_name(op.operands[0])
    arguments = [value_name(value) for value in block.args]
    uses = in_place(uses, replaceable, sizes, views, {*arguments, *outputs, *(apart or ())})
    buffers = lifetimes(
        uses,
        sizes,
        inputs=arguments,
        outputs=outputs,
        views=views,
        alignment_bytes=alignment_bytes(machine),
    )
    return Tensors(
        buffers=tuple(buffers),
        steps=tuple(use.operation for use in uses),
        ends=frozenset((*arguments, *outputs)),
    )


def replaceable_inputs(op: NpuOperation) -> Sequence[SSAValue]:
    """Operands that an operation reads only where it writes its result, and before.

    A tile loads what lies at its own positions, computes and stores there; no two tiles have a
    position in common.
    """
    if op.is_part or not isinstance(op, LayerOp):
        return ()
    if Elementwise.__name__ == op.KIND:
        found = op.data
    elif getattr(op, "combined", None) is not None and getattr(op, "placement", None) is None:
        found = op.data[-1:]
    else:
        return ()
    shape = static_shape(op.output)
    return [value for value in found if static_shape(value) == shape]


def in_place(
    uses: Sequence[Use],
    replaceable: Mapping[str, Sequence[str]],
    sizes: Mapping[str, int],
    views: Mapping[str, str],
    ends: Collection[str],
) -> list[Use]:
    """The same layers, of which a result lies in place of a value that is read for the last time.

    `replaceable`: by result, the values that it may overwrite. `ends`: values that nothing may.
    """
    stored: dict[str, str] = {}
    """What lies where another value does, and that value."""

    def storage(value: str) -> str:
        while value in views or value in stored:
            value = views[value] if value in views else stored[value]
        return value

    read_last: defaultdict[str, int] = defaultdict(int)
    """Step, by value without views."""
    for step, use in enumerate(uses):
        for value in use.reads:
            read_last[storage(value)] = step
    kept = {storage(value) for value in ends}
    members: defaultdict[str, list[str]] = defaultdict(list)
    found: list[Use] = []
    for step, use in enumerate(uses):
        (name,), places = use.writes, [storage(value) for value in use.reads]
        over = dict(use.aliases).get(name)
        for value, place in zip(use.reads, places, strict=True):
            mine = {place, *members[place]}
            if (
                over is None
                and value in replaceable.get(name, ())
                and places.count(place) == 1
                and not kept & mine
                and sizes[place] == sizes[value] == sizes[name]
                and max(read_last[one] for one in mine) == step
            ):
                over = value
        if over is not None:
            members[storage(over)].append(name)
            stored[name] = over
        aliases = () if over is None else ((name, over),)
        found.append(replace(use, aliases=aliases))
    return found


def constants_start(plan: MemoryPlan, machine: Machine, base_bytes: int = 0) -> int:
    """Where constants begin: behind the tensors, or in a memory of their own."""
    each = alignment_bytes(machine)
    behind = -(-(base_bytes + plan.peak_bytes) // each) * each
    return max(behind, machine.regions[-1].start_bytes)
