"""`explorer sweep MODEL... --target BASE --vary FIELD=VALUES -o FRONT.json`: a search of machines.

    explorer sweep net.tflite --target mac-128,edge-64,tiny-8 -o targets.json
    explorer sweep net.tflite --target mac-128 --vary engines.matrix.rows=8,16,32
        --vary memories.buffers.size_bytes=16KiB..256KiB --jobs 2 -o front.json

Every combination is compiled for and simulated once. The file has all points with cycles, time,
traffic, scratchpad bytes, multipliers and energy, and the Pareto front; what contradicts itself is
skipped with the reason. Interrupted, the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines, print_note

SUMMARY = "compile models for variants of an NPU, and find those that none is better than"
JOURNAL = ".journal"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL", help="model files")
    parser.add_argument(
        "--target",
        required=True,
        metavar="BASE",
        help="the machine that is varied, or a .toml file; several, separated by commas",
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="FIELD=VALUES",
        help="a field of the target: engines.matrix.rows=8,16; 16KiB..64KiB doubles; several times",
    )
    parser.add_argument(
        "--quantize", type=Path, metavar="TABLE", help="thresholds, for models of floats"
    )
    parser.add_argument(
        "--jobs", type=options.count, metavar="N", help="processes (default: all processors)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FRONT.json", help="the file to write"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.files import check_output, write_file
    from explorer.results.encoding import to_json
    from explorer.results.sweep import shown
    from explorer.tuning.machines import parse_field, sweep_machines

    check_output(arguments.output)
    varied = [parse_field(text) for text in arguments.vary]
    journal = arguments.output.with_name(arguments.output.name + JOURNAL)
    try:
        with Progress("sweeping") as progress:
            found = sweep_machines(
                arguments.models,
                [name.strip() for name in arguments.target.split(",")],
                varied,
                quantization=arguments.quantize,
                jobs=arguments.jobs or -1,
                journal=journal,
                progress=progress,
            )
    except KeyboardInterrupt:
        print_note(f"finished machines are in {journal}; the same command goes on there")
        raise
    data = {**to_json(found), "front": list(found.front)}
    for point, record in zip(found.points, data["points"], strict=True):
        record["label"] = shown(point.fields)
    write_file(arguments.output, json.dumps(data, indent=1) + "\n")
    journal.unlink(missing_ok=True)
    if arguments.json:
        print_json(data)
    else:
        print_lines(found.to_text().splitlines())
        print_note(f"wrote {arguments.output}")
    return 0
