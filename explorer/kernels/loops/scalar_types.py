"""Element types as both printed languages see them.

    f32  -> float     i8  -> char  (C: int8_t)      i1    -> bool (in memory: a byte, 0 or 1)
    bf16 -> ushort    ui8 -> uchar (C: uint8_t)     index -> long (OpenCL: int where that is enough)

Types for storage (f16, bf16, f8, f4, i4, i2) are the bits that they are stored in; `form` says
what these mean. Functions of the prelude make floats of them and back.

The names are OpenCL's, for vectors too (`float16` is sixteen floats, `int8` eight 32-bit
integers); the C prelude defines the vectors under the same names, so that the same kernel reads
alike in both languages.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
    VectorType,
)
from xdsl.ir import Attribute

from explorer.errors import UnsupportedError


@dataclass(frozen=True)
class ScalarType:
    """One element type. `kind` is float, signed, unsigned, boolean or index."""

    name: str
    bits: int
    kind: str
    form: str = ""
    """What the bits of a type for storage mean (bf16, f8e4m3fn, i4); "" for all other types."""

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in memory; a boolean takes one."""
        return max(self.bits // 8, 1)


FLOAT = ScalarType("float", 32, "float")
DOUBLE = ScalarType("double", 64, "float")
BOOLEAN = ScalarType("bool", 1, "boolean")
INDEX = ScalarType("index", 64, "index")
SIGNED = {
    8: ScalarType("char", 8, "signed"),
    16: ScalarType("short", 16, "signed"),
    32: ScalarType("int", 32, "signed"),
    64: ScalarType("long", 64, "signed"),
}
UNSIGNED = {bits: ScalarType("u" + t.name, bits, "unsigned") for bits, t in SIGNED.items()}
BYTE = 8
VECTOR_LANES = {BYTE: (4, 8, 16, 32, 64), 16: (2, 4, 8, 16, 32)}
"""By the bits of an element: what dot products multiply with 4, 8 or 16 sums, too."""
VECTOR_FORMS = ("f16", "bf16")
"""Forms that are converted in vectors too."""

BY_NAME = {t.name: t for t in (FLOAT, DOUBLE, BOOLEAN, INDEX, *SIGNED.values(), *UNSIGNED.values())}


def scalar_type(attribute: Attribute) -> ScalarType:
    """The element type of a scalar or vector type of the IR; signless integers are signed."""
    if isinstance(attribute, VectorType):
        return scalar_type(attribute.element_type)
    match attribute:
        case Float32Type():
            return FLOAT
        case Float64Type():
            return DOUBLE
        case IndexType():
            return INDEX
        case IntegerType() if attribute.width.data == 1:
            return BOOLEAN
        case Float16Type() | BFloat16Type():
            return ScalarType("ushort", 16, "unsigned", str(attribute))
        case _ if isinstance(attribute, AnyFloat) and attribute.bitwidth in (4, 8):
            return ScalarType("uchar", 8, "unsigned", str(attribute).lower())
        case IntegerType() if attribute.width.data in (2, 4):
            return ScalarType("uchar", 8, "unsigned", str(attribute))
        case IntegerType() if attribute.width.data in SIGNED:
            unsigned = attribute.signedness.data == Signedness.UNSIGNED
            return (UNSIGNED if unsigned else SIGNED)[attribute.width.data]
    raise UnsupportedError(
        f"element type {attribute} has no form in generated code",
        hint="use f4, f8, f16, bf16, f32, f64, i1 to i64 or their unsigned forms",
    )


def lane_count(attribute: Attribute) -> int:
    """Lanes of a vector type (one dimension), 0 for a scalar."""
    if not isinstance(attribute, VectorType):
        return 0
    shape = attribute.get_shape()
    lanes = VECTOR_LANES.get(scalar_type(attribute).bits, (4, 8, 16))
    if len(shape) != 1 or shape[0] not in lanes:
        raise UnsupportedError(
            f"{attribute} has no form in generated code",
            hint="split the loop by 4, 8 or 16 (bytes also by 32 or 64) before it is vectorized",
        )
    return shape[0]
