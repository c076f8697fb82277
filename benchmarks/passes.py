"""Measures what recording costs: on a generated model of 5,000 operations, and on ResNet-50.

    python benchmarks/passes.py [--nodes 5000] [--skip-resnet50]

| measured                                  | aim                          |
| import explorer, a fresh interpreter      | below 0.5 s                  |
| recording / the passes' own time          | at most 0.25                 |
| ResNet-50: all passes, recorded           | below 3 s                    |
| ResNet-50: its C compiled                 | below 6 s                    |

ResNet-50 is `onnx/light_resnet50.onnx` below the folder that `EXPLORER_MODELS` names (from the
repository's root; `../shared/models` if it is not set); its weights are seeded random numbers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.cli.models import load_with_weights
from explorer.compilation import Compilation
from explorer.importers import SourceModel
from explorer.importers.onnx.file.reading import from_proto

REPOSITORY = Path(__file__).resolve().parent.parent
CHANNELS = 16


def chain_model(nodes: int) -> SourceModel:
    """Residual blocks of convolution, batch normalization, ReLU and addition, one after another."""
    generator = np.random.default_rng(0)
    made: list[onnx.NodeProto] = []
    weights: list[TensorProto] = []

    def weight(name: str, array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    value = "x"
    for block in range(nodes // 4):
        filters = generator.standard_normal((CHANNELS, CHANNELS, 1, 1)) / CHANNELS
        statistic = [generator.uniform(0.5, 1.5, CHANNELS) for _ in range(4)]
        names = [weight(f"s{block}.{i}", array) for i, array in enumerate(statistic)]
        made += [
            helper.make_node("Conv", [value, weight(f"w{block}", filters)], [f"c{block}"]),
            helper.make_node("BatchNormalization", [f"c{block}", *names], [f"b{block}"]),
            helper.make_node("Relu", [f"b{block}"], [f"r{block}"]),
            helper.make_node("Add", [f"r{block}", value], [f"a{block}"]),
        ]
        value = f"a{block}"
    shape = [1, CHANNELS, 4, 4]
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return from_proto(proto, f"chain of {len(made):,} nodes")


def import_seconds(repeats: int = 5) -> float:
    """Median time of `import explorer` in fresh interpreters, their own start apart."""
    program = (
        "import time; t = time.perf_counter(); import explorer; print(time.perf_counter() - t)"
    )
    command = [sys.executable, "-c", program]
    return statistics.median(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    )


def print_row(what: str, value: str, aim: str = "") -> None:
    print(f"{what:<46}{value:>14}   {aim}".rstrip(), flush=True)


def report_passes(compilation: Compilation, seconds: float) -> None:
    """One line per pass, and the share of recording."""
    print(f"\n{compilation.model.name}: {len(compilation.model.nodes):,} nodes")
    print(f"{'pass':<36}{'operations':>12}{'pass, s':>10}{'recording, s':>14}")
    for result in compilation.passes:
        print(
            f"{result.name:<36}{result.after.operation_count:>12,}{result.seconds:>10.3f}"
            f"{result.recording_seconds:>14.3f}"
        )
    own = sum(result.seconds for result in compilation.passes)
    recording = sum(result.recording_seconds for result in compilation.passes)
    print_row("the passes themselves", f"{own:.2f} s")
    print_row("recording (snapshots)", f"{recording:.2f} s")
    print_row("recording / passes", f"{recording / own:.2f}", "aim: at most 0.25")
    print_row("the whole, import and verification included", f"{seconds:.2f} s")


def timed_compile(model: SourceModel) -> tuple[Compilation, float]:
    begin = time.perf_counter()
    compilation = explorer.compile(model)
    return compilation, time.perf_counter() - begin


def report_resnet50(folder: Path) -> None:
    path = folder / "onnx" / "light_resnet50.onnx"
    if not path.is_file():
        print(f"\nno {path}: name the folder of models with EXPLORER_MODELS")
        return
    model = load_with_weights(str(path))
    compilation, seconds = timed_compile(model)
    report_passes(compilation, seconds)
    recorded = sum(r.seconds + r.recording_seconds for r in compilation.passes)
    print_row("passes, recorded", f"{recorded:.2f} s", "aim: below 3 s")
    begin = time.perf_counter()
    lines = len(compilation.program.source.lines)
    print_row(f"generating {lines:,} lines of C", f"{time.perf_counter() - begin:.2f} s")
    begin = time.perf_counter()
    with compilation.open(threads=1):
        print_row("compiling them", f"{time.perf_counter() - begin:.2f} s", "aim: below 6 s")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="What recording every pass costs.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--skip-resnet50", action="store_true")
    chosen = parser.parse_args(arguments)
    print_row("import explorer", f"{import_seconds():.3f} s", "aim: below 0.5 s")
    # The compiler's own modules are loaded before anything is timed.
    explorer.compile(chain_model(8))
    report_passes(*timed_compile(chain_model(chosen.nodes)))
    if not chosen.skip_resnet50:
        report_resnet50(REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models"))


if __name__ == "__main__":
    main(sys.argv[1:])
