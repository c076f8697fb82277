"""Reads problems of other memory planners, to be measured on the same ones.

The format is MiniMalloc's: a table with one buffer per line, live in times [lower, upper). Times
may be sparse; between two neighbouring starts nothing is born, so these intervals are the steps:

    id,lower,upper,size             buffer   first   last   size_bytes
    0,100,205,64            ->      0            0      2           64
    1,200,300,32                    1            1      2           32
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from pathlib import Path

from explorer.errors import InputError
from explorer.results.memory import BufferLifetime


def read_instance(path: str | Path) -> list[BufferLifetime]:
    """The buffers of a MiniMalloc table, in its order, at an alignment of one byte."""
    path = Path(path)
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

    births = sorted({lower for _, lower, _, _ in rows})
    return [
        BufferLifetime(
            id=name,
            values=(name,),
            size_bytes=size,
            first=bisect_left(births, lower),
            last=bisect_left(births, upper),
            alignment_bytes=1,
        )
        for name, lower, upper, size in rows
    ]


def parse_row(path: Path, line: int, row: dict[str, str]) -> tuple[str, int, int, int]:
    """(id, lower, upper, size) of one line."""
    try:
        lower, upper, size = int(row["lower"]), int(row["upper"]), int(row["size"])
    except (TypeError, ValueError):
        lower, upper, size = 0, 0, -1
    if not lower < upper or size < 0:
        raise InputError(
            f"line {line} is no buffer: {row}",
            file=str(path),
            hint="whole numbers, lower below upper, size 0 or more",
        )
    return row["id"], lower, upper, size
