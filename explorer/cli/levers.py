"""`explorer levers MODEL --of peak`: what moves a number, and by how much.

    explorer levers net.onnx --of peak
    explorer levers net.onnx --of latency --top 20
    explorer levers net.onnx --quantize TABLE --input eval.npz --of dB --json

Every line is a decision: `--decide ADDRESS=VALUE` takes it with any command.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines
from explorer.results.levers import RISES, SHORT, UNITS
from explorer.views.numbers import format_picojoules

if TYPE_CHECKING:
    from explorer.results.levers import LeverOption, LeverRecord, LeversRecord

SUMMARY = "what moves a number: decisions with their predicted changes"
TOP = 12
MAX_OPTIONS = 4
"""Values of a lever that are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_compiling(parser)
    parser.add_argument(
        "--of", choices=tuple(SHORT), default="peak", help="the number (default: peak)"
    )
    parser.add_argument(
        "--input",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="data on which decibels are measured, as `explorer serve --input` takes them",
    )
    parser.add_argument(
        "--top", type=options.count, default=TOP, metavar="N", help=f"levers (default: {TOP})"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.cli.terminal import Progress
    from explorer.results.encoding import to_json

    with Progress("compiling") as progress:
        compilation = explorer.compile(
            options.model_of(arguments),
            arguments.target,
            dimensions=dict(arguments.dim),
            progress=progress,
            **options.compile_options(arguments),
        )
    if arguments.input:
        compilation.attach(arguments.input)
    if SHORT[arguments.of] == "sqnr_db":
        compilation.accuracy()
    elif SHORT[arguments.of] in ("seconds", "cycles"):
        compilation.profile()
    found = compilation.levers(arguments.of)
    compilation.close()
    if arguments.json:
        print_json(to_json(found))
    else:
        print_lines(explained(found, arguments.top))
    return 0


def explained(found: LeversRecord, top: int = TOP) -> Iterator[str]:
    """Lines for a person."""
    value = "unknown" if found.value is None else amount(found.value, found.quantity)
    yield f"{found.quantity}: {value} ({found.value_source})"
    for lever in found.levers[:top]:
        of = f" of {lever.of}" if lever.of else ""
        yield f"  {lever.group}: {lever.title}{of}, now {lever.value}"
        yield from _details(lever, found.quantity)
    if len(found.levers) > top:
        yield f"  {len(found.levers) - top} more: --top {len(found.levers)}"
    for what, why in found.fixed:
        yield f"  not moved by a decision: {what}: {why}"


def _details(lever: LeverRecord, quantity: str) -> Iterator[str]:
    for option in lever.options[:MAX_OPTIONS]:
        decided = " ".join(f"--decide {a}={v}" for a, v in option.decisions if v is not None)
        yield f"    {change_words(option, quantity)}: {decided or option.value}"
    if len(lever.options) > MAX_OPTIONS:
        yield f"    {len(lever.options) - MAX_OPTIONS} more values"
    if lever.source:
        yield f"    predicted by {lever.source}"
    if lever.unpredicted:
        yield f"    not predicted: {lever.unpredicted}"
    for command in lever.commands:
        yield f"    {command}"


def change_words(option: LeverOption, quantity: str) -> str:
    """`147,456 bytes less, 12 µs more`; `not predicted`."""
    if option.change is None:
        return "not predicted" + (f", {option.also}" if option.also else "")
    if option.change == 0:
        words = "no change"
    else:
        rises = option.change > 0
        side = "more" if rises else "less"
        words = f"{amount(abs(option.change), quantity)} {side}"
        if rises != (quantity in RISES):
            words += " (worse)"
    return ", ".join(part for part in (words, option.also) if part)


def amount(value: float, quantity: str) -> str:
    """With its unit."""
    unit = UNITS[quantity]
    if unit == "s" and abs(value) >= 0.01:
        return f"{value:,.2f} s"
    if unit == "s":
        return f"{value * 1e6:,.1f} µs"
    if unit == "pJ":
        return format_picojoules(value)
    if unit == "dB":
        return f"{value:.1f} dB"
    return f"{value:,.0f} {unit}"
