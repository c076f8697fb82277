"""`explorer inspect-package DIR`: are the files of a package unchanged, and what takes memory?

Status 1 where a file was changed, with its name.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines

if TYPE_CHECKING:
    from explorer.results.package import PackageRecord

SUMMARY = "verify a package, and show what takes its memory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="a package")
    parser.add_argument(
        "--no-build",
        dest="build",
        action="store_false",
        help="do not compile it for the sizes of its code",
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.packaging.inspecting import inspect_package
    from explorer.packaging.writing import read_manifest

    record = inspect_package(arguments.folder, arguments.build)
    table = read_manifest(arguments.folder)
    if arguments.json:
        print_json(described(record, table))
    else:
        print_lines(report_lines(record, table))
    return 1 if record.changed_files else 0


def described(record: PackageRecord, table: dict[str, Any]) -> dict[str, Any]:
    """What `--json` prints; docs/json.md says what each field means."""
    from explorer.results.encoding import to_json

    build = record.build
    return {
        "name": record.name,
        "model": record.model,
        "target": record.target,
        "changed": list(record.changed_files),
        "arena_bytes": record.arena_bytes,
        "weights_bytes": record.weights_bytes,
        "code_bytes": build.code_bytes,
        "static_bytes": build.static_bytes,
        "undefined_symbols": to_json(build.undefined_symbols),
        "note": build.note,
        "accuracy": table["accuracy"],
        "memory": table["memory"],
        "layers": to_json(record.layers),
        "files": to_json(record.files),
    }


def report_lines(record: PackageRecord, table: dict[str, Any]) -> list[str]:
    """The same for people: what was changed, the layers, the arena's map, accuracy."""
    from explorer.views.parts.plain import columns

    build = record.build
    lines = [f"{record.name}: {record.model or 'a stripped model'} for {record.target}"]
    lines += [f"CHANGED {text}" for text in record.changed_files]
    if not record.changed_files:
        lines.append(f"all {len(record.files)} files are as they were written")
    layers = [
        (
            layer.name,
            layer.kernel,
            f"{layer.weights_bytes:,}",
            "-" if layer.code_bytes is None else f"{layer.code_bytes:,}",
            ", ".join(layer.nodes),
        )
        for layer in record.layers
    ]
    heading = ("layer", "kernel", "weights", "code", "nodes")
    lines += ["", *columns(layers, heading, align="llrrl", indent=0)]
    memory = table["memory"]
    rows = [
        (f"{b['offset_bytes']:,}", f"{b['size_bytes']:,}", f"{b['first']}..{b['last']}", b["name"])
        for b in sorted(memory["buffers"], key=lambda b: (b["offset_bytes"], b["first"]))
    ]
    lines += ["", *columns(rows, ("offset", "bytes", "launches", "buffer"), align="rrll", indent=0)]
    code = "not known" if build.code_bytes is None else f"{build.code_bytes:,} bytes"
    lines += [
        "",
        f"arena {record.arena_bytes:,} bytes, weights {record.weights_bytes:,} bytes, code {code}"
        + (f" ({build.note})" if build.note else ""),
    ]
    if note := table["accuracy"]["note"]:
        lines.append(f"nothing was compared with the source model: {note}")
    for name, found in table["accuracy"]["outputs"].items():
        lines.append(
            f"{name}: differs from the source model's by {found['largest_difference']:.3g} at "
            f"most, of {found['largest_number']:.3g}"
        )
    return lines
