"""Measures what a page waits for between the end of a compilation and its first picture.

    python benchmarks/first_picture.py net.onnx other.onnx

| measured, in seconds of one processor                             | aim      |
| compiled: reading the file, importing, all passes                 |          |
| head: the trace, graphs and differences of all passes, blocks      | with the |
| first: what the first picture needs, as JSON                      | head 1 s |
| rest: texts, drawings and measures of all passes, which are made   |          |
|   when they are looked at, else in the background                 |          |

In the worker's own steps (`explorer/app/worker/`), with collection of garbage paused as there.
"""

from __future__ import annotations

import itertools
import sys
import time

import explorer
from explorer.compilation.collection import paused_collection
from explorer.compilation.settings.sizes import suggested_sizes
from explorer.views.payload.snapshots import SnapshotParts
from explorer.views.trace_payload import encode, trace_payload


def main(paths: list[str]) -> None:
    print(f"{'model':28} {'nodes':>6} {'compiled':>9} {'head':>6} {'first':>6} {'rest':>6}")
    for path in paths:
        marks = [time.process_time()]
        model = explorer.load(path)
        compilation = explorer.compile(model, dimensions=suggested_sizes(model))
        marks.append(time.process_time())
        with paused_collection():
            trace = compilation.trace(with_code=False)
            payload = trace_payload(trace, parts=SnapshotParts.of(trace))
            marks.append(time.process_time())
            at_once = [key for key in payload.chunk_keys() if key not in payload.later]
            for key in (*at_once, *payload.first):
                encode(payload.chunk(key))
            marks.append(time.process_time())
            payload.saved_chunks()
        marks.append(time.process_time())
        spent = [after - before for before, after in itertools.pairwise(marks)]
        columns = " ".join(
            f"{seconds:{width}.2f}" for seconds, width in zip(spent, (9, 6, 6, 6), strict=True)
        )
        print(f"{trace.model.name[:28]:28} {trace.model.nodes:6} {columns}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
