"""Names and comments in generated code: nothing that came from a model gets there as it is.

"conv/1:0" -> conv_1_0      "float" -> float_      "3x" -> _3x      a second "x" -> x_1
comment "a */ b\\" -> a *<U+002F> b<U+005C>
"""

from __future__ import annotations

import re


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


C_KEYWORDS = words_of(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof bool true false alignas alignof constexpr nullptr
    static_assert thread_local atomic main unix linux i386 NULL EOF errno complex imaginary I
    """
)
OPENCL_KEYWORDS = words_of(
    """
    kernel global local constant private generic read_only write_only read_write uniform pipe half
    uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t event_t sampler_t image1d_t
    image2d_t image3d_t queue_t ndrange_t clk_event_t reserve_id_t vec_step
    """
)
# Functions that C's or OpenCL C's compilers know by name. The Bessel functions (j0, j1, y1 ...)
# are left out: split loops are often called so, and shadowing them in a function is harmless.
BUILTIN_FUNCTIONS = words_of(
    """
    abs acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi barrier
    bitselect calloc cbrt ceil clamp clz copysign cos cosh cospi cross ctz degrees distance dot
    erf erfc exit exp exp10 exp2 expm1 fabs fdim fence fill floor fma fmax fmin fmod fract free
    frexp gamma hadd hypot ilogb index isequal isfinite isgreater isinf isless isnan isnormal
    labs ldexp length lgamma log log10 log1p log2 logb mad mad24 mad_hi malloc max memcpy memmove
    memset min mix modf mul24 mul_hi nan nextafter normalize popcount pow pown powr prefetch printf
    radians remainder remquo rhadd rint rootn rotate round rsqrt select shuffle shuffle2 sign
    signbit sin sincos sinh sinpi smoothstep sqrt step sub_sat tan tanh tanpi tgamma trunc upsample
    wait_group_events work_group_barrier y0f
    """
)
# What the printer itself puts into every function.
OWN_NAMES = words_of("task lo hi arena weights offsets sections section kernels")
TAKEN = C_KEYWORDS | OPENCL_KEYWORDS | BUILTIN_FUNCTIONS | OWN_NAMES
ELEMENT = "(?:u?(?:char|short|int|long)|half|float|double|bool)"
OWN_PATTERN = re.compile(
    rf"(?:.*_)?{ELEMENT}\d*$"  # types, and the prelude's functions: exp_float16, maximum_long
    r"|.*_t$"
    r"|(?:vload|vstore|offset)\w*\d$"
    r"|(?:as|convert|native|half|get|atomic|atom|work_group|sub_group)_.*$"
    r"|(?:explorer|reduce)_.*$"
    r"|.*_phase\d+(?:_section)?$"
    r"|(?:a?(?:cos|sin|tan)h?|atan2|cbrt|ceil|copysign|erf|exp[2]?|expm1|fabs|floor|fma|log|log2"
    r"|log10|log1p|pow|rint|round|sqrt|trunc)[fl]$"
    r"|[A-Z][A-Z0-9_]*$"  # macros
)


def identifier(hint: str) -> str:
    """The nearest name of `[A-Za-z0-9_]` that is no keyword, builtin function or own name."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", hint, flags=re.ASCII)
    name = re.sub(r"^_+", "", name) or "value"
    if name[0].isdigit():
        name = "v" + name
    if name in TAKEN or OWN_PATTERN.match(name):
        name += "_"
    return name


def comment_text(text: str) -> str:
    """ASCII that cannot end a comment, splice a line or form a trigraph."""
    escaped = "".join(c if " " <= c <= "~" and c != "\\" else f"<U+{ord(c):04X}>" for c in text)
    return escaped.replace("*/", "*<U+002F>").replace("/*", "<U+002F>*").replace("??", "?<U+003F>")


class Names:
    """Names in use, block by block: an inner block sees the outer ones, siblings may repeat."""

    def __init__(self) -> None:
        self._scopes: list[set[str]] = [set()]

    def open_block(self) -> None:
        self._scopes.append(set())

    def close_block(self) -> None:
        self._scopes.pop()

    def claim(self, hint: str) -> str:
        """A name like `hint` that nothing visible has; it is visible until the block closes."""
        base = identifier(hint)
        name = base
        number = 0
        while any(name in scope for scope in self._scopes):
            number += 1
            name = f"{base.rstrip('_')}_{number}"
        self._scopes[-1].add(name)
        return name
