"""Networks over an NPU and the processor: the cheapest assignment next to "device first".

    python benchmarks/placement/npus.py MODEL.onnx ... --targets vta-16,tiny-8 --record npus.csv
    python benchmarks/placement/npus.py MODEL.onnx ... --clock 2e7 --record npus.csv

Networks are quantized as in benchmarks/npu/networks.py. `first` is what a compilation for the NPU
alone does: all that it can run goes there. The milliseconds are predicted: an NPU's cycles at its
clock, the processor's by the cost model, transfers. Both programs have to give the same integers.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np

import explorer as ex
from explorer.errors import ExplorerError
from explorer.targets import load_target

FOLDER = Path(__file__).resolve().parents[1]
networks = SimpleNamespace(**run_path(str(FOLDER / "npu" / "networks.py"), run_name="networks"))
COLUMNS: tuple[str, ...] = (
    "model", "target", "clock", "operations", "cpu_first", "cpu_chosen", "parts_first",
    "parts_chosen", "first_ms", "chosen_ms", "ratio", "optimal", "equal", "seconds", "note",
)  # fmt: skip
Row = dict[str, Any]


def compared(
    path: Path, target: str, case: Any, files: Path, clock: float | None
) -> Row:  # case: of networks.py
    """One line of the record."""
    row: Row = {"model": path.stem, "target": target, "clock": clock or ""}
    processor = replace(load_target("cpu"), clock_hz=clock) if clock else load_target("cpu")
    start = time.perf_counter()
    try:
        examples = networks.examples_of(path, case, files)
        is_float = networks.is_float(path, case, examples)
        table = (networks.calibrated if is_float else networks.of_bytes)(path, case, examples)
        given = networks.one_of(examples, ex.load(path))
        sizes = networks.sizes_of(path, case, examples)
        chosen = ex.compile(
            path, [target, processor], quantization=table, dimensions=sizes, inputs=given
        )
        first = chosen.fork(decisions={"assign/device": target})
        row |= _facts(chosen, "chosen") | _facts(first, "first")
        row["operations"] = len(chosen.placement.operations)
        row["ratio"] = f"{row['chosen_ms'] / row['first_ms']:.3f}"
        assert chosen.placement.assignment is not None
        row["optimal"] = chosen.placement.assignment.optimal
        outputs, expected = chosen.run(given), first.run(given)
        row["equal"] = all(np.array_equal(outputs[n], a) for n, a in expected.items())
        chosen.close()
        first.close()
    except ExplorerError as error:
        row["note"] = error.message
    return row | {"seconds": round(time.perf_counter() - start, 1)}


def _facts(c: ex.Compilation, name: str) -> Row:
    placement = c.placement
    assert placement.assignment is not None
    return {
        f"cpu_{name}": sum(op.device == "cpu" for op in placement.operations),
        f"parts_{name}": len(placement.parts),
        f"{name}_ms": round(placement.assignment.seconds * 1e3, 4),
    }


def main(given: Sequence[str]) -> int:
    """0, or 1 where the cheapest assignment is predicted to be slower, or gives other integers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--targets", default="vta-16")
    parser.add_argument("--clock", type=float, help="of the processor, in hertz: a slow one")
    parser.add_argument("--files", type=Path, default=Path("models"))
    parser.add_argument("--record", type=Path, required=True)
    arguments = parser.parse_args(given)
    cases = networks.read_cases(FOLDER / "models.toml")
    rows: list[Row] = []
    if arguments.record.exists():
        with arguments.record.open(newline="") as file:
            rows = list(csv.DictReader(file))
    clock = str(arguments.clock or "")
    known = {(row["model"], row["target"]) for row in rows if row["clock"] == clock}
    for path in arguments.models:
        for target in arguments.targets.split(","):
            if (path.stem, target) in known:
                continue
            case = cases.get(path.stem, networks.Case())
            rows.append(compared(path, target, case, arguments.files, arguments.clock))
            print(rows[-1], flush=True)
            with arguments.record.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                writer.writeheader()
                writer.writerows(rows)
    bad = [r for r in rows if str(r.get("equal")) != "True" or float(r.get("ratio") or 9) > 1]
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
