"""What printed kernels call: vector types, functions of vectors, the driver; as text files.

The files under `c/` and `opencl/`, and those for both languages, are divided into sections; a
program gets only those that its kernels need. A section opens with a line

    //! exp vector float: mask select
        |   |             +-- sections that it needs in turn
        |   +-- for which element types: scalar or vector, float or integer, double; wide (more than
        |       4 lanes) or narrow; of several that apply the first one is taken
        +-- its name, as in `Requirement.section`

and its text is a template: `$vector` is float16 or int8, `$mask` the integers as wide as those,
`$scalar` the element in this language, `$suffix` how function names end, `$half_vector` the
vector of half as many lanes. Among the needs `half_x` is x for half as many lanes, `scalar_x` x
for scalars, `uint_x` x for unsigned integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template

from explorer.kernels.loops.scalar_types import BY_NAME, SIGNED
from explorer.kernels.printing.language import Language, Requirement, vector_name

MARK = "//! "


@dataclass(frozen=True)
class Section:
    """One section of a prelude file."""

    name: str
    applies_to: frozenset[str]
    """All must hold for a requirement: scalar, vector, float, integer, wide, narrow, double."""
    needs: tuple[str, ...]
    text: str


def prelude_lines(language: Language, requirements: Iterable[Requirement]) -> list[str]:
    """The text of all sections that the requirements need, each after what it calls itself."""
    sections = read_sections(language.prelude_files)
    ordered: dict[Requirement, str] = {}
    for requirement in [Requirement("base"), *sorted(set(requirements))]:
        _add(requirement, language, sections, ordered)
    lines: list[str] = []
    for text in ordered.values():
        lines += [*text.splitlines(), ""] if text else []
    return lines


@cache
def read_sections(files: tuple[str, ...]) -> Mapping[str, tuple[Section, ...]]:
    """The sections of a language's files by name; several of one name are for different types."""
    found: dict[str, tuple[Section, ...]] = {}
    for file in files:
        text = (Path(__file__).parent / file).read_text(encoding="ascii")
        for part in text.split(MARK)[1:]:
            header, _, body = part.partition("\n")
            title, _, needs = header.partition(":")
            name, *applies_to = title.split()
            section = Section(name, frozenset(applies_to), tuple(needs.split()), body.strip("\n"))
            found[name] = (*found.get(name, ()), section)
    return found


def driver_text(name: str) -> str:
    """A part of the C driver: `types` (before the table of sections) or `run` (after it)."""
    text = (Path(__file__).parent / "c/driver.c").read_text(encoding="ascii")
    parts = {p.partition("\n")[0]: p.partition("\n")[2] for p in text.split(MARK)[1:]}
    return parts[name].strip("\n")


def _add(
    requirement: Requirement,
    language: Language,
    sections: Mapping[str, tuple[Section, ...]],
    ordered: dict[Requirement, str],
) -> None:
    if any(not (s.applies_to or "$" in s.text) for s in sections.get(requirement.section, ())):
        requirement = Requirement(requirement.section)  # it stands once, for all types
    if requirement in ordered:
        return
    if requirement.section != "vector" and requirement.lanes:
        needed_type = Requirement("vector", requirement.element, requirement.lanes)
        _add(needed_type, language, sections, ordered)
    elif requirement.element in sections:  # double has to be declared or enabled
        _add(Requirement(requirement.element), language, sections, ordered)
    facts = _facts(requirement)
    matching = [s for s in sections.get(requirement.section, ()) if s.applies_to <= facts]
    if not matching:
        # What a language has of its own (OpenCL's vector types) needs no section.
        ordered[requirement] = ""
        return
    section = matching[0]
    for need in section.needs:
        _add(_needed(need, requirement), language, sections, ordered)
    ordered[requirement] = _fill(section, requirement, language)


def _facts(requirement: Requirement) -> frozenset[str]:
    if not requirement.element:
        return frozenset()
    element = BY_NAME[requirement.element]
    return frozenset(
        {
            "vector" if requirement.lanes else "scalar",
            "float" if element.is_float else "integer",
            element.name,
            "wide" if requirement.lanes > 4 else "narrow",
        }
    )


def _needed(need: str, requirement: Requirement) -> Requirement:
    base = replace(requirement, function="")
    if need == "mask":
        signed = SIGNED[BY_NAME[requirement.element].bits]
        return replace(base, section="vector", element=signed.name)
    if need.startswith("half_"):
        return replace(base, section=need.removeprefix("half_"), lanes=requirement.lanes // 2)
    if need.startswith("scalar_"):
        return replace(base, section=need.removeprefix("scalar_"), lanes=0)
    element, _, section = need.partition("_")
    if element in BY_NAME and section:
        return replace(base, section=section, element=element)
    return replace(base, section=need)


def _fill(section: Section, requirement: Requirement, language: Language) -> str:
    if not requirement.element:
        return section.text
    element, lanes = BY_NAME[requirement.element], requirement.lanes
    float_suffix = "f" if element.bits == 32 else ""
    return Template(section.text).substitute(
        scalar=language.scalar_name(element),
        suffix=language.suffix_name(element, 0),
        vector=vector_name(element, lanes),
        mask=vector_name(SIGNED[element.bits], lanes),
        half_vector=vector_name(element, lanes // 2),
        lanes=lanes,
        bytes=lanes * element.size_bytes,
        element_bytes=element.size_bytes,
        function=requirement.function,
        libm=requirement.function + float_suffix,
    )
