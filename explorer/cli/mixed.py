"""`explorer mixed MODEL`: which tensors are better INT16 or F32, for a wanted accuracy or SQNR.

    explorer mixed net.onnx --table net.table --data images.npz --sqnr 35 -o net.qtable
    explorer mixed net.onnx --table net.table --data images.npz --labels labels --accuracy 92
    explorer check net.onnx --quantize net.table --qtable net.qtable

Where it cannot be reached, the best that was is said, nothing is written, and the status is 2.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines
from explorer.files import check_output

SUMMARY = "choose modes of tensors for a wanted accuracy, SQNR or latency"
SHOWN = 10
"""Tensors of the largest noise that are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "--table", type=Path, required=True, metavar="TABLE", help="of explorer calibrate"
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE.npz",
        help="one array per input, by name; the first axis counts examples",
    )
    parser.add_argument(
        "--labels", metavar="ARRAY", help="array of the data: the right class of each example"
    )
    parser.add_argument("--accuracy", type=float, metavar="X", help="at least, in per cent")
    parser.add_argument("--sqnr", type=float, metavar="DB", help="of the outputs, at least")
    parser.add_argument(
        "--latency", type=float, metavar="MS", help="of one inference here, at most"
    )
    parser.add_argument(
        "--jobs", type=options.count, metavar="N", help="runs at once (default: processors)"
    )
    parser.add_argument(
        "--backend",
        default="threading",
        metavar="B",
        help="how joblib spreads runs: threading, loky (default: threading)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="QTABLE", help="the quantization table to write"
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.errors import InputError
    from explorer.importers.mapped_arrays import mapped_arrays
    from explorer.quantization.table import write_modes

    if arguments.output is not None:
        check_output(arguments.output)
    data = mapped_arrays(arguments.data)
    labels = None
    if arguments.labels is not None:
        if arguments.labels not in data:
            raise InputError(
                f"the data have no array `{arguments.labels}`; they have {', '.join(data)}",
                file=str(arguments.data),
            )
        labels = data.pop(arguments.labels)
    with Progress("measuring") as progress:
        found = explorer.mixed(
            arguments.model,
            data,
            table=arguments.table,
            labels=labels,
            accuracy=arguments.accuracy,
            sqnr=arguments.sqnr,
            latency=arguments.latency,
            dimensions=dict(arguments.dim),
            jobs=arguments.jobs,
            backend=arguments.backend,
            progress=progress,
        )
    if arguments.output is not None:
        write_modes(arguments.output, found.points[found.chosen].modes)
    if arguments.json:
        print_json(found)
        return 0
    print_lines(lines_of(found))
    if arguments.output is not None:
        print_lines([f"wrote {arguments.output}"])
    return 0


def lines_of(found) -> list[str]:
    """The tensors of the largest noise, the front, and the choice."""
    width = max(len(t.tensor) for t in found.tensors)
    noisiest = sorted(found.tensors, key=lambda t: t.alone.sqnr_db)[:SHOWN]
    lines = [f"{'tensor':{width}}  alone INT8  alone F32  alone INT16 (dB of the outputs)"]
    lines += [
        f"{t.tensor:{width}}  {t.alone.sqnr_db:10.2f}  {t.without.sqnr_db:9.2f}  "
        f"{t.wide.sqnr_db:11.2f}"
        for t in noisiest
    ]
    if len(found.tensors) > len(noisiest):
        lines.append(f"... and {len(found.tensors) - len(noisiest)} others")
    point = found.points[found.chosen]
    first = found.points[0]
    modes = ", ".join(f"{name} {mode}" for name, mode in point.modes.items()) or "none"
    return [
        *lines,
        f"all INT8: {_words(first.quality)}",
        f"wanted: {found.wanted}; chosen: {_words(point.quality)}, cost {point.cost:.2f} of INT8",
        f"not INT8: {modes}",
    ]


def _words(quality) -> str:
    words = f"{quality.sqnr_db:.2f} dB, {quality.differ} differ"
    return words if quality.accuracy is None else f"{words}, accuracy {quality.accuracy:.2f} %"
