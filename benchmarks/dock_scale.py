"""Measures the time line and the memory map on large programs in a headless Chromium.

    python benchmarks/dock_scale.py [--events 10000] [--buffers 5000]

| measured                                              | aim           |
| a frame while the time line zooms or moves            | below 33 ms   |
| a frame while the pointer moves over it               | below 33 ms   |
| a frame while the pointer moves over the memory map   | below 33 ms   |
| a frame while a buffer is dragged                     | below 33 ms   |

Of every frame two figures: the time to the next one, which other programs on the machine make
longer, and what the page itself worked: its event handlers and what they asked to be drawn. The
aim is for the 95th percentile of the work.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
from playwright.sync_api import Page

from explorer.memory import GreedyPlanner
from explorer.results import BufferLifetime, MemoryPlan, TimedEvent, Trace
from explorer.views.page import export_page

TESTS = Path(__file__).resolve().parent.parent / "tests"
browsing = SimpleNamespace(**run_path(str(TESTS / "browsing.py")))
sys.path.append(str(TESTS / "views"))  # where what it imports lies
generated = SimpleNamespace(**run_path(str(TESTS / "views" / "generated.py")))

OPERATIONS = 1000
FRAMES = 60
AIM_MILLISECONDS = 33.0

FRAMES_OF = """async ([selector, count, kind]) => {
  const plot = document.querySelector(selector), box = plot.getBoundingClientRect();
  const request = window.requestAnimationFrame.bind(window);
  let drawn = 0;
  window.requestAnimationFrame = (draw) => request((time) => {
    const begin = performance.now();
    draw(time);
    drawn += performance.now() - begin;
  });
  const fire = (Kind, type, options) => plot.dispatchEvent(new Kind(type, {bubbles: true,
    cancelable: true, pointerId: 1, button: 0, clientX: box.left + box.width / 2,
    clientY: box.top + box.height / 2, ...options}));
  const wheel = (options) => fire(WheelEvent, 'wheel', options);
  const move = (x, y) => fire(PointerEvent, 'pointermove', {clientX: box.left + x,
    clientY: box.top + y});
  const acts = {
    zoom: (i) => wheel({ctrlKey: true, deltaY: i < count / 2 ? -24 : 24}),
    pan: (i) => wheel({shiftKey: true, deltaY: i % 8 < 4 ? 200 : -200}),
    hover: (i) => move(80 + i * (box.width - 160) / count, box.height / 2),
    drag: (i) => move(held[0], held[1] - 5 - i),
  };
  plot.setPointerCapture = () => {};
  let held = [box.width / 2, box.height / 2];
  // A place where a buffer lies: it shows a ghost as soon as it is dragged.
  for (let y = box.height - 24; kind === 'drag' && y > 20; y -= 3) {
    held = [box.width / 2, y];
    fire(PointerEvent, 'pointerdown', {clientY: box.top + y});
    move(held[0], y - 6);
    if (plot.querySelector('.ghost')) break;
    fire(PointerEvent, 'pointerup', {clientY: box.top + y});
  }
  if (kind === 'drag' && !plot.querySelector('.ghost')) throw new Error('nothing to drag');
  const frames = [], works = [];
  let last = await new Promise(request);
  for (let i = 0; i < count; i += 1) {
    drawn = 0;
    const begin = performance.now();
    acts[kind](i);
    const handled = performance.now() - begin;
    const now = await new Promise(request);
    await new Promise((done) => setTimeout(done, 0)); // what was asked for has been drawn
    frames.push(now - last);
    works.push(handled + drawn);
    last = now;
  }
  if (kind === 'drag') {
    plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
  }
  window.requestAnimationFrame = request;
  return {frames, works};
}"""


@dataclass(frozen=True)
class Frames:
    """Milliseconds from frame to frame, and of work in each."""

    name: str
    frames: list[float]
    works: list[float]

    def __str__(self) -> str:
        frame, work = (np.percentile(values, [50, 95]) for values in (self.frames, self.works))
        verdict = "ok" if work[1] < AIM_MILLISECONDS else "SLOW"
        return (
            f"{self.name:34} frame {frame[0]:6.1f} ({frame[1]:6.1f}) ms   "
            f"work {work[0]:6.2f} ({work[1]:6.2f}) ms   {verdict}"
        )


def measured(page: Page, name: str, selector: str, kind: str) -> Frames:
    found = page.evaluate(FRAMES_OF, [selector, FRAMES, kind])
    return Frames(name, found["frames"], found["works"])


def large_trace(events: int, buffers: int) -> Trace:
    """A generated program whose launches run again and again, with a memory plan of its own."""
    trace: Trace = generated.make_large_trace(OPERATIONS)
    profile = trace.profile
    assert profile is not None
    timed: list[TimedEvent] = []
    now = 0
    for index in range(events):
        event = profile.events[index % len(profile.events)]
        end = now + event.end_ns - event.start_ns
        timed.append(replace(event, start_ns=now, end_ns=end))
        now = end + 50
    return replace(trace, profile=replace(profile, events=tuple(timed)), memory=large_plan(buffers))


def large_plan(buffers: int) -> MemoryPlan:
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 4000, buffers) * 64
    lives = generator.integers(1, 12, buffers)
    made = [
        BufferLifetime(
            id=f"value_{i}",
            values=(f"value_{i}",),
            size_bytes=int(size),
            first=i,
            last=min(i + int(life), buffers),
        )
        for i, (size, life) in enumerate(zip(sizes, lives, strict=True))
    ]
    return GreedyPlanner()(made)


def main() -> None:
    parser = argparse.ArgumentParser(description="frames of the time line and the memory map")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--buffers", type=int, default=5_000)
    arguments = parser.parse_args()
    trace = large_trace(arguments.events, arguments.buffers)
    with tempfile.TemporaryDirectory() as folder, browsing.chromium() as browser:
        path = Path(folder) / "large.html"
        path.write_text(export_page(trace), encoding="utf-8")
        results: list[Frames] = []
        for dock, selector, kinds in (
            ("timeline", ".timeline-plot", ("zoom", "pan", "hover")),
            ("memory", ".memory-plot", ("hover", "drag")),
        ):
            with browsing.watched(browser, timeout_seconds=60, motion="no-preference") as seen:
                seen.page.goto(f"{path.as_uri()}#pass=2&dock={dock}")
                seen.page.wait_for_selector(f"{selector} canvas")
                seen.page.wait_for_timeout(1500)
                for kind in kinds:
                    results.append(measured(seen.page, f"{dock}, {kind}", selector, kind))
                if not seen.is_clean():
                    raise SystemExit(f"the page complained: {json.dumps(seen.problems)}")
    print(f"{arguments.events} events, {arguments.buffers} buffers; median (95th percentile)")
    for result in results:
        print(result)


if __name__ == "__main__":
    main()
