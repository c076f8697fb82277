"""From a model's file to its first result: cold, warm, and after a change by a person.

    python benchmarks/compile.py [MODEL] [--repeats 3] [--json FILE]

MODEL is a name as `benchmarks/latency` takes it (default: resnet50). Measured, best of the repeats,
in processes of their own so that nothing is loaded before:

    cold           an empty program cache: every pass, the C compiler, the first inference
    passes         the binary is kept, the finished program is not: every pass once more
    warm           a session, which starts from the kept program
    in process     another session in the process that has just done it
    onnxruntime    file to first result
    fork           digits_cnn: another choice of one kernel, compiled to the first result

Seconds count from the start of `import explorer`; those of the whole process stand beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "latency"))
from models import open_model

from explorer.cli.latency.reference import onnx_content

SMALL = Path(__file__).resolve().parent.parent / "sample_models" / "digits_cnn.onnx"

FIRST_RESULT = """
import json, sys, time
begin = time.perf_counter()
steps = {}
def step(name):
    steps[name] = time.perf_counter() - begin - sum(steps.values())
import explorer
step("import")
def once(prefix):
    model = explorer.load(sys.argv[1])
    step(prefix + "read")
    c = explorer.compile(model)
    step(prefix + "passes")
    c.built
    step(prefix + "print")
    with c.open(threads=2, isolated=False) as executable:
        step(prefix + "build")
        executable.run(c.example_inputs())
        step(prefix + "first inference")
    return c
once("")
total = sum(steps.values())
once("again, ")
print(json.dumps({"total": total, "again": sum(steps.values()) - total, "steps": steps}))
"""
SESSION = """
import json, sys, time
begin = time.perf_counter()
import explorer
import numpy as np
def once():
    with explorer.Session(sys.argv[1], threads=2, isolated=False) as session:
        session({v.name: np.zeros(v.shape, v.element_type) for v in session.inputs})
        return session.calls[0].event
event = once()
total = time.perf_counter() - begin
once()
again = time.perf_counter() - begin - total
print(json.dumps({"total": total, "again": again, "event": event}))
"""
ONNXRUNTIME_RESULT = """
import json, sys, time
begin = time.perf_counter()
import onnxruntime
import numpy as np
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
session.run(None, given)
print(json.dumps({"total": time.perf_counter() - begin}))
"""
FORK = """
import json, sys, time
import explorer
c = explorer.compile(sys.argv[1])
inputs = c.example_inputs()
with c.open() as executable:
    executable.run(inputs)
seconds = {}
for knob in c.knobs:
    others = [choice for choice in knob.choices if choice != knob.value]
    if not knob.address.startswith("schedule-loops/") or not others or len(seconds) == 8:
        continue
    begin = time.perf_counter()
    fork = c.fork(decisions={knob.address: others[-1]})
    with fork.open(isolated=False) as executable:
        executable.run(inputs)
    seconds[f"{knob.address} = {others[-1]}"] = time.perf_counter() - begin
print(json.dumps(seconds))
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="From a file to the first result.")
    parser.add_argument("model", nargs="?", default="resnet50")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="explorer-compile-") as folder:
        file = Path(folder, "model.onnx")
        file.write_bytes(onnx_content(open_model(chosen.model).model).proto.SerializeToString())
        found = measure(file, Path(folder), chosen.repeats)
    report(chosen.model, found)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(file: Path, folder: Path, repeats: int) -> dict[str, Any]:
    """Seconds by what was measured; steps are those of the best cold process and the best one
    that has the binary."""
    cold: list[dict[str, Any]] = []
    passes: list[dict[str, Any]] = []
    warm: list[dict[str, Any]] = []
    for number in range(repeats):
        cache = {"EXPLORER_CACHE": str(folder / f"cache{number}")}
        cold.append(run_apart(FIRST_RESULT, file, cache))
        passes.append(run_apart(FIRST_RESULT, file, cache))
        run_apart(SESSION, file, cache)  # keeps the finished program
        warm.append(run_apart(SESSION, file, cache))
        if warm[-1]["event"] != "started":
            raise SystemExit(f"the session did not start from the kept program: {warm[-1]}")
    peer = [run_apart(ONNXRUNTIME_RESULT, file, {}) for _ in range(repeats)]
    forks = [
        run_apart(FORK, SMALL, {"EXPLORER_CACHE": str(folder / f"forks{number}")})
        for number in range(repeats)
    ]
    names = [name for name in forks[0] if name != "process"]
    return {
        "cold": min(cold, key=lambda found: found["total"]),
        "passes": min(passes, key=lambda found: found["total"]),
        "warm": min(warm, key=lambda found: found["total"]),
        "onnxruntime": min(peer, key=lambda found: found["total"]),
        "forks": {name: min(found[name] for found in forks) for name in names},
    }


def run_apart(program: str, file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """What the program prints, run in a process of its own; `process`: seconds of all of it."""
    begin = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - begin
    return {**json.loads(finished.stdout.splitlines()[-1]), "process": seconds}


def report(model: str, found: dict[str, Any]) -> None:
    print(f"{model}: file to first result, seconds")
    print(f"{'':<28}{'seconds':>9}{'process':>9}")
    aims = {"cold": "aim: below 4", "passes": "", "warm": "aim: below 0.4", "onnxruntime": ""}
    for name, aim in aims.items():
        row = found[name]
        print(f"{name:<28}{row['total']:>9.2f}{row['process']:>9.2f}   {aim}".rstrip())
    print(f"{'in process':<28}{found['warm']['again']:>9.2f}            aim: below 0.4")
    print("\nsteps of the cold process, and of one that finds the binary")
    steps = found["cold"]["steps"]
    for name, seconds in steps.items():
        print(f"  {name:<26}{seconds:>9.2f}{found['passes']['steps'][name]:>9.2f}")
    print("\nforks of digits_cnn, to the first result: aim 0.5")
    for name, seconds in found["forks"].items():
        print(f"  {name:<60}{seconds:>7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
