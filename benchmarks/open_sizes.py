"""One program for all sizes against the program for each size, and against onnxruntime.

    python benchmarks/open_sizes.py net.onnx --dim batch=1..4 --dim seq=2..128
        [--open input:2=h ...] [--multiple 32] [--sizes 5] [--threads 1] [--turns 21]
    python benchmarks/open_sizes.py FOLDER [--csv PATH]

For sizes from the largest down: milliseconds of the open program, of the program compiled for that
size, of onnxruntime (for an ONNX file), medians of turns that alternate; the ratio of the first
two, and the largest difference of their outputs. With one thread they are milliseconds of the
processor, so that other processes count less. `--open` gives a dimension of an ONNX input, which
the file fixes, a name; what the file says of other shapes is dropped then. `--multiple`: sizes that
a network asks for. With a folder: the ten networks of `NETWORKS`, one after another, and the
geometric mean over all of them.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import explorer
from explorer.importers.onnx import from_proto


@dataclass(frozen=True)
class Network:
    file: str
    dimensions: tuple[str, ...]
    opened: tuple[str, ...] = ()
    multiple: int = 1


IMAGE = ("h=64..224", "w=64..224")
NETWORKS = (
    Network("bert_toy_ort", ("batch=1", "max_seq_len_in_batch=4..128")),
    Network("tiny_gpt2_past", ("batch_size=1", "seq_len=1..8", "past_seq_len=1..56")),
    Network(
        "mobilenet_v2_035_128_st",
        ("unk__608=1", "h=32..128", "w=32..128"),
        ("input_1:2=h", "input_1:3=w"),
    ),
    Network("mobilenetv2_ort_maui", ("batch=1", *IMAGE), ("image:2=h", "image:3=w")),
    Network(
        "ppocr_mobile_v2_cls",
        (
            "p2o.DynamicDimension.0=1",
            "p2o.DynamicDimension.1=48",
            "p2o.DynamicDimension.2=32..192",
        ),
    ),
    Network(
        "ppocr_v3_det",
        (
            "p2o.DynamicDimension.0=1",
            "p2o.DynamicDimension.1=64..320",
            "p2o.DynamicDimension.2=64..320",
        ),
        multiple=32,
    ),
    Network("yunet_n_320", ("h=64..320", "w=64..320"), ("input:2=h", "input:3=w"), 32),
    Network("blazeface", ("h=64..128", "w=64..128"), ("x.1:2=h", "x.1:3=w"), 16),
    Network("yolox_nano", ("h=128..416", "w=128..416"), ("images:2=h", "images:3=w"), 32),
    Network("squeezenet_fp16", IMAGE, ("data_0:2=h", "data_0:3=w")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="What open sizes cost.")
    parser.add_argument("model", type=Path, help="a model, or a folder with those of the table")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=LOW..HIGH")
    parser.add_argument("--open", action="append", default=[], metavar="INPUT:AXIS=NAME")
    parser.add_argument("--multiple", type=int, default=1)
    parser.add_argument("--sizes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--csv", type=Path, help="where the table of a folder goes")
    asked = parser.parse_args()
    if not asked.model.is_dir():
        network = Network(str(asked.model), tuple(asked.dim), tuple(asked.open), asked.multiple)
        measure(asked.model, network, asked)
        return
    rows: list[list[str]] = []
    ratios: list[float] = []
    peers: list[float] = []
    for network in NETWORKS:
        print(f"\n{network.file}")
        own, peer = measure(asked.model / f"{network.file}.onnx", network, asked)
        ratios, peers = ratios + own, peers + peer
        sizes = [d for d in network.dimensions if ".." in d]
        text = ", ".join(sizes).replace("p2o.DynamicDimension.", "axis ")
        means = [f"{mean(own):.2f}", f"{mean(peer):.2f}"]
        rows.append([network.file, text, *(f"{ratio:.2f}" for ratio in own), *means])
    rows.append(["all", "", *[""] * asked.sizes, f"{mean(ratios):.2f}", f"{mean(peers):.2f}"])
    print(f"\ngeometric mean over {len(NETWORKS)} networks: {mean(ratios):.2f}")
    if asked.csv is not None:
        names = ["largest", *[""] * (asked.sizes - 2), "smallest"]
        with asked.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["network", "sizes", *names, "mean", "onnxruntime"])
            writer.writerows(rows)


def measure(
    path: Path, network: Network, asked: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """The ratios of the open program to the others at each size, and to onnxruntime."""
    proto = onnx.load(str(path)) if path.suffix == ".onnx" else None
    if proto is not None and network.opened:
        open_dimensions(proto, network.opened)
    model = explorer.load(path) if proto is None else from_proto(proto, name=path.stem)
    ranges = {
        name: limits(text) for name, _, text in (d.partition("=") for d in network.dimensions)
    }
    compiled = explorer.compile(model, dimensions=ranges)
    judge = None if proto is None else session(proto, asked.threads)
    print(f"{len(compiled.program.launches)} launches, {compiled.memory.peak_bytes:,} bytes")
    print(f"{'sizes':<36}{'open ms':>9}{'fixed ms':>10}{'ort ms':>9}{'ratio':>7}  difference")
    ratios: list[float] = []
    peers: list[float] = []
    with compiled.open(threads=asked.threads, isolated=False) as program:
        for sizes in chosen(ranges, asked.sizes, network.multiple):
            fixed = explorer.compile(model, dimensions=sizes)
            inputs = fixed.example_inputs(0)
            with fixed.open(threads=asked.threads, isolated=False) as other:
                runs: list[Callable[[], object]] = [
                    partial(program.run, inputs),
                    partial(other.run, inputs),
                ]
                if judge is not None:
                    runs.append(partial(judge.run, None, inputs))
                clock = time.thread_time if asked.threads == 1 else time.perf_counter
                times = medians(runs, asked.turns, clock)
                ours, theirs = program.run(inputs), other.run(inputs)
            ratios.append(times[0] / times[1])
            off = max(float(np.abs(ours[n].astype(float) - theirs[n]).max()) for n in ours)
            peer = f"{'':>9}"
            if judge is not None:
                peers.append(times[0] / times[2])
                peer = f"{times[2]:>9.3f}"
            text = " ".join(f"{n}={s}" for n, s in sizes.items() if not isinstance(ranges[n], int))
            print(f"{text:<36}{times[0]:>9.3f}{times[1]:>10.3f}{peer}{ratios[-1]:>7.2f}  {off:.1g}")
            fixed.close()
    print(f"geometric mean of the ratio: {mean(ratios):.2f}")
    return ratios, peers


def mean(ratios: Sequence[float]) -> float:
    """Geometric."""
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def limits(text: str) -> int | tuple[int, int]:
    lowest, dots, highest = text.partition("..")
    return (int(lowest), int(highest)) if dots else int(lowest)


def chosen(
    ranges: Mapping[str, int | tuple[int, int]], count: int, multiple: int
) -> list[dict[str, int]]:
    """Sizes of all dimensions from the largest to the smallest, by equal factors."""
    found: list[dict[str, int]] = []
    for part in np.linspace(1, 0, count):
        sizes: dict[str, int] = {}
        for name, size in ranges.items():
            if isinstance(size, int):
                sizes[name] = size
                continue
            own = size[0] * (size[1] / size[0]) ** part
            sizes[name] = max(size[0], round(own / multiple) * multiple)
        found.append(sizes)
    return found


def open_dimensions(proto: onnx.ModelProto, asked: Sequence[str]) -> None:
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


def medians(
    runs: Sequence[Callable[[], object]], turns: int, clock: Callable[[], float]
) -> list[float]:
    """Milliseconds of each, in turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(turns):
        for run, own in zip(runs, times, strict=True):
            started = clock()
            run()
            own.append((clock() - started) * 1e3)
    return [float(np.median(own)) for own in times]


if __name__ == "__main__":
    main()
