"""Judges the hot loops of architectures on cores that need not be at hand.

    python benchmarks/cores [MODEL ...] [--cores zen4,haswell] [--output cores.json]

Every architecture is compiled for every core and its hot loops are given to llvm-mca
(`explorer show --what ports`); nothing runs. Printed is for each of them the part of the predicted
cycles that lies in loops of multiply-adds which are limited by just these, how near they come to
the peak, spills, and how often the cost model is within 15% of the analyser; then the loops that
are limited by something else, the most expensive first.

With `--output` what was found is kept as soon as it is there, and not made again. For Arm a
compiler is needed that knows it: `aarch64-linux-gnu-gcc`, clang, or `pip install ziglang`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # of `architectures`
from architectures import NAMES, open_architecture
from judged import Judged, Kept, findings, table, totals

import explorer
from explorer.compilation.measurements.ports import target_for_core
from explorer.errors import ExplorerError
from explorer.targets import load_target
from explorer.targets.core_families import core_family

CORES = ("zen4", "sapphire_rapids", "haswell", "neoverse_v1")
MODELS = NAMES[:10]
"""Those of floats; the others are parts of quantized ones."""
MAX_FINDINGS = 40


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Hot loops on cores, judged by llvm-mca.")
    parser.add_argument("models", nargs="*", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--cores", default=",".join(CORES), help="names with commas between them")
    parser.add_argument("--output", type=Path, help="JSON: what is there is not made again")
    chosen = parser.parse_args(arguments)
    kept = Kept(chosen.output)
    try:
        cores = [core_family(name.replace("-", "_")).name for name in chosen.cores.split(",")]
        for model in chosen.models or MODELS:
            for core in cores:
                if (model, core) not in kept:
                    kept.add(judge(model, core))
                print(kept.line(model, core), flush=True)
    except ExplorerError as error:
        print(error, file=sys.stderr)
        return 2
    print()
    for line in (*table(kept.all), "", *totals(kept.all), "", *findings(kept.all, MAX_FINDINGS)):
        print(line)
    return 0


def judge(model: str, core: str) -> Judged:
    """An architecture on a core; why it is not judged, where it cannot be."""
    target = target_for_core(load_target("cpu"), core)
    try:
        compiled = explorer.compile(open_architecture(model), target, tuned=False)
        return Judged(model, core, compiled.ports())
    except ExplorerError as error:
        return Judged(model, core, None, error.message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
