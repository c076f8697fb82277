"""`explorer simulate DIR`: runs what `explorer compile --emit DIR` wrote, in the simulator.

explorer simulate out/ --input x.npz --output y.npz

Inputs and outputs are stored integers under the names of `layout.json`. Files that are truncated,
damaged or of another target are refused before anything runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines
from explorer.files import check_output, write_file

SUMMARY = "run an emitted program of instructions in the simulator"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="what --emit wrote")
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE.npz", help="stored integers by name"
    )
    parser.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs")
    parser.add_argument(
        "--target", metavar="T", help="the target, where it is a .toml file of one's own"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.backends.npu.emitted import read_emitted
    from explorer.importers.arrays import arrays_as_npz, quote_name, read_arrays

    if arguments.output is not None:
        check_output(arguments.output)
    emitted = read_emitted(arguments.folder, arguments.target)
    inputs = read_arrays(arguments.input)
    with Progress("simulating") as progress:
        progress(arguments.folder.name, 0, 1)
        outputs, found = emitted.run(inputs)
    if arguments.output is not None:
        named = {quote_name(name): array for name, array in outputs.items()}
        write_file(arguments.output, arrays_as_npz(named))
    if arguments.json:
        print_json(
            {
                "target": emitted.machine.name,
                "cycles": found.cycles,
                "macs": found.counters.macs,
                "loaded_bytes": found.counters.loaded_bytes,
                "stored_bytes": found.counters.stored_bytes,
                "utilization": found.utilization,
                "stalls": found.stalls,
                "outputs": {name: list(array.shape) for name, array in outputs.items()},
            }
        )
        return 0
    print_lines(
        [
            f"{found.cycles:,} cycles of {emitted.machine.name}, {found.counters.macs:,} "
            f"multiply-accumulates ({100 * found.utilization:.1f}% of what its engine could)",
            *(f"{n}: {a.dtype} of {list(a.shape)}" for n, a in outputs.items()),
            *([f"wrote {arguments.output}"] if arguments.output is not None else []),
        ]
    )
    return 0
