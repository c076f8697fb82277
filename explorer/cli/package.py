"""`explorer package MODEL -o DIR`: C99 that runs the model without Python.

explorer package net.onnx -o out/ --target cortex-m4 --budget 64KiB --build
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines

if TYPE_CHECKING:
    from explorer.results.package import PackageRecord

STORAGES = ("array", "file")
SUMMARY = "write a model as C that runs without Python"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="a new folder"
    )
    options.add_compiling(parser)
    parser.add_argument(
        "--optimize",
        choices=("speed", "size"),
        help="which schedules come first (default: as the target says)",
    )
    parser.add_argument(
        "--weights",
        action=_Weights,
        dest="weights_file",
        metavar="array|file|FILE",
        help="as constant arrays (default), or as a file to read or map; another word is the file "
        "with the weights of a model that is two files (Caffe)",
    )
    parser.add_argument(
        "--weights-as", choices=STORAGES, default="array", help="the same: array or file"
    )
    parser.add_argument(
        "--threads",
        type=options.count,
        default=1,
        metavar="N",
        help="that share a run, by pthreads (default: 1, without pthreads)",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="begins all names in C (default: made of the model's)"
    )
    parser.add_argument(
        "--strip", action="store_true", help="without names of the model, and without comments"
    )
    parser.add_argument("--force", action="store_true", help="replace a package of that name")
    parser.add_argument(
        "--build",
        action="store_true",
        help="compile it for the target and run its self-test, where the tools are installed",
    )
    options.add_json(parser)


class _Weights(argparse.Action):
    """`--weights array`, `--weights file`, or the file of a Caffe model's weights."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # argparse has no other type
        option_string: str | None = None,
    ) -> None:
        if values in STORAGES:
            namespace.weights_as = values
        else:
            namespace.weights_file = Path(values)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.packaging.names import package_name
    from explorer.packaging.writing import check_package_folder

    check_package_folder(arguments.output, arguments.force)
    if arguments.name is not None:
        package_name(arguments.name, "")
    chosen = options.compile_options(arguments)
    if arguments.optimize is not None:
        chosen["decisions"] = {"target/optimize": arguments.optimize, **chosen["decisions"]}
    with Progress("compiling") as progress:
        compilation = explorer.compile(
            options.model_of(arguments),
            arguments.target,
            dimensions=dict(arguments.dim),
            progress=progress,
            **chosen,
        )
    compilation.package(
        arguments.output,
        name=arguments.name,
        weights=arguments.weights_as,
        strip=arguments.strip,
        force=arguments.force,
        flash_bytes=arguments.flash,
        threads=arguments.threads,
        build=arguments.build,
    )
    record = compilation.packages[-1]
    compilation.close()
    if arguments.json:
        print_json(described(record, arguments.output))
    else:
        print_lines(report_lines(record, arguments.output))
    return 1 if record.build.passed is False else 0


def described(record: PackageRecord, folder: Path) -> dict[str, Any]:
    """What `--json` prints; docs/json.md says what each field means."""
    build = record.build
    return {
        "package": str(folder),
        "name": record.name,
        "model": record.model,
        "target": record.target,
        "files": [{"path": f.path, "size_bytes": f.size_bytes} for f in record.files],
        "arena_bytes": record.arena_bytes,
        "weights_bytes": record.weights_bytes,
        "code_bytes": build.code_bytes,
        "static_bytes": build.static_bytes,
        "undefined_symbols": build.undefined_symbols,
        "instructions": build.instructions,
        "selftest": {"passed": build.passed, "note": build.note, "compiler": build.compiler},
    }


def report_lines(record: PackageRecord, folder: Path) -> list[str]:
    """The same for people."""
    build = record.build
    lines = [
        f"wrote {folder}: {len(record.files) + 1} files for {record.target}",
        f"{record.arena_bytes:,} bytes of arena, {record.weights_bytes:,} bytes of weights",
    ]
    if build.code_bytes is not None:
        lines.append(f"{build.code_bytes:,} bytes of code, {build.static_bytes:,} written")
    if build.compiler:
        result = {True: "passed", False: "FAILED", None: "was not run"}[build.passed]
        if build.instructions is not None:
            lines.append(f"{build.instructions:,} instructions in a run")
        lines.append(f"the self-test {result}" + (f": {build.note}" if build.note else ""))
    elif build.note and build.code_bytes is None:
        lines.append(f"not compiled here: {build.note}")
    return lines
