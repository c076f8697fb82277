"""src/NAME_weights.h: every weight as a constant array of its own type, in one structure.

    static const struct NAME_weights_block {
        float conv1_weight[144];               // 0..575, conv1.weight.packed
        int8_t dense1[12];  uint8_t pad_2[4];  // 576..587
    } NAME_weights = {...};

The offsets of its members are those of the block that a file holds (`NAME.weights`), which the
compiler checks; numbers are written so that they read back exactly, whatever the order of bytes is.
"""

from __future__ import annotations

import numpy as np

from explorer.errors import InputError
from explorer.kernels.printing.identifiers import Names
from explorer.packaging.source import PackageSource
from explorer.packaging.text import c_type, comment_block, number_literals, wrapped

MAX_BLOCK_BYTES = 2**32 - 1
"""Offsets are numbers of 32 bits."""
MAX_ARRAY_BYTES = 1 << 26
"""Of weights that are written as arrays: their text is three times as long, and compilers take a
minute for it."""


def check_sizes(source: PackageSource) -> None:
    """InputError for a program with offsets that do not fit into 32 bits."""
    for what, size in (
        ("arena", source.program.arena_bytes),
        ("weights", source.program.weights_bytes),
    ):
        if size > MAX_BLOCK_BYTES:
            raise InputError(f"a package has 32-bit offsets, and the {what} takes {size:,} bytes")
    if source.storage == "array" and source.program.weights_bytes > MAX_ARRAY_BYTES:
        raise InputError(
            f"{source.program.weights_bytes:,} bytes of weights are too many for arrays in C: at "
            f"most {MAX_ARRAY_BYTES:,}",
            hint="keep them in a file: --weights-as file (weights='file')",
        )


def weights_text(source: PackageSource) -> str:
    """The file of constant arrays."""
    names = Names()
    members: list[str] = []
    values: list[str] = []
    checks: list[str] = []
    end = 0
    slots = [*source.program.weights]
    for number, slot in enumerate(slots):
        if slot.offset_bytes > end:
            _pad(members, values, f"pad_{number}", slot.offset_bytes - end)
        name = names.claim(f"w{number}" if source.is_stripped else f"w_{slot.name}")
        array = source.weights[slot.offset_bytes : slot.offset_bytes + slot.size_bytes]
        typed = array.view(source.weight_types[slot.name])
        kind = c_type(typed.dtype.name)
        end = slot.offset_bytes + slot.size_bytes
        if not source.is_stripped:
            place = f"{slot.offset_bytes}..{end - 1}, {slot.name}"
            members += [f"    {line}" for line in comment_block([place])]
        members.append(f"    {kind} {name}[{max(typed.size, 1)}];")
        values.append(f"    .{name} = {{")
        values += wrapped(number_literals(typed) or ["0"], 2)
        values.append("    },")
        checks.append(_check(source, f"offset_{number}", f"{name}) == {slot.offset_bytes}"))
        end = max(end, slot.offset_bytes + max(typed.size, 1) * typed.dtype.itemsize)
    if source.program.weights_bytes > end:
        _pad(members, values, "pad_end", source.program.weights_bytes - end)
    text = "\n".join([*members, *values])
    includes = ["#include <math.h>"] if "NAN" in text or "INFINITY" in text else []
    lines = [*includes, "#include <stddef.h>", "#include <stdint.h>", ""]
    lines += [f"struct {source.name}_weights_block {{", *members, "};", ""]
    lines += [*checks, ""] if checks else []
    lines += [
        "#ifdef __GNUC__",
        f"__attribute__((aligned({source.alignment_bytes})))",
        "#endif",
        f"static const struct {source.name}_weights_block {source.name}_weights = {{",
        *values,
        "};",
    ]
    return "\n".join(lines) + "\n"


def _pad(members: list[str], values: list[str], name: str, size: int) -> None:
    members.append(f"    uint8_t {name}[{size}];")
    values.append(f"    .{name} = {{0}},")


def _check(source: PackageSource, name: str, condition: str) -> str:
    """A declaration that compilers refuse where a member lies elsewhere."""
    offset = f"offsetof(struct {source.name}_weights_block, {condition}"
    return f"typedef char {source.name}_{name}[{offset} ? 1 : -1];"


def weights_file(source: PackageSource) -> bytes:
    """The block as the file has it: least significant bytes first."""
    return source.weights.astype(np.uint8).tobytes()
