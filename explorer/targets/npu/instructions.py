"""Instructions as records: what each does, in elements of scratchpads and global memory.

    Load("activations", scratchpad_address=0, global_address=64, y_size=4, x_size=14, x_stride=16,
         push_after=True)

Fields have their names in every format (`explorer.targets.npu.formats`). A field that a machine's
format does not have keeps its default. Semantics follow Apache VTA's (`hw_spec.h`), whose names
stand beside ours in docs/npu-instructions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

VECTOR_OPERATIONS = ("minimum", "maximum", "add", "shift_right", "multiply")
"""By their number in instructions, which is VTA's."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """What all have: tokens that are taken before it begins, and given when it has ended."""

    kind: ClassVar[str]

    pop_before: bool = False
    """Wait for a token of the queue before this one in the chain."""
    pop_after: bool = False
    push_before: bool = False
    push_after: bool = False


@dataclass(frozen=True, kw_only=True)
class Transfer(Instruction):
    """Rows of elements between global memory and a scratchpad, dense in the scratchpad.

    In global memory element x of row y is `global_address + y * x_stride + x * x_step`.
    """

    memory: str
    """The content that is moved, one of `CONTENTS`."""
    scratchpad_address: int
    global_address: int
    y_size: int = 1
    x_size: int
    x_stride: int = 0
    x_step: int = 1
    y_pad_before: int = 0
    """Rows of `pad_value` that are written before those of global memory."""
    y_pad_after: int = 0
    x_pad_before: int = 0
    """Elements of `pad_value` at the beginning of every row."""
    x_pad_after: int = 0
    on_chip: bool = False
    """`global_address` counts from the first byte of the scratchpad that holds activations, and
    nothing crosses global memory."""


@dataclass(frozen=True, kw_only=True)
class Load(Transfer):
    """Into a scratchpad, with room around it filled by a number."""

    kind: ClassVar[str] = "load"

    pad_value: int = 0
    """Every number of an element that pads."""
    prefetch: bool = False
    """Run by the queue that loads activations, which is ahead of the one that computes, and not by
    that of its content."""
    coded_bytes: int = 0
    """Of weights: so many bytes from the global address on are one block that is decoded
    (`explorer.targets.npu.coding`), whatever the stride; 0: they lie as they are."""


@dataclass(frozen=True, kw_only=True)
class Store(Transfer):
    """From a scratchpad. `outputs` are accumulators cut to the low bits of an input."""

    kind: ClassVar[str] = "store"


@dataclass(frozen=True, kw_only=True)
class Loop(Instruction):
    """Micro-operations inside two loops.

    for i in range(outer):
        for j in range(inner):
            for k in range(micro_begin, micro_end):
                destination = micro[k].destination + i * destination_outer + j * destination_inner
                source = micro[k].source + i * source_outer + j * source_inner
    """

    micro_begin: int
    micro_end: int
    outer: int = 1
    inner: int = 1
    destination_outer: int = 0
    destination_inner: int = 0
    source_outer: int = 0
    source_inner: int = 0


@dataclass(frozen=True, kw_only=True)
class Multiply(Loop):
    """accumulators[destination] += activations[source] x weights[weight], or = 0 with `reset`.

    In sets with `batch`, it covers so many rows: accumulator `destination + b * destination_step`
    gets activation `source + b * source_step`, for b < batch. With `replace`, micro-operations that
    are `first` make the accumulator 0 before they add to it.
    """

    kind: ClassVar[str] = "multiply"

    reset: bool = False
    replace: bool = False
    weight_outer: int = 0
    weight_inner: int = 0
    batch: int = 1
    destination_step: int = 1
    source_step: int = 1


@dataclass(frozen=True, kw_only=True)
class Vector(Loop):
    """accumulators[destination] = operation(accumulators[destination], source or immediate).

    shift_right shifts to the left by a negative number. Numbers wrap around at their width.
    """

    kind: ClassVar[str] = "vector"

    operation: str
    """One of `VECTOR_OPERATIONS`."""
    use_immediate: bool = False
    """Else accumulators[source] is the second operand."""
    immediate: int = 0


