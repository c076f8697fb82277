"""include/NAME.h and src/NAME.c: the interface, and a loop over the table of launches.

No threads, no memory of its own, nothing that is written but the arena and the caller's structure;
no header of an operating system. All names that a linker sees begin with the package's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

from explorer.kernels.printing.identifiers import identifier
from explorer.packaging.kernels import runner_name, runner_parameters, without_comments
from explorer.packaging.memories import has_several, memories_of, memory_values
from explorer.packaging.sizes import SizesInC
from explorer.packaging.source import NpuPart, PackagePort, PackageSource
from explorer.packaging.text import comment_block, one_line, string_literal
from explorer.results import Port

TYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float32", "float64",
)  # fmt: skip


def template(name: str) -> str:
    """A file of the folder `templates`; what is between two `@` is filled in."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="ascii")


def fill(text: str, values: dict[str, str]) -> str:
    """The text with `@key@` replaced; a line that only held an empty value is left out."""
    lines: list[str] = []
    for line in text.split("\n"):
        key = line.strip().strip("@")
        if line.startswith("@") and key in values and line == f"@{key}@":
            lines += values[key].split("\n") if values[key] else []
            continue
        for name, value in values.items():
            line = line.replace(f"@{name}@", value)
        lines.append(line)
    return "\n".join(lines)


def header_text(source: PackageSource) -> str:
    return _finish(source, fill(template("header.h"), _values(source)))


def driver_text(source: PackageSource) -> str:
    return _finish(source, fill(template("driver.c"), _values(source)))


def _finish(source: PackageSource, text: str) -> str:
    lines = text.split("\n")
    return "\n".join(without_comments(lines) if source.is_stripped else lines).rstrip() + "\n"


def _values(source: PackageSource) -> dict[str, str]:
    is_file = source.storage == "file"
    memories = memory_values(source)
    init = ["struct @name@ *model", memories["memory_parameters"]]
    init += ["const void *weights", "size_t weights_bytes"] if is_file else []
    init += ["@name@_npu run_npu", "void *user"] if source.npu_parts else []
    is_shared = source.threads > 1
    run = [
        "struct @name@ *model" if is_shared else "const struct @name@ *model",
        *([source.sizes.declared()] if source.sizes else []),
    ]
    known = {
        **port_values(source),
        **memories,
        "alignment": str(source.alignment_bytes),
        "weights_macros": _weights_macros(source),
        "init_note": "`weights` are the\n// bytes of the file @name@.weights, the caller's."
        if is_file
        else f"With\n// @NAME@_STATIC_ARENA, {memories['static_note']} may be NULL.",
        "init_parameters": ", ".join(init),
        "run_parameters": ", ".join(run),
        "weights_include": "" if is_file else '#include "@name@_weights.h"',
        "table": _table(source),
        "calls": "\n".join(_calls(source)),
        **_npu_values(source),
        **_team_values(source),
        "inputs": "\n".join(port_lines(source, source.inputs, "in")),
        "outputs": "\n".join(port_lines(source, source.outputs, "out")),
        "weights_check": _weights_check(source),
        **_size_values(source),
    }
    names = {"name": source.name, "NAME": source.macro}
    return {**{key: fill(text, names) for key, text in known.items()}, **names}


def port_values(source: PackageSource) -> dict[str, str]:
    """What the interfaces in C and for OpenCL have in common."""
    program = source.program
    ports = [p.port for p in (*source.inputs, *source.outputs)]
    return {
        "title": one_line(f"{source.name}: the model {source.model} for {source.device}"),
        "version": string_literal(source.version),
        "arena_bytes": str(program.arena_bytes),
        "weights_bytes": str(program.weights_bytes),
        "input_count": str(len(source.inputs)),
        "output_count": str(len(source.outputs)),
        "one_input": "" if source.inputs else " + 1",
        "one_output": "" if source.outputs else " + 1",
        "rank": str(max([len(port.shape) for port in ports] + [1])),
        "types": ",\n".join(f"    @NAME@_{name.upper()}" for name in TYPES),
    }


