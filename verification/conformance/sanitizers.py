"""Running generated C under the address and undefined-behaviour sanitizers.

    run_cases(cases, ("CPU",), settings=sanitized())

The library is compiled with -fsanitize=address,undefined and loaded into a child process in which
the sanitizers' runtime was loaded first. Arena and weights are one block of memory each, in which
a sanitizer sees nothing wrong by itself. So the library gets another `explorer_run`: around every
kernel it poisons all of both but the launch's own arguments, and an access beside an argument is
found although it stays inside the arena.
"""

from __future__ import annotations

from pathlib import Path

from explorer.compilation import Compilation
from explorer.errors import BuildError
from explorer.onnx_backend.backend import Opener
from explorer.results.program import Program
from explorer.runtime.compilers import Compiler, compile_shared_library, find_compiler
from explorer.runtime.executable import Executable
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.processes import run_command

FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g1",
    "-Dexplorer_run=explorer_run_unguarded",
)

GUARDED_RUN = """
#undef explorer_run
#include <sanitizer/asan_interface.h>

// Runs all launches on one thread; of arena and weights a kernel may touch its arguments only.
EXPORTED int explorer_run(
    char *arena, const char *weights, int threads, void (*tap)(int launch, void *context),
    void *context, unsigned long long *nanoseconds)
{
    (void)threads;
    const unsigned long long origin = nanoseconds ? nanoseconds_now() : 0;
    for (int number = 0; number < SECTION_COUNT; number++) {
        const struct Section *section = &sections[number];
        const int launch = section->launch;
        const bool opens = number == 0 || sections[number - 1].launch != launch;
        const bool closes = sections[number + 1].launch != launch;
        if (nanoseconds && opens)
            nanoseconds[2 * launch] = nanoseconds_now() - origin;
        ASAN_POISON_MEMORY_REGION(arena, ARENA_BYTES);
        ASAN_POISON_MEMORY_REGION(weights, WEIGHTS_BYTES);
        for (int i = first_extent[launch]; i < first_extent[launch + 1]; i++) {
            const char *base = extents[i].is_weight ? weights : arena;
            ASAN_UNPOISON_MEMORY_REGION(base + extents[i].offset, extents[i].size);
        }
        section->run(arena, weights, section->offsets, 0, section->tasks);
        ASAN_UNPOISON_MEMORY_REGION(arena, ARENA_BYTES);
        ASAN_UNPOISON_MEMORY_REGION(weights, WEIGHTS_BYTES);
        if (nanoseconds && closes)
            nanoseconds[2 * launch + 1] = nanoseconds_now() - origin;
        if (tap && closes)
            tap(launch, context);
    }
    return 0;
}
"""


def guard_text(program: Program) -> str:
    """C that comes after a program's own: the extents of every launch, and the guarded driver."""
    extents: list[str] = []
    first = [0]
    for launch in program.launches:
        for argument in launch.arguments:
            is_weight = int(argument.space == "weights")
            extents.append(f"    {{{argument.offset_bytes}, {argument.size_bytes}, {is_weight}}},")
        first.append(len(extents))
    return "\n".join(
        [
            f"#define ARENA_BYTES {program.arena_bytes}ul",
            f"#define WEIGHTS_BYTES {program.weights_bytes}ul",
            "struct Extent { size_t offset, size; int is_weight; };",
            "static const struct Extent extents[] = {",
            *extents,
            "    {0, 0, 0}",
            "};",
            f"static const int first_extent[] = {{{', '.join(map(str, first))}}};",
            GUARDED_RUN,
        ]
    )


def guarded_opener(folder: Path) -> Opener:
    """Opens C programs in this process, sanitized and guarded; libraries go to `folder`."""

    def open_program(compilation: Compilation) -> Executable:
        built = compilation.built

        def build(source: str) -> Path:
            return compile_shared_library(
                source + guard_text(built.program), folder, find_compiler(), FLAGS
            )

        return NativeProgram(built.program, built.weights, isolated=False, build=build)

    return open_program


def sanitizer_environment() -> dict[str, str]:
    """Variables of a process that loads such libraries.

    BuildError where the compiler has no runtime of the sanitizers.
    """
    compiler = find_compiler()
    libraries = [find_runtime(compiler, name) for name in ("libasan.so", "libubsan.so")]
    return {
        "LD_PRELOAD": ":".join(map(str, libraries)),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps memory on purpose
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def find_runtime(compiler: Compiler, library: str) -> Path:
    """Where the compiler keeps a sanitizer's shared library."""
    answer = run_command((*compiler.command, f"-print-file-name={library}"), seconds=60.0)
    path = Path(answer.output.strip())
    if answer.status != 0 or not path.is_absolute() or not path.exists():
        raise BuildError(
            f"{compiler.name} has no {library}", hint="install gcc with its sanitizers, and CC=gcc"
        )
    return path.resolve()
