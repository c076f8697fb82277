"""Runs quantized networks on every NPU: cycles, and what runs elsewhere, with the reasons.

    python benchmarks/npu/networks.py MODEL.onnx... [--qdq] [--files MODELS]
        [--targets vta-16,tiny-8] [--record networks.jsonl]
        [--report docs/npu-networks.md | --update docs/npu-networks.md]

What is quantized already runs as it is; where its inputs are floats that hold bytes, as Deeploy's
do, they are stored as bytes. A float model gets thresholds (min-max, whole integers)
from its case in benchmarks/models.toml, or from four pictures of uniform noise; with `--qdq`
onnxruntime quantizes it instead (QDQ, bytes, weights by channel). Numbers after every pass and out
of the simulator are compared with the integer program bit by bit.

The record is kept line by line: what is in it is not run again; `--kept` only writes the page.
`--update` changes the cells of the record in a page and leaves all others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.cases.cases import Case, read_cases
from explorer.cases.sources import read_all
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.errors import ExplorerError, InputError
from explorer.importers import load
from explorer.importers.model import SourceModel, SourceValue
from explorer.ir.operation import identity_of
from explorer.ir.structure import operations
from explorer.quantization.table import Threshold, ThresholdTable

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "accuracy"))
from peer import converted, quantize_with_onnxruntime  # noqa: E402

TARGETS = "vta-16,vta-32,edge-64,tiny-8,mac-128,odd-12x20"
CASES = ROOT / "benchmarks" / "models.toml"
NOISE = 4
"""Pictures of a model that has no case."""
ENDS = ("top.quantize", "top.dequantize")
VIEW = ("top.reshape", "it reads or makes floats")
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    targets = options.targets.split(",")
    rows = read_record(options.record)
    cases = read_cases(CASES)
    for path in [] if options.kept else options.models:
        known = {(row["model"], row["made_by"], row["target"]) for row in rows}
        case = cases.get(path.stem, Case())
        for row in run_model(path, case, options, targets, known):
            rows.append(row)
            said = row["problem"] or f"{row['cycles']:,} cycles, elsewhere {dict(others(row))}"
            print(f"{row['model']:28} {row['made_by']:12} {row['target']:10} {said}", flush=True)
            with options.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    if options.report is not None:
        options.report.write_text(page(rows, targets), encoding="utf-8")
    if options.update is not None:
        text = options.update.read_text(encoding="utf-8")
        options.update.write_text(with_cells(text, rows), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    found.add_argument("models", type=Path, nargs="*")
    found.add_argument("--qdq", action="store_true", help="quantized by onnxruntime")
    found.add_argument("--files", type=Path, default=Path(), help="folder of the cases' paths")
    found.add_argument("--targets", default=TARGETS)
    found.add_argument("--record", type=Path, default=Path("networks.jsonl"))
    found.add_argument("--report", type=Path)
    found.add_argument("--update", type=Path, help="a page that gets the cells of the record")
    found.add_argument("--kept", action="store_true", help="run nothing")
    return found


def read_record(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


# --------------------------------------------------------------------------------------------- runs


def run_model(
    path: Path, case: Case, options: argparse.Namespace, targets: Sequence[str],
    known: set[tuple[str, str, str]],
) -> Iterator[Row]:  # fmt: skip
    """A row for each target that is not known yet."""
    examples = examples_of(path, case, options.files)
    table, made_by = None, "itself"
    if is_float(path, case, examples):
        made_by = "onnxruntime" if options.qdq else "calibrate"
    else:
        table = of_bytes(path, case, examples)
    left = [target for target in targets if (path.stem, made_by, target) not in known]
    if not left:
        return
    with tempfile.TemporaryDirectory() as folder:
        source = path
        if made_by == "onnxruntime":
            source = Path(folder) / f"{path.stem}.onnx"
            quantized_by_onnxruntime(path, source, examples)
        elif made_by == "calibrate":
            table = calibrated(path, case, examples)
        for target in left:
            row: Row = {"model": path.stem, "made_by": made_by, "target": target, "problem": ""}
            start = time.perf_counter()
            try:
                row |= measured(source, target, table, case, examples)
            except ExplorerError as error:
                row["problem"] = str(error)
            yield row | {"seconds": round(time.perf_counter() - start, 1)}


def measured(
    path: Path, target: str, table: object, case: Case, examples: Mapping[str, np.ndarray]
) -> Row:
    given = one_of(examples, load(path))
    c = explorer.compile(
        path, target, quantization=table, dimensions=sizes_of(path, case, examples), inputs=given  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    try:
        c.run(given)
        found = c.counted
        assert found is not None
        placed = c["place-on-device"].after
        kinds = {identity_of(op): op.name for op in operations(placed.program)}
        exact = c.accuracy(given).report.bit_exact if table is not None else True
        return {
            "equal": bool(exact) and is_bit_exact(placed, c.executable, given),
            "cycles": found.cycles,
            "predicted_cycles": found.predicted_cycles,
            "macs": found.macs,
            "bytes": found.bytes,
            "utilization": found.utilization,
            "ports": [len(given), len(c.model.outputs)],
            "elsewhere": [
                [kinds[name], device, reason] for name, device, reason in c.placed_elsewhere
            ],
        }
    finally:
        c.close()


def is_float(path: Path, case: Case, examples: Mapping[str, np.ndarray]) -> bool:
    """Whether its program has no integers yet, and so none for the machine."""
    c = explorer.compile(path, "cpu", dimensions=sizes_of(path, case, examples))
    imported = operations(c.passes[0].after.program)
    return not any(op.name in ENDS for op in imported)


def calibrated(path: Path, case: Case, examples: Mapping[str, np.ndarray]) -> ThresholdTable:
    return explorer.calibrate(
        path, examples, dimensions=sizes_of(path, case, examples), method="min-max",
        corrections=(), arithmetic="integer",
    )  # fmt: skip


def of_bytes(path: Path, case: Case, examples: Mapping[str, np.ndarray]) -> ThresholdTable | None:
    """Of a model of integers in floats: its inputs, where products read no other floats, and where
    they are whole numbers from 0 to 255, whose scale is 1 then. None of other models."""
    try:
        names = list(calibrated(path, case, examples).thresholds)
    except InputError:  # nothing is left to be quantized
        return None
    if not set(names) <= set(examples):
        return None
    if any(np.any(x != np.clip(np.rint(x), 0, 255)) for x in map(examples.__getitem__, names)):
        return None
    return ThresholdTable({name: Threshold(name, 255.0, 0.0, 255.0) for name in names})


def examples_of(path: Path, case: Case, files: Path) -> dict[str, np.ndarray]:
    if case.inputs:
        return read_all(case.inputs, files)
    random = np.random.default_rng(0)
    return {
        port.name: random.uniform(0, 1, (NOISE, *whole_shape(port, case)[is_picture(port) :]))
        .astype(np.float32)
        for port in load(path).inputs
    }  # fmt: skip


def sizes_of(path: Path, case: Case, examples: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The case's dimensions, and those that its inputs say."""
    model = load(path)
    one = one_of(examples, model)
    said = {
        str(name): size
        for port in model.inputs
        for name, size in zip(port.shape or (), one[port.name].shape, strict=True)
        if not isinstance(name, int)
    }
    return said | dict(case.dimensions)


