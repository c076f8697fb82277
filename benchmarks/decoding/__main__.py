"""A loop over tokens against onnxruntime: `python benchmarks/decoding --sizes small,14m`.

For every size and number of threads, in one run and one process, step by step in turn:

onnxruntime    is given the past of each call and gives the present, which becomes the next past
session        `explorer.Session`, called in the same way
states         a program that keeps the past itself (`remembers=True`), at some capacities

With `--blocks` weights are four bits each (MatMulNBits, accuracy_level = 4). onnxruntime rounds the
rows that it multiplies to bytes then; so does a program of states "by bytes", and others do not.

A step's time is the median over the loop. Compilations are those of the session.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
from networks import SIZES, export, put_in_blocks

import explorer
from explorer.runtime.stateful import StatefulProgram

PROMPT = 13
"""Tokens."""
ROWS = "compute-in-integers/rows"
"""Decision: what rows are that are multiplied with weights in blocks."""


def judge_of(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Carried:
    """A caller that gives the present of each call as the past of the next one."""

    def __init__(
        self, run: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]], first: dict
    ) -> None:
        self.run, self.past = run, dict(first)

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        found = self.run({"input_ids": ids, **self.past})
        self.past = {
            name.replace("present", "past_key_values"): array
            for name, array in found.items()
            if name != "logits"
        }
        return found["logits"]


def measure(
    path: Path, threads: int, steps: int, capacities: list[int], has_blocks: bool
) -> list[str]:
    judge = judge_of(path, threads)
    outputs = [value.name for value in judge.get_outputs()]
    first = {
        value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
        for value in judge.get_inputs()
        if value.name != "input_ids"
    }
    prompt = np.arange(PROMPT)[None] % 100
    with explorer.Session(path, threads=threads, isolated=False) as session:
        sides: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "onnxruntime": Carried(
                lambda given: dict(zip(outputs, judge.run(None, dict(given)), strict=True)), first
            ),
            "session": Carried(session.run, first),
        }
        for side in sides.values():
            side(prompt)
        past = sides["onnxruntime"].past  # pyright: ignore[reportAttributeAccessIssue]
        opened = []
        forms = {"": {}} | ({", by bytes": {ROWS: "stated"}} if has_blocks else {})
        for capacity, (form, decisions) in product(capacities, forms.items()):
            compiled = explorer.compile(
                path, dimensions={"seq": 1}, capacity=capacity, decisions=decisions
            )
            program = compiled.open(threads, isolated=False, remembers=True)
            program.load(past)
            opened.append(program)
            sides[f"states, capacity {capacity}{form}"] = step_of(program)
        lines = loop(sides, steps)
        events = [call.event for call in session.calls]
        for program in opened:
            lines.append(f"    bytes of states copied in a step: {program.copied_bytes}")
            program.close()
        return [*lines, f"    compilations of the session: {events.count('compiled')}"]


def step_of(program: StatefulProgram) -> Callable[[np.ndarray], np.ndarray]:
    return lambda ids: program.run({"input_ids": ids})["logits"]


def loop(sides: Mapping[str, Callable[[np.ndarray], np.ndarray]], steps: int) -> list[str]:
    ids, seconds, worst = np.array([[7]]), {name: [] for name in sides}, 0.0
    for number in range(steps):
        logits = {}
        for name, side in sides.items():
            start = time.perf_counter()
            logits[name] = side(ids)
            if number:  # the first call of the session compiles
                seconds[name].append(time.perf_counter() - start)
        right = logits["onnxruntime"]
        worst = max(worst, *(float(np.abs(one - right).max()) for one in logits.values()))
        ids = right[:, -1:].argmax(-1)
    medians = {name: statistics.median(found) * 1e3 for name, found in seconds.items()}
    least = medians["onnxruntime"]
    lines = [f"    {n:<32}{ms:9.3f} ms {ms / least:7.2f}" for n, ms in medians.items()]
    return [*lines, f"    largest difference of the logits: {worst:.1e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="small,14m", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--capacities", default="256,2048")
    parser.add_argument("--blocks", action="store_true", help="weights of four bits")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.sizes.split(","):
            path = Path(folder) / f"{name}.onnx"
            export(SIZES[name], path)
            if arguments.blocks:
                put_in_blocks(path, level=4)
            for threads in map(int, arguments.threads.split(",")):
                print(f"{name}, {threads} threads, step after a prompt of {PROMPT} tokens")
                capacities = [int(each) for each in arguments.capacities.split(",")]
                lines = measure(path, threads, arguments.steps, capacities, arguments.blocks)
                print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
