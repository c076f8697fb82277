"""Cycles of networks on NPUs, next to those that other compilers estimate and to their bounds.

    python benchmarks/npu/estimates.py MODEL... --files MODELS [--targets mac-128,tiny-8,edge-64]
        [--search fast] [-o estimates.csv]

A float model gets thresholds as in networks.py. Every output is compared with the integer program,
and every cycle is simulated. Estimates of others were read from their reports: TPU-MLIR 1.30.2 for
a CV184X (the size of tiny-8), Vela 5.2 for an Ethos-U55 with 128 multipliers (that of mac-128).
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import networks

import explorer
from explorer.accuracy.oracle import random_inputs
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.errors import InputError
from explorer.importers import load

BEFORE = {
    ("resnet8_cifar10_kaijiang", "mac-128"): 261_742,
    ("resnet8_cifar10_kaijiang", "tiny-8"): 172_414,
    ("resnet8_cifar10_kaijiang", "edge-64"): 80_936,
    ("alibaba_kws", "mac-128"): 71_232,
    ("alibaba_kws", "tiny-8"): 63_124,
    ("alibaba_kws", "edge-64"): 40_131,
    ("mlperf_vww_int8", "mac-128"): 455_027,
    ("mlperf_vww_int8", "tiny-8"): 549_823,
    ("mlperf_vww_int8", "edge-64"): 244_797,
    ("person_detect", "mac-128"): 548_353,
    ("person_detect", "tiny-8"): 406_983,
    ("person_detect", "edge-64"): 267_808,
    ("mlperf_kws_int8", "mac-128"): 157_939,
    ("mlperf_kws_int8", "tiny-8"): 139_202,
    ("mlperf_kws_int8", "edge-64"): 99_809,
}
"""Cycles of 2026-11-26, in the tiles that load the fewest bytes, each layer by itself."""
OTHERS = {
    ("resnet8_cifar10_kaijiang", "mac-128"): 201_747,
    ("resnet8_cifar10_kaijiang", "tiny-8"): 40_611,
    ("alibaba_kws", "tiny-8"): 10_816,
    ("mlperf_vww_int8", "mac-128"): 220_870,
    ("person_detect", "mac-128"): 353_931,
    ("mlperf_kws_int8", "mac-128"): 89_900,
}
"""Cycles that Vela and TPU-MLIR estimate."""
HEAD = ("network", "machine", "before", "now", "others", "sum of rooflines", "bytes",
        "of the least bytes")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--files", type=Path, default=Path(), help="folder of the cases' paths")
    parser.add_argument("--targets", default="mac-128,tiny-8,edge-64")
    parser.add_argument("--search", choices=("none", "fast", "full"), default="fast")
    parser.add_argument("-o", dest="output", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for path in options.models:
        for target in options.targets.split(","):
            rows.append(measured(path, target, options.search, options.files))
            print(*rows[-1], flush=True)
    file = sys.stdout if options.output is None else options.output.open("w", encoding="utf-8")
    with file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])


def measured(path: Path, target: str, search: str, files: Path) -> tuple[str, ...]:
    """A row of the table."""
    case = networks.read_cases(networks.CASES).get(path.stem, networks.Case())
    examples = networks.examples_of(path, case, files)
    sizes = networks.sizes_of(path, case, examples)
    try:
        table = networks.calibrated(path, case, examples)
        given = networks.one_of(examples, load(path))
    except InputError:  # it is quantized already
        table, given = None, random_inputs(load(path), 0, sizes)
    c = explorer.compile(
        path, target, quantization=table, dimensions=sizes, inputs=given,
        decisions={"tile-layers/search": search},
    )  # fmt: skip
    try:
        c.run(given)
        found = c.counted
        assert found is not None and found.cycles == found.predicted_cycles
        assert is_bit_exact(c["place-on-device"].after, c.executable, given)
    finally:
        c.close()
    key = (path.stem, target)
    roofs = sum(layer.bound_cycles or 0.0 for layer in found.layers)
    numbers = [BEFORE.get(key), found.cycles, OTHERS.get(key), round(roofs), found.bytes]
    texts = ["" if number is None else f"{number:,}" for number in numbers]
    return (f"`{key[0]}`", f"`{target}`", *texts, f"{found.bytes / (found.bound_bytes or 1):.1f}")


if __name__ == "__main__":
    main()
