"""The memories of a package: one arena, or one buffer for each memory of the target.

    fast 8192 bytes, slow 14080 bytes
    ->  net_init(&model, fast, NET_FAST_BYTES, slow, NET_SLOW_BYTES)
        at(model->memories, 9000)    byte 808 of slow: offsets count through all memories

Everything else of the package has one number for a place, whether there is one memory or several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.kernels.printing.identifiers import identifier
from explorer.packaging.source import PackageSource

TAKEN = ("model", "weights", "weights_bytes", "size", "run_npu", "user", "inputs", "outputs", "at")
"""Names that the package's functions use."""

PLACE_OF = """\
// Where a byte lies; bytes are counted through all memories, one after the other.
static unsigned char *at(unsigned char *const *memories, uint32_t place)
{{
{cases}
    return memories[0] + place;
}}
"""

STATIC = """\
// C99 cannot align an array: {block} is longer by what aligning its beginning takes.
static unsigned char static_{name}[@NAME@_{macro}_BYTES + @NAME@_ARENA_ALIGNMENT - 1]{section};"""

TAKE_STATIC = """\
    if ({name} == NULL) {{
        const uintptr_t past = (uintptr_t)static_{name} % @NAME@_ARENA_ALIGNMENT;
        {name} = static_{name} + (past ? @NAME@_ARENA_ALIGNMENT - past : 0);
        {name}_bytes = @NAME@_{macro}_BYTES;
    }}"""

CHECKS = """\
    if ({name} == NULL)
        return @NAME@_NO_ARENA;
    if ({name}_bytes < @NAME@_{macro}_BYTES)
        return @NAME@_ARENA_TOO_SMALL;
    if ((uintptr_t){name} % @NAME@_ARENA_ALIGNMENT != 0)
        return @NAME@_ARENA_UNALIGNED;"""

SECTION = """\
#ifndef @NAME@_{macro}_SECTION
#define @NAME@_{macro}_SECTION
#endif"""

OWN = """\
static union {{
    double alignment;
    unsigned char bytes[@NAME@_{macro}_BYTES + @NAME@_ARENA_ALIGNMENT];
}} {block};"""

ALIGN = """\
    while ((uintptr_t){name} % @NAME@_ARENA_ALIGNMENT)
        {name}++;"""


@dataclass(frozen=True)
class PackageMemory:
    """A buffer that the caller gives."""

    name: str
    """Of its parameter."""
    first: int
    """Its first byte, counted through all memories."""
    size_bytes: int

    @property
    def macro(self) -> str:
        return self.name.upper()


def has_several(source: PackageSource) -> bool:
    return len(source.program.memories) > 1


def memories_of(source: PackageSource) -> tuple[PackageMemory, ...]:
    """Those of the target, the fastest first; one that is called `arena` where there is one."""
    program = source.program
    if not has_several(source):
        return (PackageMemory("arena", 0, program.arena_bytes),)
    firsts = [memory.offset_bytes for memory in program.memories]
    ends = [*firsts[1:], program.arena_bytes]
    found: list[PackageMemory] = []
    for memory, first, end in zip(program.memories, firsts, ends, strict=True):
        name = identifier(memory.name)
        name = f"{name}_memory" if name in TAKEN else name
        found.append(PackageMemory(name, first, max(end - first, 1)))
    return tuple(found)


def place_of(source: PackageSource, number: str) -> str:
    """The address of a byte in functions that have the model."""
    if has_several(source):
        return f"at(model->memories, {number})"
    return f"model->arena + {number}"


def place_function(memories: Sequence[PackageMemory]) -> list[str]:
    """What finds the memory of a byte; nothing for one memory."""
    if len(memories) == 1:
        return []
    cases = "\n".join(
        f"    if (place >= {memory.first}u)\n"
        f"        return memories[{number}] + (place - {memory.first}u);"
        for number, memory in reversed([*enumerate(memories)][1:])
    )
    return PLACE_OF.format(cases=cases).split("\n")


def memory_values(source: PackageSource) -> dict[str, str]:
    """What templates have in the place of the arena."""
    memories = memories_of(source)
    is_one = len(memories) == 1

    def each(text: str) -> str:
        return "\n".join(
            text.format(
                name=memory.name,
                macro=memory.macro,
                block="the block" if is_one else "each block",
                section="" if is_one else f" @NAME@_{memory.macro}_SECTION",
            )
            for memory in memories
        )

    blocks = ["memory"] if is_one else [f"{memory.name}_block" for memory in memories]
    own = [
        OWN.format(macro=memory.macro, block=block)
        for memory, block in zip(memories, blocks, strict=True)
    ]
    pairs = [f"{memory.name}, @NAME@_{memory.macro}_BYTES" for memory in memories]
    sizes = [f"#define @NAME@_{m.macro}_BYTES {m.size_bytes}u" for m in memories]
    return {
        "memory_sizes": "\n".join(sizes),
        "memory_field": ""
        if is_one
        else f"    unsigned char *memories[{len(memories)}];  // arena is the first",
        "section_macros": "" if is_one else each(SECTION),
        "static_memories": each(STATIC),
        "take_static": each(TAKE_STATIC),
        "memory_checks": each(CHECKS),
        "memory_assignments": f"    model->arena = (unsigned char *){memories[0].name};"
        + "".join(
            f"\n    model->memories[{number}] = (unsigned char *){memory.name};"
            for number, memory in enumerate(memories)
            if not is_one
        ),
        "own_memories": "\n".join(own),
        "own_pointers": "\n".join(
            f"    unsigned char *{memory.name} = {block}.bytes;"
            for memory, block in zip(memories, blocks, strict=True)
        ),
        "own_alignment": each(ALIGN),
        "memory_arguments": ", ".join(pairs),
        "memory_parameters": ", ".join(f"void *{m.name}, size_t {m.name}_bytes" for m in memories),
        "memories": "model->arena" if is_one else "model->memories",
        "input_place": place_of(source, "@name@_inputs[number].offset_bytes"),
        "output_place": place_of(source, "@name@_outputs[number].offset_bytes"),
        "static_note": "`arena`" if is_one else "each memory",
    }


def memory_rows(source: PackageSource) -> str:
    """The rows of a table of the package's memory."""
    memories = memories_of(source)
    if len(memories) == 1:
        return f"| arena, read and written by a run | {source.program.arena_bytes:,} |"
    return "\n".join(
        f"| {memory.name}, read and written by a run | {memory.size_bytes:,} |"
        for memory in memories
    )
