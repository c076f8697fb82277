"""Measures the served explorer on a large model that it compiles itself, in a headless Chromium.

    python benchmarks/explorer_served.py [--nodes 5000] [--repeats 5]

| measured                                                        | aim          |
| start: from `explorer serve` to its address, and to the first operations | |
| first paint: from the answer of the compiler to drawn operations | below 2 s    |
| a step to the next pass                                         | below 0.5 s  |
| a selection, until every pane shows it                          | below 0.2 s  |
| a fork of digits_cnn: from the click to the graph of the branch | below 1 s    |

The model is a chain of residual blocks (convolution, batch norm, relu, convolution, add) with
scopes in its names. Waiting is done in the page, from the event to the frame in which every pane
has followed; of several the median, and the longest in brackets.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import Browser, Page

REPOSITORY = Path(__file__).resolve().parent.parent
browsing = SimpleNamespace(**run_path(str(REPOSITORY / "tests" / "browsing.py")))

CHANNELS, SIZE, BLOCKS_PER_STAGE = 8, 4, 20
COMPILE_SECONDS = 1800
NODES_PER_BLOCK = 5

DEEP = """
window.explorerRoot = () => {
  const find = (root) => {
    for (const element of root.querySelectorAll('*')) {
      if (element.matches('.explorer')) return element;
      const found = element.shadowRoot && find(element.shadowRoot);
      if (found) return found;
    }
    return null;
  };
  return (window.explorerFound ??= find(document)) || document;
};
window.q = (selector) => window.explorerRoot().querySelector(selector);
window.all = (selector) => [...window.explorerRoot().querySelectorAll(selector)];
"""
"""The explorer stands in a shadow root, into which `document.querySelector` doesn't look."""

TIMED = """async () => {
  const isDone = () => IS_DONE;
  const begin = performance.now();
  ACT;
  while (!isDone()) {
    if (performance.now() - begin > 60000) throw new Error('it never ended');
    await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  return (performance.now() - begin) / 1000;
}"""


