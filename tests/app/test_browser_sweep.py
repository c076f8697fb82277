"""Machines of a sweep in the served app: the cycles of a fork are those that the sweep has, and a
file that is dropped on the page does what `--front` does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results.encoding import to_json
from explorer.results.sweep import MachineSweep
from explorer.tuning.machines import Varied, sweep_machines

DROP = """(app, [name, text]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([text], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    app.dispatchEvent(
      new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: transfer}),
    );
}"""
pytestmark = [pytest.mark.browser, pytest.mark.slow]
MEASURED = 60_000
"""Milliseconds that a fork may take on a busy machine."""


@pytest.fixture
def model(sample_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model that is served, with a folder of workspaces of its own."""
    monkeypatch.setenv("EXPLORER_WORKSPACES", str(tmp_path / "workspaces"))
    return sample_models / "roundings_int8.tflite"


def swept(model: Path, *rows: int) -> MachineSweep:
    varied = [Varied("engines.matrix.rows", rows)]
    return sweep_machines([model], "tiny-8", varied, jobs=1)


def test_a_machine_of_a_sweep_opens_as_a_fork(
    serve_apart: Callable[..., Any], new_page: Callable[[float], Any], model: Path, tmp_path: Path
):
    front, found = tmp_path / "front.json", swept(model, 4, 8)
    front.write_text(json.dumps(to_json(found)))
    serve = ("-m", "explorer", "serve", "--no-browser", "--target", "tiny-8", "--front")
    with serve_apart(*serve, str(front), str(model)) as (address, _):
        watched = new_page(60)
        page = watched.page
        page.goto(address)
        page.get_by_role("tab", name="sweep", exact=True).click()
        rows = page.locator(".dock tbody tr")
        expect(rows).to_have_count(2, timeout=MEASURED)
        cycles = {point.fields[0][1]: f"{point.cycles:,}" for point in found.points}
        assert cycles[4] != cycles[8]
        row = rows.filter(has_text="matrix.rows=8")
        expect(row).to_contain_text(cycles[8])
        row.get_by_text("fork", exact=True).click()
        head = page.locator('.topbar [data-moves="cycles"]').first
        expect(head).to_have_text(cycles[8], timeout=MEASURED)
    assert watched.is_clean(), watched


def test_a_sweep_is_dropped_on_its_model_and_a_damaged_one_is_refused(
    serve_apart: Callable[..., Any], new_page: Callable[[float], Any], model: Path
):
    text = json.dumps(to_json(swept(model, 4, 8)))
    serve = ("-m", "explorer", "serve", "--no-browser", "--target", "tiny-8")
    with serve_apart(*serve, str(model)) as (address, _):
        watched = new_page(60)
        page = watched.page
        page.goto(address)
        expect(page.locator(".node").first).to_be_visible(timeout=MEASURED)
        tab = page.get_by_role("tab", name="sweep", exact=True)
        expect(tab).to_have_count(0)
        refused = page.get_by_role("alert")
        for damaged, words in (
            (text[:-20], "no result of a sweep"),
            (text.replace(model.stem, "another"), f"the sweep is of another, not of {model.stem}"),
            (text.replace('"tiny-8"', '"mac-128"'), "the sweep varies mac-128, not tiny-8"),
            (text.replace('"engines.matrix.rows"', '"engines.moon.rows"'), "moon"),
            (text.replace('"cycles": ', '"cycles": -'), "cycles is -"),
        ):
            page.locator(".dock").first.evaluate(DROP, ["front.json", damaged])
            expect(refused).to_contain_text("front.json", timeout=MEASURED)
            expect(refused).to_contain_text(words)
            expect(tab).to_have_count(0)
            refused.get_by_role("button", name="dismiss").click()
        page.locator(".dock").first.evaluate(DROP, ["front.json", text])
        tab.click(timeout=MEASURED)
        expect(page.locator(".dock tbody tr")).to_have_count(2, timeout=MEASURED)
        page.locator(".dock").first.evaluate(DROP, ["power.json", '{"add1": 3.5}'])  # numbers
        expect(page.locator(".overlay")).to_contain_text("power.json", timeout=MEASURED)
        # Another sweep leaves the numbers as they are.
        other = swept(model, 4)
        page.locator(".dock").first.evaluate(DROP, ["front.json", json.dumps(to_json(other))])
        expect(page.locator(".dock tbody tr")).to_have_count(1, timeout=MEASURED)
        colour = page.get_by_label("colour of operations")
        colour.select_option("")
        expect(page.locator(".overlay")).to_be_hidden()
        colour.select_option("own")
        expect(page.locator(".overlay")).to_contain_text("power.json")
        # A file that is chosen instead of dropped, and which takes the place of the first one.
        one = swept(model, 16)
        file = {"name": "one.json", "mimeType": "", "buffer": json.dumps(to_json(one)).encode()}
        page.get_by_label("model file").set_input_files(file)
        expect(page.locator(".dock tbody tr")).to_have_count(1, timeout=MEASURED)
        expect(page.locator(".dock tbody tr")).to_contain_text("rows=16")
    assert watched.is_clean(), watched
