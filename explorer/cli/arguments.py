"""Arguments that several subcommands take, and how their values are read.

--dim batch=4 --dim time=16   -> {"batch": 4, "time": 16}
--disable a,b --disable c     -> ["a", "b", "c"]
--decide host=false --decide plan-memory/planner=no-sharing
                              -> {"host": False, "plan-memory/planner": "no-sharing"}

What decides a program is one set (`add_compiling`), which every command takes that compiles.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.files import ModelPath


def add_model(parser: argparse.ArgumentParser, text: str = "a model file") -> None:
    """MODEL and `--weights`; see `model_of`."""
    parser.add_argument("model", metavar="MODEL", help=text)
    add_weights(parser)


def add_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights",
        dest="weights_file",
        type=Path,
        metavar="FILE",
        help="the weights of a model that is two files (Caffe), where they have not one name",
    )


def model_of(arguments: argparse.Namespace) -> ModelPath:
    """The model that a command is for, which may be two files."""
    from explorer.files import ModelFiles

    if arguments.weights_file is None:
        return arguments.model
    return ModelFiles(Path(arguments.model), arguments.weights_file)


def add_compiling(parser: argparse.ArgumentParser) -> None:
    """Target, sizes and decisions; `compile_options` reads all but target and sizes."""
    add_target(parser)
    add_dimensions(parser)
    add_host(parser)
    add_decisions(parser)
    add_quantization(parser)
    add_states(parser)


def add_states(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="an input and an output that are one state from call to call; * is the same "
        "text in both (past.*=present.*)",
    )
    parser.add_argument(
        "--capacity",
        type=count,
        metavar="ROWS",
        help="rows of states that would grow with each call (a past of keys and values)",
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        type=size,
        metavar="SIZE",
        help="bytes that all activations may take: 64KiB, 1.5MB, 512B",
    )
    parser.add_argument(
        "--flash", type=size, metavar="SIZE", help="bytes that weights and code may take: 1MiB"
    )


UNITS = {"B": 1, "kB": 1000, "KiB": 1024, "MB": 1000**2, "MiB": 1024**2}


def size(text: str) -> int:
    """Whole bytes above 0 with their unit: `64KiB` -> 65536."""
    number = text.rstrip("".join({letter for unit in UNITS for letter in unit}))
    unit = text[len(number) :]
    try:
        found = float(number) * UNITS[unit] if number == number.strip() else math.nan
    except (KeyError, ValueError):
        found = math.nan
    if not math.isfinite(found) or found < 1 or found != int(found):
        raise argparse.ArgumentTypeError(
            f"expected bytes above 0 with one of the units {', '.join(UNITS)}: {text!r}"
        )
    return int(found)


def compile_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `explorer.compile` and `explorer.start` take besides target and sizes."""
    return {
        "host": arguments.host,
        "decisions": decisions_of(arguments),
        **({"clusters": dict(arguments.cluster)} if arguments.cluster else {}),
        **({"fallback": True} if arguments.fallback else {}),
        **quantization_options(arguments),
        "states": tuple(arguments.state),
        "capacity": arguments.capacity,
    }


