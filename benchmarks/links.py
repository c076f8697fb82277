"""How much of every level of a compilation is linked to an operation, from model to machine code.

    python benchmarks/links.py sample_models/digits_cnn.onnx [--targets cpu opencl]

    digits_cnn, cpu      model 100 %   top 100 %   loops 100 %   source 100 %   assembly 99.9 %

What counts as a line that can be linked stands in `explorer/results/coverage.py`. The aims: all of
`top` and of the loops, 95 % of the kernels' source, 90 % of their instructions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import explorer
from explorer.results.coverage import AIMS, level_coverages
from explorer.results.linking import LevelCoverage

MODEL = Path(__file__).resolve().parent.parent / "sample_models" / "digits_cnn.onnx"


def share_text(coverage: LevelCoverage) -> str:
    missed = ", MISSED" if coverage.share < AIMS.get(coverage.level, 0.0) else ""
    share = f"{1000 * coverage.linked // max(coverage.linkable, 1) / 10:g} %"
    return f"{coverage.level} {share} of {coverage.linkable:,}{missed}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="The share of linked lines, level by level.")
    parser.add_argument("models", type=Path, nargs="*", default=[MODEL])
    parser.add_argument("--targets", nargs="+", default=["cpu", "opencl"])
    chosen = parser.parse_args(arguments)
    for model in chosen.models:
        for target in chosen.targets:
            compilation = explorer.compile(model, target=target)
            coverages = level_coverages(compilation.trace(with_assembly=True))
            shares = "   ".join(share_text(coverage) for coverage in coverages)
            print(f"{model.stem + ', ' + target:<28}{shares}", flush=True)
            for coverage in coverages:
                for name in coverage.missing[:2]:
                    print(f"{'':<28}not linked: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
