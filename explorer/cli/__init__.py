"""The command `explorer`: one file per subcommand, and what they share.

    explorer compile sample_models/digits_cnn.onnx
    explorer check sample_models/digits_cnn.onnx --json
    explorer show sample_models/digits_cnn.onnx --pass fuse-activation --what diff

A subcommand is a module with `SUMMARY`, `add_arguments(parser)` and `run(arguments) -> status`.
Those modules import the compiler inside `run`, so that `explorer --help` answers at once.

Status: 0 done; 1 `check` found a difference; 2 a mistake that the message explains, nothing was
written; 130 interrupted. Any other exception is a defect of the project and keeps its traceback.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from explorer import __version__
from explorer.cli import (
    bench,
    cache,
    calibrate,
    check,
    compare,
    compile,
    convert,
    course,
    devices,
    disassemble,
    dumps,
    edit,
    inspect_package,
    levers,
    mixed,
    opt,
    package,
    plan,
    quantize,
    reduce,
    rules,
    run,
    serve,
    show,
    simulate,
    sweep,
    targets,
    tune,
)
from explorer.cli.defaults import apply_defaults
from explorer.cli.repository import Command, Missing, repository_command
from explorer.cli.terminal import STANDARD_OUTPUT, print_error, print_note, printing
from explorer.errors import CacheWarning, ExplorerError, ModelError
from explorer.logs import configure

COMMANDS: dict[str, ModuleType | Command] = {
    "compile": compile,
    "check": check,
    "compare": compare,
    "reduce": reduce,
    "edit": edit,
    "run": run,
    "show": show,
    "opt": opt,
    "calibrate": calibrate,
    "mixed": mixed,
    "quantize": quantize,
    "convert": convert,
    "package": package,
    "inspect-package": inspect_package,
    "bench": bench,
    "tune": tune,
    "serve": serve,
    "course": course,
    "devices": devices,
    "targets": targets,
    "simulate": simulate,
    "sweep": sweep,
    "disassemble": disassemble,
    "dumps": dumps,
    "cache": cache,
    "conformance": repository_command("conformance"),
    "fuzz": repository_command("fuzz"),
    "levers": levers,
    "plan": plan,
    "rules": rules,
}
A_MISTAKE = 2
LOG_LEVELS = ("", "info", "debug")
"""By how often --verbose is given."""
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell reports for a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its status. `arguments` default to the process's own."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding does not have is shown escaped and ends nothing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    parser = make_parser()
    try:
        apply_defaults(commands_of(parser), Path.cwd())
    except ExplorerError as error:
        print_error(error)
        return A_MISTAKE
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return A_MISTAKE
    try:
        configure(LOG_LEVELS[min(parsed.verbose, 2)])
        with cache_warnings_as_notes():
            status = COMMANDS[parsed.command].run(parsed)
        with printing():
            sys.stdout.flush()
        return status
    except ExplorerError as error:
        name_model(error, str(getattr(parsed, "model", "")))
        print_error(error)
        return A_MISTAKE
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. What is still buffered has nowhere to go.
        discard_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno is None:  # no answer of the system, but an exception of some library
            raise
        print_error(refusal_of_system(error, str(getattr(parsed, "model", ""))))
        return A_MISTAKE
    except MemoryError:
        print_error(
            ExplorerError(
                "this needs more memory than there is",
                file=str(getattr(parsed, "model", "")),
                hint="give smaller sizes with --dim, or use a machine with more memory",
            )
        )
        return A_MISTAKE
    except KeyboardInterrupt:
        print("explorer: interrupted", file=sys.stderr)
        return INTERRUPTED


def refusal_of_system(error: OSError, model: str) -> ExplorerError:
    """What the system refused and of which file, or at least of which model."""
    if error.filename == STANDARD_OUTPUT:
        discard_output()
    return ExplorerError(
        error.strerror or "the file cannot be used",
        file=str(error.filename or model),
        hint="check the path, its permissions and the space that is left, "
        "also for temporary files (TMPDIR)",
    )


def discard_output() -> None:
    """Nothing can be printed any more, nor can what is buffered when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def cache_warnings_as_notes() -> Iterator[None]:
    """What the program cache could not do is a note; other warnings are shown as ever."""
    show = warnings.showwarning

    def show_note(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, CacheWarning):
            print_note(str(message))
        else:
            show(message, category, *rest)

    warnings.showwarning = show_note
    try:
        yield
    finally:
        warnings.showwarning = show


def name_model(error: ExplorerError, model: str) -> None:
    """Every message names the model's file, also where another file beside it is at fault."""
    if not error.file:
        error.file = model
    elif isinstance(error, ModelError) and error.file != model:
        error.file = f"{error.file}, which belongs to {model}"


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands by name."""
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="explorer", description="A compiler for neural networks that explains itself."
    )
    parser.add_argument("--version", action="version", version=f"explorer {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(subparser)
        if isinstance(module, Missing):  # it has no options: whatever follows is refused together
            subparser.set_defaults(verbose=0)
            continue
        subparser.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=0,
            help="log what takes long to stderr; twice: every pass and command of a compiler",
        )
    return parser