def _table(source: PackageSource) -> str:
    """The launches and what runs them; empty where an NPU runs all of the model."""
    if not source.program.launches and source.npu_parts:
        return ""
    values = {
        "parameters": runner_parameters(source),
        "launch_count": str(len(source.program.launches)),
        "offsets": "\n".join(_offset_lines(source)),
        "arena_map": "\n".join(arena_map(source)),
        "launches": "\n".join(_launch_lines(source)),
        "memories": memory_values(source)["memories"],
    }
    return (
        fill(template("team_table.c" if source.threads > 1 else "table.c"), values).rstrip() + "\n"
    )


def _calls(source: PackageSource) -> list[str]:
    """What a run does, part by part."""
    if not source.npu_parts:
        return ["    run_launches(model, 0, LAUNCHES);"]
    lines: list[str] = []
    for part in source.parts:
        for copy in part.copies:
            lines += [f"    // {one_line(copy.value)}"]
            lines += _copy(copy.destination_bytes, copy.source_bytes, copy.size_bytes)
        device = part.npu.device if part.npu else source.target.name
        lines.append(f"    // {one_line(f'{part.function} on {device}')}")
        if part.npu is not None:
            lines += _npu_call(part.function, part.npu)
        elif part.launches[0] < part.launches[1]:
            lines.append(f"    run_launches(model, {part.launches[0]}, {part.launches[1]});")
    return lines


def _copy(to: int, source: int, size: int) -> list[str]:
    return [
        f"    for (uint32_t i = 0; i < {size}u; i++)",
        f"        model->arena[{to}u + i] = model->arena[{source}u + i];",
    ]


def _npu_call(function: str, npu: NpuPart) -> list[str]:
    def pointers(ports: Sequence[Port]) -> str:
        return ", ".join([*(f"model->arena + {p.offset_bytes}u" for p in ports), "NULL"])

    return [
        "    {",
        f"        const void *const inputs[] = {{{pointers(npu.inputs)}}};",
        f"        void *const outputs[] = {{{pointers(npu.outputs)}}};",
        f"        if (model->run_npu(model->user, {part_macro(function)}, inputs, outputs) != 0)",
        "            return @NAME@_NPU_FAILED;",
        "    }",
    ]


def part_macro(function: str) -> str:
    """The enumerator of a part that an NPU runs."""
    return f"@NAME@_PART_{identifier(function).upper()}"


def _npu_values(source: PackageSource) -> dict[str, str]:
    """What the interface has where an NPU runs parts."""
    if not source.npu_parts:
        return {"npu_types": "", "npu_fields": "", "npu_assignments": ""}
    names = ",\n".join(f"    {part_macro(p.function)} = {n.number}" for p, n in source.npu_parts)
    values = {"device": source.device, "part_names": names}
    return {
        "npu_types": fill(template("npu_types.h"), values),
        "npu_fields": "    @name@_npu run_npu;\n    void *user;",
        "npu_assignments": "    model->run_npu = run_npu;\n    model->user = user;\n"
        "    if (run_npu == NULL)\n        return @NAME@_NPU_FAILED;",
    }


def _team_values(source: PackageSource) -> dict[str, str]:
    """What the interface and the driver have where several threads share a run."""
    names = ("team", "start", "close", "threads_include", "threads_status", "team_types",
             "team_field", "close_declaration")  # fmt: skip
    if source.threads == 1:
        return dict.fromkeys(names, "")
    return {
        "team": template("team.c").rstrip(),
        "start": "    if (start_workers(model) != @NAME@_OK) {\n        model->arena = NULL;\n"
        "        return @NAME@_NO_THREADS;\n    }",
        "close": template("team_close.c"),
        "threads_include": "#include <pthread.h>",
        "threads_status": "    @NAME@_NO_THREADS,       // the system starts no more of them",
        "team_types": fill(template("team_types.h"), {"threads": str(source.threads)}),
        "team_field": "    struct @name@_team team;  // @name@_init's: a model is not copied",
        "close_declaration": "\n// Ends the threads; before @name@_init is called again, and in the"
        " end.\nvoid @name@_close(struct @name@ *model);",
    }


