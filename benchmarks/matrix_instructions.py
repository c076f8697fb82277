"""How long kernels of matrix instructions take against dot products, one thread.

    python benchmarks/matrix_instructions.py MODEL ... [--turns 7] [--csv F.csv]

    mlperf_ic_int8     4 of 9 kernels with tiles    0.42 to 0.71 of dot products    whole 0.78

Both programs are profiled in turns; the medians of each launch count. A processor with AMX or i8mm
is needed: elsewhere the row of a model has no kernel with tiles.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import explorer
from explorer.compilation import Compilation

CHOICE = "/instruction"


def medians(programs: Sequence[Compilation], turns: int) -> list[dict[int, float]]:
    """By program and launch, nanoseconds."""
    inputs = programs[0].example_inputs()
    found: list[dict[int, list[int]]] = [{} for _ in programs]
    for _ in range(turns):
        for program, times in zip(programs, found, strict=True):
            for number, event in enumerate(program.profile(inputs).events):
                times.setdefault(number, []).append(event.end_ns - event.start_ns)
    return [{n: median(all_of) for n, all_of in times.items()} for times in found]


def row_of(model: Path, turns: int) -> tuple[str, ...]:
    compilation = explorer.compile(model, tuned=False)
    knobs = [k for k in compilation.knobs if k.address.endswith(CHOICE) and k.value == "matrix"]
    kernels = {knob.address.split("/")[1] for knob in knobs}
    if not kernels:
        return model.stem, f"0 of {len(compilation.kernels)}", "", "", ""
    by_dots = compilation.fork(decisions={knob.address: "dot" for knob in knobs})
    events = compilation.profile(compilation.example_inputs()).events
    tiles, dots = medians((compilation, by_dots), turns)
    own = [tiles[n] / dots[n] for n, event in enumerate(events) if event.kernel in kernels]
    whole = sum(tiles.values()) / sum(dots.values())
    count = f"{len(kernels)} of {len(compilation.kernels)}"
    return model.stem, count, f"{min(own):.2f}", f"{max(own):.2f}", f"{whole:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    head = ("model", "kernels with tiles", "least", "most", "whole program")
    rows = [head]
    for model in given.models:
        rows.append(row_of(model, given.turns))
        print("  ".join(f"{cell:>20}" for cell in rows[-1]), flush=True)
    if given.csv:
        with given.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
