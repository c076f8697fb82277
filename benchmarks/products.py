"""How near single products and convolutions come to the peak of multiply-adds, one thread.

    python benchmarks/products.py [WORD ...] [--processor x86-64-v3] [--choose rows=6,vectors=2]

    product 128x768x768     89.2 GFLOP/s   0.98 of  91.2     1.693 ms   rows 6, vectors 2

Every kernel is a network of its own; its launch alone is timed, and a loop of nothing but
multiply-adds in turns with it, each for some milliseconds. The least of each counts: what else a
machine does, on the other thread of the same core, too, makes both longer. A WORD limits the list
to titles that contain it; `--choose` decides choices of the kernel's schedule otherwise.
`--processor native` is the machine's own code.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # of `architectures`
from architectures.graph import Graph

import explorer
from explorer.importers import SourceModel
from explorer.importers.onnx.file.reading import from_proto
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.roofline import CPU_MULTIPLY_ADDS, multiply_source_c, one_launch
from explorer.targets import load_target

CONVOLUTIONS = (
    # inputs, outputs, height and width, window, stride
    (64, 256, 56, 1, 1), (256, 64, 56, 1, 1), (24, 144, 56, 1, 1), (512, 128, 28, 1, 1),
    (128, 512, 28, 1, 1), (256, 1024, 14, 1, 1), (1024, 256, 14, 1, 1), (512, 2048, 7, 1, 1),
    (2048, 512, 7, 1, 1), (960, 320, 7, 1, 1), (832, 384, 7, 1, 1), (64, 128, 56, 3, 2),
    (512, 512, 7, 3, 1), (3, 64, 224, 7, 2),
)  # fmt: skip
PRODUCTS = (
    (128, 768, 768), (197, 192, 768), (197, 768, 192), (1024, 1024, 1024), (128, 3072, 768),
    (128, 768, 3072), (64, 512, 2048), (49, 1024, 1024), (256, 2048, 512),
)  # fmt: skip
"""Rows, what is summed up, columns of weights."""
BATCHED = ((12, 128, 64, 128), (12, 128, 128, 64), (3, 197, 64, 197))
CALLS = 3
"""Of one reading, of which the median is taken."""
SHOWN = ("order", "rows", "pixels", "vectors", "depth_block")
"""Choices that are printed."""


def networks() -> dict[str, SourceModel]:
    """By title, a network for each kernel."""
    found: dict[str, SourceModel] = {}
    for inputs, outputs, size, window, stride in CONVOLUTIONS:
        graph = Graph("convolution", {"x": (1, inputs, size, size)})
        made = graph.convolution("x", inputs, outputs, window, stride)
        title = f"convolution {window}x{window} {inputs} to {outputs}, {size}x{size}"
        title += f", stride {stride}" if stride > 1 else ""
        side = math.ceil(size / stride)
        found[title] = from_proto(graph.model({made: (1, outputs, side, side)}), "convolution")
    for rows, depth, columns in PRODUCTS:
        graph = Graph("product", {"x": (rows, depth)})
        weight = graph.normal((depth, columns), 1 / math.sqrt(depth))
        made = graph.node("MatMul", ["x", weight])
        title = f"product {rows}x{depth}x{columns}"
        found[title] = from_proto(graph.model({made: (rows, columns)}), "product")
    for batch, rows, depth, columns in BATCHED:
        sizes = {"x": (batch, rows, depth), "y": (batch, depth, columns)}
        graph = Graph("batched", sizes)
        made = graph.node("MatMul", ["x", "y"])
        title = f"{batch} products {rows}x{depth}x{columns}"
        found[title] = from_proto(graph.model({made: (batch, rows, columns)}), "batched")
    return found


@dataclass(frozen=True)
class Measured:
    """The kernel of a network that does most of its work."""

    chosen: str
    seconds: float
    flops: int
    peak_gflops: float
    """Of multiply-adds in the same turns."""

    @property
    def gflops(self) -> float:
        return self.flops / self.seconds * 1e-9


def measure(model: SourceModel, processor: str, choices: dict[str, int], turns: int) -> Measured:
    """The least of the kernel's times, and of the loop's."""
    target = load_target("cpu", {"processor": processor})
    compiled = explorer.compile(model, target, tuned=False)
    busiest = max(compiled.program.kernels, key=lambda kernel: kernel.flops)
    if choices:
        decisions = {f"schedule-loops/{busiest.name}/{name}": n for name, n in choices.items()}
        compiled = compiled.fork(decisions=decisions)
        busiest = max(compiled.program.kernels, key=lambda kernel: kernel.flops)
    start = f"schedule-loops/{busiest.name}/"
    knobs = {k.address.removeprefix(start): k.value for k in compiled.knobs}
    inputs = compiled.example_inputs()
    least = shortest = math.inf
    peak = one_launch("cpu", multiply_source_c(), 0, 1, processor)
    with (
        compiled.open(1, isolated=False) as executable,
        NativeProgram(peak, b"", threads=1, isolated=False) as multiplying,
    ):
        for _ in range(turns):
            events = executable.profile(inputs, CALLS).events
            own = (e.end_ns - e.start_ns for e in events if e.kernel == busiest.name)
            least = min(least, *own)
            shortest = min(shortest, *multiplying.time({}, 2))
    shown = ", ".join(f"{name} {knobs[name]}" for name in knobs if name in SHOWN)
    return Measured(shown, least * 1e-9, busiest.flops, 2e-9 * CPU_MULTIPLY_ADDS / shortest)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Single products against the peak.")
    parser.add_argument("words", nargs="*", help="titles that contain one of them; default all")
    parser.add_argument("--processor", default="x86-64-v3")
    parser.add_argument("--choose", default="", help="choices of the kernel: rows=6,vectors=2")
    parser.add_argument("--turns", type=int, default=30)
    chosen = parser.parse_args(arguments)
    pairs = [pair.split("=") for pair in chosen.choose.split(",") if pair]
    choices = {name: int(value) for name, value in pairs}
    for title, model in networks().items():
        if chosen.words and not any(word in title for word in chosen.words):
            continue
        found = measure(model, chosen.processor, choices, chosen.turns)
        print(
            f"{title:42} {found.gflops:6.1f} GFLOP/s   {found.gflops / found.peak_gflops:.2f} of "
            f"{found.peak_gflops:5.1f}   {found.seconds * 1e3:7.3f} ms   {found.chosen}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
