"""Whole networks in AVX2 against oneDNN, one thread: `python benchmarks/onednn --python PYTHON`.

    resnet18      ours   27.09 ms   oneDNN   53.35 ms   0.51   134.4 GFLOP/s

PYTHON is one with torch (its CPU build), held to AVX2 by oneDNN's own variable; ours are compiled
for `x86-64-v3`. Both sides and the peak of multiply-adds are measured in turns, and the fastest of
each counts, so that what else the machine does hits them alike. Times are processor time: turns
that other processes take are no part of it. Outputs are compared first.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from architectures import open_architecture

import explorer
from explorer.backends import backend_of
from explorer.runtime.executable import Executable
from explorer.targets import load_target

ARCHITECTURES = (
    "resnet18", "resnet50", "mobilenetv2", "squeezenet", "shufflenet", "densenet121",
    "inception_v1", "vgg19", "bert_2x768", "vit_tiny",
)  # fmt: skip
PROCESSOR = "x86-64-v3"
RELATIVE = 1e-3
"""Of the largest output: both sides add up in float32, by Winograd's tiles or not."""


def write_graph(model, inputs: dict[str, np.ndarray], folder: Path) -> None:
    """The nodes as JSON, weights and inputs as arrays: all that the peer knows."""
    proto = model.content.proto
    nodes = []
    arrays = dict(model.content.weights)
    for node in proto.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            arrays[node.output[0]] = numpy_helper.to_array(attributes["value"])
            continue
        plain = {n: v for n, v in attributes.items() if isinstance(v, int | float | list)}
        nodes.append([node.op_type, plain, list(node.input), node.output[0]])
    graph = {
        "nodes": nodes,
        "inputs": list(inputs),
        "outputs": [value.name for value in proto.graph.output],
    }
    (folder / "graph.json").write_text(json.dumps(graph))
    given = {f"input {name}": array for name, array in inputs.items()}
    np.savez(folder / "arrays.npz", **{n: np.asarray(a) for n, a in arrays.items()}, **given)


class Peer:
    """The process with torch; `ask` sends a line and gives the answer."""

    def __init__(self, python: str, folder: Path):
        variables = {
            **os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [python, str(Path(__file__).with_name("peer.py")), str(folder)]
        self.process = subprocess.Popen(
            command, env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            raise SystemExit(f"{python} did not run the network; see its error above")

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(name: str, python: str, rounds: int) -> dict[str, float | str]:
    """Fastest seconds of both sides, and the peak in the same minutes."""
    model = open_architecture(name)
    target = load_target("cpu", {"processor": PROCESSOR})
    compiled = explorer.compile(model, target, tuned=False)
    inputs = compiled.example_inputs()
    backend = backend_of(target)
    with tempfile.TemporaryDirectory() as place, compiled.open(1, isolated=False) as ours:
        folder = Path(place)
        write_graph(model, dict(inputs), folder)
        peer = Peer(python, folder)
        peer.ask("run")
        compare(name, ours.run(inputs), dict(np.load(folder / "outputs.npz")))
        best = {"ours": math.inf, "onednn": math.inf, "gflops": 0.0}
        for turn in range(rounds):
            best["ours"] = min(best["ours"], *(processor_seconds(ours, inputs) for _ in range(3)))
            best["onednn"] = min(best["onednn"], float(peer.ask("time 3")))
            if turn in (0, rounds // 2):
                peaks = backend.peaks(None, 1, PROCESSOR)
                best["gflops"] = max(best["gflops"], peaks.gflops if peaks else 0.0)
        peer.close()
    flops = {kernel.name: kernel.flops for kernel in compiled.program.kernels}
    work = sum(flops[launch.kernel] for launch in compiled.program.launches)
    return {**best, "name": name, "flops": work, "torch": peer.version}


def processor_seconds(ours: Executable, inputs: dict[str, np.ndarray]) -> float:
    """Of one inference, on the calling thread: the only one that there is."""
    started = time.thread_time()
    ours.run(inputs)
    return time.thread_time() - started


def compare(name: str, ours: dict, others: dict) -> None:
    for output, array in others.items():
        error = np.abs(ours[output] - array).max() / np.abs(array).max()
        if not error <= RELATIVE:
            raise SystemExit(f"{name}: {output} differs by {error:.1e} of its largest element")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=ARCHITECTURES)
    parser.add_argument("--python", required=True, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    ratios, gflops, version = [], 0.0, ""
    for name in arguments.names or ARCHITECTURES:
        found = measure(name, arguments.python, arguments.rounds)
        ratio = found["ours"] / found["onednn"]
        ratios.append(ratio)
        print(
            f"{name:13} ours {found['ours'] * 1e3:7.2f} ms   "
            f"oneDNN {found['onednn'] * 1e3:7.2f} ms   {ratio:.2f}   "
            f"{found['flops'] / found['ours'] * 1e-9:5.1f} GFLOP/s",
            flush=True,
        )
        gflops, version = max(gflops, found["gflops"]), found["torch"]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, largest {max(ratios):.2f}; torch {version}")
    print(f"peak of multiply-adds {gflops:.1f} GFLOP/s; Winograd's forms do more than they compute")


if __name__ == "__main__":
    main()
