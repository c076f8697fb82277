"""OpenCL C: every phase of a kernel is a `__kernel` with one work-item per task.

affine.for %i = 0 to 56 {parallel}      __kernel void relu_phase0(
  ...                              ->       __global char *arena, __global const char *weights,
                                            const ulong offset0, const ulong offset1)
                                        {
                                            __global const float *restrict x =
                                                (__global const float *)(arena + offset0);
                                            ...
                                            const int i = (int)get_global_id(0);
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import SSAValue

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import extent_of
from explorer.kernels.loops.scalar_types import BOOLEAN, FLOAT, ScalarType
from explorer.kernels.printing.bodies import BodyPrinter
from explorer.kernels.printing.language import (
    NO_LIBRARY_FUNCTIONS,
    PRELUDE_MATH,
    FunctionCall,
    Language,
    Requirement,
    vector_name,
)
from explorer.kernels.printing.opencl_groups import GroupBodyPrinter
from explorer.kernels.printing.printer import (
    PRINTED,
    KernelPrinter,
    Parameter,
    PrintedKernel,
)
from explorer.kernels.sections.phases import Phase, leading_parallel_loops
from explorer.kernels.steps.groups import group_items, has_items, items_of_nest
from explorer.results.kernels import PhaseRecord

LARGEST_INT = 2**31 - 1
ANGLES = frozenset(("sin", "cos", "tan"))


@dataclass(frozen=True)
class OpenCLLanguage(Language):
    is_processor: bool = False
    """Whether the kernel is scheduled for a processor."""
    prelude_files = (
        "opencl/base.cl",
        "opencl/vectors.cl",
        "opencl/stored.cl",
        "opencl/tensor_cores.cl",
        "math.c",
        "stored.c",
    )
    widest_vector = 16

    @property
    def name(self) -> str:
        return "opencl"

    def scalar_name(self, element: ScalarType) -> str:
        return self.index if element.kind == "index" else element.name

    def memory_name(self, element: ScalarType) -> str:
        return "uchar" if element == BOOLEAN else self.scalar_name(element)

    def load_vector(self, element: ScalarType, lanes: int, pointer: str) -> str:
        return f"vload{lanes}(0, {pointer})"

    def store_vector(self, element: ScalarType, lanes: int, value: str, pointer: str) -> str:
        return f"vstore{lanes}({value}, 0, {pointer})"

    def splat(self, element: ScalarType, lanes: int, value: str) -> str:
        return f"({vector_name(element, lanes)})({value})"

    def convert(self, element: ScalarType, lanes: int, value: str) -> str:
        return f"convert_{vector_name(element, lanes)}({value})"

    def reinterpret(self, element: ScalarType, lanes: int, value: str) -> str:
        return f"as_{vector_name(element, lanes)}({value})"

    def select(self, element: ScalarType, lanes: int, mask: str, yes: str, no: str) -> str:
        return f"select({no}, {yes}, {mask})"

    def math_call(
        self, function: str, element: ScalarType, lanes: int, operands: int
    ) -> FunctionCall:
        """On processors those of the prelude: PoCL's take three to four times as long. Its sines of
        vectors are wrong next to a lane of 1e20 or infinity: angles are taken lane by lane."""
        if self.is_processor and lanes and function in ANGLES:
            name = f"{function}_{vector_name(element, lanes)}"
            return FunctionCall(name, (Requirement("lanewise", element.name, lanes, function),))
        is_own = self.is_processor and element == FLOAT and function in PRELUDE_MATH
        if not is_own and function not in NO_LIBRARY_FUNCTIONS:
            return FunctionCall(function)
        name = f"{function}_{vector_name(element, lanes)}"
        return FunctionCall(name, (Requirement(function, element.name, lanes),))


class OpenCLPrinter(KernelPrinter):
    """`is_chained`: phases are functions of a task, which their kernels call (see `chains.py`)."""

    def __init__(self, function: func.FuncOp, name: str, language: Language, is_chained: bool):
        super().__init__(function, name, language)
        self.group_items = group_items(function)
        self.is_chained = is_chained and not self.group_items

    def print_kernel(self) -> PrintedKernel:
        printed = super().print_kernel()
        if not self.is_chained:
            return printed
        needs = (*printed.needs, Requirement("task"), Requirement("chain"))
        return replace(printed, is_chained=True, needs=needs)

    def begin_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        if self.is_chained:
            # Only of a function's own parameters does the compiler believe that they are apart.
            self.line(0, f"TASK void {function}_task(")
            places = [self.declared(p) for p in parameters]
            self.parameter_list(1, [*places, *self._sizes(), f"const {self.language.index} task"])
            self.line(0, "{")
            return
        self.line(0, f"__kernel void {function}(")
        self.parameter_list(1, self._declared(parameters))
        self.line(0, "{")
        if self.has_items:
            index = self.language.index
            self.line(1, f"const {index} item = ({index})get_local_id(0);")
        elif self.group_items and self._is_one_task():
            self.line(1, "if (get_global_id(0) > 0) return;")
        for number, parameter in enumerate(parameters):
            if self.is_used(parameter):
                declared = self.declared(parameter)
                self.line(1, f"{declared} = {self._place(parameter, f'offset{number}')};")

    def _place(self, parameter: Parameter, offset: str) -> str:
        base = "weights" if parameter.role == "weight" else "arena"
        return f"({self.pointer_type(parameter).rstrip()})({base} + {offset})"

    def _sizes(self) -> list[str]:
        return [f"const long {self.size_parameter}"] if self.size else []

    def _declared(self, parameters: Sequence[Parameter]) -> list[str]:
        offsets = [f"const ulong offset{i}" for i in range(len(parameters))]
        spaces = ["__global char *arena", "__global const char *weights"]
        return [*spaces, *offsets, *self._sizes()]

    def end_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        if not self.is_chained:
            return
        self.line(0, "")
        self.line(0, "#ifdef PHASES")
        self.line(0, f"__kernel void {function}(")
        self.parameter_list(1, self._declared(parameters))
        self.line(0, "{")
        self.line(1, f"{function}_task(")
        given = [self._place(p, f"offset{i}") for i, p in enumerate(parameters)]
        given += [self.size_parameter] if self.size else []
        task = f"({self.language.index})get_global_id(0)"
        self.lines.add_list(2, [*given, task], ");", self._phase_tags)
        self.line(0, "}")
        self.line(0, "#endif")

    def begin_tasks(self, depth: int) -> None:
        if self.is_chained:
            return
        index = self.language.index
        if self.has_items:
            self.line(depth, f"const {index} task = ({index})get_group_id(0);")
            return
        self.line(depth, f"const {index} task = ({index})get_global_id(0);")
        if self.group_items:
            loops = [leading_parallel_loops(top) for top in self._phase_operations]
            tasks = sum(prod(extent_of(loop) for loop in found) for found in loops)
            self.line(depth, f"if (task >= {tasks}) return;")

    def _is_one_task(self) -> bool:
        """Whether the phase is a single nest without parallel loops."""
        return len(self._phase_operations) == 1 and not leading_parallel_loops(
            self._phase_operations[0]
        )

    @property
    def has_items(self) -> bool:
        """Whether a task of this phase is a work-group."""
        return bool(self.group_items) and any(has_items(top) for top in self._phase_operations)

    def phase_record(self, function: str, phase: Phase) -> PhaseRecord:
        if not self.group_items:
            return super().phase_record(function, phase)
        top = phase.nests[0].operation
        if has_items(top):
            size = items_of_nest(top, self.group_items)
            return PhaseRecord(function, phase.tasks, size, phase.tasks * size)
        groups = -(-phase.tasks // self.group_items)
        return PhaseRecord(function, phase.tasks, self.group_items, groups * self.group_items)

    def body_printer(self, buffers: Mapping[SSAValue, str]) -> BodyPrinter:
        if not self.has_items:
            return super().body_printer(buffers)
        (nest,) = self._phase_operations
        body = GroupBodyPrinter(
            self.language,
            self.writer,
            self.uses,
            self.names,
            self.lines,
            buffers,
            self.size_text,
            items_of_nest(nest, self.group_items),
        )
        body.declare_shared(nest, 1)
        return body

    def end_tasks(self, depth: int) -> None:
        pass

    @property
    def skip_task(self) -> str:
        return "return;"

    @property
    def tasks_depth(self) -> int:
        return 0

    def pointer_type(self, parameter: Parameter) -> str:
        constant = "" if parameter.is_written else "const "
        return f"__global {constant}{self.language.memory_name(parameter.element)} *"


def print_opencl(function: func.FuncOp, name: str, is_chained: bool = False) -> PrintedKernel:
    """A kernel of loop nests as OpenCL C; `name` begins the names of its kernels.

    `is_chained`: for a chain, too; a kernel with work-groups of its own never is.

    Raises UnsupportedError naming an operation or type that has no form in OpenCL C.
    """
    index = "int" if _fits_int(function) else "long"
    language = OpenCLLanguage(index, is_processor=is_chained and not group_items(function))
    return PRINTED.get(
        function,
        (name, language, is_chained),
        lambda: OpenCLPrinter(function, name, language, is_chained).print_kernel(),
    )


def _fits_int(function: func.FuncOp) -> bool:
    """Whether 32 bits hold every subscript: all buffers are small and no index is 64 bits wide.

    An index that was loaded as a 64-bit integer could be anything before it is clamped.
    """
    for argument in function.body.block.args:
        if isinstance(argument.type, MemRefType) and prod(argument.type.get_shape()) > LARGEST_INT:
            return False
    for op in walk_inside(function):
        if isinstance(op, arith.IndexCastOp) and isinstance(op.result.type, IndexType):
            source = op.input.type
            if not isinstance(source, IntegerType) or source.width.data > 32:
                return False
        is_index_product = isinstance(op, arith.MuliOp) and isinstance(op.result.type, IndexType)
        if is_index_product and not any(isinstance(o.owner, arith.ConstantOp) for o in op.operands):
            return False
        if isinstance(op, arith.ConstantOp) and isinstance(op.result.type, IndexType):
            assert isinstance(op.value, IntegerAttr)
            if abs(op.value.value.data) > LARGEST_INT:
                return False
    return True
