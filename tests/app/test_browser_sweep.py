"""Machines of a sweep in the served app: the cycles of a fork are those that the sweep has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results.encoding import to_json
from explorer.tuning.machines import Varied, sweep_machines

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MEASURED = 60_000
"""Milliseconds that a fork may take on a busy machine."""


def test_a_machine_of_a_sweep_opens_as_a_fork(
    serve_apart: Callable[..., Any],
    new_page: Callable[[float], Any],
    sample_models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("EXPLORER_WORKSPACES", str(tmp_path / "workspaces"))
    model, front = sample_models / "roundings_int8.tflite", tmp_path / "front.json"
    varied = [Varied("engines.matrix.rows", (4, 8))]
    found = sweep_machines([model], "tiny-8", varied, jobs=1)
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
