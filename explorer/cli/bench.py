"""`explorer bench MODEL`: latency against onnxruntime, measured in turns.

    explorer bench net.onnx --threads 1 --repeats 30 --json

Both get the same inputs and as many threads. In every round first one and then the other runs a
few inferences, so that a change of the machine's clock meets both; the medians are compared. Ours
is the time of all launches in the worker process; onnxruntime's is that of `session.run`, which
takes the inputs as arrays and makes arrays for the outputs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines, print_note

if TYPE_CHECKING:
    import numpy as np

    from explorer.importers import SourceModel
    from explorer.runtime.executable import Executable

SUMMARY = "measure the latency against another runtime"
PEER = "onnxruntime"
PER_ROUND = 5
"""Inferences of each side in one round."""
PAUSE_SECONDS = 0.02
"""Between turns: threads of either side spin for a while after their work is done."""


@dataclass(frozen=True)
class Timings:
    """Seconds of every inference, in the order in which they were measured."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ours_ms(self) -> float:
        return statistics.median(self.ours) * 1e3

    @property
    def peer_ms(self) -> float:
        return statistics.median(self.peer) * 1e3

    @property
    def ratio(self) -> float:
        """Ours / peer: below 1 we are faster."""
        return self.ours_ms / self.peer_ms

    @property
    def noise(self) -> float:
        """Ours against itself: the larger median of two halves of the same run / the smaller.

        The halves are every other round, so that both are spread over the whole time. A ratio
        that is nearer to 1 than this says nothing.
        """
        rounds = [self.ours[i : i + PER_ROUND] for i in range(0, len(self.ours), PER_ROUND)]
        if len(rounds) < 2:
            rounds = [(seconds,) for seconds in self.ours]
        halves = [[s for r in rounds[start::2] for s in r] for start in (0, 1)]
        if not all(halves):
            return 1.0
        medians = [statistics.median(half) for half in halves]
        return max(medians) / min(medians)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_target(parser)
    parser.add_argument(
        "--threads", type=options.count, default=1, metavar="N", help="for both (default: 1)"
    )
    parser.add_argument(
        "--against", choices=[PEER], default=PEER, help=f"what to compare with (default: {PEER})"
    )
    parser.add_argument(
        "--repeats",
        type=options.count,
        default=50,
        metavar="R",
        help="inferences of each (default: 50)",
    )
    options.add_dimensions(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.cli.models import load_with_weights

    model = load_with_weights(arguments.model)
    with Progress("compiling") as progress:
        compilation = explorer.compile(
            model, arguments.target, dimensions=dict(arguments.dim), progress=progress
        )
    device = compilation.device
    threads = arguments.threads if device is None or device.processor == "cpu" else None
    if device is not None and threads is None:
        print_note(f"threads are onnxruntime's; {device.name} takes what it has")
    inputs = compilation.example_inputs()
    with compilation.open(threads=threads) as executable, Progress("timing") as progress:
        timings = measure(executable, model, inputs, arguments.threads, arguments.repeats, progress)
    summary = {
        "model": model.name,
        "target": compilation.target.name,
        "threads": arguments.threads,
        "ours_ms": timings.ours_ms,
        "peers": {PEER: {"ms": timings.peer_ms, "ratio": timings.ratio}},
        "noise": timings.noise,
    }
    if arguments.json:
        print_json(summary)
        return 0
    print_lines(
        [
            f"{model.name} for {compilation.target.name}, {arguments.threads} thread(s), "
            f"medians of {arguments.repeats}",
            f"  ours         {timings.ours_ms:10.3f} ms",
            f"  {PEER:12} {timings.peer_ms:10.3f} ms",
            f"  ours / peer  {timings.ratio:10.3f}     noise {timings.noise:.3f}",
        ]
    )
    return 0


def measure(
    executable: Executable,
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    repeats: int,
    progress: Progress | None = None,
) -> Timings:
    """Times a built program and onnxruntime in turns, `repeats` inferences of each."""
    session = open_peer(model, threads)
    rounds = split_rounds(repeats)
    ours: list[float] = []
    peer: list[float] = []
    for number, count in enumerate(rounds):
        if progress is not None:
            progress("round", number, len(rounds))
        ours += executable.time(inputs, count)
        time.sleep(PAUSE_SECONDS)
        peer += time_peer(session, inputs, count)
        time.sleep(PAUSE_SECONDS)
    return Timings(tuple(ours), tuple(peer))


def split_rounds(repeats: int) -> list[int]:
    """12 -> [5, 5, 2]: how many inferences each side runs in each round."""
    whole, rest = divmod(repeats, PER_ROUND)
    return [PER_ROUND] * whole + ([rest] if rest else [])


def open_peer(model: SourceModel, threads: int):
    """An onnxruntime session as it is by default, on as many threads. Its type is untyped C++."""
    import onnxruntime

    from explorer.importers.onnx.reading import OnnxContent

    content = model.content
    assert isinstance(content, OnnxContent), model.format
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    settings.log_severity_level = 4
    if content.folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        settings.add_session_config_entry(key, str(content.folder))
    return onnxruntime.InferenceSession(
        content.proto.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )


def time_peer(session, inputs: Mapping[str, np.ndarray], repeats: int) -> Sequence[float]:
    """Seconds of each of `repeats` inferences after one that is not counted."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        session.run(None, dict(inputs))
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]
