"""One program for all sizes against the program for each size, and against onnxruntime.

    python benchmarks/open_sizes.py net.onnx --dim batch=1..4 --dim seq=2..128
        [--open input:2=h ...] [--sizes 5] [--threads 1] [--turns 21]

For sizes from the largest down: milliseconds of the open program, of the program compiled for that
size, of onnxruntime (for an ONNX file), medians of turns that alternate; the ratio of the first
two, and the largest difference of their outputs. `--open` gives a dimension of an ONNX input, which
the file fixes, a name; what the file says of other shapes is dropped then.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import explorer
from explorer.importers.onnx import from_proto


def main() -> None:
    parser = argparse.ArgumentParser(description="What open sizes cost.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=LOW..HIGH")
    parser.add_argument("--open", action="append", default=[], metavar="INPUT:AXIS=NAME")
    parser.add_argument("--sizes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=21)
    asked = parser.parse_args()
    proto = onnx.load(str(asked.model)) if asked.model.suffix == ".onnx" else None
    if proto is not None and asked.open:
        open_dimensions(proto, asked.open)
    model = (
        explorer.load(asked.model) if proto is None else from_proto(proto, name=asked.model.stem)
    )
    ranges = {name: limits(text) for name, _, text in (d.partition("=") for d in asked.dim)}
    compiled = explorer.compile(model, dimensions=ranges)
    judge = None if proto is None else session(proto, asked.threads)
    print(f"{len(compiled.program.launches)} launches, {compiled.memory.peak_bytes:,} bytes")
    print(f"{'sizes':<28}{'open ms':>9}{'fixed ms':>10}{'ort ms':>9}{'ratio':>7}  difference")
    ratios: list[float] = []
    with compiled.open(threads=asked.threads, isolated=False) as program:
        for sizes in chosen(ranges, asked.sizes):
            fixed = explorer.compile(model, dimensions=sizes)
            inputs = fixed.example_inputs(0)
            with fixed.open(threads=asked.threads, isolated=False) as other:
                runs: list[Callable[[], object]] = [
                    partial(program.run, inputs),
                    partial(other.run, inputs),
                ]
                if judge is not None:
                    runs.append(partial(judge.run, None, inputs))
                times = medians(runs, asked.turns)
                ours, theirs = program.run(inputs), other.run(inputs)
            ratios.append(times[0] / times[1])
            off = max(float(np.abs(ours[n].astype(float) - theirs[n]).max()) for n in ours)
            peer = f"{times[2]:>9.3f}" if judge is not None else f"{'':>9}"
            text = " ".join(f"{n}={s}" for n, s in sizes.items() if n in ranges)
            print(f"{text:<28}{times[0]:>9.3f}{times[1]:>10.3f}{peer}{ratios[-1]:>7.2f}  {off:.1g}")
            fixed.close()
    print(f"geometric mean of the ratio: {np.exp(np.mean(np.log(ratios))):.2f}")


def limits(text: str) -> int | tuple[int, int]:
    lowest, dots, highest = text.partition("..")
    return (int(lowest), int(highest)) if dots else int(lowest)


def chosen(ranges: Mapping[str, int | tuple[int, int]], count: int) -> list[dict[str, int]]:
    """Sizes of all dimensions from the largest to the smallest, by equal factors."""
    found: list[dict[str, int]] = []
    for part in np.linspace(1, 0, count):
        sizes = {n: s if isinstance(s, int) else round(s[0] * (s[1] / s[0]) ** part)
                 for n, s in ranges.items()}  # fmt: skip
        found.append(sizes)
    return found


def open_dimensions(proto: onnx.ModelProto, asked: list[str]) -> None:
    """Gives dimensions names, in place."""
    for text in asked:
        place, _, name = text.partition("=")
        value, _, axis = place.rpartition(":")
        (found,) = (i for i in proto.graph.input if i.name == value)
        found.type.tensor_type.shape.dim[int(axis)].dim_param = name
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")


def session(proto: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def medians(runs: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Milliseconds of each, in turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(turns):
        for run, own in zip(runs, times, strict=True):
            started = time.perf_counter()
            run()
            own.append((time.perf_counter() - started) * 1e3)
    return [float(np.median(own)) for own in times]


if __name__ == "__main__":
    main()
