"""A kernel's source with the statement that every line comes from, and its schedule step by step.

       1    static void conv_1(...) {
       7  a          sum += in[...] * load8(...);        a = conv_1/main
       8  b      sum = max8(sum, zero8);                 b = conv_1/activation

Owners have a letter and a tint, so that the link reads without colour too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from explorer.results.kernels import KernelRecord, ScheduleStep
from explorer.results.source import SourceText
from explorer.views.numbers import format_amount, format_bytes, format_change, format_count
from explorer.views.parts.markup import (
    BREAKS,
    card,
    code,
    escape,
    fold,
    in_both_schemes,
    note,
    paragraph,
    plain,
    quiet,
    table,
)
from explorer.views.parts.plain import columns
from explorer.views.theme import (
    BLUE,
    BLUISH_GREEN,
    LIGHT,
    MONOSPACE,
    ORANGE,
    REDDISH_PURPLE,
    SKY_BLUE,
    VERMILLION,
    YELLOW,
    tone_of,
)

SHOWN_LINES = 160
_TINTS = (BLUE, ORANGE, BLUISH_GREEN, REDDISH_PURPLE, VERMILLION, SKY_BLUE, YELLOW)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def source_text(source: SourceText, limit: int = SHOWN_LINES) -> str:
    """Numbered lines, each with the letters of its owners, and what the letters stand for."""
    letters = _letters(source)
    rows = [
        (str(number), _marks(owners, letters), _code_line(line))
        for number, (line, owners) in enumerate(
            zip(source.lines[:limit], source.owners[:limit], strict=True), start=1
        )
    ]
    lines = columns(rows, align="rll")
    if len(source.lines) > limit:
        lines.append(f"  and {len(source.lines) - limit} more lines: source.lines")
    lines += [f"  {letter} = {plain(owner)}" for owner, letter in letters.items()]
    return "\n".join(lines)


def source_html(source: SourceText, limit: int = SHOWN_LINES) -> str:
    """The same with tinted lines; long lines wrap. A part of a card, not a card."""
    letters = _letters(source)
    tints = {owner: _TINTS[i % len(_TINTS)] for i, owner in enumerate(letters)}
    rows = "".join(
        _tinted_line(number, line, owners, letters, tints)
        for number, (line, owners) in enumerate(
            zip(source.lines[:limit], source.owners[:limit], strict=True), start=1
        )
    )
    style = (
        f"margin-top:8px;max-width:100%;border:1px solid {LIGHT.border};"
        f"font-family:{MONOSPACE};font-size:12px;line-height:1.5;background-color:{LIGHT.background}"
    )
    html = f'<div style="{style}">{rows}</div>'
    if letters:
        entries = [
            f'<span style="background-color:{tone_of(tints[owner], LIGHT).fill};color:{LIGHT.text};'
            f'padding:0 6px">{escape(letter)}</span> {code(owner)}'
            for owner, letter in letters.items()
        ]
        html += paragraph(" &ensp; ".join(entries))
    if len(source.lines) > limit:
        html += note(f"and {len(source.lines) - limit} more lines: source.lines")
    return in_both_schemes(html)


def kernel_text(kernel: KernelRecord) -> str:
    """A kernel's numbers, what to know about its schedule, and its source."""
    told = [plain(kernel.note)] if kernel.note else []
    first = f"{plain(kernel.name)}   {_summary(kernel)}"
    return "\n".join([first, *told, source_text(kernel.source)])


def kernel_html(kernel: KernelRecord) -> str:
    """A card of the same, with the schedule folded behind it."""
    launched = ", ".join(kernel.operations)
    body = paragraph(f"{quiet('launched by')} {code(launched)}")
    body += note(kernel.note) if kernel.note else ""
    body += source_html(kernel.source)
    if kernel.steps:
        body += fold(
            f"schedule: {format_count(len(kernel.steps), 'step')}", _steps_of(kernel.steps)
        )
    return card(kernel.name, body, subtitle=_summary(kernel))


