"""The file of a sweep as `explorer serve --front` opens it next to one of its models.

front = read_front(Path("front.json"), "net", "mac-128")
front.points[0].fields        (("engines.matrix.rows", 8),)
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from explorer.errors import ExplorerError, InputError
from explorer.results.encoding import from_json
from explorer.results.names import listed
from explorer.results.sweep import MachinePoint, MachineSweep, ModelOnMachine, Value, shown
from explorer.targets import load_target

MAX_BYTES = 64 << 20
PAGE_BYTES = 512 << 10
"""Of a file that a page sends, which waits for its check: about 1 ms and 430 bytes a point."""
MAX_NUMBER = 2**63
"""No count and no measure of a point is as large, so that sums and quotients of them are finite."""
DERIVED = "front"
"""What the file has besides the record; `label` of every point, too."""


def read_front(path: Path, model: str, target: str, limit_bytes: int = MAX_BYTES) -> MachineSweep:
    """The sweep of a file, which was made of this model (by its name) and this target.

    limit_bytes: of the file; a larger one is refused before it is read.

    Raises:
        InputError: for a file that is no sweep, a sweep of other models or targets, and a point
            of which the model, the target or a field is not that of the sweep.
    """
    found = read_sweep(path, limit_bytes)
    if model not in found.models:
        raise InputError(
            f"the sweep is of {listed(found.models)}, not of {model}",
            file=str(path),
            hint="explorer sweep MODEL --target BASE --vary FIELD=VALUES -o FRONT.json",
        )
    if target not in found.bases:
        raise InputError(
            f"the sweep varies {listed(found.bases)}, not {target}",
            file=str(path),
            hint=f"--target {found.bases[0]}",
        )
    for point in found.points:
        _check_point(found, point.fields, tuple(m.model for m in point.models), path)
    return found


def _check_point(
    found: MachineSweep,
    fields: tuple[tuple[str, Value], ...],
    models: tuple[str, ...],
    path: Path,
) -> None:
    where = f"the point {shown(fields) or '(no field)'}"
    if models != found.models:
        raise InputError(
            f"{where} is of {listed(models)}, and the sweep of {listed(found.models)}",
            file=str(path),
        )
    base, overrides = found.machine_of(fields)
    if base not in found.bases:
        raise InputError(
            f"{where} is of the target {base}, and the sweep varies {listed(found.bases)}",
            file=str(path),
        )
    try:
        load_target(base, overrides)
    except ExplorerError as error:
        raise InputError(f"{where}: {error.message}", file=str(path), hint=error.hint) from None


def read_sweep(path: Path, limit_bytes: int = MAX_BYTES) -> MachineSweep:
    """The sweep of a file; whatever its models and targets. InputError for a file that is none."""
    try:
        if path.stat().st_size > limit_bytes:
            raise InputError(
                f"the sweep is larger than {limit_bytes >> 10:,} KiB, the most that is read here",
                file=str(path),
                hint="explorer serve MODEL --front FRONT.json reads a larger one"
                if limit_bytes < MAX_BYTES
                else "",
            )
        data: Any = json.loads(path.read_bytes(), parse_float=_finite, parse_constant=_finite)
        if not isinstance(data, dict):
            raise ValueError("an object expected")
        points = data.get("points")
        if isinstance(points, list):
            points = [_without(point, "label") for point in points]
        found = from_json(MachineSweep, {**_without(data, DERIVED), "points": points})
        for point in found.points:
            for record in (point, *point.models):
                _check_numbers(record)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"this is no result of a sweep: {error}",
            file=str(path),
            hint="explorer sweep ... -o FRONT.json writes one",
        ) from None
    if not found.points:
        raise InputError("the sweep has no machine that runs its models", file=str(path))
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def _check_numbers(record: MachinePoint | ModelOnMachine) -> None:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, int | float) and not 0 <= value < MAX_NUMBER:
            raise ValueError(f"{field.name} is {str(value)[:24]}, expected 0 to 2**63 - 1")


def _without(data: Any, name: str) -> Any:
    return {k: v for k, v in data.items() if k != name} if isinstance(data, dict) else data
