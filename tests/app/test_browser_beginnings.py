"""How the app begins: with the first model, with another one after it, with one that fails."""

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

import explorer
from explorer.compilation import Compilation
from explorer.compilation.inspecting import read_trace
from explorer.results import Trace
from explorer.results.runs.counted import CountedRun
from explorer.views.module import explorer_module
from explorer.views.trace_payload import encode, trace_payload

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
    open_stand_in(page)
    said = page.locator(".waiting strong")
    expect(said).to_have_text("Connecting")
    page.evaluate("tell", SESSION)
    expect(said).to_have_text("Opening net.onnx")
    page.evaluate("tell", {**SESSION, "status": "idle"})
    expect(said).to_have_text("Nothing is open")
    show_as_read_then_compiled(page)
    page.close()


def open_stand_in(page: Any) -> None:
    """The app with a stand-in for its other side: `tell(session, more)` speaks for it."""
    page.set_content(
        f"""<div id="app" style="height: 700px"></div><script type="module">
        {explorer_module().replace("export default {render};", "")}
        const state = {{mode: "app", session: null, head: null, revision: 0}};
        const listeners = new Map();
        const model = {{
          get: (name) => state[name], set: () => {{}}, save_changes: () => {{}}, send: () => {{}},
          on: (name, receive) => listeners.set(name, receive),
        }};
        window.tell = (session, more = {{}}) => {{
          Object.assign(state, {{session, ...more}});
          listeners.get("change:session")();
          if (more.revision) listeners.get("change:revision")();
        }};
        model.send = ({{kind, keys, revision}}) => {{
          const tell = (key) => listeners.get("msg:custom")(
            {{kind: "chunk", key, revision, part: 0, parts: 1, text: state.chunks[key]}});
          if (kind === "need") setTimeout(() => keys.forEach(tell));
        }};
        render({{model, el: document.getElementById("app")}});
        </script>"""
    )


def test_a_link_to_a_tab_that_comes_later_opens_it_when_it_comes(chromium: Any) -> None:
    page = chromium.new_page()
    page.goto("about:blank#pass=2&dock=layers")
    open_stand_in(page)
    tell = "([session, more]) => tell(session, more)"
    compilation = explorer.compile(explorer.load(explorer.sample("digits_mlp")))
    measured = {**SESSION, "model": "m", "branch": "1", "status": "idle", "progress": None}
    waits = {**measured, "pending": ["profile"]}
    page.evaluate(tell, [waits, shown("1", 1, compilation.trace())])
    said = said_in(page)
    expect(said).to_have_text("The tab “layers” comes later")
    page.locator(".pass-row").nth(3).click()
    page.locator(".pass-row").nth(3).and_(page.locator("[aria-current=step]")).wait_for()
    expect(page.locator(".banner")).to_have_count(0)
    # The measurement of another part ends: nothing changes.
    page.evaluate(tell, [{**waits, "pending": ["profile", "assembly"]}, {}])
    expect(said).to_have_text("The tab “layers” comes later")
    page.evaluate(tell, [measured, shown("1", 2, counted(compilation))])
    chosen = page.locator('.dock [aria-selected="true"]')
    expect(chosen).to_contain_text("layers")
    expect(said).not_to_contain_text("comes later")
    assert "dock=layers" in page.evaluate("location.hash")
    page.close()

    # One that never comes is said, and its place is another one's.
    page = chromium.new_page()
    page.goto("about:blank#dock=placement")
    open_stand_in(page)
    page.evaluate(tell, [waits, shown("1", 1, compilation.trace())])
    expect(said_in(page)).to_have_text("The tab “placement” comes later")
    page.evaluate(tell, [measured, {}])
    expect(page.locator(".banner")).to_contain_text("names the tab “placement”")
    expect(page.locator('.dock [aria-selected="true"]')).to_contain_text("memory")
    page.close()


def said_in(page: Any) -> Any:
    """The heading of a tab that has nothing to show."""
    return page.locator(".dock-body strong")


def show_as_read_then_compiled(page: Any) -> None:
    """A large model is seen while its passes run, and what was done in it stays."""
    model = explorer.load(explorer.sample("digits_mlp"))
    tell = "([session, more]) => tell(session, more)"
    page.evaluate(tell, [{**SESSION, "model": "m"}, shown("read/1", 1, read_trace(model))])
    expect(page.locator(".dock-body strong")).to_have_text("The passes still run")
    expect(page.locator(".subject")).to_contain_text("its passes still run")
    page.locator(".node", has_text="Relu").first.click()
    expect(page.locator(".subject")).to_contain_text("relu1")
    there = {**SESSION, "model": "m", "branch": "1", "status": "idle", "progress": None}
    compilation = explorer.compile(model)
    page.evaluate(tell, [there, shown("1", 2, compilation.trace())])
    page.locator('.frame[data-branch="1"]').wait_for()
    expect(page.locator(".node.selected")).to_contain_text("Relu")
    expect(page.locator('.pass-row[aria-current="step"] .pass-name')).to_have_text("model")
    expect(page.locator('.dock [aria-selected="true"]')).to_contain_text("memory")
    layers = page.locator('.dock .tab[data-tab="layers"]')
    expect(layers).to_have_count(0)
    page.locator('.dock .tab[data-tab="memory"]').focus()
    page.evaluate(tell, [there, shown("1", 3, counted(compilation))])
    expect(layers).to_be_visible()
    expect(page.locator('.dock .tab[data-tab="memory"]')).to_be_focused()
    expect(page.locator('.dock [aria-selected="true"]')).to_contain_text("memory")


def counted(compilation: Compilation) -> Trace:
    """Its trace once it was measured on a machine that counts cycles."""
    compilation.profile()
    trace = compilation.trace()
    assert trace.profile is not None
    run = CountedRun(
        cycles=9,
        predicted_cycles=9,
        macs=0,
        peak_macs_per_cycle=1,
        loaded_bytes=(),
        stored_bytes=(),
        busy_cycles=(),
        stalls=(),
        layers=(),
    )
    return replace(trace, profile=replace(trace.profile, counted=run))


def shown(branch: str, revision: int, trace: Trace) -> dict[str, Any]:
    payload = trace_payload(trace)
    keys = payload.chunk_keys()
    chunks = {key: encode(payload.chunk(key)) for key in (*keys, *payload.chunk_keys())}
    return {"head": payload.head, "branch": branch, "revision": revision, "chunks": chunks}


def test_models_begin_at_their_own_place_and_show_nothing_of_another(opened_app: Any) -> None:
    watched = opened_app()
    page = watched.page
    with watched.step("another model begins at its own place"):
        first = watched.current_pass()
        page.get_by_role("slider", name="pass", exact=True).fill("1")
        current = page.locator('.pass-row[aria-current="step"] .pass-name')
        expect(current).not_to_have_text(first)
        watched.open_offered("hostile.onnx")
        watched.expect_pass(first)
        expect(page.locator(".node.selected")).to_have_count(0)
    with watched.step("a model that is compiled in vain shows nothing of another"):
        watched.wait_until_done()
        page.get_by_label("target", exact=True).select_option("broken")
        banner = page.locator(".banner.failed, .banner.refused, [role=alert]").first
        expect(banner).to_contain_text("no device was found")
        assert not re.search(r"\?\.", banner.inner_text())
        expect(page.locator(".background")).to_be_empty()
