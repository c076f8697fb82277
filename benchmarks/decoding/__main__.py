"""A loop over tokens against onnxruntime: `python benchmarks/decoding --sizes small,14m`, or
`--model FILE` for a decoder of one's own, whose present outputs stand in the order of its pasts.

For every size and number of threads, in one run and one process, step by step in turn:

onnxruntime    is given the past of each call and gives the present, which becomes the next past
session        `explorer.Session`, called in the same way
states         a program that keeps the past itself (`remembers=True`), at some capacities

With `--stored float16,int8` rows of the past are stored so in further programs of states; with
`--stored rows` keys of float32 are no columns, and transposed in every step.
`--prompt` is how many positions are valid at first.

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
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
from networks import SIZES, export, put_in_blocks

import explorer
from explorer.runtime.stateful import StatefulProgram

PROMPT = 13
"""Tokens."""
TYPE, ORDER = "narrow-past/type", "narrow-past/order"
"""Decisions: what rows of the past are stored as, and whether as columns."""
ROWS = "compute-in-integers/rows"
"""Decision: what rows are that are multiplied with weights in blocks."""


def judge_of(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Ports:
    """What a decoder is called with, by the names of its inputs: tokens, positions, a mask of ones
    and pasts; logits come first."""

    def __init__(self, judge: onnxruntime.InferenceSession) -> None:
        inputs = judge.get_inputs()
        self.logits, *presents = (value.name for value in judge.get_outputs())
        self.pasts = [value for value in inputs if value.name.startswith("past")]
        self.past_of = dict(zip(presents, (past.name for past in self.pasts), strict=True))
        self.others = [value for value in inputs if value not in self.pasts]
        tokens = next(v for v in self.others if v.name == "input_ids").shape[1]
        self.step = {tokens: 1} if isinstance(tokens, str) else {}
        """The dimension of a call's tokens, in a step."""

    def first(self) -> dict[str, np.ndarray]:
        """Pasts of no row, in which a size that has a name is the batch, 1, or that of rows."""
        shapes = {
            past.name: [1 if n in ("batch", "batch_size") else n for n in past.shape]
            for past in self.pasts
        }
        return {
            name: np.zeros([0 if isinstance(n, str) else n for n in shape], np.float32)
            for name, shape in shapes.items()
        }

    def given(self, ids: np.ndarray, rows: int) -> dict[str, np.ndarray]:
        """Of a call after so many rows, without the pasts."""
        new = ids.shape[1]
        arrays = {
            "input_ids": ids,
            "position_ids": np.arange(rows, rows + new)[None],
            "attention_mask": np.ones((1, rows + new)),
        }
        kinds = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
        return {v.name: arrays[v.name].astype(kinds.get(v.type, np.float32)) for v in self.others}


class Carried:
    """A caller that gives the present of each call as the past of the next one."""

    def __init__(
        self, run: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]], ports: Ports
    ) -> None:
        self.run, self.ports, self.past, self.rows = run, ports, ports.first(), 0

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        found = self.run({**self.ports.given(ids, self.rows), **self.past})
        self.rows += ids.shape[1]
        self.past = {past: found[name] for name, past in self.ports.past_of.items()}
        return found[self.ports.logits]