def _size_values(source: PackageSource) -> dict[str, str]:
    """What the interface and the driver have where sizes are open."""
    names = ("size_macros", "run_note", "sizes_status", "sizes_declaration", "sizes", "size_check",
             "size_end")  # fmt: skip
    sizes = source.sizes
    if sizes is None:
        return dict.fromkeys(names, "")
    inputs, outputs = ([p.port for p in ports] for ports in (source.inputs, source.outputs))
    unused = [*sizes.unused, "    (void)whole;", "    (void)own;"]
    words = {
        "declared": sizes.declared(),
        "passed": sizes.passed,
        "unused": "\n".join(unused),
        "memory_parameter": sizes.memory_parameter,
    }
    checks = sizes.checks
    moves, enter, leave = "", sizes.numbers, [f"    (void){sizes.memory};", *sizes.unused]
    if source.program.sizes is not None:
        moves, enter, leave = _moves(source, sizes, words)
    found = {
        **words,
        "checks": "\n".join(checks),
        "input_shapes": "\n".join(_switch(sizes.shapes(inputs, sizes.sizes.inputs))),
        "output_shapes": "\n".join(_switch(sizes.shapes(outputs, sizes.sizes.outputs))),
        "moves": moves,
        "enter": "\n".join(enter),
        "leave": "\n".join(leave),
    }
    text = "\n".join([moves, *checks, *enter, *found.values()])
    found["divided"] = template("divided.c").rstrip() if "divided(" in text else ""
    call = f"{sizes.passed}"
    return {
        "size_macros": sizes.macros,
        "run_note": " Sizes: of the open dimensions, which\n// are checked. Inputs and outputs lie "
        "without gaps, as long as\n// @name@_input_at and @name@_output_at say.",
        "sizes_status": "    @NAME@_BAD_RELATION,     // sizes that do not go together\n"
        "    @NAME@_NO_TENSOR,        // an input or output that there is not",
        "sizes_declaration": fill(template("sizes.h"), words).rstrip(),
        "sizes": fill(template("sizes.c"), found).rstrip(),
        "size_check": f"    const int wrong = check_sizes({call});\n"
        "    if (wrong != @NAME@_OK)\n        return wrong;\n"
        f"    enter(model->{sizes.memory}, {call});",
        "size_end": f"    leave(model->{sizes.memory}, {call});",
    }


def _moves(
    source: PackageSource, sizes: SizesInC, words: dict[str, str]
) -> tuple[str, list[str], list[str]]:
    """Functions that move numbers of inputs and outputs, and the statements that call them."""
    inputs, outputs = ([p.port for p in ports] for ports in (source.inputs, source.outputs))
    own, masks = sizes.sizes, sizes.sizes.masks
    masked = [axis for mask in masks for axis in mask.axes]
    cases = {
        "input_axes": sizes.factors(inputs, own.inputs),
        "output_axes": sizes.factors(outputs, own.outputs),
    }
    filled = {key: "\n".join(_switch(lines)) for key, lines in cases.items()}
    mask_axes = "\n".join(_switch(sizes.factors(masks, masked)))
    filled["mask_axes"] = (
        fill(template("mask_axes.c"), {**words, "cases": mask_axes}) if masks else ""
    )
    filled["mark"] = template("mark.c").rstrip() if masks else ""
    arrays = f"    int64_t whole[{sizes.most_factors}], own[{sizes.most_factors}];\n    int count;"

    def each(kind: str, function: str) -> list[str]:
        return [
            f"    for (int i = 0; i < @NAME@_{kind.upper()}S; i++) {{",
            f"        const struct @name@_tensor *tensor = &@name@_{kind}s[i];",
            f"        count = {kind}_axes(i, {sizes.passed}, whole, own);",
            f"        {function}({sizes.at('tensor->offset_bytes')}, count, whole, own,",
            "            bytes_of_element(tensor->type));",
            "    }",
        ]

    enter = [arrays, *each("input", "spread"), *sizes.numbers]
    return (
        fill(template("size_moves.c"), {**words, **filled}),
        enter,
        [arrays, *each("output", "gather")],
    )


