"""Arguments for examples that a model runs over, and how they are read.

--data images.npz more/ --examples 500 --seed 1      arrays by input name, all or some of them
--cases models.toml --files models                   those of the model's case, with its labels
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.errors import InputError

if TYPE_CHECKING:
    from explorer.importers import SourceModel
    from explorer.tuning.examples import Chosen, LabelledData


def add_data(parser: argparse.ArgumentParser, required: bool = False) -> None:
    data = parser.add_mutually_exclusive_group(required=required)
    data.add_argument(
        "--data",
        type=Path,
        nargs="+",
        metavar="FILE.npz",
        help="one array per input, by name; the first axis counts examples. Several files, and "
        "folders of them, follow one another; they need not fit into memory",
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
        "--examples",
        type=options.count,
        default=0,
        metavar="N",
        help="so many examples, chosen at random (default: all)",
    )
    parser.add_argument(
        "--seed", type=options.amount, default=0, metavar="S", help="of that choice (default: 0)"
    )


def read_asked(arguments: argparse.Namespace, model: SourceModel) -> LabelledData | None:
    """What was asked for; None where nothing was. InputError where it cannot be read."""
    from explorer.tuning.examples import LabelledData, read_case_data, read_data

    if arguments.files is not None and arguments.cases is None:
        raise InputError("--files without --cases says nothing", hint="--cases TOML")
    if arguments.cases is not None:
        return read_case_data(arguments.cases, model, arguments.files)
    return None if arguments.data is None else LabelledData(read_data(arguments.data))


def chosen_of(arguments: argparse.Namespace) -> Chosen:
    from explorer.tuning.examples import Chosen

    return Chosen(arguments.examples, arguments.seed)
