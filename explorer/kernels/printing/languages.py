"""The printed languages by name, and how a kernel is printed in each.

language_named("opencl").widest_vector        16
print_kernel("c", function, "conv_1")         PrintedKernel
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects import func

from explorer.errors import InputError
from explorer.kernels.printing.c import CLanguage, print_c
from explorer.kernels.printing.language import Language
from explorer.kernels.printing.opencl import OpenCLLanguage, print_opencl
from explorer.kernels.printing.printer import PrintedKernel


@dataclass(frozen=True)
class Printing:
    language: Language
    print: Callable[[func.FuncOp, str, bool], PrintedKernel]
    """Of a kernel of loop nests, its name, and whether it may be run in a chain."""


PRINTINGS: Mapping[str, Printing] = {
    printing.language.name: printing
    for printing in (
        Printing(CLanguage(), lambda function, name, is_chained: print_c(function, name)),
        Printing(OpenCLLanguage("int"), print_opencl),
    )
}


def language_named(name: str) -> Language:
    """InputError for a language that nothing is printed in."""
    if name not in PRINTINGS:
        raise InputError(
            f"there is no language {name!r}", hint=f"use one of {', '.join(PRINTINGS)}"
        )
    return PRINTINGS[name].language


def print_kernel(
    language: str, function: func.FuncOp, name: str, is_chained: bool = False
) -> PrintedKernel:
    """A kernel of loop nests in a language; `name` begins the names of its functions.

    Raises UnsupportedError naming an operation or type that has no form in the language.
    """
    return PRINTINGS[language].print(function, name, is_chained)