def whole_shape(port: SourceValue, case: Case) -> list[int]:
    """With the case's dimensions, and 1 for others that have only a name."""
    return [d if isinstance(d, int) else case.dimensions.get(str(d), 1) for d in port.shape or ()]


def is_picture(port: SourceValue) -> bool:
    """Whether the first size counts examples."""
    return bool(port.shape) and (port.shape[0] == 1 or not isinstance(port.shape[0], int))


def one_of(examples: Mapping[str, np.ndarray], model: SourceModel) -> dict[str, np.ndarray]:
    """The first example as the model takes it."""
    return {
        port.name: examples[port.name][:1] if is_picture(port) else examples[port.name][0]
        for port in model.inputs
    }


def quantized_by_onnxruntime(path: Path, made: Path, examples: Mapping[str, np.ndarray]) -> None:
    import onnx

    source = made.with_name("source.onnx")
    onnx.save(converted(str(path)), source)
    count = min(len(array) for array in examples.values())
    data = [{name: array[i : i + 1] for name, array in examples.items()} for i in range(count)]
    quantize_with_onnxruntime(source, made, data, "min-max")


# --------------------------------------------------------------------------------------------- page


def others(row: Row) -> Counter[str]:
    """Kinds of operations that run elsewhere, less the conversions at the ends and views of
    floats, which no code is made for."""
    found = Counter(
        kind.removeprefix("top.") for kind, _, reason in row["elsewhere"] if (kind, reason) != VIEW
    )
    for kind, count in zip(ENDS, row["ports"], strict=True):
        name = kind.removeprefix("top.")
        found[name] = max(0, found[name] - count)
    return +found


