"""`explorer bench MODEL`: latency against other runtimes, by interleaved timing.

    explorer bench net.onnx --threads 1 --against onnxruntime,openvino --repeats 30 --json

All get the same inputs and as many threads, and what is timed is the same for all: a whole call
from Python, arrays in and arrays out. In every round each runs a few inferences, so that a change
of the machine's clock meets all of them. The launches alone stand beside it.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from explorer.cli import arguments as options
from explorer.cli.latency import OPENVINO, OURS, PEERS, REFERENCE, TORCH, TORCH_COMPILE
from explorer.cli.terminal import Progress, print_json, print_lines, print_note
from explorer.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation.measurements.rounds import Side
    from explorer.importers import SourceModel
    from explorer.runtime.executable import Executable

SUMMARY = "measure the latency against other runtimes"
LAUNCH_REPEATS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_compiling(parser)
    options.add_threads(parser, 1)
    parser.add_argument(
        "--against",
        type=peers,
        default=[REFERENCE],
        metavar="PEER,...",
        help=f"what to compare with: {', '.join(PEERS)} (default: {REFERENCE}, which is "
        "onnxruntime for ONNX, litert for TFLite, opencv for Caffe, torch for PyTorch)",
    )
    parser.add_argument(
        "--repeats",
        type=options.count,
        default=50,
        metavar="R",
        help="inferences of each, at least (default: 50)",
    )
    options.add_json(parser)


def peers(text: str) -> list[str]:
    """`onnxruntime,openvino` -> both."""
    found = options.names(text)
    for name in found:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"no peer {name!r}; there are {', '.join(PEERS)}")
    return list(dict.fromkeys(found))


def run(arguments: argparse.Namespace) -> int:
    from explorer.accuracy.oracle import random_inputs
    from explorer.backends import backend_of
    from explorer.cli.models import VARIANT, with_weights
    from explorer.compilation.measurements.rounds import MIN_CALLS, Calls, run_interleaved
    from explorer.runtime.cache import default_cache
    from explorer.runtime.stateful import with_states
    from explorer.session import ModelSource, start
    from explorer.targets.together import SEPARATOR, load_targets, single_choices

    source = ModelSource(
        options.model_of(arguments),
        arguments.target,
        options.compile_options(arguments),
        default_cache(),
    )
    model = with_weights(source.model)
    against = resolved_peers(arguments.against, model)
    backend = backend_of(load_targets(arguments.target)[0])
    device = backend.device()
    threads = backend.threads_on(device, arguments.threads)
    if device is not None and threads is None:
        print_note(f"threads are the peers'; {device.name} takes what it has")
    with ExitStack() as stack:
        with Progress("compiling") as progress:
            started = stack.enter_context(
                start(
                    model,
                    arguments.target,
                    dimensions=dict(arguments.dim),
                    threads=threads,
                    isolated=False,
                    affinity=arguments.affinity,
                    source=source if model is source.model else source.varied(VARIANT, model),
                    progress=progress,
                    **options.compile_options(arguments),
                )
            )
        # What a model remembers stays inside, as it does with everyone who is compared.
        states = [state for state in model.states if state.initial is not None]
        executable = with_states(started.executable, states)
        inputs = random_inputs(model, 0, {name: size for name, _, size in started.sizes})
        asked = [port.name for port in executable.program.inputs]
        own = {name: inputs[name] for name in asked if name in inputs}  # sizes say a valid length
        ours = Calls(OURS, partial(executable.run, own))
        alone = single_choices(arguments.target)
        sides_alone = [
            Calls(name, partial(open_alone(model, one, arguments, stack).run, own))
            for name, one in (alone.items() if len(alone) > 1 else ())
        ]
        # Before this thread is bound: threads and processes that it starts would be bound with it.
        sides = [ours, *sides_alone, *open_peers(against, model, inputs, arguments.threads, stack)]
        stack.enter_context(bound_caller(arguments.affinity))
        progress = stack.enter_context(Progress("timing"))
        rounds = math.ceil(arguments.repeats / MIN_CALLS)
        timings = run_interleaved(sides, rounds, progress)
        launches = statistics.median(executable.time(own, LAUNCH_REPEATS))
    summary = {
        "model": model.name,
        "target": SEPARATOR.join(alone),
        "threads": arguments.threads,
        "ours_ms": timings.milliseconds(OURS),
        "launches_ms": launches * 1e3,
        "peers": {
            peer: {
                "ms": timings.milliseconds(peer),
                "ratio": timings.ratio(OURS, peer),
                "noise": timings.noise(OURS, peer),
            }
            for peer in (*(side.name for side in sides_alone), *against)
        },
    }
    if arguments.json:
        print_json(summary)
        return 0
    print_lines(
        [
            f"{model.name} for {summary['target']}, {arguments.threads} thread(s), medians",
            f"  ours         {summary['ours_ms']:10.3f} ms, "
            f"the launches alone {summary['launches_ms']:.3f} ms",
            *(
                f"  {peer:12} {found['ms']:10.3f} ms   ours / peer {found['ratio']:.3f}, "
                f"noise {found['noise']:.3f}"
                for peer, found in summary["peers"].items()
            ),
        ]
    )
    return 0


def open_alone(
    model: SourceModel, target: str, arguments: argparse.Namespace, stack: ExitStack
) -> Executable:
    """The model for one of several targets; the stack closes it."""
    from explorer.compilation import compile_model
    from explorer.runtime.stateful import with_states

    chosen = {k: v for k, v in options.compile_options(arguments).items() if k != "clusters"}
    chosen["decisions"] = {
        address: value
        for address, value in chosen["decisions"].items()
        if address.split("/")[0] not in ("find-devices", "price", "cluster", "assign")
    }
    compilation = compile_model(model, target, dimensions=dict(arguments.dim), **chosen)
    executable = compilation.open(isolated=False, affinity=arguments.affinity)
    return stack.enter_context(with_states(executable, model.states))


def resolved_peers(names: Sequence[str], model: SourceModel) -> list[str]:
    """The reference by its own name. InputError for another format's reference."""
    from explorer.references.interface import reference_of

    reference = reference_of(model).name
    is_of_torch = model.format == "pytorch"
    own = (REFERENCE, reference.lower(), *([TORCH] if is_of_torch else []))
    found = [reference if name in own else name for name in names]
    for name in found:
        if name not in (reference, OPENVINO) and not (is_of_torch and name == TORCH_COMPILE):
            raise InputError(
                f"{name} runs no {model.format} models", hint=f"--against {REFERENCE}: {reference}"
            )
    return list(dict.fromkeys(found))


def open_peers(
    names: Sequence[str],
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    stack: ExitStack,
) -> list[Side]:
    """Those that were asked for; the stack closes them."""
    from explorer.cli.latency.open_vino import OpenVino
    from explorer.cli.latency.reference import ReferenceSide
    from explorer.cli.latency.torch_compile import TorchCompile

    # Any: classes of sides, which are made alike
    kinds: dict[str, Any] = {OPENVINO: OpenVino, TORCH_COMPILE: TorchCompile}
    found: list[Side] = []
    for name in names:
        kind = kinds.get(name, ReferenceSide)
        found.append(stack.enter_context(kind(model, inputs, threads)))
    return found


@contextmanager
def bound_caller(affinity: Sequence[int]) -> Iterator[None]:
    """This thread, the program's first, runs on the first of the processors inside."""
    if not affinity:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, affinity[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
