"""Levers that are no decision of a compilation: threads of a run, options of a package.

threads = 4                                 30.1 us less of 96 us, by the cost model
explorer package net.onnx -o DIR --weights file
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.compilation.compiled import Compiled
from explorer.compilation.levers.latency import predicted_seconds
from explorer.compilation.levers.precision import file_name
from explorer.processor import core_count
from explorer.results.levers import LeverOption, LeverRecord, Quantity


def options_outside(
    compiled: Compiled, quantity: Quantity, threads: int = 1
) -> Iterator[LeverRecord]:
    """What moves the quantity where the program is run or packaged. threads: of the last run."""
    if quantity == "seconds" and compiled.backend.runs_loops:
        yield from _threads(compiled, threads)
    if quantity in ("code_bytes", "weights_bytes") and compiled.backend.runs_loops:
        yield _package(compiled, quantity)


def _threads(compiled: Compiled, now: int) -> Iterator[LeverRecord]:
    most = core_count()
    counts = [count for count in (1, 2, 4, 8, 16) if count <= most and count != now]
    if not counts:
        return
    alone = predicted_seconds(compiled, now)
    options = []
    for count in counts:
        shared = None if alone is None else predicted_seconds(compiled, count)
        change = None if shared is None or alone is None else shared - alone
        options.append(LeverOption(value=count, decisions=(), change=change))
    name = file_name(compiled)
    yield LeverRecord(
        address="",
        group="threads",
        of="",
        title="threads",
        value=now,
        options=tuple(options),
        source="the cost model, without the time in which threads wait for one another",
        why=f"{most} processors are there; a run takes the number, not the compilation",
        commands=(
            f"explorer bench {name} --threads {max(counts, default=most)}",
            f"explorer package {name} -o DIR --threads {max(counts, default=most)}",
        ),
    )


def _package(compiled: Compiled, quantity: Quantity) -> LeverRecord:
    name = file_name(compiled)
    if quantity == "weights_bytes":
        commands = (f"explorer package {name} -o DIR --weights file",)
        why = "weights are constant arrays of the code; a file is read or mapped when it starts"
    else:
        commands = (
            f"explorer package {name} -o DIR --optimize size --build",
            f"explorer package {name} -o DIR --strip --weights file --build",
        )
        why = "schedules of a package, and names of the model in it; --build counts its bytes"
    return LeverRecord(
        address="", group="package", of="", title="package", value=None, why=why, commands=commands,
        unpredicted="`explorer inspect-package DIR` counts what a package has",
    )  # fmt: skip
