"""Opens models in the explorer and says whether their graphs can be read at first sight.

    python -m verification.first_sight MODELS/onnx --files MODELS --cases benchmarks/models.toml \\
        --pictures folder/

Each model is compiled in a child process with a time limit and opened as an offline page of
1440 x 900 pixels; labels are looked at from afar and near, too. Prints a line per model; status 1
when one of them has a problem.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import explorer
from explorer.cases.cases import Case, read_cases
from explorer.cases.sources import read_all
from explorer.cli.models import load_with_weights, sizes_with_note
from explorer.errors import ExplorerError
from explorer.importers.inputs import check_arrays
from explorer.views.page import export_page
from verification.first_sight.look import FirstSight, look, overlapping_labels

CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu")
SIZE = (1440, 900)
SUFFIXES = (".onnx", ".tflite")
REFUSED = 3
"""Status of the child for a model that cannot be compiled."""


def main() -> int:
    arguments = _arguments()
    if arguments.page:
        return _write_page(arguments)
    paths = [
        path
        for given in arguments.models
        for path in (sorted(given.iterdir()) if given.is_dir() else [given])
        if path.suffix in SUFFIXES
    ]
    print(
        f"{'model':32} {'compile':>8} {'paint':>7} {'nodes':>5} {'blocks':>6} {'labels':>6} ",
        end="",
    )
    print(f"{'legible':>7} {'scale':>5} {'back':>4}  problems")
    failed = 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=arguments.chromium, args=list(FLAGS))
        for path in paths:
            failed += _report(path, Path(folder) / f"{path.stem}.html", browser, arguments)
        browser.close()
    print(f"{len(paths)} models, {failed} with problems")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.first_sight")
    parser.add_argument("models", nargs="+", type=Path, help="models, or folders of them")
    parser.add_argument("--cases", type=Path, help="sizes and inputs, as for `explorer check`")
    parser.add_argument("--files", type=Path, default=Path(), help="where the cases' files are")
    parser.add_argument("--pictures", type=Path, help="a folder for a screenshot of each")
    parser.add_argument("--seconds", type=float, default=120, help="limit for one model")
    parser.add_argument("--chromium", default=CHROMIUM)
    parser.add_argument("--page", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _report(path: Path, page: Path, browser: Browser, arguments: argparse.Namespace) -> bool:
    """Prints a model's line; whether it has a problem."""
    start = time.monotonic()
    cases = ["--cases", str(arguments.cases)] if arguments.cases else []
    command = [sys.executable, "-m", "verification.first_sight", str(path), *cases]
    command += ["--files", str(arguments.files), "--page", str(page)]
    try:
        child = subprocess.run(
            command, timeout=arguments.seconds, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"{path.stem:32} not compiled within {arguments.seconds:g} s", flush=True)
        return False
    compiled = time.monotonic() - start
    if child.returncode:
        reason = (child.stderr.strip().splitlines() or ["no reason"])[-1]
        word = "refused" if child.returncode == REFUSED else "failed"
        print(f"{path.stem:32} {word}: {reason[:120]}", flush=True)
        return child.returncode != REFUSED
    seen, painted, overlapping = _open(page, browser, arguments.pictures, path.stem)
    page.unlink()
    problems = [*seen.problems(), *overlapping[:3]]
    if len(overlapping) > 3:
        problems.append(f"{len(overlapping)} pairs of labels lie on one another")
    print(
        f"{path.stem:32} {compiled:6.1f} s {painted:5.2f} s {seen.nodes:5} {seen.blocks:6} "
        f"{len(seen.labels):6} {seen.legible:7} {seen.scale:5.2f} {seen.back:4}  "
        f"{'; '.join(problems) or '-'}",
        flush=True,
    )
    return bool(problems)


def _open(
    page: Path, browser: Browser, pictures: Path | None, name: str
) -> tuple[FirstSight, float, list[str]]:
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
    try:
        tab = context.new_page()
        start = time.monotonic()
        tab.goto(page.as_uri())
        tab.wait_for_selector(".node", timeout=60_000)
        painted = time.monotonic() - start
        if pictures:
            pictures.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=pictures / f"{name}.png")
        return look(tab), painted, overlapping_labels(tab)
    finally:
        context.close()


def _write_page(arguments: argparse.Namespace) -> int:
    """In the child: compiles one model and writes its page."""
    (path,) = arguments.models
    cases = read_cases(arguments.cases) if arguments.cases else {}
    case = cases.get(path.stem, Case())
    try:
        model = load_with_weights(str(path))
        given = read_all(case.inputs, arguments.files)
        sizes = check_arrays(model, given, case.dimensions, path)
        compilation = explorer.compile(model, dimensions={**sizes_with_note(model, sizes), **sizes})
    except ExplorerError as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return REFUSED
    arguments.page.write_text(export_page(compilation.trace(with_code=False)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
