"""The printer that C and OpenCL C share: a kernel's phases, one function each.

    func @conv_1(%x, %w, %y)                 // conv_1, phase 1 of 1: 224 tasks (ot, i)
      affine.for %ot = 0 to 4 {parallel}     void conv_1_phase0(x, w, y, lo, hi)
        affine.for %i = 0 to 56 {parallel}     const long ot = task / 56;
          ...                           ->     const long i = task % 56;
                                               ...

A language adds how a function begins and how it comes by its task number (`c.py`, `opencl.py`).
Every line knows the statements ("conv_1/main") that it comes from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr, VectorType
from xdsl.ir import Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.dialects.kernel import shared_arguments
from explorer.ir.structure import walk_inside
from explorer.kernels.kernel_cache import KernelCache
from explorer.kernels.loops.beginning import begin_of, changes_nothing
from explorer.kernels.loops.clipping import Clip, clip_of, skip_text
from explorer.kernels.loops.nest import body_of, bounds_of, index_of, name_of
from explorer.kernels.loops.row_wise import size_of_kernel
from explorer.kernels.loops.scalar_types import DOUBLE, ScalarType, scalar_type
from explorer.kernels.loops.tails import has_extents, segments_of, tails_of_block
from explorer.kernels.loops.work import operation_count
from explorer.kernels.printing.bodies import BodyPrinter
from explorer.kernels.printing.expressions import ExpressionWriter
from explorer.kernels.printing.identifiers import Names, comment_text, identifier
from explorer.kernels.printing.language import Language, Requirement
from explorer.kernels.printing.source_lines import SourceLines, tags_of, tags_within
from explorer.kernels.printing.uses import Store, find_uses
from explorer.kernels.sections.locality import Rounds, rounds_of
from explorer.kernels.sections.phases import Phase, PhaseNest, phases
from explorer.kernels.steps.matrix_tiles import is_matrix_tile
from explorer.results.kernels import PhaseRecord
from explorer.results.source import SourceText


@dataclass(frozen=True)
class Parameter:
    """An argument of a printed kernel."""

    argument: str
    """Its name in the kernel."""
    name: str
    """Its name in the generated code."""
    element: ScalarType
    role: str
    """input, weight, output or scratch."""
    is_written: bool


@dataclass(frozen=True)
class PrintedKernel:
    """A kernel as source text; `owners[i]` are the statements that line i comes from."""

    name: str
    language: str
    lines: tuple[str, ...]
    owners: tuple[tuple[str, ...], ...]
    phases: tuple[PhaseRecord, ...]
    parameters: tuple[Parameter, ...]
    needs: tuple[Requirement, ...]
    """Sections of the prelude that the text calls."""
    work: tuple[int, ...] = ()
    """Of every phase: operations that all its tasks execute together (`work.py`)."""
    rounds: tuple[Rounds, ...] = ()
    """Of every phase: which of its tasks work on the same rows (`bands.py`)."""
    size: str = ""
    """The dimension whose size is the last argument; empty where there is none."""
    is_chained: bool = False
    """Whether phases are functions of a task too, for `chains.py` (OpenCL)."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments' names in the kernel, in order."""
        return tuple(parameter.argument for parameter in self.parameters)

    @property
    def source(self) -> SourceText:
        return SourceText(self.language, self.lines, self.owners)


PRINTED = KernelCache[PrintedKernel]()


