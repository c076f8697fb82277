"""Reads problems of other memory planners, to be measured on the same ones.

The format is MiniMalloc's: a table with one buffer per line, live in times [lower, upper). Times
may be sparse; between two neighbouring starts nothing is born, so these intervals are the steps:

    id,lower,upper,size             buffer   first   last   size_bytes
    0,100,205,64            ->      0            0      2           64
    1,200,300,32                    1            1      2           32

Two more columns may follow: `alignment` of a buffer in bytes, and `offset`, where it has to lie.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explorer.errors import InputError
from explorer.files import reading_file
from explorer.results.memory import BufferLifetime

MAX_TOTAL_BYTES = 2**62
"""Sums of sizes beyond this are no addresses."""


@dataclass(frozen=True)
class Instance:
    """A problem of memory planning."""

    buffers: tuple[BufferLifetime, ...]
    fixed: Mapping[int, int]
    """Offsets in bytes that are given, by the number of the buffer."""
    times: tuple[tuple[int, int], ...]
    """(lower, upper) of every buffer, as the file has them."""


def read_instance(path: str | Path) -> list[BufferLifetime]:
    """The buffers of a MiniMalloc table, in its order."""
    return list(read_problem(path).buffers)


def read_problem(path: str | Path) -> Instance:
    """The buffers of a table, in its order, and the offsets that it gives.

    InputError names the file and the line that is none.
    """
    path = Path(path)
    with reading_file(path, "table of buffers", kind=InputError):
        return _read(path)


def _read(path: Path) -> Instance:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = {"id", "lower", "upper", "size"} - set(reader.fieldnames or ())
        if missing:
            raise InputError(
                f"no column {', '.join(sorted(missing))}",
                file=str(path),
                hint="a table of buffers whose first line is id,lower,upper,size",
            )
        rows = [parse_row(path, reader.line_num, row) for row in reader]
    if sum(row.size for row in rows) >= MAX_TOTAL_BYTES:
        raise InputError("the sizes of all buffers exceed 62 bits", file=str(path))
    births = sorted({row.lower for row in rows})
    return Instance(
        buffers=tuple(
            BufferLifetime(
                id=row.name,
                values=(row.name,),
                size_bytes=row.size,
                first=bisect_left(births, row.lower),
                last=bisect_left(births, row.upper),
                alignment_bytes=row.alignment,
            )
            for row in rows
        ),
        fixed={i: row.offset for i, row in enumerate(rows) if row.offset is not None},
        times=tuple((row.lower, row.upper) for row in rows),
    )


@dataclass(frozen=True)
class Row:
    """One line."""

    name: str
    lower: int
    upper: int
    size: int
    alignment: int
    offset: int | None


def parse_row(path: Path, line: int, row: Mapping[str | None, str | None]) -> Row:
    """InputError where the line is no buffer."""
    try:
        found = Row(
            name=row["id"] or "",
            lower=int(row["lower"] or ""),
            upper=int(row["upper"] or ""),
            size=int(row["size"] or ""),
            alignment=int(row.get("alignment") or 1),
            offset=int(given) if (given := (row.get("offset") or "").strip()) else None,
        )
    except (TypeError, ValueError):
        found = None
    is_sound = (
        found is not None
        and None not in row
        and found.lower < found.upper
        and found.size >= 0
        and found.alignment > 0
        and (found.offset is None or found.offset >= 0)
    )
    if found is None or not is_sound:
        raise InputError(
            f"line {line} is no buffer: {','.join(str(v) for v in row.values())}",
            file=str(path),
            hint="whole numbers, lower below upper, size 0 or more, alignment 1 or more",
        )
    return found
