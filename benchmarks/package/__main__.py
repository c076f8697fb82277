"""Packages of models for targets: memory, code, instructions, time, and whether they are right.

    python benchmarks/package MODEL ... --targets x86-64,cortex-m4 --record package.jsonl
    python benchmarks/package MODEL ... --targets cpu,x86-64 --timed --record timed.jsonl

Each model is compiled, packaged, built by the target's compiler and run by its emulator, where they
are installed. With `--timed` the packages of this machine are run in turns with the just-in-time
program, one thread each; what is kept are medians of `ROUNDS` rounds, and the larger spread. With
`--quantize` each model is calibrated with its example inputs first. Rows that the
record has are not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.compilation import Compilation
from explorer.errors import ExplorerError
from explorer.packaging.toolchains import build_package, is_at_hand
from explorer.targets import load_target

TARGETS = "x86-64,x86-64-v3,aarch64-linux,armv7-linux,riscv64-linux,wasm32-wasi,cortex-m4,cortex-m0"
ROUNDS = 7
REPEATS = 101
"""Runs of the just-in-time program in a round, of which its median counts."""
EXAMPLES = 8
"""Of each input, for a calibration."""
Finding = dict[str, Any]
COLUMNS = (
    "model", "target", "optimize", "arena_bytes", "weights_bytes", "code_bytes", "instructions",
    "package_us", "program_us", "passed", "note",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """0, or 1 where a self-test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--optimize", default="", help="speed, size, or both with a comma")
    parser.add_argument("--quantize", action="store_true")
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--record", type=Path, required=True)
    given = parser.parse_args(arguments)
    known = _recorded(given.record)
    for model in given.models:
        for target in given.targets.split(","):
            for optimize in given.optimize.split(","):
                key = (model.stem + "-int8" * given.quantize, target, optimize)
                if key in known:
                    continue
                known[key] = finding = _finding(model, *key, given.quantize, given.timed)
                print("  ".join(str(finding.get(name, "-")) for name in COLUMNS), flush=True)
                with given.record.open("a") as file:
                    file.write(json.dumps(finding) + "\n")
    return int(any(finding.get("passed") is False for finding in known.values()))


def _recorded(path: Path) -> dict[tuple[str, str, str], Finding]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(row["model"], row["target"], row["optimize"]): row for row in rows}


def _finding(
    model: Path, name: str, target: str, optimize: str, is_quantized: bool, is_timed: bool
) -> Finding:
    finding: Finding = {"model": name, "target": target, "optimize": optimize}
    decisions = {"target/optimize": optimize} if optimize else {}
    try:
        table = _table(model, target) if is_quantized else None
        compilation = explorer.compile(
            model, target=target, decisions=decisions, quantization=table
        )
    except ExplorerError as error:
        return {**finding, "note": error.message}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "package")
        started = time.perf_counter()
        try:
            compilation.package(folder, name="net")
        except ExplorerError as error:
            return {**finding, "note": error.message}
        finding["package_seconds"] = time.perf_counter() - started
        build = build_package(folder, "net", compilation.target)
        manifest = json.loads((folder / "manifest.json").read_text())
        finding |= {
            "arena_bytes": manifest["arena_bytes"],
            "weights_bytes": manifest["weights_bytes"],
            "code_bytes": build.code_bytes,
            "static_bytes": build.static_bytes,
            "instructions": build.instructions,
            "passed": build.passed,
            "compiler": build.compiler,
            "note": build.note,
        }
        if is_timed and is_at_hand(compilation.target):
            finding |= _times(compilation, folder)
    compilation.close()
    return finding


def _table(model: Path, target: str) -> Any:  # a ThresholdTable
    loaded = explorer.load(model)
    drawn = [explorer.compile(loaded).example_inputs(seed) for seed in range(EXAMPLES)]
    data = {name: np.concatenate([each[name] for each in drawn]) for name in drawn[0]}
    arithmetic = load_target(target).arithmetic
    return explorer.calibrate(loaded, data, method="min-max", corrections=(), arithmetic=arithmetic)


def _times(compilation: Compilation, folder: Path) -> Finding:
    """Microseconds of a run of the package and of the just-in-time program, in turns."""
    program = compilation.program
    given = compilation.example_inputs()
    numbers = b"".join(np.ascontiguousarray(given[port.name]).tobytes() for port in program.inputs)
    (folder / "inputs").write_bytes(numbers)
    flags = "CFLAGS=-DNET_STATIC_ARENA"
    subprocess.run(["make", "-s", "net.o", flags], cwd=folder, check=True)
    source = Path(__file__).with_name("timed.c")
    words = ["cc", "-O2", "-Iinclude", str(source), "net.o", "-lm", "-o", "timed"]
    subprocess.run(words, cwd=folder, check=True)
    package: list[float] = []
    compared: list[float] = []
    with compilation.open(1, isolated=False) as executable:
        for _ in range(ROUNDS):
            found = subprocess.run(
                ["./timed", "inputs"], cwd=folder, check=True, capture_output=True, text=True
            )
            package.append(float(found.stdout) * 1e-3)
            compared.append(executable.profile(given, REPEATS).milliseconds * 1e3)
    return {
        "package_us": round(statistics.median(package), 3),
        "program_us": round(statistics.median(compared), 3),
        "spread": round(max(_spread(package), _spread(compared)), 3),
    }


def _spread(times: Sequence[float]) -> float:
    """(Third quartile - first) / median."""
    first, middle, third = statistics.quantiles(times, n=4)
    return (third - first) / middle


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
