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
`--page`, in seconds of a clock: from opening the page to the word that all passes have run, from
there to the first operations in a headless Chromium, and, of the page loaded again at the last
pass, from its first script to its operations.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import onnx

import explorer
from explorer.app.workspaces import VARIABLE as WORKSPACES
from explorer.compilation.collection import paused_collection
from explorer.compilation.inspecting import read_trace
from explorer.compilation.settings.sizes import suggested_sizes
from explorer.views.payload.snapshots import SnapshotParts
from explorer.views.trace_payload import encode, trace_payload

SERVED = SimpleNamespace(**run_path(str(Path(__file__).with_name("explorer_served.py"))))

WIDTHS = (6, 6, 9, 6, 6, 6)
"""Of columns after the model's name, in characters."""
MARKS = """
window.marks = {};
const look = () => {
  const note = (name, isThere) => {
    if (isThere) window.marks[name] ??= performance.now() / 1000;
  };
  note("drawing", q(".banner.working .banner-text")?.textContent === "drawing");
  note("painted", q(".graph .node") !== null);
  requestAnimationFrame(look);
};
if (document.documentElement) look();
else document.addEventListener("readystatechange", look, {once: true});
"""
"""When, in seconds, all passes had run, and operations were first drawn."""


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
    print(f"{'model':28} {'compiled':>9} {'picture':>8} {'again':>8}")
    with SERVED.browsing.chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(paths):
            # A page finds itself where it was left: of a first visit nothing is left.
            os.environ[WORKSPACES] = str(Path(folder) / str(number))
            with (
                SERVED.served(Path(path)) as address,
                SERVED.browsing.watched(
                    browser, timeout_seconds=SERVED.COMPILE_SECONDS, motion="no-preference"
                ) as seen,
            ):
                page = seen.page
                page.add_init_script(SERVED.DEEP + MARKS)
                page.goto(address, wait_until="commit")
                page.wait_for_selector(".graph .node")
                marks = page.evaluate("window.marks")
                waited = marks["painted"] - marks["drawing"]
                slider = page.get_by_role("slider", name="pass", exact=True)
                slider.fill(slider.get_attribute("max") or "0")
                page.reload(wait_until="commit")
                page.wait_for_selector(".graph .node")
                again = page.evaluate("window.marks")["painted"]
                assert seen.is_clean(), seen
                name = f"{Path(path).stem[:28]:28}"
                print(f"{name} {marks['drawing']:9.2f} {waited:8.2f} {again:8.2f}", flush=True)


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
