"""Measures what a page waits for between the end of a compilation and its first picture.

    python benchmarks/first_picture.py net.onnx other.onnx            in this process
    python benchmarks/first_picture.py --read --nodes 12000           of a chain, not compiled
    python benchmarks/first_picture.py --page net.onnx other.onnx     in a browser, served

| measured, in seconds of one processor                                | aim      |
| read: reading the file, and its graph as JSON: of a large file that   | 3 s      |
|   is the first picture, while passes run                             |          |
| compiled: reading the file, importing, all passes                    |          |
| head: the trace, what every pass fused, blocks                       | with the |
| first: what the first picture needs, as JSON                         | head 1 s |
| rest: graphs, texts and measures of all other passes, which are made |          |
|   when they are looked at, else in the background                    |          |

In the worker's own steps (`explorer/app/worker/`), with collection of garbage paused as there. With
`--page`, from the choice of a file to its first operations in a headless Chromium: processor time
of the worker and of the page's main thread, and seconds of a clock. The worker's holds passes that
run while the page draws.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import onnx
from playwright.sync_api import Browser

import explorer
from explorer.app.workspaces import VARIABLE as WORKSPACES
from explorer.compilation.collection import paused_collection
from explorer.compilation.inspecting import read_trace
from explorer.compilation.settings.sizes import suggested_sizes
from explorer.views.payload.snapshots import SnapshotParts
from explorer.views.trace_payload import encode, trace_payload

SERVED, SCALE = (
    SimpleNamespace(**run_path(str(Path(__file__).with_name(name))))
    for name in ("explorer_served.py", "explorer_scale.py")
)

WIDTHS = (6, 6, 9, 6, 6, 6)
"""Of columns after the model's name, in characters."""
FIRST = SERVED.REPOSITORY / "sample_models" / "digits_cnn.onnx"
"""What is open before a file is chosen."""
REST_SECONDS = 10
IS_SHOWN = """(name) =>
  q('.inspector')?.textContent.includes(name) && q('.graph .node') !== null"""
WORKER = "multiprocessing.forkserver"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="How long a first picture takes.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--nodes", type=int, help="of a model that is made here")
    parser.add_argument("--read", action="store_true", help="only reading, without compiling")
    parser.add_argument("--page", action="store_true", help="in a browser, served")
    chosen = parser.parse_args(arguments)
    measure = measure_pages if chosen.page else measure_reading if chosen.read else measure_worker
    with tempfile.TemporaryDirectory() as folder:
        if chosen.nodes:
            made = Path(folder) / "chain.onnx"
            onnx.save(SERVED.large_model(chosen.nodes), made)
            chosen.models.append(str(made))
        measure(chosen.models)


def measure_pages(paths: Sequence[str]) -> None:
    print(f"{'model':28} {'worker':>7} {'page':>6} {'clock':>6}")
    os.environ[WORKSPACES] = "off"
    with SERVED.browsing.chromium() as browser:
        for path in map(Path, paths):
            with tempfile.TemporaryDirectory() as folder:
                for number, model in enumerate((FIRST, path)):
                    shutil.copy(model, Path(folder) / f"{number}_{model.name}")
                measure_choice(browser, Path(folder), f"1_{path.name}")


def measure_choice(browser: Browser, folder: Path, name: str) -> None:
    """Chooses a model of a served folder, and waits for its first operations."""
    with (
        SERVED.served(folder) as address,
        SERVED.browsing.watched(browser, timeout_seconds=60, motion="no-preference") as seen,
    ):
        page = seen.page
        watch = SCALE.Stopwatch(page)
        page.add_init_script(SERVED.DEEP)
        page.goto(address, wait_until="commit")
        page.wait_for_selector(".graph .node")
        page.wait_for_timeout(1000 * REST_SECONDS)  # for the measurements of the first model
        before, worked, begin = worker_seconds(), watch.worked(), time.perf_counter()
        page.get_by_label("open a model or a saved trace").select_option(label=name)
        after = before
        while not page.evaluate(IS_SHOWN, Path(name).stem):
            after = worker_seconds()  # what the worker does later is not counted
            time.sleep(0.01)
        clock, worked = time.perf_counter() - begin, watch.worked() - worked
        assert seen.is_clean(), seen
        print(f"{name[2:30]:28} {after - before:7.2f} {worked:6.2f} {clock:6.2f}", flush=True)


def worker_seconds() -> float:
    """Processor time of the workers that descend from this process."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            # The name of a process, in parentheses, may hold spaces.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            number = int(folder.name)
            parents[number] = int(fields[1])
            if WORKER in (folder / "cmdline").read_text():
                spent[number] = int(fields[11]) + int(fields[12])
    return sum(
        ticks for number, ticks in spent.items() if os.getpid() in ancestors(number, parents)
    ) / os.sysconf("SC_CLK_TCK")


def ancestors(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    while process in parents:
        process = parents[process]
        yield process


def measure_reading(paths: Sequence[str]) -> None:
    print(f"{'model':28} {'nodes':>6} {'read':>6}")
    for path in paths:
        begin = time.process_time()
        nodes = read_model(path)
        print(f"{Path(path).stem[:28]:28} {nodes:6} {time.process_time() - begin:6.2f}", flush=True)


def read_model(path: str) -> int:
    """Makes what is seen of a file while its passes run; the number of its nodes."""
    with paused_collection():
        payload = trace_payload(read_trace(explorer.load(path)))
        for key in (*payload.at_once(is_first=True), *payload.first):
            encode(payload.chunk(key))
    return payload.head["model"]["nodes"]


def measure_worker(paths: Sequence[str]) -> None:
    names = ("nodes", "read", "compiled", "head", "first", "rest")
    print(f"{'model':28} " + " ".join(f"{n:>{w}}" for n, w in zip(names, WIDTHS, strict=True)))
    for path in paths:
        marks = [time.process_time()]
        read_model(path)
        marks.append(time.process_time())
        model = explorer.load(path)
        compilation = explorer.compile(model, dimensions=suggested_sizes(model))
        marks.append(time.process_time())
        with paused_collection():
            trace = compilation.trace(with_code=False)
            payload = trace_payload(trace, parts=SnapshotParts.of(trace))
            marks.append(time.process_time())
            for key in (*payload.at_once(is_first=True), *payload.first):
                encode(payload.chunk(key))
            marks.append(time.process_time())
            payload.saved_chunks()
        marks.append(time.process_time())
        spent = [after - before for before, after in itertools.pairwise(marks)]
        columns = " ".join(
            f"{seconds:{width}.2f}" for seconds, width in zip(spent, WIDTHS[1:], strict=True)
        )
        print(f"{trace.model.name[:28]:28} {trace.model.nodes:6} {columns}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
