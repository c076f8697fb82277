"""`explorer fuzz`: random models and single operators on all devices, and damaged files.

    explorer fuzz --operators --count 2000 --seed 7 --record operators.jsonl --page operators.md
    explorer fuzz --differential --count 1000 --seed 0 --out failures/ --coverage --reduce
    explorer fuzz --mutate net.onnx net.nnx in.npz dump/00-import.mlir chip.toml conv_1.json \\
                  --count 20000 --out failures/

Files may be models (.onnx, .tflite, .pt2, .prototxt, .caffemodel, .zip), traces (.nnx), arrays
(.npz), IR (.mlir), targets (.toml), and lists of schedule steps (.json), which are called after
their kernel. Arrays, targets and schedules are for the first .onnx. Each file is damaged in turn,
and read as the command does that takes such files.

Everything runs in child processes with limits. Prints how often what happened, of what was tried
when it is interrupted, too; what is a defect is named with its seed and written to the folder.
Status 1 when there was a defect, 130 when it was interrupted without one.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, print_note
from explorer.errors import InputError

if TYPE_CHECKING:
    from explorer.runtime.child import Answer, Child

SUMMARY = "random models and operators against other programs, and damaged files"
FOUND_DEFECTS = 1
DEVICES = ("INTERPRETER", "CPU", "OPENCL")
FORMATS = ("onnx", "chains", "tflite", "caffe", "pytorch", "sequences")
DIFFERENTIAL_SECONDS = 120
UNDAMAGED_SECONDS = 600
WAITING = 6
"""Until a child that does not answer is ended, times what it may take of processor time: other
programs may keep the machine busy."""
MAX_NOTES = 50
EVERY_SECONDS = 60.0
"""Between two lines of progress where there is no terminal."""
FOR_A_MODEL = (".npz", ".toml", ".json")
Attempt = tuple[dict[str, Any], dict[str, Any]]
"""A request and its answer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--differential", action="store_true", help="random valid models, compared with onnxruntime"
    )
    kind.add_argument(
        "--operators",
        action="store_true",
        help="each operator on each element type, alone, with hostile numbers and sizes",
    )
    kind.add_argument(
        "--mutate",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="damaged copies of these: .onnx, .tflite, .pt2, .prototxt, .caffemodel (each with the "
        "other one beside it), .zip of both, .nnx, .npz, .mlir, targets (.toml), and schedules "
        "(KERNEL.json); arrays, targets and schedules are for the first .onnx",
    )
    parser.add_argument(
        "--count", type=options.count, default=200, metavar="N", help="how many (default: 200)"
    )
    parser.add_argument(
        "--seed", type=options.amount, default=0, metavar="N", help="the first seed (default: 0)"
    )
    parser.add_argument(
        "--device",
        choices=DEVICES,
        action="append",
        help="with --differential and --operators (default: all)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="with --operators: that of the models, chains of ONNX operators, or calls in a row of "
        "programs with states (default: onnx)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="OPERATOR",
        default=[],
        help="with --operators: these; may be repeated",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE.jsonl",
        help="with --operators: keep every answer, and go on from those that are there",
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE.md",
        help="with --operators: write the page operator x type, of all answers of the record",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="with --differential: which operators were tried on which types, and which never",
    )
    parser.add_argument(
        "--reduce",
        action="store_true",
        help="with --differential or --operators, and --out: also write the smallest model of each "
        "defect",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where defects are written")
    parser.add_argument(
        "--jobs", type=options.count, default=1, metavar="N", help="child processes (default: 1)"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.reduce and (arguments.mutate or not arguments.out):
        raise InputError(
            "--reduce is for --differential and --operators, with --out, where defects are written"
        )
    if not arguments.operators:
        for option in ("format", "only", "record", "page"):
            if getattr(arguments, option):
                raise InputError(f"--{option} is for --operators")
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.operators:
        from verification.operators.command import fuzz_operators

        return fuzz_operators(arguments, arguments.device or list(DEVICES))
    return _differential(arguments) if arguments.differential else _mutate(arguments)


def _differential(arguments: argparse.Namespace) -> int:
    from explorer.runtime.child import Child
    from verification.random_models.differential import DEFECTS, STATUSES
    from verification.random_models.tried import Tried

    devices = arguments.device or list(DEVICES)
    folder = _folder(arguments)
    requests = [{"seed": s, "devices": devices, "folder": folder} for s in _seeds(arguments)]
    program = ("-m", "verification.random_models.process")
    tried = _tried(requests, lambda: Child(program), arguments.jobs, DIFFERENTIAL_SECONDS)
    answers = [answer for _, answer in tried]
    counts = Counter(answer["status"] for answer in answers)
    print_lines(
        f"{status:10} {count:7}  {STATUSES.get(status, '')}"
        for status, count in counts.most_common()
    )
    if arguments.coverage:
        print_lines(Tried.of(answers).lines())
    names = [", ".join(answer.get("operators", ())) for answer in answers]
    if arguments.reduce:
        _reduce([r["seed"] for r, a in tried if a["status"] in DEFECTS], devices, arguments.out)
    return _told(tried, names, DEFECTS, len(requests))


def _reduce(seeds: Sequence[int], devices: Sequence[str], folder: Path) -> None:
    from explorer.runtime.child import Child
    from verification.random_models.reducing import reduce_defect

    def child() -> Child:
        return Child(("-m", "verification.random_models.process"))

    for seed in seeds[:MAX_NOTES]:
        request = {"seed": seed, "devices": list(devices)}
        print_lines([f"seed {seed}: {reduce_defect(folder, str(seed), request, child)}"])


def _mutate(arguments: argparse.Namespace) -> int:
    from explorer.runtime.child import Child
    from verification.children import answer_all
    from verification.mutation.damage import DAMAGES
    from verification.mutation.mutants import DEFECTS, READ, STATUSES, seconds_for

    for path in arguments.mutate:
        if not path.is_file():
            raise InputError("there is no such file", file=str(path))
        if path.suffix not in DAMAGES:
            kinds = ", ".join(DAMAGES)
            raise InputError("no kind of file that is damaged", file=str(path), hint=kinds)
    files = [str(path.resolve()) for path in arguments.mutate]
    model = next((file for file in files if file.endswith(".onnx")), "")
    needing = [file for file in files if Path(file).suffix in FOR_A_MODEL]
    if needing and not model:
        raise InputError("there is no model for it", file=needing[0], hint="name an .onnx, too")

    def child() -> Child:
        return Child(("-m", "verification.mutation.process"), [model])

    undamaged = [{"file": f, "seed": -1} for f in files]
    whole = answer_all(undamaged, child, seconds=UNDAMAGED_SECONDS)
    for file, answer in zip(files, whole, strict=True):
        if answer["status"] != READ:
            raise InputError(f"it cannot be read as it is: {answer['reason']}", file=file)
    limits = [seconds_for(answer["seconds"]) for answer in whole]
    folder, count = _folder(arguments), len(files)
    requests = [
        {"seed": s, "file": files[s % count], "seconds": limits[s % count], "folder": folder}
        for s in _seeds(arguments)
    ]
    tried = _tried(requests, child, arguments.jobs, WAITING * max(limits))
    print_lines(_table(tried))
    counts = Counter(answer["status"] for _, answer in tried)
    print_lines(f"{status:10} {STATUSES.get(status, '')}" for status, _ in counts.most_common())
    return _told(tried, [str(r["file"]) for r, _ in tried], DEFECTS, len(requests))


def _table(tried: Sequence[Attempt]) -> list[str]:
    """Outcomes and processor time by kind of file."""
    statuses = [s for s, _ in Counter(answer["status"] for _, answer in tried).most_common()]
    lines = ["kind      files" + "".join(f"{status:>10}" for status in statuses) + "  seconds"]
    suffixes = [Path(str(request["file"])).suffix for request, _ in tried]
    for suffix in dict.fromkeys(suffixes):
        own = [a for s, (_, a) in zip(suffixes, tried, strict=True) if s == suffix]
        counts = Counter(answer["status"] for answer in own)
        seconds = sum(answer.get("seconds", 0.0) for answer in own)
        numbers = "".join(f"{counts[status]:10,}" for status in statuses)
        lines.append(f"{suffix:7}{len(own):8,}{numbers}{seconds:9,.0f}")
    return lines


def _folder(arguments: argparse.Namespace) -> str:
    return "" if arguments.out is None else str(arguments.out.resolve())


def _seeds(arguments: argparse.Namespace) -> range:
    return range(arguments.seed, arguments.seed + arguments.count)


def _tried(
    requests: Sequence[Answer], child: Callable[[], Child], jobs: int, seconds: float
) -> list[Attempt]:
    """The requests with their answers, in order; when it is interrupted those that there are."""
    from verification.children import answer_all

    done: dict[int, Answer] = {}
    with Progress("trying", every_seconds=EVERY_SECONDS) as progress:

        def report(number: int, answer: Answer, count: int) -> None:
            done[number] = answer
            progress(f"seed {requests[number]['seed']}", count - 1, len(requests))

        with suppress(KeyboardInterrupt):
            answer_all(requests, child, jobs=jobs, seconds=seconds, report=report)
    return [(requests[number], done[number]) for number in sorted(done)]


def _told(
    tried: Sequence[Attempt], names: Sequence[str], defects: Sequence[str], asked: int
) -> int:
    """Notes for what is a defect, and for what was not tried of so many; the status."""
    from explorer.cli import INTERRUPTED

    found = [
        (request["seed"], answer, name)
        for (request, answer), name in zip(tried, names, strict=True)
        if answer["status"] in defects
    ]
    for seed, answer, name in found[:MAX_NOTES]:
        print_note(f"seed {seed} ({name}) {answer['status']}: {answer['reason']}")
    if len(found) > MAX_NOTES:
        print_note(f"and {len(found) - MAX_NOTES} more")
    if len(tried) < asked:
        print_note(f"interrupted: {len(tried):,} of {asked:,} were tried")
    if found:
        return FOUND_DEFECTS
    return INTERRUPTED if len(tried) < asked else 0
