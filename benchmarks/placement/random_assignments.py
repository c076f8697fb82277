"""Runs models under random assignments of their operations, and compares with one device.

    python benchmarks/placement/random_assignments.py --target cpu+opencl --each 20 \
        --record assignments.csv sample_models/*.onnx sample_models/*.tflite

Integers have to be equal bit by bit. Floats may differ by 1e-5 of the largest number of their
output; with `--reference first`, which is for targets with arithmetic of their own, the outputs
are compared with those of the first target alone where everything that it refuses runs elsewhere.
Every model gets two further assignments: all to one device, which has to equal the plain program
bit by bit.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.compilation import Compilation
from explorer.errors import ExplorerError
from explorer.targets.together import single_choices

HEADS = "assign/device/"
TOLERANCE = 1e-5
COLUMNS = ("model", "target", "operations", "assignments", "parts", "right", "worst", "note")
Outputs = Mapping[str, np.ndarray]


def row(path: Path, target: str, count: int, seed: int) -> dict[str, object]:
    """One line of the record: how many of the assignments of a model gave the right outputs."""
    found: dict[str, object] = {"model": path.name, "target": target, "assignments": count}
    try:
        model = ex.load(path)
        chosen = ex.compile(model, target=target)
        plain = ex.compile(model, target=next(iter(single_choices(target).values())))
    except ExplorerError as error:
        return {**found, "right": 0, "assignments": 0, "note": error.message}
    inputs = plain.example_inputs(seed=1)
    expected = plain.run(inputs)
    legal = {k.address: k.choices for k in chosen.knobs if k.address.startswith(HEADS)}
    found["operations"] = len(legal)
    right, worst, parts, notes = 0, 0.0, 0, []
    for number in range(count):
        chance = random.Random(f"{seed} {path.name} {number}")
        forked = chosen.fork(decisions={a: chance.choice(d) for a, d in legal.items()})
        try:
            error = max(largest_difference(forked.run(inputs), expected) for _ in range(2))
        except ExplorerError as problem:
            notes.append(f"{number}: {problem.message}")
            continue
        finally:
            parts = max(parts, len(forked.program.parts))
            forked.close()
        worst = max(worst, error)
        right += error <= TOLERANCE
        if error > TOLERANCE:
            notes.append(f"{number}: differs by {error:.1e}")
    notes += differing_single_devices(chosen, legal, expected, inputs, target)
    plain.close()
    return {
        **found,
        "right": right,
        "parts": parts,
        "worst": f"{worst:.1e}",
        "note": "; ".join(notes[:3]),
    }


def differing_single_devices(
    chosen: Compilation,
    legal: Mapping[str, Sequence[object]],
    expected: Outputs,
    inputs: Outputs,
    target: str,
) -> list[str]:
    """A note where all operations on the first device are not the plain program bit by bit."""
    first = next(iter(single_choices(target)))
    if not all(first in devices for devices in legal.values()):
        return []
    alone = chosen.fork(decisions=dict.fromkeys(legal, first))
    outputs = alone.run(inputs)
    alone.close()
    unequal = [n for n, a in expected.items() if outputs[n].tobytes() != a.tobytes()]
    return [f"all on {first}: {', '.join(unequal)} differs"] * bool(unequal)


def largest_difference(outputs: Outputs, expected: Outputs) -> float:
    """Of all outputs, over the largest number of each; infinite where an integer, a shape or a
    type differs."""
    worst = 0.0
    for name, wanted in expected.items():
        array = outputs[name]
        if array.dtype != wanted.dtype or array.shape != wanted.shape:
            return float("inf")
        if array.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(array, wanted) else float("inf"))
            continue
        largest = np.abs(wanted).max(initial=0.0) or 1.0
        worst = max(worst, float(np.abs(array - wanted).max(initial=0.0) / largest))
    return worst


def main(given: Sequence[str]) -> int:
    """0, or 1 where an assignment gave other outputs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--target", default="cpu+opencl")
    parser.add_argument("--each", type=int, default=20, help="assignments of a model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, required=True)
    arguments = parser.parse_args(given)
    rows = []
    for path in arguments.models:
        rows.append(row(path, arguments.target, arguments.each, arguments.seed))
        print(rows[-1], flush=True)
        with arguments.record.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows)
    return int(any(line["right"] != line["assignments"] or line["note"] for line in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
