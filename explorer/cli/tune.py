"""`explorer tune MODEL`: measure which schedules are fastest here, and keep them.

    explorer tune net.onnx --seconds 120
    explorer tune net.onnx --kernel conv_1 --candidates 64 --seed 1 --threads 2 --json

What is kept lies in the program cache's folder; every later compilation for the same target,
device, compiler and number of threads uses it. A search that was ended by ^C goes on where it was
when it is called again with the same seed.
"""

from __future__ import annotations

import argparse

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines

SUMMARY = "search schedules by measuring, and keep those that are faster"
SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_compiling(parser)
    parser.add_argument(
        "--candidates",
        type=options.count,
        default=24,
        metavar="N",
        help="most of each kernel, the default included (default: 24)",
    )
    parser.add_argument(
        "--seconds",
        type=options.count,
        default=300,
        metavar="S",
        help="for all kernels together, the slowest kernel first (default: 300)",
    )
    parser.add_argument(
        "--kernel", action="append", metavar="NAME", help="only this one; several times for more"
    )
    parser.add_argument("--seed", type=options.amount, default=SEED, metavar="N")
    parser.add_argument(
        "--threads", type=options.count, default=1, metavar="N", help="tuned for (default: 1)"
    )
    parser.add_argument(
        "--jobs", type=options.count, metavar="N", help="compilers at once (default: processors)"
    )
    parser.add_argument(
        "--backend",
        default="loky",
        metavar="B",
        help="how joblib spreads compiling: loky, threading (default: loky)",
    )
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--dry", action="store_true", help="keep nothing for later compilations")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.cli.models import load_with_weights
    from explorer.tuning.search import Budget

    model = load_with_weights(options.model_of(arguments))
    with Progress("compiling") as progress:
        compilation = explorer.compile(
            model,
            arguments.target,
            dimensions=dict(arguments.dim),
            tuned=False,
            progress=progress,
            **options.compile_options(arguments),
        )
    with Progress("tuning") as progress:
        result = explorer.tune(
            compilation,
            Budget(arguments.candidates, float(arguments.seconds)),
            seed=arguments.seed,
            kernels=arguments.kernel,
            jobs=arguments.jobs,
            backend=arguments.backend,
            threads=arguments.threads,
            keep=not arguments.dry,
            resume=not arguments.fresh,
            progress=progress,
        )
    if arguments.json:
        print_json(result)
    else:
        print_lines(result.to_text().split("\n"))
    return 0
