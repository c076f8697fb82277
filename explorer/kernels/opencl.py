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

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType

from explorer.ir.structure import walk_inside
from explorer.kernels.language import Call, Language, vector_name
from explorer.kernels.printer import KernelPrinter, Parameter, PrintedKernel
from explorer.kernels.scalar_types import BOOLEAN, ScalarType

LARGEST_INT = 2**31 - 1


@dataclass(frozen=True)
class OpenCLLanguage(Language):
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

    def math_call(self, function: str, element: ScalarType, lanes: int, operands: int) -> Call:
        return Call(function)


class OpenCLPrinter(KernelPrinter):
    def begin_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        self.line(0, f"__kernel void {function}(")
        offsets = [f"const ulong offset{i}" for i in range(len(parameters))]
        spaces = ["__global char *arena", "__global const char *weights"]
        sizes = [f"const long {self.size_parameter}"] if self.size else []
        self.parameter_list(1, [*spaces, *offsets, *sizes])
        self.line(0, "{")
        for number, parameter in enumerate(parameters):
            if not self.is_used(parameter):
                continue
            base = "weights" if parameter.role == "weight" else "arena"
            pointer = self.pointer_type(parameter)
            declared = f"{pointer}restrict {parameter.name} ="
            self.line(1, f"{declared} ({pointer.rstrip()})({base} + offset{number});")

    def begin_tasks(self, depth: int) -> None:
        index = self.language.index
        self.line(depth, f"const {index} task = ({index})get_global_id(0);")

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


def print_opencl(function: func.FuncOp, name: str) -> PrintedKernel:
    """A kernel of loop nests as OpenCL C; `name` begins the names of its kernels.

    Raises UnsupportedError naming an operation or type that has no form in OpenCL C.
    """
    index = "int" if _fits_int(function) else "long"
    return OpenCLPrinter(function, name, OpenCLLanguage(index)).print_kernel()


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
