"""`explorer serve [MODEL ...]`: the explorer as a page in the browser, on this machine only."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explorer.cli import arguments as options
from explorer.errors import InputError
from explorer.importers.format import model_suffixes
from explorer.results.decisions import DIMENSIONS

SUMMARY = "open the explorer in the browser"
SAMPLES = "sample_models"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="*",
        type=Path,
        metavar="MODEL",
        help="models of any format that is read (docs/importers.md), saved traces (.nnx) or "
        f"folders of them; two models alone are compared (default: {SAMPLES})",
    )
    options.add_weights(parser)
    options.add_target(parser)
    options.add_dimensions(parser)
    options.add_decisions(parser)
    options.add_quantization(parser)
    options.add_states(parser)
    data = parser.add_mutually_exclusive_group()
    data.add_argument(
        "--input",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="data on which the first model is judged: arrays by input (.npz, with `labels` if "
        "known), labels apart (.txt, .npy), images or a folder of them; without data, inputs are "
        "drawn",
    )
    data.add_argument(
        "--cases",
        type=Path,
        metavar="TOML",
        help="the inputs or labelled data of the model's case (docs/checking-models.md)",
    )
    parser.add_argument(
        "--files", type=Path, metavar="FOLDER", help="what paths of the cases start from"
    )
    parser.add_argument(
        "--front",
        type=Path,
        metavar="FRONT.json",
        help="a result of `explorer sweep` of the first model for this target: its machines open "
        "as forks",
    )
    parser.add_argument(
        "--port", type=port, default=0, metavar="P", help="default: one that is free"
    )
    parser.add_argument(
        "--pages",
        type=options.count,
        default=16,
        metavar="N",
        help="pages that may be open at once, each with a process of its own (default: 16)",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="begin with nothing open but the first model; else the first page shows what was "
        "open, forked and named when these models were served before",
    )
    parser.add_argument(
        "--threads",
        type=options.count,
        metavar="N",
        help="threads with which times are measured; of several the timeline shows each "
        "(default: what a program has by itself)",
    )
    parser.add_argument(
        "--forget",
        action="store_true",
        help="first remove what pages left before: what was open in them, and files sent to them",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(arguments: argparse.Namespace) -> int:
    models = arguments.models or sample_folder()
    from explorer.app.server.serving import TARGETS, serve  # brings the compiler's records
    from explorer.targets.together import load_targets

    load_targets(arguments.target)  # says what is wrong with its name or file
    serve(
        models,
        target=arguments.target,
        targets=tuple(dict.fromkeys((*TARGETS, arguments.target, *npu_targets()))),
        port=arguments.port,
        decisions={**sizes_by_address(arguments.dim), **options.decisions_of(arguments)},
        most_pages=arguments.pages,
        is_fresh=arguments.fresh,
        forgets=arguments.forget,
        threads=arguments.threads,
        options={**options_of_first(arguments), **front_of_first(arguments, models)},
        data=data_of_first(arguments, models),
        compares=True,
        open_browser=not arguments.no_browser,
    )
    return 0


def options_of_first(arguments: argparse.Namespace) -> dict[str, Any]:
    """Weights, tables and states of the first model. Tables are read once here: what is wrong with
    them is said before a page."""
    chosen = options.quantization_options(arguments)
    if "quantization" in chosen:
        from explorer.compilation.settings.quantizing import read_table
        from explorer.quantization.table import read_modes

        read_table(chosen["quantization"])
        if "modes" in chosen:
            read_modes(chosen["modes"])
    others = {"weights": arguments.weights_file, "files": arguments.files}
    states = {"states": tuple(arguments.state)} if arguments.state else {}
    if arguments.capacity is not None:
        states["capacity"] = arguments.capacity
    known = {name: path for name, path in others.items() if path is not None}
    return {**chosen, **states, **known}


def front_of_first(arguments: argparse.Namespace, models: Sequence[Path]) -> dict[str, Any]:
    """The sweep of the first model, read here: what is wrong with it is said before a page."""
    if arguments.front is None:
        return {}
    from explorer.app.catalog import offered_files
    from explorer.app.worker.compiler import FRONT
    from explorer.tuning.fronts import read_front

    return {FRONT: read_front(arguments.front, offered_files(models)[0].stem, arguments.target)}


def data_of_first(arguments: argparse.Namespace, models: Sequence[Path]) -> list[Path]:
    """Files of data, read once here: what is wrong with them is said before a page."""
    paths = [*arguments.input, *([arguments.cases] if arguments.cases else [])]
    if arguments.files is not None and arguments.cases is None:
        raise InputError("--files without --cases says nothing", hint="--cases TOML")
    if paths:
        from explorer.app.catalog import offered_files
        from explorer.cases.data import read_data_files
        from explorer.files import ModelFiles
        from explorer.importers import load_to_examine

        first = offered_files(models)[0]
        weights = arguments.weights_file
        model = load_to_examine(first if weights is None else ModelFiles(first, weights))
        read_data_files(paths, model, arguments.files)
    return paths


def sizes_by_address(sizes: list[tuple[str, int | tuple[int, int]]]) -> dict[str, object]:
    """Sizes of the first model as the decisions that they are."""
    return {
        f"{DIMENSIONS}/{name}": size if isinstance(size, int) else list(size)
        for name, size in sizes
    }


def npu_targets() -> list[str]:
    """Targets that run instructions and take quantized models."""
    from explorer.backends import compiled_targets
    from explorer.targets.together import load_targets

    names = (name for name in compiled_targets() if not name.startswith(("cpu", "opencl")))
    return [name for name in names if "instructions" in load_targets(name)[0].languages]


def sample_folder() -> list[Path]:
    """The sample models in the current folder or beside the package's source."""
    for folder in (Path.cwd(), Path(__file__).parents[2]):
        if any(path.suffix in model_suffixes() for path in (folder / SAMPLES).glob("*")):
            return [folder / SAMPLES]
    raise InputError("there is no model to show", hint="explorer serve net.onnx")


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535: {text!r}")
    return int(text)
