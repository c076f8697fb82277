"""What C and OpenCL C do differently, as data and small functions; the printer knows the rest.

load of 16 floats     C: load_float16(x + i)          OpenCL: vload16(0, x + i)
one value 16 times    C: splat_float16(a)             OpenCL: (float16)(a)
conversion            C: __builtin_convertvector(..)  OpenCL: convert_int16(..)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from explorer.kernels.loops.scalar_types import FLOAT, ScalarType

NO_LIBRARY_FUNCTIONS = frozenset(("normal_cdf",))
"""Functions that no C library has: the prelude's for all types."""
PRELUDE_MATH = NO_LIBRARY_FUNCTIONS | {"exp", "expm1", "log", "log1p", "tanh", "erf"}
"""Functions of floats that stand in the prelude, for both languages (`prelude/math.c`)."""


@dataclass(frozen=True, order=True)
class Requirement:
    """A section of the prelude that a kernel needs, for one element type and vector width.

    `section` is the name in the prelude files, `element` a name of `scalar_types` (empty for
    sections that stand once), `lanes` 0 for scalars, `function` the C function that is applied
    lane by lane.
    """

    section: str
    element: str = ""
    lanes: int = 0
    function: str = ""


@dataclass(frozen=True)
class FunctionCall:
    """How a function of an element type is called: `name(arguments)`, and what that needs."""

    name: str
    needs: tuple[Requirement, ...] = ()


def vector_name(element: ScalarType, lanes: int) -> str:
    """`float16` for sixteen floats; the scalar's name if there are no lanes."""
    return f"{element.name}{lanes or ''}"


def vector_requirement(element: ScalarType, lanes: int) -> tuple[Requirement, ...]:
    """The vector type with its loads and stores."""
    return (Requirement("vector", element.name, lanes),) if lanes else ()


@dataclass(frozen=True)
class Language(ABC):
    """One printed language. `index` is the C type of loop indices and subscripts."""

    index: str
    prelude_files: ClassVar[tuple[str, ...]]
    """In the folder of the prelude, in the order in which sections are looked for."""
    widest_vector: ClassVar[int]
    """Elements of a vector."""
    has_dots: ClassVar[bool] = False
    """Whether sums of products of bytes (`loop.dot`) are printed."""
    splits_subscripts: ClassVar[bool] = False
    """Whether a pointer is advanced by what loops add to a subscript, and constants are added to
    that: where integers wrap around, compilers may not take a constant out of a sum of them, and
    keep the place of every pixel of a tile in a register of its own."""
    holds_vectors: ClassVar[bool] = False
    """Whether arrays that a schedule holds are kept in registers by force; other languages'
    compilers do so by themselves."""
    wide_suffix: ClassVar[str] = "L"
    """Of constants of 64 bits."""
    has_prefetch: ClassVar[bool] = False
    """Whether lines of memory can be asked for before they are read."""
    has_tails: ClassVar[bool] = False
    """Whether tiles that a call fills in part have smaller bodies."""
    has_driver: ClassVar[bool] = False
    """Whether a program runs its launches by itself, by a table; otherwise its host does."""

    @property
    @abstractmethod
    def name(self) -> str:
        """c or opencl."""

    @abstractmethod
    def scalar_name(self, element: ScalarType) -> str:
        """How a scalar variable of that type is declared."""

    @abstractmethod
    def memory_name(self, element: ScalarType) -> str:
        """How an element in memory is declared (a boolean is a byte)."""

    @abstractmethod
    def load_vector(self, element: ScalarType, lanes: int, pointer: str) -> str: ...

    @abstractmethod
    def store_vector(self, element: ScalarType, lanes: int, value: str, pointer: str) -> str: ...

    @abstractmethod
    def splat(self, element: ScalarType, lanes: int, value: str) -> str: ...

    @abstractmethod
    def convert(self, element: ScalarType, lanes: int, value: str) -> str:
        """A vector converted lane by lane, with C's rules."""

    def widen(
        self, source: ScalarType, element: ScalarType, lanes: int, value: str
    ) -> FunctionCall:
        """A vector of narrow integers converted to 32 bits: the whole call as a name."""
        return FunctionCall(self.convert(element, lanes, value))

    def narrow(self, element: ScalarType, lanes: int, value: str) -> FunctionCall:
        """The lowest bytes of a vector of signed 32-bit integers: the whole call as a name."""
        return FunctionCall(self.convert(element, lanes, value))

    @abstractmethod
    def reinterpret(self, element: ScalarType, lanes: int, value: str) -> str:
        """The same bits as a vector of another element type of the same width."""

    @abstractmethod
    def select(self, element: ScalarType, lanes: int, mask: str, yes: str, no: str) -> str: ...

    @abstractmethod
    def math_call(
        self, function: str, element: ScalarType, lanes: int, operands: int
    ) -> FunctionCall:
        """A function of the mathematical library, by its C name without suffix: exp, fabs."""

    def keep(self, element: ScalarType, lanes: int, value: str) -> FunctionCall:
        """The same vector, in a register from here on: the whole call as a name."""
        return FunctionCall(value)

    def declared(self, element: ScalarType, lanes: int) -> str:
        """The type of a variable that holds a scalar or a vector."""
        return vector_name(element, lanes) if lanes else self.scalar_name(element)

    def suffix_name(self, element: ScalarType, lanes: int) -> str:
        """What the names of prelude functions end in: `float16`, `uchar`, `long`."""
        if element.kind == "index":
            return self.index
        return vector_name(element, lanes)

    def literal(self, element: ScalarType, value: float | int | bool) -> str:
        """A constant that has exactly this value in the element type."""
        if element.kind == "boolean":
            return "true" if value else "false"
        if element.is_float:
            return self._float_literal(element, float(value))
        return _integer_literal(element, int(value), self.wide_suffix)

    def _float_literal(self, element: ScalarType, value: float) -> str:
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return f"{'-' if value < 0 else ''}INFINITY"
        if element == FLOAT:
            rounded = np.float32(value)
            if np.isinf(rounded):
                return "-INFINITY" if value < 0 else "INFINITY"
            # NumPy writes the shortest decimal that reads back as the same float.
            return f"{rounded!s}f"
        return repr(value)


def _integer_literal(element: ScalarType, value: int, wide: str) -> str:
    if element.kind == "index":
        return str(value)
    if element.kind == "unsigned":
        value %= 1 << element.bits
        return f"{value}u{wide if element.bits == 64 else ''}"
    # The IR may hold a signless constant as its unsigned pattern.
    value = (value + (1 << (element.bits - 1))) % (1 << element.bits) - (1 << (element.bits - 1))
    suffix = wide if element.bits == 64 else ""
    if value == -(1 << (element.bits - 1)) and element.bits >= 32:
        return f"(-{-(value + 1)}{suffix} - 1)"  # the positive number would not fit
    return f"{value}{suffix}"