def page(rows: Sequence[Row], targets: Sequence[str]) -> str:
    """The table, and below it the reasons."""
    networks = list(dict.fromkeys((row["model"], row["made_by"]) for row in rows))
    by_cell = {(row["model"], row["made_by"], row["target"]): row for row in rows}
    lines = [HEAD, f"| network | quantized by | {' | '.join(targets)} |"]
    lines.append("| --- | --- |" + " --- |" * len(targets))
    for network in networks:
        cells = [cell(by_cell.get((*network, target))) for target in targets]
        lines.append(f"| {network[0]} | {network[1]} | {' | '.join(cells)} |")
    lines += ["", "## What runs elsewhere", ""]
    for network in networks:
        mine = [row for target in targets if (row := by_cell.get((*network, target)))]
        if reasons := list(reason_lines(mine, len(targets))):
            lines += [f"**{network[0]}**, {network[1]}:", "", *reasons, ""]
    return "\n".join(lines).rstrip() + "\n"


def with_cells(text: str, rows: Sequence[Row]) -> str:
    """A page with the cells of some rows. InputError where another number of operations runs
    elsewhere: the page has reasons of all targets together, and has to be made anew."""
    by_cell = {(row["model"], row["made_by"], row["target"]): row for row in rows}
    _, start, table = text.partition("| network |")
    lines = (start + table).split("\n")
    targets = columns_of(lines[0])[2:]
    for number, line in enumerate(lines):
        if not line.startswith("| ") or len(columns_of(line)) != 2 + len(targets):
            continue
        model, made_by, *cells = columns_of(line)
        for index, target in enumerate(targets):
            row = by_cell.get((model, made_by, target))
            if row is None:
                continue
            before, after = (one.partition(" + ")[2] for one in (cells[index], cell(row)))
            if before != after:
                raise InputError(f"{model} on {target}: {after or 0} elsewhere, not {before or 0}")
            cells[index] = cell(row)
        lines[number] = f"| {' | '.join((model, made_by, *cells))} |"
    return f"{HEAD}\n" + "\n".join(lines)


def columns_of(line: str) -> list[str]:
    """Of a row of a table."""
    return [text.strip() for text in line.strip().strip("|").split("|")]


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row["problem"]:
        return "refused"
    said = f"{row['cycles']:,}"
    if not row["equal"]:
        said += " **differs**"
    if row["cycles"] != row["predicted_cycles"]:
        said += f" ({row['predicted_cycles']:,} predicted)"
    return said + (f" + {count}" if (count := others(row).total()) else "")


def reason_lines(rows: Sequence[Row], all_targets: int) -> Iterator[str]:
    """How often each reason is given, and for which machines."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        if row["problem"]:
            found.setdefault(("refused", row["problem"]), {})[row["target"]] = 1
            continue
        left = others(row)
        for (kind, reason), count in Counter(
            (k, said(why)) for k, _, why in row["elsewhere"]
        ).items():
            name = kind.removeprefix("top.")
            if left[name]:
                found.setdefault((name, reason), {})[row["target"]] = min(count, left[name])
    for (name, reason), counts in found.items():
        numbers = sorted(set(counts.values()))
        often = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        where = "" if len(counts) == all_targets else f" ({', '.join(counts)})"
        yield f"- {often} x {name}: {reason}{where}"


def said(reason: str) -> str:
    """Without the operation and the machine, which the page has next to it."""
    return reason.partition(": ")[2] if " cannot be computed by " in reason else reason


HEAD = """# Networks on NPUs: what runs where

Made by `python benchmarks/npu/networks.py MODEL... [--qdq] --files MODELS --report
docs/npu-networks.md`. A cell has the cycles; after `+` is the number of operations that the machine
leaves to companion functions in C. Not counted are `quantize` of the inputs, `dequantize` of the
outputs, and reshapes of floats next to them, which are views: nothing is run for these. Every
network is equal to its integer program bit by bit, after every pass and in the simulator, and its
cycles are those predicted, unless a cell states something else. An empty cell was not run.
"""


if __name__ == "__main__":
    main()
