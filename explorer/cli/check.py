"""`explorer check MODEL`: is the program right after every pass, and the binary on its device?

    explorer check net.onnx --input inputs.npz --tolerance 1e-4 --json
    explorer check net.onnx --inputs hard                 constructed to break each operation
    explorer check net.onnx --golden outputs.npz          where the reference does not load it
    explorer check models/ --targets cpu,opencl --cases models.toml --report models.md

Every snapshot is executed and every tensor compared with the source model's (docs/json.md).
Status 1 when something is off; the first fault is then named on stderr. Of a folder, or of several
models, it makes one table (docs/checking-models.md); each runs in a process of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.instructions import counted_lines
from explorer.cli.terminal import (
    Progress,
    print_json,
    print_lines,
    print_note,
    printable,
    terminal_width,
)
from explorer.errors import InputError, ModelError

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Accuracy, Compilation
    from explorer.compilation.checking_calls import CallsVerdict
    from explorer.importers.model import SourceModel
    from explorer.results import AccuracyReport, NearTie, OutsideIndex, TensorError
    from explorer.results.hard import HardVerdict
    from explorer.results.runs.arena import ArenaRecord
    from explorer.results.runs.counted import CountedRun, SearchedLayer

SUMMARY = "compare the program after every pass with the source model"
NOT_PASSED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="a model file; several or a folder for a table"
    )
    parser.add_argument(
        "--min-sqnr",
        type=float,
        metavar="DB",
        help="with --quantize: fail where an output is further from the float model's",
    )
    options.add_weights(parser)
    options.add_compiling(parser)
    parser.add_argument(
        "--input", type=Path, metavar="FILE.npz", help="arrays by name (default: seeded random)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="data on which outputs and right answers are judged, as `explorer serve --input` "
        "takes them",
    )
    parser.add_argument(
        "--inputs",
        default="random",
        metavar="random|hard",
        help="hard: inputs that are constructed to break each operation, which is judged alone "
        "(default: random)",
    )
    parser.add_argument(
        "--tolerance",
        type=options.tolerance,
        default=1e-4,
        metavar="X",
        help="largest max_relative of any tensor (default: 1e-4)",
    )
    parser.add_argument(
        "--golden",
        metavar="FILE.npz",
        help="compare with these tensors by name instead of the reference's; `imported` for those "
        "of the imported program",
    )
    parser.add_argument(
        "--calls",
        type=options.count,
        metavar="N",
        help="run a model with states N times in turn, and compare outputs and states after each",
    )
    parser.add_argument(
        "--arena",
        action="store_true",
        help="compare what a C program writes into its arena with the memory plan, byte by byte",
    )
    options.add_json(parser)
    several = parser.add_argument_group("a table of several models")
    several.add_argument(
        "--targets", type=options.names, metavar="T,T", help="targets of the table (default: cpu)"
    )
    several.add_argument(
        "--cases",
        type=Path,
        metavar="FILE.toml",
        help="inputs, goldens and labels (docs/checking-models.md)",
    )
    several.add_argument("--report", type=Path, metavar="FILE.md", help="write the table as a page")
    several.add_argument(
        "--record",
        type=Path,
        metavar="FILE.jsonl",
        help="keep results there; what it has is not run again",
    )
    several.add_argument(
        "--kept", action="store_true", help="run nothing: the table of what --record holds"
    )
    several.add_argument(
        "--files", type=Path, metavar="FOLDER", help="what paths of the cases start from"
    )
    several.add_argument(
        "--only", metavar="PATTERN", default="", help="models with this in the name"
    )
    several.add_argument(
        "--seconds", type=options.count, default=600, metavar="N", help="per model and target"
    )
    several.add_argument(
        "--memory", type=options.count, default=8, metavar="GIB", help="per model and target"
    )


def run(arguments: argparse.Namespace) -> int:
    from explorer.cli.check_hard import kind_of_inputs

    names = arguments.models
    is_hard = kind_of_inputs(arguments.inputs) == "hard"
    asked = (arguments.targets, arguments.cases, arguments.report, arguments.record)
    if len(names) > 1 or Path(names[0]).is_dir() or any(value is not None for value in asked):
        from explorer.cli.repository import verification

        if arguments.weights_file is not None:
            raise InputError("--weights is for one model", hint="put a pair into a zip file")
        if is_hard:
            raise InputError("--inputs hard is for one model and one target")
        return verification("checks.command").run_table(arguments)
    given = [name for name in ("input", "golden", "data") if getattr(arguments, name)]
    if is_hard and given:
        raise InputError(f"--inputs hard makes inputs by itself: leave out --{given[0]}")
    if arguments.data and len(given) > 1:
        raise InputError(f"--data has the inputs: leave out --{given[0]}")
    arguments.model = names[0]
    return check_one(arguments)


def check_one(arguments: argparse.Namespace) -> int:
    """One model on one target, in this process."""
    import sys
    from dataclasses import asdict

    import explorer
    from explorer.cli.check_hard import broken, check_hard_inputs, record
    from explorer.cli.models import load_with_weights, sizes_with_note
    from explorer.importers.inputs import read_inputs
    from explorer.quantization.table import require_scale
    from explorer.references.interface import reference_of
    from explorer.views.catalog.accuracy import compared
    from explorer.views.renderers.text import text_of

    model = load_with_weights(options.model_of(arguments))
    inputs, sizes = None, dict(arguments.dim)
    if arguments.input is not None:
        inputs, sizes = read_inputs(model, arguments.input, sizes)
    golden = None if arguments.golden is None else read_golden(arguments.golden)
    sizes = {**sizes_with_note(model, sizes, arguments.capacity), **sizes}
    if golden is None:
        with suppress(ModelError):  # nobody is: then the imported program is compared with
            reference_of(model).start()  # beside the compilation
    with Progress("compiling") as progress:
        compilation = explorer.compile(
            model,
            arguments.target,
            dimensions=sizes,
            **options.compile_options(arguments),
            progress=progress,
        )
    table = compilation.settings.quantization
    if table is not None and inputs is not None:
        require_scale(table, inputs)
    try:
        if arguments.inputs == "hard":
            return check_hard_inputs(compilation, arguments.tolerance, arguments.json)
        if arguments.data:
            compilation.attach(arguments.data)
        first = compilation.judged_inputs() if arguments.data else inputs
        if outside := compilation.outside_indices(first):
            tell_outside(outside, compilation, arguments.json)
            return NOT_PASSED
        with Progress("checking") as progress:
            accuracy = compilation.accuracy(inputs, arguments.tolerance, progress, golden)
        hard = pushed(compilation, accuracy) if golden is None else []
        calls = checked_calls(compilation, arguments.calls, arguments.tolerance)
        arenas = checked_arenas(compilation, accuracy) if arguments.arena else []
        judged = golden is None and has_float64(model)
        if arguments.json:
            dimensions = dict(compilation.settings.dimensions)
            summary = summarize(accuracy.report, compilation.model)
            counted = counters(compilation, accuracy.inputs)
            summary["passed"] = (
                accuracy.passed and not broken(hard) and is_right(calls) and not strayed(arenas)
            )
            if arguments.arena:
                summary["arena"] = [{**asdict(a), "passed": a.passed} for a in arenas]
            if calls is not None:
                summary["calls"] = asdict(calls)
            if arguments.data:
                summary |= on_data(accuracy.report)
            summary["hard"] = [record(verdict) for verdict in hard]
            print_json({**summary, "float64": judged, **counted, "dimensions": dimensions})
        else:
            print_lines(text_of(compared(accuracy.report), terminal_width()).split("\n"))
            if golden is None and not judged:
                print_note(
                    f"nobody computes nodes of {model.format} in float64: tensors of floats are "
                    "held to the tolerance alone"
                )
            if arguments.data:
                print_lines(data_lines(accuracy.report))
            print_lines(counted_lines(compilation))
            if calls is not None and not calls.problem:
                print_lines([words_of_calls(calls)])
            print_lines(
                f"{a.function}: {a.written_bytes:,} of {a.planned_bytes:,} planned bytes written"
                for a in arenas
            )
        for problem in strayed(arenas):
            print(printable(problem), file=sys.stderr)
        if calls is not None and calls.problem:
            print(printable(calls.problem), file=sys.stderr)
        for problem in broken(hard):
            print(problem, file=sys.stderr)
        if accuracy.passed:
            is_below = below(accuracy.report, arguments.min_sqnr)
            is_wrong = broken(hard) or not is_right(calls) or strayed(arenas)
            return NOT_PASSED if is_below or is_wrong else 0
        fault = accuracy.bisect()
    finally:
        compilation.close()
    problem = f"first fault: {printable(fault)}" if fault else printable(accuracy.report.problem)
    print(problem, file=sys.stderr)
    return NOT_PASSED


def on_data(report: AccuracyReport) -> dict:
    """What `--json` has of the data that were given."""
    task, outputs = report.task, report.against_source
    return {
        "data": str(report.data),
        "right": None if task is None else [task.right, task.source_right, task.total],
        "against_source": [
            {"name": o.tensor, "sqnr_db": o.sqnr_db, "max_relative": o.max_relative}
            for o in outputs
        ],
    }


def data_lines(report: AccuracyReport) -> Iterator[str]:
    """The same for a person."""
    yield f"judged on {report.data}"
    for output in report.against_source:
        yield (
            f"  {output.tensor}: {output.sqnr_db:.1f} dB against the source model, "
            f"largest relative error {output.max_relative:.1e}"
        )
    if report.task is not None:
        yield f"  {report.task}"


def checked_calls(
    compilation: Compilation, count: int | None, tolerance: float
) -> CallsVerdict | None:
    """What came of so many calls in turn; None where none are asked for."""
    if count is None:
        return None
    from explorer.compilation.checking_calls import check_calls

    return check_calls(compilation, count, tolerance)


def checked_arenas(compilation: Compilation, accuracy: Accuracy) -> Sequence[ArenaRecord]:
    """What a run wrote into every arena."""
    from explorer.compilation.arena_check import check_arena

    return check_arena(compilation, accuracy.inputs)


def strayed(arenas: Sequence[ArenaRecord]) -> list[str]:
    """What is wrong with them, in words."""
    problems = []
    for arena in arenas:
        problems += [
            f"arena of {arena.function}: {stray.operation} writes bytes {stray.first} to "
            f"{stray.end}, where none of its buffers lives"
            for stray in arena.strays
        ]
        if arena.written_bytes > arena.planned_bytes:
            problems.append(
                f"arena of {arena.function}: byte {arena.written_bytes - 1} is written, and "
                f"{arena.planned_bytes} bytes are planned"
            )
        if arena.depends_on_pattern:
            problems.append(
                f"arena of {arena.function}: the outputs depend on bytes that nothing has written"
            )
    return problems


def words_of_calls(calls: CallsVerdict) -> str:
    text = f"{calls.calls} calls in turn: largest difference {calls.worst:.1e}"
    if calls.from_source is None:
        return text
    return f"{text} from the rounded program, outputs {calls.from_source:.1e} from the source model"


def is_right(calls: CallsVerdict | None) -> bool:
    return calls is None or not calls.problem


def pushed(compilation: Compilation, accuracy: Accuracy) -> list[HardVerdict]:
    """Verdicts on some hard inputs of the whole model; none where they would say nothing: where
    something is wrong anyhow, nobody else runs the model, or integers stand for its floats."""
    from explorer.compilation.checking_hard import push

    report = accuracy.report
    if not report.passed or report.oracle_note or report.float_outputs:
        return []
    if not compilation.backend.runs_loops:  # a simulator takes long
        return []
    return push(compilation, accuracy.inputs, report.tolerance)


def has_float64(model: SourceModel) -> bool:
    """Whether a tensor that is out of tolerance can be shown to be as exact as the reference's."""
    from explorer.references.interface import reference_of

    try:
        return reference_of(model).has_float64
    except ModelError:
        return False