class KernelPrinter(ABC):
    """Prints one kernel; used once."""

    def __init__(self, function: func.FuncOp, name: str, language: Language):
        self.function = function
        self.name = name
        self.language = language
        self.names = Names()
        self.lines = SourceLines()
        self.writer = ExpressionWriter(language)
        self.uses = find_uses(function)
        self.parameters = self._parameters()
        self.shared = shared_arguments(function)
        loops = [op for op in walk_inside(function) if isinstance(op, affine.ForOp)]
        clips = [clip for loop in loops if (clip := clip_of(loop)) is not None]
        clipped = any(clip.argument < 0 for clip in clips)
        self.size = size_of_kernel(function) if clipped else ""
        self.size_parameter = self.names.claim(f"size_{self.size}") if clipped else ""
        arguments = function.body.block.args
        self._values = dict(zip(self.parameters, arguments, strict=True))
        self._phase_operations: list[Operation] = []
        self.loops_over_tasks = False
        """Whether the phase that is printed has a loop over its tasks."""

    def print_kernel(self) -> PrintedKernel:
        found = phases(self.function)
        self._check_top_level()
        records: list[PhaseRecord] = []
        for number, phase in enumerate(found):
            function = f"{identifier(self.name)}_phase{number}"
            self._print_phase(phase, function, number, len(found))
            records.append(self.phase_record(function, phase))
        if not found:
            records.append(self._print_nothing(f"{identifier(self.name)}_phase0"))
        return PrintedKernel(
            name=self.name,
            language=self.language.name,
            lines=tuple(self.lines.lines),
            owners=tuple(self.lines.owners),
            phases=tuple(records),
            parameters=self.parameters,
            needs=tuple(self.writer.needs),
            work=tuple(operation_count(n.operation for n in phase.nests) for phase in found)
            or (0,),
            rounds=tuple(self._rounds(phase) for phase in found),
            size=self.size,
        )

    # -- what a language decides ---------------------------------------------------------------
    @abstractmethod
    def begin_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        """Everything up to the opening brace, and what a function has to set up."""

    @abstractmethod
    def end_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        """What follows the closing brace."""

    @abstractmethod
    def begin_tasks(self, depth: int) -> None:
        """Makes `task`, the number of a task within the phase, known."""

    @abstractmethod
    def end_tasks(self, depth: int) -> None:
        """Closes what `begin_tasks` opened."""

    @property
    @abstractmethod
    def skip_task(self) -> str:
        """The statement with which a task ends that has nothing to do."""

    def skip_rest(self, nest: PhaseNest, position: int) -> str:
        """The statement with which a task ends where no later index of a parallel loop has
        anything to do either."""
        return self.skip_task

    @property
    @abstractmethod
    def tasks_depth(self) -> int:
        """By how much `begin_tasks` indents what follows."""

    def phase_record(self, function: str, phase: Phase) -> PhaseRecord:
        """How a phase is launched."""
        return PhaseRecord(function, phase.tasks)

    def body_printer(self, buffers: Mapping[SSAValue, str]) -> BodyPrinter:
        """What prints the operations of the phase that has begun."""
        return BodyPrinter(
            self.language,
            self.writer,
            self.uses,
            self.names,
            self.lines,
            buffers,
            self.size_text,
        )

    # -- for the languages ---------------------------------------------------------------------
    def line(self, depth: int, text: str) -> None:
        self.lines.add(depth, text, self._phase_tags)

    def parameter_list(self, depth: int, items: Sequence[str]) -> None:
        self.lines.add_list(depth, items, ")", self._phase_tags)

    @property
    def uses_vectors(self) -> bool:
        """Whether the schedule made vectors in this phase."""
        return any(
            isinstance(value.type, VectorType)
            for top in self._phase_operations
            for op in walk_inside(top)
            for value in (*op.operands, *op.results)
        )

    @property
    def has_matrix_tiles(self) -> bool:
        """Whether matrix instructions compute a nest of this phase."""
        inside = (op for top in self._phase_operations for op in walk_inside(top))
        return any(isinstance(op, affine.ForOp) and is_matrix_tile(op) for op in inside)

    @property
    def is_clipped(self) -> bool:
        """Whether a loop of this phase ends with the size of the open dimension."""
        return any(clip.argument < 0 for clip in self._clips())

    def _clips(self) -> list[Clip]:
        inside = [op for top in self._phase_operations for op in walk_inside(top)]
        loops = [op for op in inside if isinstance(op, affine.ForOp)]
        return [clip for loop in loops if (clip := clip_of(loop)) is not None]

    def _begins(self) -> set[int]:
        """The arguments with sizes at which loops of this phase begin."""
        inside = [op for top in self._phase_operations for op in walk_inside(top)]
        begins = [begin_of(op) for op in inside if isinstance(op, affine.ForOp)]
        return {place for begin in begins if begin is not None for place in begin.arguments()}

    def _tails(self) -> set[int]:
        """The arguments with sizes at which tiles of this phase end in part."""
        if not self.language.has_tails or not has_extents(self._phase_operations):
            return set()
        blocks = [
            list(region.block.ops)
            for top in self._phase_operations
            for op in walk_inside(top)
            for region in op.regions
        ]
        parts = [part for block in blocks for part in segments_of(block)]
        return {tail.extent.argument for part in parts for tail in tails_of_block(part)}

    def size_text(self, clip: Clip) -> str:
        """The size that a loop ends with."""
        own = clip.argument
        return self.size_parameter if own < 0 else f"{self.parameters[own].name}[0]"

    def is_used(self, parameter: Parameter) -> bool:
        """Whether this phase accesses the buffer, or a loop ends with the size that it holds."""
        place = self.parameters.index(parameter)
        ends = {clip.argument for clip in self._clips()} | self._begins() | self._tails()
        if place in ends:
            return True
        value = self._values[parameter]
        return any(
            operand is value
            for top in self._phase_operations
            for op in walk_inside(top)
            if op in self.uses.live
            for operand in op.operands
        )

    def _rounds(self, phase: Phase) -> Rounds:
        weights = {value for p, value in self._values.items() if p.role == "weight"}
        return rounds_of(phase, weights, set(self._values.values()) - weights)

    # -- phases --------------------------------------------------------------------------------
    def _print_phase(self, phase: Phase, function: str, number: int, count: int) -> None:
        tops = [nest.operation for nest in phase.nests]
        self._phase_operations = tops
        self._phase_tags = tuple(t for top in tops for t in tags_within(top))
        if number:
            self.lines.add(0, "")
        loops = ", ".join(name_of(loop) for nest in phase.nests for loop in nest.parallel)
        tasks = f"{phase.tasks} task{'s' if phase.tasks != 1 else ''}"
        over = f" ({comment_text(loops)})" if loops else ""
        title = f"// {comment_text(self.name)}, phase {number + 1} of {count}: {tasks}{over}"
        self.line(0, title)
        self.loops_over_tasks = phase.tasks != 1 or bool(phase.nests[0].parallel)
        self.begin_phase(function, self.parameters)
        self.names.open_block()
        buffers: dict[SSAValue, str] = {value: p.name for p, value in self._values.items()}
        body = self.body_printer(buffers)
        for array in self._arrays_of(tops):
            body.operation(array, 1)
        if self.loops_over_tasks:
            self.begin_tasks(1)
            self._print_tasks(phase, body, 1 + self.tasks_depth)
            self.end_tasks(1)
        else:
            body.comment(tops[0], 1)
            body.operation(tops[0], 1)
        self.names.close_block()
        self.line(0, "}")
        self.end_phase(function, self.parameters)

    def _print_nothing(self, function: str) -> PhaseRecord:
        """A kernel over tensors without elements: one task, so that it can be launched."""
        self._phase_operations, self._phase_tags = [], ()
        self.loops_over_tasks = False
        self.line(0, f"// {comment_text(self.name)}: its tensors have no elements")
        self.begin_phase(function, self.parameters)
        self.line(0, "}")
        self.end_phase(function, self.parameters)
        return PhaseRecord(function, 1)

    def _print_tasks(self, phase: Phase, body: BodyPrinter, depth: int) -> None:
        """One nest directly; several behind one another in the numbering of the tasks."""
        if len(phase.nests) == 1:
            self._print_nest(phase.nests[0], body, depth)
            return
        for nest in phase.nests:
            tags = tags_within(nest.operation)
            end = nest.first_task + nest.tasks
            condition = f"if (task < {end}) " if end < phase.tasks else ""
            opening = f"{condition}{{" if nest.first_task == 0 else f"}} else {condition}{{"
            self.lines.add(depth, opening, tags)
            self.names.open_block()
            self._print_nest(nest, body, depth + 1)
            self.names.close_block()
        self.line(depth, "}")

    def _print_nest(self, nest: PhaseNest, body: BodyPrinter, depth: int) -> None:
        body.comment(nest.operation, depth)
        if not nest.parallel:
            body.operation(nest.operation, depth)
            return
        for position, loop in enumerate(nest.parallel):
            tags = tags_of(loop) or tags_within(loop)
            text = index_of_task(nest, position)
            index = body.name_index(loop)
            if index_of(loop) not in self.uses.counts:
                continue  # one task, or the same work in every one
            self.lines.add(depth, f"const {self.language.index} {index} = {text};", tags)
            clip = clip_of(loop)
            if clip is not None:
                condition = skip_text(clip, self.size_text(clip), index)
                skip = self.skip_rest(nest, position)
                self.lines.add(depth, f"if ({condition}) {skip}", tags)
            begin = begin_of(loop)
            if begin is not None:
                condition = changes_nothing(begin, body.size_of_argument, body.form_text, index)
                self.lines.add_wrapped(depth, f"if ({condition}) {self.skip_task}", tags)
        body.operations(body_of(nest.parallel[-1]), depth)

    def _arrays_of(self, tops: Sequence[Operation]) -> list[memref.AllocaOp]:
        """Register arrays that stand outside all loops and are used in these nests."""
        used = {operand for top in tops for op in walk_inside(top) for operand in op.operands}
        outer = [op for op in self.function.body.block.ops if isinstance(op, memref.AllocaOp)]
        return [op for op in outer if op.memref in used]

    def _check_top_level(self) -> None:
        """Outside all loops only register arrays and constants may stand, each for one phase."""
        owners: dict[SSAValue, Operation] = {}
        for op in self.function.body.block.ops:
            if isinstance(op, affine.ForOp):
                for inner in walk_inside(op):
                    for operand in inner.operands:
                        is_array = isinstance(operand.owner, memref.AllocaOp)
                        outside = is_array and operand.owner.parent is self.function.body.block
                        if outside and owners.setdefault(operand, op) is not op:
                            raise UnsupportedError(
                                f"register array {operand.name_hint} of kernel {self.name} is "
                                "used by several phases",
                                hint="accumulate inside an outer loop, or use a scratch argument",
                            )
            elif isinstance(op, Store) or op.regions:
                raise UnsupportedError(
                    f"{op.name} stands outside all loops of kernel {self.name}",
                    node=", ".join(tags_of(op)),
                    hint="lower the kernel to loops first (lower_to_loops)",
                )

    @abstractmethod
    def pointer_type(self, parameter: Parameter) -> str:
        """The type of a pointer to its elements, with the `*` at the end."""

    def declared(self, parameter: Parameter) -> str:
        """Its pointer: what it points at is reached by no other one, unless arguments share it."""
        mark = "" if parameter.argument in self.shared else "restrict "
        return f"{self.pointer_type(parameter)}{mark}{parameter.name}"

    def _parameters(self) -> tuple[Parameter, ...]:
        arguments = self.function.body.block.args
        given = _strings(self.function, "kernel.names")
        roles = _strings(self.function, "kernel.roles")
        written = {op.memref for op in walk_inside(self.function) if isinstance(op, Store)}
        parameters: list[Parameter] = []
        for number, value in enumerate(arguments):
            assert isinstance(value.type, MemRefType)
            element = scalar_type(value.type.element_type)
            if element == DOUBLE:
                self.writer.require(Requirement(element.name))
            argument = given[number] if given else value.name_hint or f"buffer{number}"
            is_written = value in written
            default = "output" if is_written else "input"
            role = roles[number] if roles else default
            name = self.names.claim(argument)
            parameters.append(Parameter(argument, name, element, role, is_written))
        return tuple(parameters)


def index_of_task(nest: PhaseNest, position: int) -> str:
    """The index of a nest's parallel loop, from `task`: `task / 56 % 4` or `task - 224`."""
    extent = nest.extents[position]
    outer, inner = prod(nest.extents[:position]), prod(nest.extents[position + 1 :])
    text = f"task - {nest.first_task}" if nest.first_task else "task"
    if extent == 1:
        text = "0"
    elif outer > 1 or inner > 1:
        text = f"({text})" if nest.first_task else text
        text += f" / {inner}" if inner > 1 else ""
        text += f" % {extent}" if outer > 1 else ""
    bounds = bounds_of(nest.parallel[position])
    assert bounds is not None, "parallel loops have constant bounds"
    return f"{text} + {bounds[0]}" if bounds[0] else text


def _strings(function: func.FuncOp, attribute: str) -> list[str]:
    found = function.attributes.get(attribute)
    if not isinstance(found, ArrayAttr):
        return []
    return [item.data for item in found.data if isinstance(item, StringAttr)]
