"""A search of machines: a network on many variants of a target, each simulated once.

    varied = [parse_field("engines.matrix.rows=8,16")]
    sweep = sweep_machines([Path("net.tflite")], "mac-128", varied, journal=Path("front.journal"))
    [sweep.points[i] for i in sweep.front]
    sweep_machines([Path("net.tflite")], ["mac-128", "edge-64"])   # several targets as they are

Points are independent and compiled by joblib, on as many processors as there are, or elsewhere
(`joblib.parallel_config(backend="dask")`). Each finished point is a line of the journal, so that an
interrupted sweep goes on.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from explorer.compilation.compilation import compile_model
from explorer.errors import ExplorerError, InputError
from explorer.importers import load
from explorer.quantization.table import ThresholdTable
from explorer.results.decisions import TARGET
from explorer.results.encoding import from_json, to_json
from explorer.results.sweep import (
    MachinePoint,
    MachineSweep,
    ModelOnMachine,
    SkippedMachine,
    Value,
    shown,
)
from explorer.targets import load_target
from explorer.targets.npu.machine import describe

MAX_POINTS = 10_000
UNITS = {"": 1, "B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 1000**2, "MiB": 1 << 20}
_SIZE = re.compile(r"(\d+)(B|kB|KiB|MB|MiB)?")


@dataclass(frozen=True)
class Varied:
    """A field of a target with the values that it takes."""

    path: str
    values: tuple[Value, ...]


def parse_field(text: str) -> Varied:
    """`engines.matrix.rows=8,16,32`; `A..B` doubles from A up to B; sizes have units.

    InputError says what is wrong with it.
    """
    path, separator, listed = text.partition("=")
    if not separator or not re.fullmatch(r"[\w-]+(\.[\w-]+)+", path):
        raise InputError(
            f"{text!r} names no field with values", hint="as engines.matrix.rows=8,16,32"
        )
    values = [value for part in listed.split(",") for value in _values(part.strip(), text)]
    if len(set(values)) < len(values):
        raise InputError(f"{text!r} has a value twice")
    return Varied(path, tuple(values))


def _values(part: str, text: str) -> list[Value]:
    first, separator, last = part.partition("..")
    if not separator:
        return [_value(part, text)]
    low, high = _value(first, text), _value(last, text)
    is_range = isinstance(low, int) and isinstance(high, int) and 0 < low <= high
    if not is_range:
        raise InputError(f"{part!r} is no range: it doubles from a size up to another one")
    assert isinstance(low, int) and isinstance(high, int)
    return [low << step for step in range(int(math.log2(high / low)) + 1)]


def _value(part: str, text: str) -> Value:
    if found := _SIZE.fullmatch(part):
        return int(found[1]) * UNITS[found[2] or ""]
    try:
        number = float(part)
    except ValueError:
        number = None
    if number is not None and math.isfinite(number):
        return number
    if number is not None or not re.fullmatch(r"[A-Za-z_][\w-]*", part):
        raise InputError(f"{text!r}: {part!r} is no value", hint="numbers, sizes such as 16KiB")
    return part


def sweep_machines(
    models: Sequence[str | Path],
    base: str | Sequence[str],
    varied: Sequence[Varied] = (),
    *,
    quantization: ThresholdTable | Path | None = None,
    jobs: int = -1,
    journal: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> MachineSweep:
    """Every combination of the values, each model compiled for it and simulated once.

    base: a target or several; of several, each is varied, and `varied` may be empty.
    quantization: thresholds for models of floats, or their file. jobs: processes at a time, -1: as
    many as processors. journal: a file of finished points, which are taken from it.

    Raises:
        InputError: for a field that the base has not, a base without a simulator, too many points.
    """
    models = [Path(model) for model in models]
    bases = [base] if isinstance(base, str) else list(base)
    if len(bases) > 1:
        varied = (Varied(TARGET, tuple(bases)), *varied)
    _check(bases, varied, models)
    combinations = [
        tuple(zip((v.path for v in varied), values, strict=True))
        for values in itertools.product(*(v.values for v in varied))
    ]
    if len(combinations) > MAX_POINTS:
        raise InputError(f"{len(combinations):,} machines; at most {MAX_POINTS:,} are swept")
    table = quantization.digest if isinstance(quantization, ThresholdTable) else str(quantization)
    key = {"base": ",".join(bases), "models": [str(p) for p in models], "quantization": table}
    known = {} if journal is None else _read_journal(journal, key)
    left = [fields for fields in combinations if fields not in known]
    tasks = (joblib.delayed(measured)(models, bases[0], fields, quantization) for fields in left)
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    outcomes: Any = parallel(tasks)  # joblib types what it gives as lists
    for done, (fields, found) in enumerate(zip(left, outcomes, strict=True), 1):
        known[fields] = found
        if journal is not None:
            _note(journal, found)
        if progress is not None:
            progress(shown(fields), len(combinations) - len(left) + done - 1, len(combinations))
    swept = [known[fields] for fields in combinations]
    return MachineSweep(
        base=", ".join(bases),
        models=tuple(path.stem for path in models),
        points=tuple(found for found in swept if isinstance(found, MachinePoint)),
        skipped=tuple(found for found in swept if isinstance(found, SkippedMachine)),
    )


def _check(bases: Sequence[str], varied: Sequence[Varied], models: Sequence[Path]) -> None:
    """InputError for mistakes that every point would meet."""
    if not models or not varied:
        raise InputError(
            "a sweep has at least one model, and a field that varies or several targets"
        )
    paths = [each.path for each in varied]
    if len(set(paths)) < len(paths):
        raise InputError("a field varies once", hint="list all of its values: rows=8,16")
    if len(set(bases)) < len(bases):
        raise InputError("a target is named twice")
    for base in bases:
        target = load_target(base)
        if "instructions" not in target.languages:
            raise InputError(
                f"{base} is no machine that is simulated",
                hint="explorer targets lists those that are",
            )
        for each in varied:
            if each.path != TARGET and _at(target, each.path) is None:
                # The target's own message names what there is.
                load_target(base, {each.path: each.values[0]})
    for path in models:
        load(path)


def _at(target: Any, path: str) -> object:  # any part of a target
    found: Any = target
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
    return found


def measured(
    models: Sequence[Path],
    base: str,
    fields: tuple[tuple[str, Value], ...],
    quantization: ThresholdTable | Path | None,
) -> MachinePoint | SkippedMachine:
    """One machine: what its fields contradict, or what the models take on it."""
    overrides = dict(fields)
    base = str(overrides.pop(TARGET, base))
    try:
        target = load_target(base, overrides)
        machine = describe(target)
        found = tuple(_on_machine(path, target, quantization) for path in models)
    except ExplorerError as error:
        return SkippedMachine(fields=fields, reason=error.message)
    return MachinePoint(
        fields=fields,
        scratchpad_bytes=sum(pad.size_bytes or 0 for pad in machine.scratchpads),
        mac_units=machine.batch * machine.rows * machine.columns,
        models=found,
    )


def _on_machine(
    path: Path, target: Any, quantization: ThresholdTable | Path | None
) -> ModelOnMachine:
    c = compile_model(load(path), target, quantization=quantization)
    try:
        c.run(c.example_inputs())
        run = c.counted
    finally:
        c.close()
    if run is None:
        raise InputError(f"nothing of {path.stem} runs on the machine")
    return ModelOnMachine(
        model=path.stem,
        cycles=run.cycles,
        seconds=run.cycles / target.clock_hz if target.clock_hz else None,
        traffic_bytes=run.bytes,
        macs=run.macs,
        utilization=run.utilization,
        energy_picojoules=run.energy_picojoules,
        elsewhere=len(c.placed_elsewhere),
    )


# -- the journal -----------------------------------------------------------------------------------


def _read_journal(
    path: Path, key: Mapping[str, object]
) -> dict[tuple[tuple[str, Value], ...], MachinePoint | SkippedMachine]:
    """Finished points; a line that was cut off is left out. InputError for another sweep's."""
    if not path.exists():
        path.write_text(json.dumps(key) + "\n", encoding="utf-8")
        return {}
    first, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    if _line(first) != key:
        raise InputError(
            "the journal is of another sweep", file=str(path), hint="remove it, or name another -o"
        )
    found = {}
    for line in lines:
        data = _line(line)
        try:
            kind = MachinePoint if "models" in data else SkippedMachine
            point = from_json(kind, data)
        except (ValueError, TypeError):
            continue
        found[point.fields] = point
    return found


def _note(path: Path, point: MachinePoint | SkippedMachine) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(to_json(point)) + "\n")


def _line(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
