"""Measures models over several targets: the cut, its bytes, predicted and measured times.

    python benchmarks/placement/models.py --target cpu+opencl model.onnx [model.tflite ...]

`rule` is the assignment of a runtime that asks its providers in their order: all that the last
target can run goes there. Times are medians of a whole call, interleaved.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import explorer as ex
from explorer.compilation import Compilation
from explorer.compilation.measurements.rounds import Calls, run_interleaved
from explorer.targets.together import single_choices
from explorer.tuning.prices import measured_prices

ROUNDS = 10


def row(path: Path, target: str, is_measured: bool) -> str:
    """One line of the table."""
    model = ex.load(path)
    alone = single_choices(target)
    chosen = ex.compile(model, target=target)
    if is_measured:
        chosen = chosen.fork(decisions=measured_prices(chosen))
    rule = chosen.fork(decisions={"assign/device": list(alone)[-1]})
    compiled: dict[str, Compilation] = {"chosen": chosen, "rule": rule}
    compiled |= {name: ex.compile(model, target=one) for name, one in alone.items()}
    inputs = chosen.example_inputs()
    sides = [
        Calls(name, partial(c.open(isolated=False).run, inputs)) for name, c in compiled.items()
    ]
    timings = run_interleaved(sides, ROUNDS)
    found, assignment = chosen.placement, chosen.placement.assignment
    assert assignment is not None
    predicted = {"chosen": assignment.seconds, **dict(assignment.single)}
    other = rule.placement.assignment
    if other is not None:
        predicted["rule"] = other.seconds
    counts = "/".join(
        str(sum(op.device == name for op in found.operations)) for name in found.targets
    )
    sent = sum(transfer.size_bytes or 0 for transfer in found.transfers)
    times = " | ".join(
        f"{timings.milliseconds(name):.3f} ({predicted.get(name, float('nan')) * 1e3:.3f})"
        for name in compiled
    )
    proof = "optimal" if assignment.optimal else f"{1 - assignment.bound / assignment.seconds:.1%}"
    return f"| {path.name} | {counts} | {len(found.parts)} | {sent:,} | {proof} | {times} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--target", default="cpu+opencl")
    parser.add_argument("--measured", action="store_true", help="prices by running each alone")
    arguments = parser.parse_args()
    names = " | ".join(f"{n}, ms" for n in ("chosen", "rule", *single_choices(arguments.target)))
    print(f"milliseconds measured (predicted) of {arguments.target}\n")
    print(f"| model | operations | parts | bytes sent | proof | {names} |")
    print("| --- " * (5 + names.count("|") + 1) + "|")
    for path in arguments.models:
        print(row(path, arguments.target, arguments.measured), flush=True)


if __name__ == "__main__":
    main()
