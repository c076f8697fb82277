"""Weights alone as narrow integers in blocks: decibels, bytes and milliseconds, on unseen inputs.

    python benchmarks/block_weights.py net.onnx [--dim batch=1 ...] [--seen 256] [--unseen 16]
        [--data seen.npz --test unseen.npz] [--forms int4/32 uint4/128 ...]
    python benchmarks/block_weights.py 8x4096x4096x1        8 products, 4096 deep, of 1 row

For each type of weights, block and rounding: decibels of the first output against the float model
over all unseen examples, bytes that the program's weights take, and the least time of an inference
(one thread, in turns with the float program's). Without archives examples are seeded random inputs
that the model can take: their decibels say what rounding does, not what it does to real texts.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper

import explorer
from explorer.importers.onnx import from_proto
from explorer.tuning.examples import examples_of, read_data

FORMS = ("int8/32", "int8/128", "int4/32", "int4/128", "uint4/32", "uint4/128")
TURNS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description="What weights in blocks change.")
    parser.add_argument("model")
    parser.add_argument("--forms", nargs="+", default=FORMS)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--seen", type=int, default=256)
    parser.add_argument("--unseen", type=int, default=16)
    asked = parser.parse_args()
    is_file = Path(asked.model).exists()
    model = explorer.load(asked.model) if is_file else products(*map(int, asked.model.split("x")))
    pairs = (text.split("=") for text in asked.dim)
    sizes = {name: int(size) for name, size in pairs}
    plain = explorer.compile(model, dimensions=sizes, tuned=False)
    data = read_data(asked.data) if asked.data else drawn(plain, range(asked.seen))
    unseen = range(asked.seen, asked.seen + asked.unseen)
    test = read_data(asked.test) if asked.test else drawn(plain, unseen)
    exact = outputs(plain, test)
    print(f"{'weights':<14}{'rounding':<10}{'dB':>8}{'bytes':>12}{'ms':>9}{'float ms':>10}")
    print(f"{'float':<24}{'':>8}{plain.program.weights_bytes:>12}", flush=True)
    for form, rounding in product(asked.forms, ("nearest", "gptq") if is_file else ("nearest",)):
        name, block = form.split("/")
        table = explorer.calibrate(
            model,
            data if rounding == "gptq" else None,
            weights=name,
            block=int(block),
            rounding=rounding,
            dimensions=sizes,
        )
        c = explorer.compile(model, quantization=table, dimensions=sizes, tuned=False)
        found, before = milliseconds([c, plain], examples_of(c, test).at(0))
        print(
            f"{form:<14}{rounding:<10}"
            f"{decibels(exact, outputs(c, test)):>8.2f}{c.program.weights_bytes:>12}"
            f"{found:>9.3f}{before:>10.3f}",
            flush=True,
        )
        c.close()


def products(count: int, depth: int, columns: int, rows: int):
    """So many matrices, one after the other: what reading weights takes, and nothing else."""
    generator = np.random.default_rng(0)
    nodes, weights = [], []
    for number in range(count):
        shape = (depth, columns) if number % 2 == 0 else (columns, depth)
        array = generator.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
        weights.append(numpy_helper.from_array(array, f"w{number}"))
        names = [f"x{number}", f"w{number}"]
        nodes.append(helper.make_node("MatMul", names, [f"x{number + 1}"]))
    width = depth if count % 2 == 0 else columns
    ends = [
        helper.make_tensor_value_info(name, 1, (rows, size))
        for name, size in (("x0", depth), (f"x{count}", width))
    ]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    return from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def drawn(compilation, seeds) -> dict[str, np.ndarray]:
    """Random inputs that the model can take, one example for each seed."""
    examples = [compilation.example_inputs(seed) for seed in seeds]
    return {name: np.stack([e[name] for e in examples]) for name in examples[0]}


def outputs(compilation, test) -> np.ndarray:
    """(examples, elements) of the first output."""
    examples = examples_of(compilation, test)
    runs = (compilation.run(examples.at(number)) for number in range(examples.count))
    return np.stack([next(iter(run.values())).reshape(-1) for run in runs])


def milliseconds(compilations, inputs) -> list[float]:
    """The least time of an inference of each, in turns."""
    best = [float("inf")] * len(compilations)
    for _ in range(TURNS):
        for index, compilation in enumerate(compilations):
            compilation.run(inputs)
            start = time.perf_counter()
            compilation.run(inputs)
            best[index] = min(best[index], 1000 * (time.perf_counter() - start))
    return best


def decibels(exact: np.ndarray, found: np.ndarray) -> float:
    """10 log10 of the sum of squares over that of the errors."""
    wide = exact.astype(np.float64)
    error = np.sum((wide - found) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(np.sum(wide**2) / error))


if __name__ == "__main__":
    main()