def counters(compilation: Compilation, inputs: Mapping[str, np.ndarray]) -> dict:
    """What only a target has whose cycles are counted."""
    from explorer.compilation.bit_exactness import is_bit_exact

    if compilation.backend.runs_loops:
        return {}
    found = compilation.counted
    top = next(r.after for r in reversed(compilation.passes) if r.after.level == "top")
    return {
        "bit_exact": is_bit_exact(top, compilation.executable, inputs),
        "cycles": found.cycles if found else 0,
        "predicted_cycles": found.predicted_cycles if found else 0,
        "macs": found.macs if found else 0,
        "bytes": found.bytes if found else 0,
        "traffic_bytes": found.bytes if found else 0,
        "bound_cycles": found.bound_cycles if found else 0.0,
        "bound_traffic_bytes": found.bound_bytes if found else 0,
        "coded_weights": _coded_weights(found),
        "energy": _energy(found),
        "groups": [list(group) for group in found.groups] if found else [],
        "search": [_search(one) for one in found.searches] if found else [],
        "utilization": found.utilization if found else 0.0,
        "host_operations": [
            {"operation": operation, "device": device, "reason": reason}
            for operation, device, reason in compilation.placed_elsewhere
        ],
    }


def _search(found: SearchedLayer) -> dict:
    """What it came to; the view `landscape` has its points."""
    return {name: value for name, value in vars(found).items() if name != "points"}


