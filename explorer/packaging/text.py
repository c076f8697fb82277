"""Text that goes into C files: literals of strings and numbers, comments, lines of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from explorer.kernels.printing.identifiers import comment_text

LINE_CHARACTERS = 96
MAX_STRING_BYTES = 200
"""Of a name in a string literal; C99 promises 4095 characters, and octal digits take four each."""
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def c_type(element_type: str | np.dtype) -> str:
    """How an element in memory is declared; 16-bit floats are their bits."""
    return C_TYPES.get(str(element_type), "uint16_t")


def string_literal(text: str, most: int = MAX_STRING_BYTES) -> str:
    """A C string: what is no plain ASCII, and what would be a trigraph or a place of a
    template, as octal escapes."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > most:
        data = data[: most - 3] + b"..."
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\?@' else f"\\{b:03o}" for b in data)
    return f'"{"".join(plain)}"'


def number_literals(array: np.ndarray) -> list[str]:
    """Every element as a constant that has exactly its value, in memory's order."""
    flat = np.ascontiguousarray(array).reshape(-1)
    kind = c_type(flat.dtype.name)
    if kind in ("float", "double"):
        suffix = "f" if kind == "float" else ""
        if np.isfinite(flat).all():
            return [f"{value!s}{suffix}" for value in flat]
        return [_float_literal(value, suffix) for value in flat]
    if kind == "uint16_t" and flat.dtype != np.uint16:
        flat = flat.view(np.uint16)
    if kind == "uint64_t":
        return [f"{value}u" if value < 2**32 else f"{value}ull" for value in flat.tolist()]
    if kind == "uint32_t":
        return [f"{value}u" for value in flat.tolist()]
    if kind in ("int32_t", "int64_t"):
        return [_integer_literal(value) for value in flat.tolist()]
    return [str(int(value)) for value in flat.tolist()]


def _float_literal(value: np.floating, suffix: str) -> str:
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "-INFINITY" if value < 0 else "INFINITY"
    # NumPy writes the shortest decimal that reads back as the same number.
    return f"{value!s}{suffix}"


def _integer_literal(value: int) -> str:
    if value == -(2**63):
        return "(-9223372036854775807ll - 1)"
    if value == -(2**31):
        return "(-2147483647 - 1)"
    return str(value) if -(2**31) < value < 2**31 else f"{value}ll"


def wrapped(items: Iterable[str], depth: int = 1) -> list[str]:
    """Items with commas between them in lines of at most `LINE_CHARACTERS`."""
    indent = "    " * depth
    lines: list[str] = []
    line = indent
    for item in items:
        if len(line) + len(item) + 1 > LINE_CHARACTERS and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += f"{item}, "
    if line != indent:
        lines.append(line.rstrip())
    return lines


def one_line(text: str) -> str:
    """Text of a model in a comment: what could end it, or is a place of a template, is escaped."""
    return comment_text(text).replace("@", "<U+0040>")


def comment_block(paragraphs: Sequence[str]) -> list[str]:
    """A comment of these lines; whatever came from a model cannot end it."""
    return [f"// {one_line(text)}".rstrip() for text in paragraphs]
