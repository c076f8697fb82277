"""What reading a file of each kind does: the same as the command that takes such files.

    .onnx   explorer compile FILE                     imported, compiled, C emitted
    .tflite, .prototxt, .caffemodel, .zip of these, .pt2      the same
    .nnx    explorer show FILE, everything that it shows
    .npz    explorer run MODEL --input FILE, up to the arrays as the model takes them
    .mlir   explorer opt FILE, with some passes
    .toml   explorer compile MODEL --target FILE
    .json   c.fork(schedule={kernel: steps}): a list of steps for the kernel that names the file

MODEL is the ONNX file that stands beside them on the command line of `explorer fuzz`.
"""

from __future__ import annotations

import io
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from explorer.cli import make_parser, opt, show
from explorer.compilation import Compilation, compile_model
from explorer.errors import InputError
from explorer.importers import SourceModel, load
from explorer.importers.inputs import read_inputs
from explorer.targets import Target, load_target
from explorer.views import register
from explorer.views.needs import LATE_PARTS
from verification.mutation.mutants import Compiled

PASSES = ("infer-shapes", "fold-constants", "fold-batch-norm", "fuse-activation")


ABSENT = LATE_PARTS | {
    *("quantization", "precision", "ports", "model_comparison", "placement", "packages"),
}
"""Parts that damaged traces have not: they are of float models, of one model on one device, without
measurements and packages."""


class Readers:
    """Reads files; what they are held against is loaded and compiled once."""

    def __init__(self, model: str) -> None:
        self._model_path = model
        self._compiled = Compiled()
        self._targets: set[Target] = set()
        self._by_suffix: dict[str, Callable[[Path], None]] = {
            ".onnx": self._compile,
            ".tflite": self._compile,
            ".prototxt": self._compile,
            ".caffemodel": self._compile,
            ".zip": self._compile,
            ".pt2": self._compile,
            ".nnx": self._trace,
            ".npz": self._arrays,
            ".mlir": self._text,
            ".toml": self._target,
            ".json": self._schedule,
        }

    def read(self, path: Path) -> None:
        """ExplorerError where the file is refused."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            self._by_suffix[path.suffix](path)

    @cached_property
    def _parser(self) -> ArgumentParser:
        return make_parser()

    @cached_property
    def _model(self) -> SourceModel:
        return load(self._model_path)

    @cached_property
    def _compilation(self) -> Compilation:
        return compile_model(self._model, "cpu")

    def _compile(self, path: Path) -> None:
        self._compiled.compile(load(path))

    def _trace(self, path: Path) -> None:
        for view in register.shown_views(register.VIEWS):
            if ABSENT.isdisjoint(view.needs):
                show.run(self._parser.parse_args(["show", str(path), "--view", view.name]))

    def _arrays(self, path: Path) -> None:
        read_inputs(self._model, path, {})

    def _text(self, path: Path) -> None:
        opt.run(Namespace(model=path, passes=list(PASSES), output=None, target="cpu"))

    def _target(self, path: Path) -> None:
        target = replace(load_target(path), description="")
        if target not in self._targets:  # damage to a comment changes nothing
            assert compile_model(self._model, target).built
            self._targets.add(target)

    def _schedule(self, path: Path) -> None:
        kernel = path.name.split(".")[0]
        if kernel not in self._compilation.kernels:
            raise InputError(
                f"the model has no kernel {kernel!r}, which names the file",
                file=str(path),
                hint="there are " + ", ".join(self._compilation.kernels),
            )
        try:
            steps = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise InputError(f"no JSON: {error}", file=str(path)) from error
        assert self._compilation.fork(schedule={kernel: steps}).built
