"""`explorer run MODEL --input FILE.npz --output FILE.npz`: one inference on a device."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines
from explorer.files import check_output, write_file

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation.settings.sizes import Size
    from explorer.session import ModelSource

CODES = ".codes"
"""How outputs end that may be strings, as code points; what they are the model says."""

SUMMARY = "compile a model and run it on arrays from a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE.npz", help="one array per input, by name"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE.npz", help="one array per output"
    )
    parser.add_argument(
        "--check-indices",
        action="store_true",
        help="refuse inputs whose indices lie outside of what they index, which are clamped "
        "otherwise (docs/verdicts.md)",
    )
    options.add_compiling(parser)
    options.add_threads(parser)
    parser.add_argument(
        "--interpret",
        action="store_true",
        help="run the imported program by the meaning of its operations, without compiling it",
    )


def run(arguments: argparse.Namespace) -> int:
    from explorer.importers.arrays import arrays_as_npz, quote_name
    from explorer.importers.inputs import read_inputs
    from explorer.runtime.cache import default_cache
    from explorer.session import ModelSource
    from explorer.session.fallback import Fallback

    check_output(arguments.output)
    source = ModelSource(
        options.model_of(arguments),
        arguments.target,
        options.compile_options(arguments),
        default_cache(),
    )
    inputs, sizes = read_inputs(source.interface, arguments.input, dict(arguments.dim))
    if arguments.check_indices:
        check_indices(arguments, inputs, sizes)
    if arguments.interpret:
        outputs = Fallback(source.model, "interpreter").run(inputs)
    else:
        outputs = _compiled(arguments, source, inputs, sizes)
    if any(name.endswith(CODES) for name in outputs):
        from explorer.importers import host_arrays

        outputs = host_arrays(source.model, outputs)
    named = {quote_name(name): array for name, array in outputs.items()}
    write_file(arguments.output, arrays_as_npz(named))
    print_lines(f"{name}: {_kind(array)} of shape {array.shape}" for name, array in outputs.items())
    return 0


def _kind(array: np.ndarray) -> str:
    return "strings" if array.dtype.kind == "U" else array.dtype.name


def _compiled(
    arguments: argparse.Namespace,
    source: ModelSource,
    inputs: Mapping[str, np.ndarray],
    sizes: Mapping[str, Size],
) -> Mapping[str, np.ndarray]:
    from explorer.session import start

    with (
        Progress("compiling") as progress,
        start(
            options.model_of(arguments),
            arguments.target,
            dimensions=sizes,
            threads=arguments.threads,
            affinity=arguments.affinity,
            source=source,
            progress=progress,
            **options.compile_options(arguments),
        ) as started,
    ):
        return started.run(inputs)


def check_indices(
    arguments: argparse.Namespace, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> None:
    """InputError for an index that data decided and that lies outside: all values are looked at."""
    import explorer
    from explorer.accuracy.indices import require_inside

    model = explorer.load(options.model_of(arguments))
    with Progress("checking indices") as progress:
        compilation = explorer.compile(
            model,
            arguments.target,
            dimensions=sizes,
            progress=progress,
            **options.compile_options(arguments),
        )
        try:
            require_inside(compilation.outside_indices(inputs))
        finally:
            compilation.close()
