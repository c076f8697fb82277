"""`explorer compile MODEL`: every pass with what it did; a trace and the IR as files on request.

explorer compile net.onnx --save net.nnx --dump-dir dump/

dump/00-import.mlir      complete IR after every pass, which `explorer opt` reads
dump/00-import.weights.npz
dump/01-...
dump/program.c           what is compiled for the device
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.instructions import host_lines
from explorer.cli.terminal import Progress, print_json, print_lines, terminal_width
from explorer.files import check_output, check_output_folder, folder_written_at_once, write_whole

HOST, THE_HOST = "host", "the host"

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.ir.program import Snapshot
    from explorer.results.placement import PlacementRecord

SUMMARY = "compile a model and show what every pass did"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_compiling(parser)
    parser.add_argument("--save", type=Path, metavar="FILE.nnx", help="write the trace")
    parser.add_argument(
        "--dump-dir", type=Path, metavar="DIR", help="write the IR after every pass and the source"
    )
    parser.add_argument(
        "--fuel", type=options.amount, metavar="N", help="at most N rewrites by optional passes"
    )
    parser.add_argument(
        "--disable",
        type=options.names,
        action="extend",
        default=[],
        metavar="PASS[,PASS]",
        help="leave passes out",
    )
    parser.add_argument(
        "--emit",
        type=Path,
        metavar="DIR",
        help="write instructions, global memory and what lies where (NPUs)",
    )
    parser.add_argument(
        "--base",
        type=options.amount,
        default=0,
        metavar="ADDRESS",
        help="with --emit: the first byte of global memory that is used (default: 0)",
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.views.catalog.passes import passes
    from explorer.views.renderers.text import text_of

    if arguments.save is not None:
        check_output(arguments.save)
    if arguments.emit is not None:
        check_output_folder(arguments.emit)
    if arguments.dump_dir is not None:
        check_output_folder(arguments.dump_dir)
    with Progress("compiling") as progress:
        compilation = explorer.compile(
            options.model_of(arguments),
            arguments.target,
            disable=arguments.disable,
            dimensions=dict(arguments.dim),
            **options.compile_options(arguments),
            fuel=arguments.fuel,
            progress=progress,
        )
    summary = summarize(compilation)
    if arguments.save is not None:
        compilation.save(arguments.save)
    if arguments.emit is not None:
        compilation.backend.emit(
            compilation.passes, compilation.target, arguments.emit, arguments.base
        )
    if arguments.dump_dir is not None:
        write_dump(compilation, arguments.dump_dir)
    if arguments.json:
        print_json(summary)
        return 0
    trace = compilation.trace(with_code=False)
    print_lines(text_of(passes(trace), terminal_width()).split("\n"))
    if compilation.constraints:
        print("the model asks of its dimensions:")
        print_lines([f"  {c.text}  ({c.operation})" for c in compilation.constraints])
    print_lines(bounded_lines(compilation))
    program, memory = summary["program"], summary["memory"]
    print(
        f"{program['launches']} launches of {program['kernels']} kernels, "
        f"{memory['peak_bytes']:,} bytes of activations (at least {memory['bound_bytes']:,}), "
        f"{program['weights_bytes']:,} bytes of weights"
    )
    print_lines(fit_lines(compilation))
    print_lines(placement_lines(compilation.placement))
    print_lines(
        f"{part.function} runs on {THE_HOST if part.device == HOST else part.device} "
        f"({part.reason})"
        for part in compilation.program.parts
        if part.reason
    )
    if not compilation.backend.runs_loops:
        print_lines(host_lines(compilation))
    for path in (arguments.save, arguments.dump_dir, arguments.emit):
        if path is not None:
            print_lines([f"wrote {path}"])
    return 0


def fit_lines(compilation: Compilation) -> list[str]:
    """What was decided so that the program fits into its budget."""
    return [
        f"{step.address} = {step.value}: {step.bytes_before:,} to {step.bytes_after:,} bytes, "
        f"{step.microseconds:+.1f} us (predicted)"
        for step in compilation.memory.fit
        if step.taken
    ]


def bounded_lines(compilation: Compilation) -> list[str]:
    """Tensors that the table lacks, and what was taken in its place."""
    from explorer.quantization.quantize_tensors import BOUND

    found = [
        event.explanation
        for result in compilation.passes
        for event in result.rewrites
        if event.rule == BOUND and event.applied
    ]
    if not found:
        return []
    how = "`explorer calibrate --arithmetic integer` finds narrower ranges"
    return [*(f"quantized {words}" for words in found), f"  {how}"]


def summarize(compilation: Compilation) -> dict:
    """What `--json` prints; docs/json.md says what each field means."""
    from explorer.targets.together import joined

    program, memory = compilation.program, compilation.memory
    return {
        "model": compilation.model.name,
        "target": joined(compilation.targets),
        "passes": [
            {
                "name": record.name,
                "seconds": record.seconds,
                "changed": record.changed,
                "operations_before": record.operations_before,
                "operations_after": record.operations_after,
                "macs": record.macs,
                "peak_bytes": record.peak_bytes,
                "rules": record.rules,
            }
            for record in (result.record for result in compilation.passes)
        ],
        "constraints": [
            {"text": c.text, "kind": c.kind, "operation": c.operation, "nodes": list(c.nodes)}
            for c in compilation.constraints
        ],
        "memory": {
            "peak_bytes": memory.peak_bytes,
            "bound_bytes": memory.bound_bytes,
            "optimal": memory.optimal,
        },
        "fit": [asdict(step) for step in memory.fit],
        "program": {
            "kernels": len(program.kernels),
            "launches": len(program.launches),
            "arena_bytes": program.arena_bytes,
            "weights_bytes": program.weights_bytes,
        },
        **placement_summary(compilation.placement),
    }


def placement_summary(placement: PlacementRecord) -> dict:
    """Parts and transfers; of several targets what was refused, and the assignment."""
    chosen = placement.assignment
    return {
        "parts": [
            {
                "function": part.function,
                "device": part.device,
                "reason": part.reason,
                "operations": list(part.operations),
                "predicted_us": part.predicted_us,
                "arena_bytes": part.arena_bytes,
            }
            for part in placement.parts
        ],
        "transfers": [
            {
                "value": transfer.value,
                "from": transfer.source,
                "to": transfer.target,
                "bytes": transfer.size_bytes,
                "predicted_us": transfer.predicted_us,
            }
            for transfer in placement.transfers
        ],
        "refused": [
            *(
                {"operation": op.operation, "device": device, "reason": reason}
                for op in placement.operations
                for device, reason in op.refusals
            ),
            *(
                {"edge": f"{edge.maker}>{edge.reader}", "device": "", "reason": edge.reason}
                for edge in placement.edges
            ),
        ],
        "assignment": None
        if chosen is None
        else {
            "seconds": chosen.seconds,
            "bound": chosen.bound,
            "optimal": chosen.optimal,
            "single": dict(chosen.single),
            "greedy": chosen.greedy,
        },
    }


def placement_lines(placement: PlacementRecord) -> list[str]:
    """What several targets were given, in a few lines."""
    chosen = placement.assignment
    absent = [f"left out: {name} ({reason})" for name, reason in placement.absent]
    if chosen is None:
        return absent
    alone = ", ".join(
        f"{device} alone {seconds * 1e6:,.1f} µs" for device, seconds in chosen.single
    )
    proof = "proven the least" if chosen.optimal else f"at least {chosen.bound * 1e6:,.1f} µs"
    counts = {
        device: sum(op.device == device for op in placement.operations)
        for device in placement.targets
    }
    sent = sum(transfer.size_bytes or 0 for transfer in placement.transfers)
    return [
        *absent,
        f"assigned: {', '.join(f'{count} to {device}' for device, count in counts.items())}; "
        f"{len(placement.transfers)} transfers of {sent:,} bytes",
        f"predicted {chosen.seconds * 1e6:,.1f} µs ({proof}); {alone or 'no device runs all'}",
    ]


def write_dump(compilation: Compilation, folder: Path) -> None:
    """IR and weights after every pass, and the program's source."""
    with folder_written_at_once(folder) as partial:
        written: dict[tuple[str, ...], Path] = {}
        for number, result in enumerate(compilation.passes):
            stem = f"{number:02d}-{re.sub('[^A-Za-z0-9-]', '-', result.name)}"
            _write(partial / f"{stem}.mlir", result.after.dump().encode())
            _write_weights(result.after, partial / f"{stem}.weights.npz", written)
        program = compilation.program
        texts = {
            f"program-{p.function}": p.program
            for p in program.parts
            if p.program is not None and p.device != HOST
        }
        for name, each in (texts or {"program": program}).items():
            source = "\n".join(each.source.lines) + "\n"
            suffix = compilation.compiled_of(each).backend.suffix
            _write(partial / f"{name}.{suffix}", source.encode())


def _write_weights(snapshot: Snapshot, path: Path, written: dict[tuple[str, ...], Path]) -> None:
    """The weights that the snapshot's IR names. Snapshots with equal ones share a file's bytes."""
    from explorer.cli.snapshots import used_weights, weights_as_npz

    names = tuple(used_weights(snapshot.module))
    # A name always stands for the same array, so equal names are equal files: a hard link.
    if names in written:
        os.link(written[names], path)
        return
    _write(path, weights_as_npz(snapshot.weights, names))
    written[names] = path


def _write(path: Path, content: bytes) -> None:
    """A file of the dump: what fails is told of the folder, which appears as a whole."""
    write_whole(path, content, waits=False, mode=0o666)