def schedule_text(kernel: KernelRecord) -> str:
    """The steps of the schedule, a numbered line each."""
    rows = [
        (
            f"{number}.",
            f"{plain(step.name)}({_arguments(step)})",
            *_effect(kernel.steps, number - 1),
        )
        for number, step in enumerate(kernel.steps, start=1)
    ]
    title = f"{plain(kernel.name)}   schedule of {format_count(len(kernel.steps), 'step')}"
    return "\n".join([title, *columns(rows, ("", "step", "ops", "lines"), "rlll")])


def schedule_html(kernel: KernelRecord) -> str:
    """A card with the steps of the schedule; each opens to the loop nest after it."""
    subtitle = f"schedule of {format_count(len(kernel.steps), 'step')}"
    return card(kernel.name, _steps_of(kernel.steps), subtitle=subtitle)


def _steps_of(steps: Sequence[ScheduleStep]) -> str:
    html = table(
        [
            [
                quiet(f"{number}."),
                code(f"{step.name}({_arguments(step)})"),
                *(escape(part) for part in _effect(steps, number - 1)),
            ]
            for number, step in enumerate(steps, start=1)
        ],
        ("", "step", "operations", "lines"),
        "rlnn",
    )
    for number, step in enumerate(steps, start=1):
        html += fold(f"nest after {number}. {step.name}", source_html(step.text))
    return html


def _effect(steps: Sequence[ScheduleStep], index: int) -> tuple[str, str]:
    """(operations, lines that differ) of a step against the one before."""
    step = steps[index]
    if index == 0:
        return format_count(step.operations), format_count(len(step.text.lines), "line")
    before = steps[index - 1]
    change = format_change(before.operations, step.operations)
    matcher = SequenceMatcher(None, before.text.lines, step.text.lines, autojunk=False)
    added = removed = 0
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag != "equal":
            removed, added = removed + last - first, added + new_last - new_first
    lines = f"+{added} −{removed}" if added or removed else "="
    return f"{format_count(step.operations)} ({change})", lines


def _arguments(step: ScheduleStep) -> str:
    return ", ".join(f"{plain(name)} = {plain(value)}" for name, value in step.arguments)


def _summary(kernel: KernelRecord) -> str:
    tasks = ", ".join(format_count(phase.tasks, "task") for phase in kernel.phases)
    parts = [
        plain(kernel.kind),
        f"{format_amount(kernel.flops)} FLOP",
        f"{format_bytes(kernel.bytes_moved)} moved",
        tasks,
    ]
    return " · ".join(part for part in parts if part)


def _letters(source: SourceText) -> dict[str, str]:
    """A letter (after z a number) for every owner, in the order of its first line."""
    owners = dict.fromkeys(owner for line in source.owners for owner in line)
    return {
        owner: _LETTERS[i] if i < len(_LETTERS) else str(i + 1) for i, owner in enumerate(owners)
    }


def _marks(owners: Sequence[str], letters: Mapping[str, str]) -> str:
    shown = " ".join(letters[owner] for owner in owners[:3])
    return shown + ("…" if len(owners) > 3 else "")


def _code_line(line: str) -> str:
    """A line with its indentation: tabs as four spaces, since `plain` shows control characters."""
    return line.expandtabs(4)


def _tinted_line(
    number: int,
    line: str,
    owners: Sequence[str],
    letters: Mapping[str, str],
    tints: Mapping[str, str],
) -> str:
    ground = tone_of(tints[owners[0]], LIGHT).fill if owners else LIGHT.background
    # The number and the letters hang to the left, so that a wrapped line stays under its text.
    style = (
        f"padding:0 8px 0 88px;text-indent:-80px;background-color:{ground};color:{LIGHT.text};"
        f"white-space:pre-wrap;{BREAKS}"
    )
    mark = _marks(owners, letters)
    prefix = f'<span style="color:{LIGHT.quiet}">{number:>4}  {escape(mark):<4}</span>'
    return f'<div style="{style}">{prefix}{escape(_code_line(line)) or " "}</div>'
