"""Own numbers on the graph, from a mapping, a CSV or a JSON file.

    {"conv1": 3.5}                          one column
    {"power": {"conv1": 3.5}, "heat": ...}  several
    "power.csv"                             name,power,heat
                                            conv1,3.5,61

Names are those of operations, of any pass, or of nodes of the source model. The page reads the same
forms from files that are dropped on it (`views/js/graph/overlay_files.js`).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from explorer.errors import InputError
from explorer.results import Trace
from explorer.results.names import near_name
from explorer.results.overlays import Overlay, OverlayColumn

OverlayLike = str | Path | Mapping[str, float] | Mapping[str, Mapping[str, float]]
MAX_BYTES = 20_000_000


def read_overlay(given: OverlayLike, trace: Trace) -> Overlay:
    """The numbers under names that the trace has.

    Raises:
        InputError: for a file that cannot be read, a value that is no number, and for a name that
            neither an operation nor a source node has, with the nearest one.
    """
    if isinstance(given, Mapping):
        title, content = "own numbers", given
        file = ""
    else:
        path = Path(given)
        title = file = path.name
        content = _file_content(path)
    columns = _columns(content, title.rsplit(".", 1)[0], file)
    if not columns:
        raise InputError(f"{title} holds no numbers", file=file,
                         hint="a name and a number in each line, or {'conv1': 3.5}")  # fmt: skip
    _check_names(columns, trace, file)
    return Overlay(title=title, columns=columns)


def operations_of(overlay: Overlay, trace: Trace, index: int) -> dict[str, float]:
    """Values of the first column by operations of one snapshot.

    What is named after a source node stands at the operation that has most of its sources there; of
    several values for one operation the sum.
    """
    graph = trace.snapshots[index].graph
    own = {node.id for node in graph.nodes}
    sources = {n.id: n.sources for s in trace.snapshots for n in s.graph.nodes}
    found: dict[str, float] = {}
    for name, value in overlay.columns[0].values:
        wanted = set(sources.get(name, (name,)))
        candidates = [name] if name in own else [
            node.id
            for node in sorted(graph.nodes, key=lambda node: node.family != "convolution")
            if wanted & set(node.sources) and node.family not in ("input", "output")
        ]  # fmt: skip
        if candidates:
            found[candidates[0]] = found.get(candidates[0], 0.0) + value
    return found


def _file_content(path: Path) -> Mapping[str, object]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path.name} is larger than {MAX_BYTES:,} bytes", file=str(path))
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"numbers cannot be read: {error}", file=str(path)) from error
    if not text.lstrip().startswith(("{", "[")):
        return _csv_content(text, path)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"this is no JSON: {error}", file=str(path)) from error
    return _records(content, path) if isinstance(content, list) else content


def _records(records: Sequence[object], path: Path) -> dict[str, dict[str, object]]:
    columns: dict[str, dict[str, object]] = {}
    for index, record in enumerate(records):
        if not isinstance(record, dict) or not isinstance(record.get("name"), str):
            raise InputError(f"record {index + 1} has no name", file=str(path))
        for title, value in record.items():
            if title != "name" and isinstance(value, int | float):
                columns.setdefault(title, {})[record["name"]] = value
    return columns


def _csv_content(text: str, path: Path) -> dict[str, dict[str, float]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    separator = next((mark for mark in ";\t," if lines and mark in lines[0]), ",")
    rows = list(csv.reader(lines, delimiter=separator))
    if not rows:
        return {}
    has_titles = all(_number(cell) is None for cell in rows[0][1:])
    width = max(map(len, rows))
    columns: dict[str, dict[str, float]] = {}
    for index in range(1, width):
        title = rows[0][index].strip() if has_titles and index < len(rows[0]) else ""
        title = title or (f"column {index + 1}" if width > 2 else path.stem)
        for row in rows[has_titles:]:
            value = _number(row[index]) if index < len(row) else None
            if value is not None:
                columns.setdefault(title, {})[row[0].strip()] = value
    return columns


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _columns(content: Mapping[str, object], title: str, file: str) -> tuple[OverlayColumn, ...]:
    if content and not any(isinstance(value, Mapping) for value in content.values()):
        content = {title: content}
    columns = []
    for name, values in content.items():
        if not isinstance(values, Mapping):
            raise InputError(f"{name!r} is neither a number nor a table of numbers", file=file)
        pairs = tuple((str(o), _value(value, str(o), file)) for o, value in values.items())
        columns.append(OverlayColumn(title=name, values=pairs))
    return tuple(column for column in columns if column.values)


def _value(value: object, operation: str, file: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{value!r} is no number", file=file, node=operation)
    return float(value)


def _check_names(columns: Sequence[OverlayColumn], trace: Trace, file: str) -> None:
    snapshots = (*trace.snapshots, *((trace.source,) if trace.source else ()))
    nodes = [node for snapshot in snapshots for node in snapshot.graph.nodes]
    known = dict.fromkeys(source for node in nodes for source in node.sources)
    known |= dict.fromkeys(node.id for node in nodes)
    unknown = dict.fromkeys(
        name for column in columns for name, _ in column.values if name not in known
    )
    if unknown:
        name = next(iter(unknown))
        more = f", nor have {len(unknown) - 1} others" if len(unknown) > 1 else ""
        raise InputError(
            f"no operation and no node of the model has the name {name!r}{more}",
            file=file,
            hint=near_name(name, known),
        )
