"""The C driver as a translation unit of its own, which programs are linked with.

    kernels, table of sections, driver    ->    kernels, table of sections     `without_driver`
                                                driver                         `driver_source`

A compiler takes longer for the driver than for a kernel, and the driver of all programs is the
same: it finds a program's table by the names in `DECLARATIONS`. The printed program stays whole.
"""

from __future__ import annotations

import re
from functools import cache

from explorer.kernels.printing.prelude import driver_text
from explorer.kernels.program.translation_unit import C_HEADERS, EXPORTED

MAX_SECTIONS = 256
"""Of a program that shares its driver: a longer one is compiled for seconds, with or without."""

DRIVER_HEADERS = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
""".strip()

DECLARATIONS = """
#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN const struct Section *const explorer_sections;
extern HIDDEN const int explorer_section_count;
extern HIDDEN const unsigned long long explorer_shared_operations;
""".strip()

DEFINITIONS = """
const struct Section *const explorer_sections = sections;
const int explorer_section_count = SECTION_COUNT;
const unsigned long long explorer_shared_operations = SHARED_OPERATIONS;
""".strip()

MACROS = f"""
#define sections explorer_sections
#define SECTION_COUNT explorer_section_count
#define SHARED_OPERATIONS explorer_shared_operations
#define MAX_SECTIONS {MAX_SECTIONS}
""".strip()


def without_driver(source: str) -> str | None:
    """The program's text with definitions for a driver elsewhere in the place of its own.

    None where the text does not end with the driver (OpenCL, programs in parts, text by hand) or
    has more than `MAX_SECTIONS` sections. Lines before the driver keep their numbers.
    """
    text = source.rstrip("\n")
    driver = _driver()
    counts = re.findall(r"^#define SECTION_COUNT (\d+)$", text, re.MULTILINE)
    if not text.endswith(f"\n{driver}") or len(counts) != 1 or int(counts[0]) > MAX_SECTIONS:
        return None
    return f"{text.removesuffix(driver)}{DECLARATIONS}\n{DEFINITIONS}\n"


@cache
def driver_source() -> str:
    """The driver as a whole translation unit."""
    types = driver_text("types")
    parts = (C_HEADERS, DRIVER_HEADERS, EXPORTED, types, DECLARATIONS, MACROS, _driver())
    return "\n".join(parts) + "\n"


@cache
def _driver() -> str:
    return driver_text("run")
