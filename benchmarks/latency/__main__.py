"""Measures latency against onnxruntime and OpenVINO, model by model.

    python benchmarks/latency [MODEL ...] [--threads 1,2] [--repeats 30] [--output latency.json]

MODEL is an architecture (`resnet18`, `bert_2x768`; architectures/__init__.py has all names), a
sample model, a model of the folder that `EXPLORER_MODELS` names, or a path; all that there are
without one. A ratio below 1 means that ours is faster. Timed is the same for all: a whole call from
Python, arrays in and arrays out, in turns.

Rows are of one processor, and a file keeps them for each apart: what was measured of it stands
above them (`explorer devices --measure`, or at the beginning of a run). Beside each ratio stand the
part of the processor's peak that ours reaches, and the part of the time in which the machine was
taken away (steal).

With `--output` every model's rows are kept as soon as they are there: a run that was interrupted
goes on. `--chart FILE.svg` draws them. `--against onnxruntime` leaves OpenVINO out, which otherwise
is installed into an environment of its own (explorer/cli/latency/open_vino.py). `--against litert`
measures the folder's TFLite models, against LiteRT with XNNPACK. `--busy 4` lets
four processes compute all the time, to see whether latency holds up on a loaded machine.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # of `architectures`
from chart import draw
from models import check_name, every_name, label
from processors import here, table
from rows import Row, Rows, class_of, from_json, means

from explorer.cli.latency import EXACT, LITERT, ONNXRUNTIME, OPENVINO, OURS
from explorer.cli.latency.open_vino import environment
from explorer.compilation.measurements.rounds import MIN_CALLS
from explorer.errors import ExplorerError

FOLDER = Path(__file__).resolve().parent
PEERS_HELP = (
    "peers (default: onnxruntime, which of ONNX models always is, and openvino); `exact` is "
    "onnxruntime with exact products of bytes, `litert` is for TFLite models"
)
TIME_LIMIT_SECONDS = 600
"""Of one model: compiling and all rounds."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Latency against other runtimes.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", default="1,2", help="numbers with commas between them")
    parser.add_argument("--repeats", type=int, default=30, help="inferences of each, at least")
    parser.add_argument("--against", default=f"{ONNXRUNTIME},{OPENVINO}", help=PEERS_HELP)
    parser.add_argument("--output", type=Path, help="JSON: rows are kept, and not measured again")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("--chart", type=Path, help="an SVG file")
    chosen = parser.parse_args(arguments)
    asked = set(chosen.against.split(","))
    is_tflite = LITERT.lower() in asked
    known = (LITERT,) if is_tflite else (ONNXRUNTIME, OPENVINO, EXACT)
    peers = [peer for peer in known if peer.lower() in {ONNXRUNTIME, *asked}]
    names = chosen.models or every_name(is_tflite)
    try:
        for name in names:
            check_name(name)
        if OPENVINO in peers:
            environment()
    except ExplorerError as error:
        print(error, file=sys.stderr)
        return 2
    rows = Rows(chosen.output, processor := here())
    rounds = max(1, math.ceil(chosen.repeats / MIN_CALLS))
    print("\n".join(table([processor])) + "\n")
    print(_header(peers))
    with busy_processes(chosen.busy):
        for name in names:
            if name not in rows:
                rows.add(name, measure_apart(name, chosen.threads, rounds, peers))
            for line in _lines(name, rows.of(name), peers):
                print(line, flush=True)
    print()
    for line in summary(rows.all, peers):
        print(line)
    if chosen.chart is not None:
        chosen.chart.write_text(draw(rows.all, peers), encoding="utf-8")
    return 0


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that compute at the usual priority, until the end of the block."""
    command = [sys.executable, "-S", "-c", "while True: sum(range(10_000))"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure_apart(name: str, threads: str, rounds: int, peers: Sequence[str]) -> list[Row] | str:
    """Rows of a model, measured in a child process; a text says why there are none."""
    command = [sys.executable, str(FOLDER / "measuring.py"), name]
    command += ["--threads", threads, "--rounds", str(rounds), "--against", ",".join(peers)]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {TIME_LIMIT_SECONDS} s"
    lines = finished.stdout.splitlines()
    if finished.returncode != 0 or not lines:
        return (finished.stderr.strip().splitlines() or [f"status {finished.returncode}"])[-1]
    return from_json(json.loads(lines[-1]))


# -- text ------------------------------------------------------------------------------------------


def summary(rows: Sequence[Row], peers: Sequence[str]) -> list[str]:
    """Geometric means by peer, class and threads, and who is slower than the noise allows."""
    lines = []
    for peer in peers:
        for (kind, threads), mean in means(rows, peer).items():
            line = f"{kind}, {threads} thread(s), against {peer}: {mean.ratio:.2f}"
            line += f" over {mean.models} models"
            if mean.slowest_model:
                line += f"; slowest {mean.slowest_model} with {mean.slowest:.2f}"
            lines.append(line)
    return lines


def _header(peers: Sequence[str]) -> str:
    titles = "".join(f"{f'{peer}, ms':>16}{'ratio':>7}{'noise':>7}" for peer in peers)
    ours = f"{'ours, ms':>10}{'launches':>10}{'of peak':>9}{'steal':>7}"
    return f"{'model':<26}{'threads':>8}{ours}{titles}    difference"


def _lines(name: str, answer: list[Row] | str, peers: Sequence[str]) -> list[str]:
    if isinstance(answer, str):
        return [f"{label(name):<26}  not measured: {answer.splitlines()[0][:120]}"]
    lines = []
    for row in answer:
        line = f"{row.model:<26}{row.threads:>8}{row.ms[OURS]:>10.3f}{row.launches_ms:>10.3f}"
        line += f"{f'{row.of_peak:.0%}' if row.peak_gflops else '–':>9}"
        line += f"{'–' if row.steal is None else f'{row.steal:.1%}':>7}"
        for peer in peers:
            if peer in row.ratios:
                line += f"{row.ms[peer]:>16.3f}{row.ratios[peer]:>7.2f}{row.noise[peer]:>7.2f}"
            else:
                line += f"{'not loaded':>16}{'':>14}"
        lines.append(f"{line}{row.difference:>14}  {class_of(row.model, answer)}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