def _coded_weights(found: CountedRun | None) -> dict[str, int]:
    """What is loaded of them, and what that is once it is decoded."""
    coded, decoded = found.coded_weights if found else (0, 0)
    return {"bytes": coded, "decoded_bytes": decoded}


def _energy(found: CountedRun | None) -> dict:
    """All of it, by part, by layer, and where the figures are from."""
    if found is None:
        return {}
    return {
        "picojoules": found.energy_picojoules,
        "parts": found.energy_by_part,
        "layers": {layer.operation: layer.energy_picojoules for layer in found.layers},
        "sources": dict(found.energy_sources),
    }


def below(report: AccuracyReport, least_db: float | None) -> bool:
    """Whether an output of a quantized program is further from the float model's than allowed."""
    import sys

    far = [o for o in report.from_float if least_db is not None and o.sqnr_db < least_db]
    for output in far:
        words = f"output {output.tensor} has {output.sqnr_db:.1f} dB, at least {least_db:g} wanted"
        print(printable(words), file=sys.stderr)
    return bool(far)


def tell_outside(outside: Sequence[OutsideIndex], compilation: Compilation, as_json: bool) -> None:
    """Says which indices lie outside, for which the model means nothing."""
    import sys
    from dataclasses import asdict

    from explorer.accuracy.indices import describe_outside

    for found in outside:
        print(printable(describe_outside(found)), file=sys.stderr)
    print("nothing is compared: the model is not defined for these inputs", file=sys.stderr)
    if as_json:
        names = {"model": compilation.model.name, "target": compilation.target.name}
        print_json({**names, "passed": False, "indices": [asdict(found) for found in outside]})


