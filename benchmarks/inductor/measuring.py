"""Measures one network under the backends of torch.compile, in a process of its own.

    python measuring.py resnet18 --rounds 20 [--packages FOLDER]      prints a line of JSON

Nothing is kept from earlier runs: backends get empty caches. Each has compiled a small module
before, so that the time to a first result has no imports in it. All run on one thread, and compile
on one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

EXPLORER, INDUCTOR, FROZEN, EAGER = "explorer", "inductor", "inductor, frozen", "eager"
PEERS = (INDUCTOR, FROZEN, EAGER)
_COMPILED: dict[str, dict[str, Any]] = {
    EXPLORER: {"backend": "explorer"},
    INDUCTOR: {"backend": "inductor"},
    FROZEN: {"backend": "inductor", "options": {"freezing": True}},
}
"""What torch.compile is told. Frozen parameters are constants, as they are for explorer always."""

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")


@dataclass(kw_only=True)
class Row:
    """One network. Ratios are explorer's time over the peer's: below 1 explorer is faster."""

    name: str
    first_seconds: dict[str, float] = field(default_factory=dict)
    """From the first call to its result: by a clock."""
    first_processor_seconds: dict[str, float] = field(default_factory=dict)
    """The same, of this process and of the compilers that it started."""
    ms: dict[str, float] = field(default_factory=dict)
    """Medians of whole calls, tensors in and tensors out."""
    ratios: dict[str, float] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    max_relative: dict[str, float] = field(default_factory=dict)
    """Of the backends, against eager: of the largest number of an output."""
    left_to_torch: str = ""
    """What explorer warned of."""


def measure(name: str, rounds: int) -> Row:
    import torch
    from networks import make

    from explorer.compilation.measurements.rounds import Calls, run_interleaved

    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True  # else recurrent layers go to no backend
    row = Row(name=name)
    module, arguments = make(name)
    with torch.no_grad():
        expected = module(*arguments)
        calls: dict[str, Callable[[], Any]] = {EAGER: partial(module, *arguments)}
        for backend, options in _COMPILED.items():
            torch.compile(torch.nn.Linear(8, 8).eval(), **options)(torch.randn(1, 8))
            calls[backend] = partial(torch.compile(module, **options), *arguments)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = _first(row, backend, calls[backend])
            if backend == EXPLORER:
                row.left_to_torch = "; ".join(
                    str(w.message) for w in caught if "stay" in str(w.message)
                )
            row.max_relative[backend] = _largest_error(found, expected)
        sides = [Calls(key, call) for key, call in calls.items()]
        for side in sides:
            side.time(2, 0.1)
        timings = run_interleaved(sides, rounds)
    row.ms = {key: timings.milliseconds(key) for key in calls}
    row.ratios = {peer: timings.ratio(EXPLORER, peer) for peer in PEERS}
    row.noise = {peer: timings.noise(EXPLORER, peer) for peer in PEERS}
    return row


def _first(row: Row, backend: str, call: Callable[[], Any]) -> Any:
    before, started = _processor_seconds(), time.perf_counter()
    found = call()
    row.first_seconds[backend] = time.perf_counter() - started
    row.first_processor_seconds[backend] = _processor_seconds() - before
    return found


def _processor_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _largest_error(found: Any, expected: Any) -> float:
    from torch.utils import _pytree

    pairs = zip(_pytree.tree_leaves(found), _pytree.tree_leaves(expected), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures one network.")
    parser.add_argument("name")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--packages", action="append", default=[])
    chosen = parser.parse_args()
    sys.path.extend(chosen.packages)
    with tempfile.TemporaryDirectory(prefix="explorer-inductor-") as folder:
        os.environ |= {
            **dict.fromkeys(ONE_THREAD, "1"),
            "EXPLORER_CACHE": str(Path(folder, "explorer")),
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor")),
        }
        row = measure(chosen.name, chosen.rounds)
    print(json.dumps(asdict(row)))


if __name__ == "__main__":
    main()
