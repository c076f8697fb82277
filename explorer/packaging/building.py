"""Makefile, CMakeLists.txt and README.md: how the package is built, and what its reader finds."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.backends import backend_of
from explorer.packaging.driver import elements_of, fill, template
from explorer.packaging.memories import PackageMemory, memories_of, memory_rows
from explorer.packaging.source import PackageSource
from explorer.targets import Target

REQUIRED_FLAGS = ("-std=c99", "-fwrapv")
"""Integers wrap around where they overflow, as the models' formats say."""
FAST_FLAGS = ("-O2", "-fno-tree-vectorize")
SMALL_FLAGS = ("-Os", "-ffunction-sections", "-fdata-sections")
SCALAR_FLAGS = ("-funroll-loops",)
"""Schedules without vectors unroll nothing, and the compiler nothing by itself."""
ARITHMETIC_FLAGS = (
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
)
GCC_FLAGS = (
    "-mprefer-vector-width=512", "-fira-region=one", "-fno-ipa-modref", "-fno-ipa-pure-const"
)  # fmt: skip
"""Each is used where the compiler knows it; the just-in-time program is compiled with the same."""


def flags_of(target: Target, threads: int = 1) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(flags that are always given, flags where the compiler knows them)."""
    chosen, optional = _flags_of(target)
    return (*chosen, *(("-pthread",) if threads > 1 else ())), optional


def _flags_of(target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if backend_of(target).needs_host_program:
        return ("-O2",), ()
    is_small = target.optimize == "size"
    speed = SMALL_FLAGS if is_small else FAST_FLAGS
    if target.vector_floats == 1 and not is_small:
        speed = (*speed, *SCALAR_FLAGS)
    chosen = [*speed, *ARITHMETIC_FLAGS, *target.package.flags]
    optional = [] if is_small else [*GCC_FLAGS]
    if target.package.triple or target.package.flags:
        return tuple(chosen), tuple(optional)
    if target.processor == "native":
        optional.append("-march=native")
    else:
        chosen.append(f"-march={target.processor}")
    return tuple(chosen), tuple(optional)


def makefile_text(source: PackageSource) -> str:
    chosen, optional = flags_of(source.target, source.threads)
    files = [] if source.storage == "file" else ["weights"]
    if source.is_opencl:
        files += ["binary"] if source.is_stripped else ["binary", "source"]
    else:
        files.append("kernels")
    return _filled(
        source,
        template("Makefile"),
        required=" ".join(REQUIRED_FLAGS),
        chosen=" ".join(chosen),
        optional=" ".join(optional),
        pedantic="" if source.has_vectors else " -pedantic-errors",
        parts="".join(f" src/{source.name}_{file}.h" for file in files),
        libraries="-lOpenCL -lm" if source.is_opencl else "-lm",
    )


def cmake_text(source: PackageSource) -> str:
    chosen, optional = flags_of(source.target)
    flags = " ".join((*REQUIRED_FLAGS[1:], *chosen, *optional))
    return _filled(
        source,
        template("CMakeLists.txt"),
        flags=flags,
        find_threads="find_package(Threads REQUIRED)" if source.threads > 1 else "",
        link_threads=f"target_link_libraries({source.name} PUBLIC Threads::Threads)"
        if source.threads > 1
        else "",
        find_library="find_package(OpenCL REQUIRED)" if source.is_opencl else "",
        link_library=f"target_link_libraries({source.name} PUBLIC OpenCL::OpenCL)"
        if source.is_opencl
        else "",
    )


def readme_text(source: PackageSource) -> str:
    name, macro = source.name, source.macro
    is_file = source.storage == "file"
    ports = [
        f"| {kind} {number} | {elements_of(port)}{_scale_text(port.scale, port.zero_point)} |"
        for kind, group in (("input", source.inputs), ("output", source.outputs))
        for number, port in enumerate(group)
    ]
    own = "a neural network" if source.is_stripped else f"the model `{name}`"
    memories = memories_of(source)
    is_one = len(memories) == 1
    arguments = ", ".join(f"{m.name}, {macro}_{m.macro}_BYTES" for m in memories)
    arguments += f", weights, {macro}_WEIGHTS_BYTES" if is_file else ""
    if source.is_opencl:
        elsewhere = (
            " There is no other program."
            if source.is_stripped
            else f" Elsewhere the text in `src/{name}_source.h` is built, "
            f"which `src/{name}_kernels.cl` shows."
        )
        return _filled(
            source,
            template("opencl_README.md"),
            title=f"{own} on {source.device}",
            arena_bytes=f"{source.program.arena_bytes:,}",
            weights_bytes=f"{source.program.weights_bytes:,}",
            ports="\n".join(ports),
            device=source.opencl_binary.device[0] if source.opencl_binary else "no device",
            elsewhere=elsewhere,
        )
    return _filled(
        source,
        template("README.md"),
        title=f"{own} on {source.device}",
        memory_rows=memory_rows(source),
        where="the arena" if is_one else "these memories",
        block="An arena" if is_one else "Each memory",
        weights_bytes=f"{source.program.weights_bytes:,}",
        alignment=str(source.alignment_bytes),
        ports="\n".join(ports),
        arguments=arguments,
        size=f", {source.sizes.passed}" if source.sizes else "",
        close=f"{name}_close(&model);" if source.threads > 1 else "",
        system="no operating system, no threads"
        if source.threads == 1
        else f"{source.threads} threads of POSIX",
        static=""
        if is_file
        else f" Compiled with `-D{macro}_STATIC_ARENA`, the library has one of its own, which a "
        "`NULL` chooses." + ("" if is_one else _sections(memories, macro)),
        weights=f" The weights are the file `{name}.weights`, to be read or mapped; its numbers "
        "have their least significant byte first."
        if is_file
        else f" Weights are constant arrays in `src/{name}_weights.h`.",
    )


def _sections(memories: Sequence[PackageMemory], macro: str) -> str:
    names = " and ".join(f"`{macro}_{memory.macro}_SECTION`" for memory in memories)
    return (
        f" {names} follow their declarations: "
        f"`-D{macro}_{memories[0].macro}_SECTION='__attribute__((section(\".fast\")))'` lets a "
        "linker script place it."
    )


def _scale_text(scale: float, zero_point: int) -> str:
    return f", real = (stored - {zero_point}) * {scale!r}" if scale else ""


def _filled(source: PackageSource, template: str, **values: str) -> str:
    own = {**values, "name": source.name, "NAME": source.macro}
    return fill(template, own).rstrip() + "\n"