def read_golden(name: str) -> Mapping[str, np.ndarray]:
    """Tensors by name; none for the imported program's own."""
    from explorer.importers.arrays import read_arrays

    return {} if name == "imported" else read_arrays(Path(name))


def summarize(report: AccuracyReport, model: SourceModel) -> dict:
    """What `--json` prints. `worst` is the worse of both modes, or null where nothing compared."""
    isolated = report.isolated or report.passes
    return {
        "model": model.name,
        "format": model.format,
        "target": report.target,
        "passed": report.passed,
        "passes": [
            {"name": together.name, "worst": _worst((*together.tensors, *apart.tensors))}
            for together, apart in zip(report.passes, isolated, strict=True)
        ],
        "outputs": [_output(report, output) for output in report.outputs],
        "as_exact": sorted(
            {t.tensor for p in (*report.passes, *isolated) for t in p.tensors if t.as_exact}
        ),
        "exact": sorted(
            {t.tensor for p in (*report.passes, *isolated) for t in p.tensors if t.bit_by_bit}
        ),
        "reference": report.oracle,
        "reference_note": report.oracle_note,
        "rests_on": report.rests_on,
        "ties": [_tie(tie) for tie in (report.passes[-1].near_ties if report.passes else ())],
        "problem": report.problem,
        **_quantized(report),
    }


def _quantized(report: AccuracyReport) -> dict:
    """What only a model has that was quantized here."""
    from explorer.results.encoding import to_json

    if not report.float_outputs:
        return {}
    measured = [
        {"name": o.tensor, "sqnr_db": o.sqnr_db, "cosine": o.cosine} for o in report.float_outputs
    ]
    found = report.quantization and report.quantization.costliest
    costliest = to_json(found) if found else None
    return {
        "bit_exact": report.bit_exact,
        "float": measured,
        "costliest": costliest,
        "integers_from": report.integers_from,
        "integers_note": report.integers_note,
    }


def _output(report: AccuracyReport, output: TensorError) -> dict:
    """One output: what the verdict rests on, and both ways of running it."""
    made = {"name": output.tensor, **_measures(output)}
    for mode, errors in (("end_to_end", report.end_to_end), ("isolated", report.isolated_outputs)):
        found = next((e for e in errors if e.tensor == output.tensor), None)
        made[mode] = None if found is None else _measures(found)
    return made


def _measures(error: TensorError) -> dict:
    return {
        "max_absolute": float(error.max_absolute),
        "max_relative": float(error.max_relative),
        "cosine": float(error.cosine),
    }


def _tie(tie: NearTie) -> dict:
    return {
        "kind": tie.kind,
        "operation": tie.operation,
        "tensor": tie.tensor,
        "elements": tie.elements,
        "element": list(tie.index),
        "value": tie.found,
        "expected": tie.expected,
        "gap": float(tie.gap),
    }


def _worst(errors: tuple[TensorError, ...]) -> dict | None:
    """The tensor with the largest error; NaN, which compares with nothing, is the worst of all."""
    worst = max(
        errors, key=lambda e: (e.max_relative != e.max_relative, e.max_relative), default=None
    )
    if worst is None:
        return None
    return {
        "tensor": worst.tensor,
        "max_relative": float(worst.max_relative),
        "cosine": float(worst.cosine),
        "sqnr_db": float(worst.sqnr_db),
    }