@dataclass(frozen=True, kw_only=True)
class Table(Loop):
    """accumulators[destination] = table[accumulators[source] + entries / 2], index kept inside."""

    kind: ClassVar[str] = "table"

    table: int = 0


@dataclass(frozen=True, kw_only=True)
class Requantize(Loop):
    """accumulators[destination] by the target's scheme, plus `offset`, kept in [low, high].

    With `wide` they are kept as they are: sums that go on being computed with.

    Multipliers lie in accumulators[source], shifts in the next element: one per column. With
    `biased` the element after these is added first.
    """

    kind: ClassVar[str] = "requantize"

    biased: bool = False

    wide: bool = False
    """All bits are kept, whatever `low` and `high` say."""
    offset: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True, kw_only=True)
class RowLoop(Loop):
    """Each step makes a row of numbers another one, in its place.

    The row are the numbers of accumulators[destination + k * step], k < count, of the last one at
    most `valid`; what lies behind those stays. One after the other is written, so that an element
    that a row has twice (`step` 0) is read again as it was left. Computed in 64 bits, products wrap
    around. From accumulators[source] on lie constants.
    """

    count: int = 1
    step: int = 0
    valid: int
    offset: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True, kw_only=True)
class Softmax(RowLoop):
    """A row becomes its softmax, in fixed point.

        e = exponentials[max(x) - x]            `EXPONENTIALS` of them, the index kept inside
        r = 2^60 / max(sum(e), 1)               rounded down
        p = (e r + 2^29) / 2^30                 rounded down, and cut to 32 bits
        y = p multiplier / 2^shift + offset     to nearest, ties up; kept in [low, high]

    In accumulators[source] lies the multiplier, in the element behind the shift, of both the first
    number, and behind them the exponentials: `EXPONENTIALS` numbers, in as many elements as they
    fill. The order of computation is that of Kim et al., "I-BERT: Integer-only BERT Quantization",
    2021; Gemmini's normalizer has it in hardware, too.
    """

    kind: ClassVar[str] = "softmax"


@dataclass(frozen=True, kw_only=True)
class Normalize(RowLoop):
    """A row, less its mean, over its standard deviation, scaled and moved; in fixed point.

    Of n numbers, n' = ceil(log2(n) / 2), and without `centered` s = 0 (RMS normalization):

        s = sum(x)
        v = n sum(x x) - s s + E                kept in [1, 2^62 - 1]
        j                                       the one with v 4^j in [2^60, 2^62)
        r = 2^61 / floor(sqrt(v 4^j))           rounded down
        u = (n x - s) r / 2^(31 + n' - j)       30 - n' bits behind the point, to nearest, ties up
        y = (u m + b) / 2^shift + offset        to nearest, ties up; kept in [low, high]

    In accumulators[source] and the element behind lie the low and the high half of E, of both the
    first number; behind them for each number of the row its m, in `count` elements, and b, whose
    low halves fill `count` elements, and its high halves as many. Newton's iteration of I-BERT
    (Kim et al., 2021) finds such a root; a divider finds it, too, a bit in a cycle (Ercegovac and
    Lang, "Division and Square Root", 1994).
    """

    kind: ClassVar[str] = "normalize"

    centered: bool = False
    shift: int = 0


EXPONENTIALS = 256
"""Entries of the list that a softmax looks up."""
SOFTMAX_BITS = 30
"""Behind the point of exponentials and of shares of their sum."""


@dataclass(frozen=True, kw_only=True)
class Finish(Instruction):
    """The last instruction of a program."""

    kind: ClassVar[str] = "finish"


@dataclass(frozen=True)
class MicroOperation:
    """Which elements one step works on, before what the loops add."""

    destination: int = 0
    source: int = 0
    weight: int = 0
    first: bool = False
    """Whether a sum begins with it, in a multiplication with `replace`."""


RECORDS: dict[str, type[Instruction]] = {
    record.kind: record
    for record in (Load, Store, Multiply, Finish, Vector, Table, Requantize, Softmax, Normalize)
}
