"""A package for an OpenCL device: host code in C against the OpenCL API, and its kernels as text.

    include/NAME.h  src/NAME.c         init, run, close; one dispatch for each phase of a launch
    src/NAME_kernels.cl                the kernels, for people
    src/NAME_source.h                  the same text as lines of C
    src/NAME_binary.h                  what the driver at hand made of it, and for which device

The binary is taken where device and driver are the same; elsewhere the text is built. A stripped
package has the binary alone.
"""

from __future__ import annotations

import numpy as np

from explorer.packaging.driver import arena_map, fill, port_lines, port_values, template
from explorer.packaging.kernels import without_comments
from explorer.packaging.programs import TOLERANCE, VectorNumbers
from explorer.packaging.source import PackagePort, PackageSource
from explorer.packaging.text import one_line, string_literal, wrapped

MAX_LINE_CHARACTERS = 1000
"""Of the text in one string; C99 promises 4095."""


def opencl_files(source: PackageSource) -> dict[str, str | bytes]:
    """The files that a package in C has otherwise, by path."""
    name = source.name
    files: dict[str, str | bytes] = {
        f"include/{name}.h": _filled(source, "opencl.h"),
        f"src/{name}.c": _filled(source, "opencl.c"),
        f"src/{name}_binary.h": _binary_text(source),
        **_selftest_files(source),
        "example/main.c": _example_text(source),
    }
    if not source.is_stripped:
        text = "\n".join(source.opencl_lines)
        files[f"src/{name}_kernels.cl"] = text.encode("ascii", "backslashreplace").decode() + "\n"
        files[f"src/{name}_source.h"] = _source_text(source)
    return files


def _filled(source: PackageSource, file: str) -> str:
    rows = _dispatch_rows(source)
    values = {
        **port_values(source),
        "without_source": "; there is no other program" if source.is_stripped else "",
        "dispatch_count": str(len(rows)),
        "dispatches": "\n".join(rows),
        "offsets": "\n".join(
            f"    {argument.offset_bytes},"
            for launch in source.program.launches
            for argument in launch.arguments
        ),
        "arena_map": "\n".join(arena_map(source)),
        "source_include": "" if source.is_stripped else f'#include "{source.name}_source.h"',
        "build_source": "    return @NAME@_NOT_BUILT;"
        if source.is_stripped
        else template("opencl_build.c"),
        "inputs": "\n".join(port_lines(source, source.inputs, "in")),
        "outputs": "\n".join(port_lines(source, source.outputs, "out")),
    }
    return _finish(source, file, values)


def _finish(source: PackageSource, file: str, values: dict[str, str]) -> str:
    names = {"name": source.name, "NAME": source.macro}
    text = fill(fill(template(file), values), names)
    lines = text.split("\n")
    return "\n".join(without_comments(lines) if source.is_stripped else lines).rstrip() + "\n"


def _dispatch_rows(source: PackageSource) -> list[str]:
    """One for each phase with tasks, in the order in which they run."""
    rows: list[str] = []
    first = 0
    for launch in source.program.launches:
        for phase in source.records[launch.kernel].phases:
            if phase.tasks:
                items = phase.work_items or phase.tasks
                count = len(launch.arguments)
                row = (
                    f'"{phase.function}", &offsets[{first}], {count}, {items}, {phase.group_items}'
                )
                rows.append(f"    {{{row}}},  // {one_line(launch.operation)}")
        first += len(launch.arguments)
    return rows


def _source_text(source: PackageSource) -> str:
    """Lines of the kernels as strings, which compilers of OpenCL take one after another."""
    lines = ["static const char *const source[] = {"]
    for line in source.opencl_lines:
        for start in range(0, max(len(line), 1), MAX_LINE_CHARACTERS):
            part = line[start : start + MAX_LINE_CHARACTERS]
            is_last = start + MAX_LINE_CHARACTERS >= len(line)
            text = string_literal(part, 4 * MAX_LINE_CHARACTERS)
            lines.append(f'    {text[:-1]}\\n",' if is_last else f"    {text},")
    return "\n".join([*lines, "};"]) + "\n"


def _binary_text(source: PackageSource) -> str:
    binary = source.opencl_binary
    data = b"\0" if binary is None else binary.data
    device = ("", "", "") if binary is None else binary.device
    numbers = np.frombuffer(data, np.uint8).tolist()
    return "\n".join(
        [
            "static const char *const binary_device[3] = {",
            *(f"    {string_literal(text, 4000)}," for text in device),
            "};",
            f"static const unsigned char binary[{len(data)}] = {{",
            *wrapped(map(str, numbers)),
            "};",
            "",
        ]
    )


def _memories(ports: tuple[PackagePort, ...], name: str) -> list[str]:
    """An array for every port, aligned for its elements."""
    return [
        f"static union {{ double alignment; unsigned char bytes[{max(p.port.size_bytes, 1)}]; }} "
        f"{name}{number};"
        for number, p in enumerate(ports)
    ]


def _pointers(ports: tuple[PackagePort, ...], name: str) -> str:
    return ", ".join([*(f"&{name}{number}" for number in range(len(ports))), "NULL"])


def _selftest_files(source: PackageSource) -> dict[str, str | bytes]:
    numbers = VectorNumbers(source)
    inputs = [
        numbers.row(vector.inputs, f"in{number}") for number, vector in enumerate(source.vectors)
    ]
    expected = [
        numbers.row(vector.outputs, f"out{number}") for number, vector in enumerate(source.vectors)
    ]
    values = {
        "vectors": str(len(source.vectors)),
        "tolerance": repr(TOLERANCE),
        "arrays": numbers.definitions,
        "load": numbers.load,
        "inputs": "\n".join(inputs),
        "expected": "\n".join(expected),
        "memories": "\n".join(_memories(source.outputs, "found")),
        "outputs": _pointers(source.outputs, "found"),
        "compare": template("compare.c").rstrip(),
    }
    return numbers.with_text(_finish(source, "opencl_selftest.c", values))


def _example_text(source: PackageSource) -> str:
    memories = [*_memories(source.inputs, "zeros"), *_memories(source.outputs, "found")]
    values = {
        "memories": "\n".join(memories),
        "zeros": _pointers(source.inputs, "zeros"),
        "outputs": _pointers(source.outputs, "found"),
    }
    return _finish(source, "opencl_example.c", values)
