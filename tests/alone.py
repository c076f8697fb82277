"""Programs of a few kernels without the driver of generated C, which takes the compiler longer.

    text = without_driver(emit_program("c", printed, launches).source.lines)

What it exports is called as in every program; all sections run in turn, on the caller's thread.
Test modules load this file by its path, for xDSL's wheel installs a top-level package `tests`.
"""

from collections.abc import Sequence

from explorer.kernels.printing.prelude import driver_text
from explorer.kernels.program.translation_unit import C_HEADERS

RUN = """\
EXPORTED int explorer_run(
    char *arena, const char *weights, int threads, void *tap, void *context, void *nanoseconds)
{
    for (const struct Section *section = sections; section->run; section++)
        section->run(arena, weights, section->offsets, 0, section->tasks);
    return 0;
}

EXPORTED void explorer_stop(void)
{
}
"""


def without_driver(lines: Sequence[str]) -> str:
    """The program's text with a loop in the place of the driver."""
    text = "\n".join(lines) + "\n"
    driver = driver_text("run").strip("\n") + "\n"
    assert text.startswith(C_HEADERS) and text.count(driver) == 1
    return text.removeprefix(C_HEADERS).replace(driver, RUN)