def large_model(nodes: int) -> onnx.ModelProto:
    """About so many nodes in blocks `stage0/block3/conv`."""
    random = np.random.default_rng(0)
    shape = [1, CHANNELS, SIZE, SIZE]
    made, initializers, value = [], [], "image"
    weights = random.normal(size=(CHANNELS, CHANNELS, 1, 1)).astype(np.float32) / CHANNELS
    initializers.append(numpy_helper.from_array(weights, "w"))
    for name in ("scale", "bias", "mean", "variance"):
        array = np.abs(random.normal(size=CHANNELS)).astype(np.float32) + 0.5
        initializers.append(numpy_helper.from_array(array, name))
    for block in range(max(1, nodes // NODES_PER_BLOCK)):
        scope = f"stage{block // BLOCKS_PER_STAGE}/block{block % BLOCKS_PER_STAGE}"

        def add(kind: str, inputs: list[str], name: str, scope: str = scope) -> str:
            made.append(helper.make_node(kind, inputs, [f"{scope}/{name}_out"], f"{scope}/{name}"))
            return f"{scope}/{name}_out"

        first = add("Conv", [value, "w"], "conv")
        normal = add("BatchNormalization", [first, "scale", "bias", "mean", "variance"], "norm")
        active = add("Relu", [normal], "relu")
        second = add("Conv", [active, "w"], "conv2")
        value = add("Add", [second, value], "add")
    graph = helper.make_graph(
        made,
        "large",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@contextmanager
def served(*models: Path) -> Iterator[str]:
    """The app's address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "explorer", "serve", "--no-browser", *map(str, models)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield re.findall(r"http://\S+", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.wait(30)


def timed(page: Page, act: str, done: str) -> float:
    """Seconds until `done` holds; both are JavaScript. Then the page comes to rest."""
    seconds = page.evaluate(TIMED.replace("ACT", act).replace("IS_DONE", done))
    page.wait_for_timeout(300)
    return seconds


def measure_start(browser: Browser, model: Path) -> None:
    begin = time.perf_counter()
    with (
        served(model) as address,
        browsing.watched(browser, timeout_seconds=120, motion="no-preference") as seen,
    ):
        answered = time.perf_counter()
        seen.page.goto(address, wait_until="commit")
        seen.page.wait_for_selector(".node")
        painted = time.perf_counter()
        row("start to the address", [answered - begin])
        row("from there to first operations", [painted - answered])
        seen.page.reload(wait_until="commit")
        again = time.perf_counter()
        seen.page.wait_for_selector(".node")
        row("a second visit", [time.perf_counter() - again])
        measure_forks(seen.page)


def measure_forks(page: Page) -> None:
    """Passes that changed something are switched off, the last of them first."""
    page.evaluate(DEEP)
    page.locator(".background:empty").wait_for(state="attached", timeout=120_000)
    seconds = []
    for count in (2, 3, 4):
        labels = "all('.pass-line .switch').map((e) => e.getAttribute('aria-label').slice(4))"
        name = page.evaluate(f"{labels}.at(-1)")
        act = f"q('input[aria-label=\"run {name}\"]').click()"
        done = (
            f"q('.branch-select')?.options.length === {count}"
            f" && all('.pass.off .pass-name').some((e) => e.textContent === '{name}')"
            " && q('.graph .node')"
        )
        seconds.append(timed(page, act, done))
        page.locator(".background:empty").wait_for(state="attached", timeout=120_000)
    row("a fork, until its graph is there", seconds, 1.0)


def measure_large(browser: Browser, nodes: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"large_{nodes}.onnx"
        onnx.save(large_model(nodes), path)
        begin = time.perf_counter()
        with (
            served(path) as address,
            browsing.watched(browser, timeout_seconds=60, motion="no-preference") as seen,
        ):
            page = seen.page
            page.add_init_script(DEEP)
            page.goto(address, wait_until="commit")
            page.wait_for_selector(".node", timeout=1000 * COMPILE_SECONDS)
            print(
                f"\n{nodes:,} nodes, compiled and drawn after {time.perf_counter() - begin:.0f} s"
            )
            # Once more: the compilation is known, so that this is the page alone.
            paints = []
            for _ in range(repeats):
                page.goto("about:blank")
                page.goto(address, wait_until="commit")
                page.wait_for_selector(".explorer .stage", state="attached")
                begin_paint = time.perf_counter()
                page.wait_for_selector(".node")
                page.wait_for_selector(".dock .memory-side")
                paints.append(time.perf_counter() - begin_paint)
            row("first paint", paints, 2.0)
            row("a step to another pass", step_seconds(page), 0.5)
            row("a selection by click", selection_seconds(page, repeats), 0.2)
            assert seen.is_clean(), seen


def step_seconds(page: Page) -> list[float]:
    """By key, through all passes and back."""
    count = int(page.get_by_role("slider", name="pass", exact=True).get_attribute("max") or 0)
    page.get_by_role("slider", name="pass", exact=True).fill("0")
    page.wait_for_timeout(500)
    seconds = []
    for key, places in (("j", range(1, count + 1)), ("k", range(count - 1, -1, -1))):
        for place in places:
            act = f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))"
            done = (
                f"q('.pass-row[aria-current]')?.dataset.pass === '{place}'"
                " && q('.graph .pane-title').textContent"
                " === q('.pass-row[aria-current] .pass-name').textContent"
            )
            seconds.append(timed(page, act, done))
    return seconds


def selection_seconds(page: Page, repeats: int) -> list[float]:
    """From a click on an operation in sight until graph and inspector follow."""
    last = page.get_by_role("slider", name="pass", exact=True)
    last.fill(last.get_attribute("max") or "0")
    page.get_by_role("tab", name="IR", exact=True).first.click()
    if page.locator(".node:not(.block)").count() < 2:
        page.locator("[data-open]").first.click()
        page.wait_for_timeout(500)
    while page.locator(".node:not(.block)").count() < 2 and page.locator("[data-open]").count():
        page.locator("[data-open]").first.click()
        page.wait_for_timeout(500)
    inside = page.locator(".node:not(.block)[data-id]")
    names = [str(inside.nth(number).get_attribute("data-id")) for number in range(inside.count())]
    seconds = []
    for number in range(2 * repeats):
        name = names[number % len(names)]
        act = (
            "for (const kind of ['pointerdown', 'pointerup'])"
            f" q('.node[data-id=\"{name}\"]').dispatchEvent("
            "new PointerEvent(kind, {bubbles: true, button: 0, pointerId: 1}))"
        )
        done = (
            f"q('.node.selected[data-id=\"{name}\"]')"
            f" && q('.subject')?.textContent.includes('{name}') && q('.inspector .line.marked')"
        )
        seconds.append(timed(page, act, done))
    return seconds


def row(what: str, seconds: list[float], aim: float | None = None) -> None:
    median = statistics.median(seconds)
    missed = "" if aim is None or median < aim else ", MISSED"
    verdict = "" if aim is None else f"   aim: below {aim:g} s{missed}"
    print(f"  {what:<34}{median:.2f} s ({max(seconds):.2f}){verdict}", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="How quick the served explorer is.")
    parser.add_argument("--nodes", type=int, nargs="*", default=[5000])
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args(arguments)
    with browsing.chromium() as browser:
        print("digits_cnn")
        measure_start(browser, REPOSITORY / "sample_models" / "digits_cnn.onnx")
        for nodes in chosen.nodes:
            measure_large(browser, nodes, chosen.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])
