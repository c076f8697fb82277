"""`explorer opt FILE.mlir --passes a,b`: IR text in, the named passes, IR text out.

    explorer compile net.onnx --dump-dir dump
    explorer opt dump/01-infer-shapes.mlir --passes fold-batch-norm,fuse-activation -o after.mlir

The text may have been edited in between. Weights stand beside it: `dump/01-infer-shapes.mlir` has
`dump/01-infer-shapes.weights.npz`, and what is written gets `after.weights.npz`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_lines, print_note
from explorer.errors import ExplorerError, InputError, PassError
from explorer.files import check_output, damage_of, write_file

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from explorer.ir.rewriting.passes import Pass

SUMMARY = "run passes on IR text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="FILE.mlir", help="IR text of a snapshot")
    parser.add_argument(
        "--passes",
        type=options.names,
        required=True,
        metavar="A,B",
        help="names of passes, in the order in which they run",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.mlir", help="default: stdout")
    options.add_target(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.cli.snapshots import (
        read_snapshot,
        used_weights,
        weights_as_npz,
        weights_path,
    )
    from explorer.ir.program import Snapshot
    from explorer.ir.rewriting import Names, RewriteOptions
    from explorer.ir.rewriting.passes import Working, run_pass

    if arguments.output is not None:
        check_output(arguments.output)
    chosen = find_passes(arguments.passes, arguments.target)
    module, weights = read_snapshot(arguments.model)
    missing = {name for name in used_weights(module) if name not in weights}
    working = Working.at(Snapshot(module, weights, level_of(module)), Names.of(module))
    with Progress("running") as progress:
        for number, pass_ in enumerate(chosen):
            progress(pass_.name, number, len(chosen))
            try:
                result = run_pass(pass_, working, RewriteOptions())
            except KeyError as error:
                if error.args and error.args[0] in missing:
                    raise InputError(
                        f"pass {pass_.name} needs the weight {error.args[0]!r}",
                        file=str(arguments.model),
                        hint=f"put {weights_path(arguments.model).name} beside the text; "
                        "`explorer compile --dump-dir` writes both",
                    ) from error
                raise _misfit(pass_.name, error) from error
            except ExplorerError:
                raise
            except Exception as error:  # text that people or programs edited may say anything
                raise _misfit(pass_.name, error) from error
            applied = sum(rewrite.applied for rewrite in result.rewrites)
            print_note(f"{pass_.name}: {applied} rewrites")
    after = working.snapshot
    if arguments.output is None:
        print_lines(after.dump().rstrip("\n").split("\n"))
        return 0
    names = used_weights(after.module)
    if any(name in after.weights for name in names):
        write_file(weights_path(arguments.output), weights_as_npz(after.weights, names))
    write_file(arguments.output, after.dump())
    return 0


def _misfit(name: str, error: Exception) -> PassError:
    return PassError(
        f"it cannot work on this text: {damage_of(error)}",
        pass_name=name,
        hint="compare the text with that of a snapshot which `explorer compile --dump-dir` writes",
    )


def find_passes(names: list[str], target_name: str) -> list[Pass]:
    """The passes of a target's pipeline by name. InputError with a near name for one it has not."""
    from explorer.compilation.settings.settings import (
        Settings,
        default_pipeline,
        device_for,
    )
    from explorer.results.names import near_name
    from explorer.targets.together import load_targets

    target, *others = load_targets(target_name)
    settings = Settings(target, others=tuple(others))
    known = {p.name: p for p in default_pipeline(settings, device_for(target))}
    for name in names:
        if name not in known:
            raise InputError(f"there is no pass {name!r}", hint=near_name(name, list(known)))
    return [known[name] for name in names]


def level_of(module: ModuleOp) -> str:
    """Level of IR that was read: `kernels` where operations have become launches, else `top`."""
    return "kernels" if any(op.name == "kernel.launch" for op in module.walk()) else "top"