def decisions_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of --decide, and the budgets."""
    from explorer.results.decisions import BUDGET, FLASH, GROUPS, SEARCH

    budgets = {BUDGET: arguments.budget, FLASH: arguments.flash, SEARCH: arguments.search}
    given = {address: limit for address, limit in budgets.items() if limit is not None}
    if arguments.groups is not None:
        given[GROUPS] = arguments.groups == "on"
    return {**dict(arguments.decide), **given}


def quantization_options(arguments: argparse.Namespace) -> dict[str, Path]:
    """The tables, as far as they are given."""
    from explorer.errors import InputError

    if arguments.qtable is not None and arguments.quantize is None:
        raise InputError("--qtable without --quantize quantizes nothing", hint="--quantize TABLE")
    chosen: dict[str, Path] = {}
    if arguments.quantize is not None:
        chosen["quantization"] = arguments.quantize
    if arguments.qtable is not None:
        chosen["modes"] = arguments.qtable
    return chosen


def add_quantization(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quantize",
        type=Path,
        metavar="TABLE",
        help="quantize a float model by the thresholds of a table (explorer calibrate makes one)",
    )
    parser.add_argument(
        "--qtable",
        type=Path,
        metavar="FILE",
        help="with --quantize: tensors that are INT16 or F32 instead of INT8",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        default="cpu",
        metavar="T",
        help="a name that `explorer targets` lists, a .toml file, or several: cpu+opencl "
        "(default: cpu)",
    )
    parser.add_argument(
        "--cluster",
        type=cluster,
        action="append",
        default=[],
        metavar="NAME=PATTERN",
        help="with several targets: operations or nodes that run on one of them",
    )
    parser.add_argument(
        "--fallback",
        action="store_true",
        help="with several targets: leave out those that have no device on this machine",
    )


def cluster(text: str) -> tuple[str, str]:
    """`head=conv*` -> ("head", "conv*")."""
    name, separator, pattern = text.partition("=")
    if not (name and separator and pattern):
        raise argparse.ArgumentTypeError(f"expected NAME=PATTERN: {text!r}")
    return name, pattern


def add_dimensions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        type=dimension,
        metavar="NAME=SIZE",
        help="size of a symbolic dimension, or a range (batch=1..8); may be given several times",
    )


def add_threads(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    """`--threads` and `--affinity`; without a default the device decides."""
    words = "one" if default is None else str(default)
    parser.add_argument(
        "--threads",
        type=count,
        default=default,
        metavar="N",
        help=f"of the processor (default: {words})",
    )
    parser.add_argument(
        "--affinity",
        type=processors,
        default=(),
        metavar="P,...",
        help="a processor for each thread (cpu only)",
    )


def add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-host",
        dest="host",
        action="store_false",
        help="refuse a model that has operations without a compiled form (default: the host runs "
        "them, docs/host-parts.md)",
    )


def add_stored_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stored-weights",
        choices=("uint8", "int8"),
        default="uint8",
        help="how bytes of weights are stored: uint8, which onnxruntime multiplies exactly on "
        "every processor, or int8, which accelerators want (default: uint8)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")


def dimension(text: str) -> tuple[str, int | tuple[int, int]]:
    """`batch=4` -> ("batch", 4), `batch=1..8` -> ("batch", (1, 8)).

    A name may hold `=`; the size is what follows the last one.
    """
    name, separator, size = text.rpartition("=")
    lowest, dots, highest = size.partition("..")
    numbers = [lowest, highest] if dots else [lowest]
    least = 1 if dots else 0
    if not separator or not name or not all(n.isdecimal() and int(n) >= least for n in numbers):
        expected = f"name=size with a size of {least} or more"
        raise argparse.ArgumentTypeError(f"expected {expected}: {text!r}")
    if not dots:
        return name, int(size)
    if int(lowest) > int(highest):
        raise argparse.ArgumentTypeError(f"expected name=lowest..highest: {text!r}")
    return name, (int(lowest), int(highest))


SEARCHES = ("none", "fast", "full")


def add_decisions(parser: argparse.ArgumentParser) -> None:
    """Decisions by address, and the budgets; `decisions_of` reads them."""
    parser.add_argument(
        "--decide",
        action="append",
        default=[],
        type=decision,
        metavar="ADDRESS=VALUE",
        help="a knob, rule or rewrite decided otherwise (docs/decisions.md)",
    )
    parser.add_argument(
        "--search",
        choices=SEARCHES,
        help="how many tiles of each layer are tried for an NPU (default: fast)",
    )
    parser.add_argument(
        "--groups",
        choices=("on", "off"),
        help="whether tensors stay on the chip of an NPU from layer to layer (default: on)",
    )
    add_budget(parser)


def decision(text: str) -> tuple[str, object]:
    """`fuse-bias=false` -> ("fuse-bias", False), `plan-memory/planner=greedy` -> (..., "greedy").

    The value is JSON where it reads as that, else a word.
    """
    address, separator, value = text.partition("=")
    if not separator or not address or not value:
        raise argparse.ArgumentTypeError(f"expected address=value: {text!r}")
    try:
        return address, json.loads(value)
    except ValueError:
        return address, value


def names(text: str) -> list[str]:
    """`a,b` -> ["a", "b"]."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between them: {text!r}")
    return found


def count(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more: {text!r}")
    return int(text)


def duration(text: str) -> float:
    """Seconds above 0: `10`, `0.5`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"expected seconds above 0: {text!r}")
    return value


def processors(text: str) -> tuple[int, ...]:
    """`0,2` -> (0, 2)."""
    return tuple(amount(name) for name in names(text))


def amount(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more: {text!r}")
    return int(text)


def tolerance(text: str) -> float:
    """A finite number of 0 or more: NaN would let nothing fail, infinity everything pass."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more: {text!r}")
    return value
