"""C: kernels as static functions that run the tasks [lo, hi) of a phase.

affine.for %i = 0 to 56 {parallel}      static void relu_phase0(
  ...                              ->       const float *restrict x, float *restrict y,
                                            long lo, long hi)
                                        {
                                            for (long task = lo; task < hi; task++) {
                                                const long i = task;
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func

from explorer.kernels.loops.scalar_types import BOOLEAN, FLOAT, SIGNED, ScalarType
from explorer.kernels.printing.language import (
    NO_LIBRARY_FUNCTIONS,
    PRELUDE_MATH,
    FunctionCall,
    Language,
    Requirement,
    vector_name,
    vector_requirement,
)
from explorer.kernels.printing.printer import (
    PRINTED,
    KernelPrinter,
    Parameter,
    PrintedKernel,
)
from explorer.kernels.sections.phases import PhaseNest

FIXED_WIDTH = {
    "char": "int8_t",
    "short": "int16_t",
    "int": "int32_t",
    "long": "int64_t",
    "uchar": "uint8_t",
    "ushort": "uint16_t",
    "uint": "uint32_t",
    "ulong": "uint64_t",
    "index": "long",
}
MIN_SKIPPED = 4
"""Tasks that have nothing to do are skipped one by one where they are no more."""
# Vector forms in the prelude; the others go through the C library, lane by lane.
OWN_VECTOR_FUNCTIONS = PRELUDE_MATH | frozenset(("fabs", "rint", "floor", "ceil", "trunc", "sqrt"))


@dataclass(frozen=True)
class CLanguage(Language):
    """`marks_unused`: a parameter that a phase does not use is named in a statement of its own, so
    that compilers do not warn of it. `has_own_math`: exp, log, tanh and the like of single floats
    are the prelude's, too, in the place of the C library's."""

    wide_suffix = "LL"  # a long of C has 32 bits on 32-bit processors
    index: str = "long"
    marks_unused: bool = False
    has_own_math: bool = False
    prelude_files = (
        "c/base.c",
        "c/vectors.c",
        "c/math.c",
        "c/integers.c",
        "c/matrix.c",
        "c/pairs.c",
        "c/stored.c",
        "math.c",
        "stored.c",
    )
    widest_vector = 64
    has_dots = True
    splits_subscripts = True
    holds_vectors = True
    has_prefetch = True
    has_tails = True
    has_driver = True

    @property
    def name(self) -> str:
        return "c"

    def scalar_name(self, element: ScalarType) -> str:
        return FIXED_WIDTH.get(element.name, element.name)

    def memory_name(self, element: ScalarType) -> str:
        return "uint8_t" if element == BOOLEAN else self.scalar_name(element)

    def load_vector(self, element: ScalarType, lanes: int, pointer: str) -> str:
        return f"load_{vector_name(element, lanes)}({pointer})"

    def store_vector(self, element: ScalarType, lanes: int, value: str, pointer: str) -> str:
        return f"store_{vector_name(element, lanes)}({value}, {pointer})"

    def splat(self, element: ScalarType, lanes: int, value: str) -> str:
        return f"splat_{vector_name(element, lanes)}({value})"

    def keep(self, element: ScalarType, lanes: int, value: str) -> FunctionCall:
        needs = (Requirement("keep", element.name, lanes),)
        return FunctionCall(f"keep_{vector_name(element, lanes)}({value})", needs)

    def convert(self, element: ScalarType, lanes: int, value: str) -> str:
        return f"__builtin_convertvector({value}, {vector_name(element, lanes)})"

    def widen(
        self, source: ScalarType, element: ScalarType, lanes: int, value: str
    ) -> FunctionCall:
        if element.is_float:  # gcc (12) converts bytes to floats number by number
            whole = self.widen(source, SIGNED[32], lanes, value)
            needs = (*vector_requirement(SIGNED[32], lanes), *whole.needs)
            return FunctionCall(self.convert(element, lanes, whole.name), needs)
        wide = vector_name(element, lanes)
        needs = (Requirement("widen", source.name, lanes, wide),)
        return FunctionCall(f"{wide}_from_{vector_name(source, lanes)}({value})", needs)

    def narrow(self, element: ScalarType, lanes: int, value: str) -> FunctionCall:
        name = f"{vector_name(element, lanes)}_from_{vector_name(SIGNED[32], lanes)}"
        return FunctionCall(f"{name}({value})", (Requirement("narrow", element.name, lanes),))

    def reinterpret(self, element: ScalarType, lanes: int, value: str) -> str:
        return f"({vector_name(element, lanes)}){value}"

    def select(self, element: ScalarType, lanes: int, mask: str, yes: str, no: str) -> str:
        return f"select_{vector_name(element, lanes)}({mask}, {yes}, {no})"

    def math_call(
        self, function: str, element: ScalarType, lanes: int, operands: int
    ) -> FunctionCall:
        name = f"{function}_{vector_name(element, lanes)}"
        is_own = self.has_own_math and element == FLOAT and function in PRELUDE_MATH
        if function in NO_LIBRARY_FUNCTIONS or (is_own and not lanes):
            return FunctionCall(name, (Requirement(function, element.name, lanes),))
        if not lanes:
            return FunctionCall(function + "f" if element == FLOAT else function)
        if element == FLOAT and function in OWN_VECTOR_FUNCTIONS:
            return FunctionCall(name, (Requirement(function, element.name, lanes),))
        section = "lanewise" if operands == 1 else "lanewise2"
        return FunctionCall(name, (Requirement(section, element.name, lanes, function),))


class CPrinter(KernelPrinter):
    def begin_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        marks = "" if self.uses_vectors else " VECTORIZE_LOOPS"
        self.line(0, f"static{marks} void {function}(")
        declared = [self.declared(p) for p in parameters]
        sizes = [f"long {self.size_parameter}"] if self.size else []
        self.parameter_list(1, [*declared, *sizes, "long lo", "long hi"])
        self.line(0, "{")
        for name in self._unused(parameters):
            self.line(1, f"(void){name};")
        if self.has_matrix_tiles:
            self.line(1, "TILE_ROWS;")

    def _unused(self, parameters: Sequence[Parameter]) -> list[str]:
        """Parameters that the phase that begins does not read, where they are to be marked."""
        assert isinstance(self.language, CLanguage)
        if not self.language.marks_unused:
            return []
        bounds = [] if self.loops_over_tasks else ["lo", "hi"]
        sizes = [self.size_parameter] if self.size and not self.is_clipped else []
        return [*(p.name for p in parameters if not self.is_used(p)), *sizes, *bounds]

    def end_phase(self, function: str, parameters: Sequence[Parameter]) -> None:
        pass

    def begin_tasks(self, depth: int) -> None:
        self.line(depth, "for (long task = lo; task < hi; task++) {")

    def end_tasks(self, depth: int) -> None:
        self.line(depth, "}")

    @property
    def skip_task(self) -> str:
        return "continue;"

    def skip_rest(self, nest: PhaseNest, position: int) -> str:
        """Goes on with the next index of the loops around."""
        row = prod(nest.extents[position:])
        if row <= MIN_SKIPPED:
            return self.skip_task
        own = f"(task - {nest.first_task})" if nest.first_task else "task"
        return f"{{ task += {row - 1} - {own} % {row}; continue; }}"

    @property
    def tasks_depth(self) -> int:
        return 1

    def pointer_type(self, parameter: Parameter) -> str:
        constant = "" if parameter.is_written else "const "
        return f"{constant}{self.language.memory_name(parameter.element)} *"


def print_c(function: func.FuncOp, name: str, language: CLanguage | None = None) -> PrintedKernel:
    """A kernel of loop nests as C; `name` begins the names of its functions.

    Raises UnsupportedError naming an operation or type that has no form in C.
    """
    chosen = language or CLanguage()
    return PRINTED.get(
        function, (name, chosen), lambda: CPrinter(function, name, chosen).print_kernel()
    )
