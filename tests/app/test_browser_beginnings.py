"""How the app begins: with the first model, with another one after it, with one that fails."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.views.module import explorer_module

pytestmark = pytest.mark.browser

SESSION = {
    "models": [{"key": "m", "label": "net.onnx", "isTrace": False}],
    "model": "",
    "isTrace": False,
    "targets": ["cpu"],
    "optional": [],
    "settings": {"target": "cpu", "decisions": {}},
    "switchedOff": [],
    "wanted": {"target": "cpu", "decisions": {}, "model": "m"},
    "status": "working",
    "progress": {"stage": "passes", "name": "starting", "index": 0, "total": 0},
    "branches": [],
    "branch": "",
    "pending": [],
    "turns": [],
    "looks": {},
    "place": "",
    "points": [],
    "at": -1,
    "switchedOffAfter": {},
    "suffixes": [".onnx"],
    "mostCompared": 4,
    "uploadLimit": 1000,
    "refusals": 0,
}


def test_what_is_opened_is_never_said_not_to_be_open(chromium: Any) -> None:
    """The app with a stand-in for its other side, which is slower than any compiler."""
    page = chromium.new_page()
    page.set_content(
        f"""<div id="app" style="height: 700px"></div><script type="module">
        {explorer_module().replace("export default {render};", "")}
        const state = {{mode: "app", session: null, head: null, revision: 0}};
        const listeners = new Map();
        const model = {{
          get: (name) => state[name], set: () => {{}}, save_changes: () => {{}}, send: () => {{}},
          on: (name, receive) => listeners.set(name, receive),
        }};
        window.tell = (session) => {{
          state.session = session;
          listeners.get("change:session")();
        }};
        render({{model, el: document.getElementById("app")}});
        </script>"""
    )
    said = page.locator(".waiting strong")
    expect(said).to_have_text("Connecting")
    page.evaluate("tell", SESSION)
    expect(said).to_have_text("Opening net.onnx")
    page.evaluate("tell", {**SESSION, "status": "idle"})
    expect(said).to_have_text("Nothing is open")
    page.close()


def test_another_model_begins_at_its_own_place(opened_app: Any) -> None:
    watched = opened_app()
    page = watched.page
    first = watched.current_pass()
    page.get_by_role("slider", name="pass", exact=True).fill("1")
    expect(page.locator('.pass-row[aria-current="step"] .pass-name')).not_to_have_text(first)
    watched.open_offered("hostile.onnx")
    watched.expect_pass(first)
    expect(page.locator(".node.selected")).to_have_count(0)


def test_a_model_that_is_compiled_in_vain_shows_nothing_of_another(opened_app: Any) -> None:
    watched = opened_app()
    page = watched.page
    watched.wait_until_done()
    page.get_by_label("target", exact=True).select_option("broken")
    banner = page.locator(".banner.failed, .banner.refused, [role=alert]").first
    expect(banner).to_contain_text("no device was found")
    assert not re.search(r"\?\.", banner.inner_text())
    expect(page.locator(".background")).to_be_empty()