def measure(
    path: Path,
    threads: int,
    steps: int,
    capacities: list[int],
    forms: Mapping[str, Mapping[str, str]],
    prompt: np.ndarray,
    has_session: bool,
) -> list[str]:
    """forms: decisions of programs of states, by what they are called."""
    judge = judge_of(path, threads)
    outputs = [value.name for value in judge.get_outputs()]
    ports = Ports(judge)
    peer = Carried(
        lambda given: dict(zip(outputs, judge.run(None, dict(given)), strict=True)), ports
    )
    sides: dict[str, Callable[[np.ndarray], np.ndarray]] = {"onnxruntime": peer}
    with ExitStack() as stack:
        session = None
        if has_session:
            session = explorer.Session(path, threads=threads, isolated=False)
            stack.enter_context(session)
            sides["session"] = Carried(session.run, ports)
        for side in sides.values():
            side(prompt)
        past, opened = peer.past, {}
        for capacity, (form, decisions) in product(capacities, forms.items()):
            compiled = explorer.compile(
                path, dimensions=ports.step, capacity=capacity, decisions=decisions
            )
            program = compiled.open(threads, isolated=False, remembers=True)
            program.load(past)
            name = f"states, capacity {capacity}{form}"
            opened[name] = program, kept_bytes(compiled)
            sides[name] = step_of(program, ports)
        lines = loop(sides, steps)
        for name, (program, size) in opened.items():
            copied = program.copied_bytes
            lines.append(f"    {name}: {size:,} bytes, {copied} copied in a step")
            program.close()
        if session is not None:
            events = [call.event for call in session.calls]
            lines.append(f"    compilations of the session: {events.count('compiled')}")
        return lines


def kept_bytes(compiled: explorer.Compilation) -> int:
    length = compiled.program.length
    kept = (p for p in compiled.program.inputs if p.name.startswith("past"))
    return sum(port.size_bytes for port in kept if length is None or port.name != length.name)


def step_of(program: StatefulProgram, ports: Ports) -> Callable[[np.ndarray], np.ndarray]:
    return lambda ids: program.run(ports.given(ids, program.valid_rows))[ports.logits]


def loop(sides: Mapping[str, Callable[[np.ndarray], np.ndarray]], steps: int) -> list[str]:
    ids, seconds = np.array([[7]]), {name: [] for name in sides}
    worst = dict.fromkeys(sides, 0.0)
    for number in range(steps):
        logits = {}
        for name, side in sides.items():
            start = time.perf_counter()
            logits[name] = side(ids)
            if number:  # the first call of the session compiles
                seconds[name].append(time.perf_counter() - start)
        right = logits["onnxruntime"]
        for name, one in logits.items():
            worst[name] = max(worst[name], float(np.abs(one - right).max()))
        ids = right[:, -1:].argmax(-1)
    medians = {name: statistics.median(found) * 1e3 for name, found in seconds.items()}
    least = medians["onnxruntime"]
    return [
        f"    {n:<40}{ms:9.3f} ms {ms / least:7.2f}, logits differ by {worst[n]:.1e} at most"
        for n, ms in medians.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="small,14m", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--model", type=Path, help="an ONNX file in place of those")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--capacities", default="256,2048")
    parser.add_argument("--prompt", type=int, default=PROMPT, help="tokens before the first step")
    parser.add_argument("--states-only", action="store_true", help="without the session")
    parser.add_argument("--stored", default="", help="of keys and values: rows,float16,int8")
    parser.add_argument("--blocks", action="store_true", help="weights of four bits")
    arguments = parser.parse_args()
    forms: dict[str, dict[str, str]] = {"": {}}
    if arguments.blocks:
        forms[", by bytes"] = {ROWS: "stated"}
    for kind in arguments.stored.split(",") if arguments.stored else ():
        forms[f", {kind}"] = {ORDER if kind == "rows" else TYPE: kind}
    prompt = np.arange(arguments.prompt)[None] % 100
    with tempfile.TemporaryDirectory() as folder:
        own = arguments.model
        for name in arguments.sizes.split(",") if own is None else [own.stem]:
            path = own or Path(folder) / f"{name}.onnx"
            if own is None:
                export(SIZES[name], path)
            if arguments.blocks:
                if own is not None:
                    parser.error("--blocks changes the decoders of --sizes, no file of yours")
                put_in_blocks(path, level=4)
            for threads in map(int, arguments.threads.split(",")):
                tokens = arguments.prompt
                print(f"{name}, {threads} threads, step after a prompt of {tokens} tokens")
                capacities = [int(each) for each in arguments.capacities.split(",")]
                is_whole = not arguments.states_only
                lines = measure(path, threads, arguments.steps, capacities, forms, prompt, is_whole)
                print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
