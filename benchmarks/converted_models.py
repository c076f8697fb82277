"""Converts models of other formats to ONNX and compares onnxruntime with what they mean.

    python benchmarks/converted_models.py ../shared/models/tflite ../shared/models/caffe \\
        --report docs/converted-models.md

Each model gets seeded random inputs. `steps` is the largest distance of an integer of an output, in
its last place; `relative` that of a float, by the largest number of its tensor; of a float behind
integers it is mostly a step of these. `differ`: elements of all outputs that are not equal. The
second pair of columns is of all tensors between that both have, the model run as a whole: roundings
that part early are carried on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import explorer
from explorer.accuracy.oracle import random_inputs
from explorer.compilation.checking import imported_tensors
from explorer.compilation.converting import convert
from explorer.errors import ExplorerError
from explorer.files import write_file
from explorer.importers.model import SourceModel
from explorer.ir.program import Snapshot

SUFFIXES = (".tflite", ".prototxt")
SIZES = {"lenet_mnist": {"data_height": 28, "data_width": 28}}
"""Of dimensions that a file leaves open."""
QUANTIZED = ".quantized"
"""What the exporter calls the integers of a tensor of the file."""
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Distance:
    """Of some tensors from those that they should be."""

    steps: int | None = None
    relative: float | None = None
    differing: int = 0
    elements: int = 0

    @property
    def cells(self) -> str:
        steps = "" if self.steps is None else str(self.steps)
        relative = "" if self.relative is None else f"{self.relative:.1e}"
        share = self.differing / max(self.elements, 1)
        return f"{steps} | {relative} | {share:.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Converted models against what they mean.")
    parser.add_argument("paths", nargs="+", type=Path, help="models, or folders of them")
    parser.add_argument("--report", type=Path, help="a file for the page")
    chosen = parser.parse_args()
    lines = list(report(chosen.paths, " ".join(sys.argv)))
    if chosen.report is not None:
        write_file(chosen.report, ("\n".join(lines) + "\n").encode())


def report(paths: Sequence[Path], command: str) -> Iterator[str]:
    found = [f for p in paths for f in (sorted(p.iterdir()) if p.is_dir() else [p])]
    for line in head(command):
        yield line
    for path in found:
        if path.suffix in SUFFIXES:
            line = f"| {path.stem} | {row(path)} |"
            print(line, flush=True)
            yield line


def head(command: str) -> list[str]:
    return [
        "# Converted models",
        "",
        f"Made by `python {command}`; onnxruntime {onnxruntime.__version__}, all optimizations, "
        "seeded random inputs, against the imported program, which is equal to the format's own "
        "kernels ([TFLite](tflite-models.md)). `steps` counts in the last place of integers, "
        "`relative` by the largest number of a tensor of floats; `differ` is the share of elements "
        "that are not equal.",
        "",
        "| model | nodes | transposes | outputs: steps | relative | differ | all tensors: steps | "
        "relative | differ |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]


def row(path: Path) -> str:
    sizes = SIZES.get(path.stem, {})
    try:
        model = explorer.load(path)
        made = convert(model, sizes)
    except ExplorerError as error:
        reasons = "; ".join(dict.fromkeys(p.split(": ", 1)[1] for p in error.problems))  # pyright: ignore
        return f"refused: {reasons or error.message} | | | | | | |"
    transposes = sum(node.op_type == "Transpose" for node in made.graph.node)
    inputs = random_inputs(model, 0, sizes)
    meant = tensors_of(model, sizes, inputs)
    outputs = [output.name for output in made.graph.output]
    shown = [name for name in names_of(made) if name.removesuffix(QUANTIZED) in meant]
    try:
        found = run(made, inputs, shown)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
        return f"onnxruntime refuses it: {' '.join(str(error).split())[:200]} | | | | | | |"
    named = {n.removesuffix(QUANTIZED): array for n, array in found.items()}
    of_outputs = distance({name: named[name] for name in outputs}, meant)
    cells = f"{of_outputs.cells} | {distance(named, meant).cells}"
    return f"{len(made.graph.node)} | {transposes} | {cells}"


def tensors_of(model: SourceModel, sizes: Mapping[str, int], inputs: Values) -> Values:
    """Every tensor of the file, as the imported program computes it."""
    opened = explorer.importers.open_program(model, sizes)
    return imported_tensors(Snapshot(opened.module, opened.weights, "top"), inputs)


def names_of(model: onnx.ModelProto) -> list[str]:
    known = {info.name for info in model.graph.value_info}
    return [name for node in model.graph.node for name in node.output if name in known]


def run(model: onnx.ModelProto, inputs: Values, shown: Sequence[str]) -> Values:
    """Outputs, and tensors in between, which become outputs."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    between = {info.name: info for info in watched.graph.value_info}
    watched.graph.output.extend(between[name] for name in shown)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(watched.SerializeToString(), options)
    taken = {value.name for value in session.get_inputs()}
    results = session.run(None, {k: v for k, v in inputs.items() if k in taken})
    return dict(zip([o.name for o in session.get_outputs()], map(np.asarray, results), strict=True))


def distance(found: Values, meant: Values) -> Distance:
    """Tensors whose types differ (bytes of the file, floats behind them) are left out."""
    steps: list[int] = []
    relative: list[float] = []
    differing = elements = 0
    for name, array in found.items():
        wanted = meant[name]
        if array.dtype != wanted.dtype or array.shape != wanted.shape or not array.size:
            continue
        apart = np.abs(array.astype(np.float64) - wanted.astype(np.float64))
        if array.dtype.kind == "f":
            relative.append(float(apart.max() / max(float(np.abs(wanted).max()), 1e-6)))
        else:
            steps.append(int(apart.max()))
        differing += int(np.count_nonzero(apart))
        elements += apart.size
    return Distance(max(steps, default=None), max(relative, default=None), differing, elements)


if __name__ == "__main__":
    main()
