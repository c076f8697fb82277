"""Levers of the time to compile: passes that may be left out, by the time that they took.

fuse-residual = False                  12 ms less of 2.1 s, by the time of the pass

What the other passes take without it is not predicted: they have another program.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compilation.compiled import Compiled
from explorer.compilation.levers.precision import file_name
from explorer.results.levers import LeverOption, LeverRecord

SOURCE = "the time of the pass in this compilation; the other passes keep theirs"
MIN_SHARE = 0.002
"""Passes that take less of the whole are not listed."""
MAX_FIXED = 8


def compile_seconds(compiled: Compiled) -> float:
    """The sum of all passes, as the page shows it."""
    return sum(result.seconds for result in compiled.passes)


def compile_levers(compiled: Compiled) -> Iterator[LeverRecord]:
    """Passes that may be left out, and the cache of programs."""
    least = MIN_SHARE * compile_seconds(compiled)
    optional = {pass_.name for pass_ in compiled.pipeline if not pass_.is_required}
    for result in compiled.passes:
        if result.name in optional and result.seconds >= least:
            option = LeverOption(
                value=False, decisions=((result.name, False),), change=-result.seconds
            )
            yield LeverRecord(
                address=result.name,
                group="pass",
                of="",
                title=result.name,
                value=True,
                options=(option,),
                source=SOURCE,
            )
    yield LeverRecord(
        address="",
        group="package",
        of="",
        title="compile once",
        value=None,
        why="a package, or a program in the cache, starts without any pass",
        commands=(f"explorer package {file_name(compiled)} -o DIR", "explorer cache"),
    )


def required_passes(compiled: Compiled) -> Iterator[tuple[str, str]]:
    """The longest passes that no decision leaves out, and why."""
    required = {pass_.name for pass_ in compiled.pipeline if pass_.is_required}
    first = compiled.passes[0].name
    kept = [result for result in compiled.passes if result.name in {*required, first}]
    for result in sorted(kept, key=lambda result: -result.seconds)[:MAX_FIXED]:
        yield result.name, f"{result.seconds:.2g} s, and no program comes about without it"