def _switch(cases: Sequence[str]) -> list[str]:
    return ["    switch (number) {", *cases, "    default:", "        break;", "    }"]


def _weights_macros(source: PackageSource) -> str:
    if source.storage == "array":
        return ""
    return f"#define @NAME@_WEIGHTS_ALIGNMENT {source.element_alignment_bytes}u"


def _weights_check(source: PackageSource) -> str:
    if source.storage == "array":
        return f"    model->weights = (const unsigned char *)&{source.name}_weights;"
    return (
        "    if (weights == NULL || weights_bytes < @NAME@_WEIGHTS_BYTES\n"
        "        || (uintptr_t)weights % @NAME@_WEIGHTS_ALIGNMENT != 0)\n"
        "        return @NAME@_BAD_WEIGHTS;\n"
        "    model->weights = (const unsigned char *)weights;"
    )


def _offset_lines(source: PackageSource) -> list[str]:
    lines: list[str] = []
    for launch in source.program.launches:
        text = f"    // {one_line(launch.operation)}: {one_line(launch.kernel)}"
        lines.append(text)
        for argument in launch.arguments:
            place = f"{argument.space} {one_line(argument.name)}"
            lines.append(f"    {argument.offset_bytes},  // {place}")
    return lines


def _launch_lines(source: PackageSource) -> list[str]:
    lines: list[str] = []
    first = 0
    for launch in source.program.launches:
        nodes = ", ".join(launch.sources)
        note = one_line(f"{launch.operation}: {nodes}" if nodes else launch.operation)
        lines.append(f"    {{{runner_name(launch.kernel)}, &offsets[{first}]}},  // {note}")
        first += len(launch.arguments)
    return lines


def arena_map(source: PackageSource) -> list[str]:
    """Where every buffer lies and from which launch to which, by its first byte."""
    plan = source.plan
    what = "The arena"
    if has_several(source):
        what += f" of {', '.join(f'{m.name} from {m.first}' for m in memories_of(source))}"
    heading = (
        f"{what}, {source.program.arena_bytes:,} bytes; "
        f"{plan.bound_bytes:,} are live at once"
        f"{', so that no plan is smaller' if plan.optimal else ''}."
    )
    rows = [("bytes", "launches", "values")]
    for place in sorted(plan.placements, key=lambda p: (p.offset_bytes, p.buffer.first)):
        buffer = place.buffer
        end = place.offset_bytes + buffer.size_bytes
        span = f"{buffer.first}..{max(buffer.last - 1, buffer.first)}"
        rows.append((f"{place.offset_bytes}..{end - 1}", span, ", ".join(buffer.values)))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    table = [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows]
    return comment_block([heading, *table])


def port_lines(source: PackageSource, ports: tuple[PackagePort, ...], letter: str) -> list[str]:
    lines: list[str] = []
    for number, found in enumerate(ports):
        port = found.port
        name = f"{letter}{number}" if source.is_stripped else port.name
        shape = ", ".join(map(str, port.shape)) or "0"
        lines += [
            f"    {{{string_literal(name)}, {source.macro}_{port.element_type.upper()}, "
            f"{len(port.shape)}, {{{shape}}},",
            f"     {port.offset_bytes}u, {port.size_bytes}u, {float(found.scale)!r}f, "
            f"{found.zero_point}}},",
        ]
    return lines or ["    {0}"]


def elements_of(port: PackagePort) -> str:
    """`1 x 49 x 10 x 1, 490 elements of int8`, for people."""
    shape = " x ".join(map(str, port.port.shape)) or "scalar"
    return f"{shape}: {prod(port.port.shape):,} of {port.port.element_type}"
