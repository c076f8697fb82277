"""What a C compiler may use of a processor, by its own macros.

features_of(find_compiler())    frozenset({"avx2", "avx512", "fma", "sse2", ...})

The system may list instructions that the compiler does not know, and a compiler may be told to
compile for another processor than this one; so it is asked, and once.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import lru_cache
from types import MappingProxyType

from explorer.errors import BuildError
from explorer.runtime.compilers import Compiler, first_error_line
from explorer.runtime.core_at_hand import core_at_hand
from explorer.runtime.processes import run_command

MACROS = MappingProxyType(
    {
        "__SSE2__": "sse2",
        "__AVX2__": "avx2",
        "__FMA__": "fma",
        "__AVX512F__": "avx512",
        "__AVX512VNNI__": "avx512_vnni",
        "__AVXVNNI__": "avx_vnni",
        "__AVX512BF16__": "avx512_bf16",
        "__AVX512FP16__": "avx512_fp16",
        "__AMX_INT8__": "amx_int8",
        "__AMX_BF16__": "amx_bf16",
        "__ARM_NEON": "neon",
        "__ARM_FEATURE_DOTPROD": "dotprod",
        "__ARM_FEATURE_MATMUL_INT8": "i8mm",
        "__ARM_FEATURE_BF16": "bf16",
        "__ARM_FEATURE_SVE": "sve",
    }
)
"""What gcc and clang define, by the feature's name here (GCC manual, "Common Predefined Macros";
Arm C Language Extensions, "Feature test macros")."""
ASKING_SECONDS = 20.0


def features_of(compiler: Compiler) -> frozenset[str]:
    """Names of the instructions that it uses with its flags.

    Where it compiles for the processor at hand and tests emulate another one, those of that one.
    Raises `BuildError` where it knows no such processor, or does not answer.
    """
    core = core_at_hand() if compiler.is_native else None
    return _features_of(compiler) if core is None else core.features


@lru_cache(maxsize=32)
def _features_of(compiler: Compiler) -> frozenset[str]:
    command = (*compiler.command, *compiler.flags, "-dM", "-E", "-x", "c", "/dev/null")
    try:
        finished = run_command(command, seconds=ASKING_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{compiler.name} does not say what it compiles for: {error}") from error
    if finished.status != 0:
        raise BuildError(
            f"{compiler.name} does not say what it compiles for: "
            f"{first_error_line(finished.output)}",
            log=f"{shlex.join(command)}\n{finished.output}",
            hint="`processor` of a target is a name that the C compiler has for a processor",
        )
    return features_in(finished.output)


def features_in(macros: str) -> frozenset[str]:
    """The features in what a preprocessor prints of its macros: `#define __AVX2__ 1`."""
    defined = re.findall(r"^#define (\w+) ", macros, re.MULTILINE)
    return frozenset(MACROS[name] for name in defined if name in MACROS)
