"""Converts models of other formats to ONNX and compares onnxruntime with what they mean.

    python benchmarks/converted_models.py ../shared/models/tflite ../shared/models/caffe \\
        --report docs/converted-models.md

Each model gets seeded random inputs. `steps` is the largest distance of an integer of an output, in
its last place; `relative` that of a float, by the largest number of its tensor; of a float behind
integers it is mostly a step of these. `differ`: elements of all outputs that are not equal.
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
from explorer.compilation.converting import convert
from explorer.errors import ExplorerError, ModelError
from explorer.files import write_file
from explorer.references.onnx_runtime import open_proto

SUFFIXES = (".tflite", ".prototxt")
SIZES = {"lenet_mnist": {"data_height": 28, "data_width": 28}}
"""Of dimensions that a file leaves open."""
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
    parser.add_argument("--integers", choices=("pairs", "exact"), default="pairs")
    chosen = parser.parse_args()
    lines = list(report(chosen.paths, " ".join(sys.argv), chosen.integers))
    if chosen.report is not None:
        write_file(chosen.report, ("\n".join(lines) + "\n").encode())


def report(paths: Sequence[Path], command: str, integers: str) -> Iterator[str]:
    found = [f for p in paths for f in (sorted(p.iterdir()) if p.is_dir() else [p])]
    for line in head(command):
        yield line
    for path in found:
        if path.suffix in SUFFIXES:
            line = f"| {path.stem} | {row(path, integers)} |"
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
        "| model | nodes | transposes | steps | relative | differ |",
        "| --- | --- | --- | --- | --- | --- |",
    ]


def row(path: Path, integers: str) -> str:
    sizes = SIZES.get(path.stem, {})
    try:
        model = explorer.load(path)
        made = convert(model, sizes, integers=integers)
    except ExplorerError as error:
        reasons = "; ".join(dict.fromkeys(p.split(": ", 1)[1] for p in error.problems))  # pyright: ignore
        return f"refused: {reasons or error.message} | | | | |"
    transposes = sum(node.op_type == "Transpose" for node in made.graph.node)
    inputs = random_inputs(model, 0, sizes)
    meant = explorer.interpret(model, inputs)
    try:
        found = run(made, inputs)
    except ModelError as error:
        return f"onnxruntime refuses it: {' '.join(error.message.split())[:200]} | | | | |"
    return f"{len(made.graph.node)} | {transposes} | {distance(found, meant).cells}"


def run(model: onnx.ModelProto, inputs: Values) -> Values:
    """Outputs by name; ModelError where onnxruntime does not load the model."""
    with open_proto(model, model.graph.name) as opened:
        taken = {name: inputs[name] for name in opened.inputs}
        return opened.run(taken, [output.name for output in model.graph.output])


def distance(found: Values, meant: Values) -> Distance:
    """Of tensors from those of the same names; empty ones are left out."""
    steps: list[int] = []
    relative: list[float] = []
    differing = elements = 0
    for name, array in found.items():
        wanted = meant[name]
        assert array.dtype == wanted.dtype and array.shape == wanted.shape, name
        if not array.size:
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
