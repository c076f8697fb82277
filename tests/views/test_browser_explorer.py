"""The explorer in a real browser: as an offline page and as the served app."""

import http.client
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    sync_playwright,
)

from explorer.results import Trace
from explorer.views.module import explorer_module
from explorer.views.page import export_page, script_data
from explorer.views.payload import chunk_messages, encode, trace_payload

CHROMIUM = Path(os.environ.get("EXPLORER_CHROMIUM", "/usr/bin/chromium"))
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FOLDER = Path(__file__).parent

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.is_file(), reason=f"no Chromium at {CHROMIUM}"),
]


@dataclass
class Watched:
    """A page, with what it asked for outside of this machine and what went wrong in it."""

    page: Page
    outside: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def names(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def is_clean(self) -> bool:
        return not (self.outside or self.problems or self.dialogs)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def watched(chromium: Browser) -> Iterator[Watched]:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(15_000)
    seen = Watched(page)

    def on_request(request: Request) -> None:
        if not re.match(r"(file|data|blob):|https?://127\.0\.0\.1[:/]", request.url):
            seen.outside.append(request.url)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            seen.problems.append(message.text)

    def on_dialog(dialog: Dialog) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("request", on_request)
    page.on("console", on_console)
    page.on("pageerror", lambda error: seen.problems.append(str(error)))
    page.on("dialog", on_dialog)
    yield seen
    page.close()


def opened(
    watched: Watched,
    trace: Trace,
    folder: Path,
    against: Trace | None = None,
    start: int | None = 2,
) -> Watched:
    """The trace as an offline page, drawn; `start` is the pass that its link names."""
    path = folder / "trace.html"
    path.write_text(export_page(trace, against), encoding="utf-8")
    watched.page.goto("about:blank")  # or else a second page at the same address isn't loaded
    watched.page.goto(f"{path.as_uri()}#pass={start}" if start is not None else path.as_uri())
    watched.page.wait_for_selector(".node")
    return watched


def current_pass(watched: Watched) -> str:
    return watched.page.locator('.pass-row[aria-current="step"] .pass-name').inner_text()


def test_it_opens_at_the_pass_that_fused_most(watched: Watched, trace: Trace, tmp_path: Path):
    opened(watched, trace, tmp_path, start=None)
    assert current_pass(watched) == "fold-batch-norm"
    assert watched.page.locator(".verdict").inner_text().split("\n")[:1] == ["≈"]
    assert "within tolerance" in watched.page.locator(".verdict").inner_text()
    assert watched.is_clean(), watched


def test_passes_are_stepped_by_key_and_by_slider(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert current_pass(watched) == "fold-batch-norm"
    page.keyboard.press("k")
    assert current_pass(watched) == "fold-constants"
    slider = page.get_by_role("slider", name="pass", exact=True)
    slider.fill("11")
    assert current_pass(watched) == "plan-memory"
    assert slider.get_attribute("aria-valuetext") == "plan-memory"
    assert "pass=11" in page.url
    assert watched.is_clean(), watched


def test_what_did_not_change_does_not_move(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    place = page.locator('.node[data-id="conv_2"]').get_attribute("transform")
    for _ in range(2):
        page.keyboard.press("j")
    page.wait_for_function(
        "document.querySelector('.graph .pane-title').textContent == 'fold-batch-norm'"
    )
    page.wait_for_selector('.node.removed[data-id="norm_2"]')
    assert page.locator('.node[data-id="conv_2"]').get_attribute("transform") == place


def test_a_difference_marks_what_went_and_what_took_over(
    watched: Watched, trace: Trace, tmp_path: Path
):
    page = opened(watched, trace, tmp_path).page
    page.locator('.pass-row[data-pass="4"]').click()
    page.wait_for_selector('.node.removed[data-id="norm_1"]')
    assert page.locator('.node.fused[data-id="conv_1"] .badge').text_content() == "⊃"
    page.get_by_role("tab", name="after").click()
    page.wait_for_selector('.node[data-id="norm_1"]', state="detached")
    page.get_by_role("tab", name="before").click()
    page.wait_for_selector('.node[data-id="norm_1"]')
    assert watched.is_clean(), watched


def test_a_convolution_is_found_in_every_pane(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.locator('.node[data-id="conv_1"]').click()
    page.wait_for_selector('.node.selected[data-id="conv_1"]')
    assert watched.names(".origin") == ["Conv_0"]
    page.keyboard.press("2")
    page.wait_for_selector(".line.marked")
    assert all("conv_1 = top.conv" in line for line in watched.names(".line.marked"))
    page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
    page.keyboard.press("a")
    page.wait_for_selector(".column-mark")
    assert page.locator(".column-mark").count() == 1
    page.keyboard.press("6")
    page.wait_for_selector(".tensor-head strong")
    assert watched.names(".tensor-head strong") == ["Conv_0_out"]
    page.keyboard.press("n")
    page.wait_for_selector(".dock tr.marked")
    assert watched.names(".dock tr.marked td:first-child") == ["conv_1"]
    page.keyboard.press("t")
    page.wait_for_selector(".bar.marked")
    assert watched.names(".bar.marked") == ["conv_1"]
    page.keyboard.press("3")
    page.wait_for_selector(".rung[aria-current]")
    assert watched.names(".rung[aria-current]") == ["parallel"]
    page.keyboard.press("4")
    page.wait_for_selector(".inspector .kernel-line")
    page.wait_for_function("document.querySelector('.code-bar').textContent.includes('of C')")
    assert "static void conv_1(" in watched.names(".inspector .line")[0]
    assert watched.is_clean(), watched


def test_a_selection_is_followed_to_what_it_became(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.locator('.node[data-id="relu_1"]').click()
    page.wait_for_selector('.node.selected[data-id="relu_1"]')
    page.locator('.pass-row[data-pass="5"]').click()
    page.wait_for_selector('.node.removed[data-id="relu_1"]')
    page.keyboard.press("j")
    page.wait_for_selector('.node.selected[data-id="conv_1"]')
    page.wait_for_selector(".subject .hint")
    assert watched.names(".subject .hint") == ["relu_1 stands here as conv_1"]
    assert watched.names(".maker") == ["fold-batch-norm", "fuse-activation"]


def test_hovering_a_line_marks_its_operation_in_the_graph(
    watched: Watched, trace: Trace, tmp_path: Path
):
    page = opened(watched, trace, tmp_path).page
    page.keyboard.press("2")
    page.locator(".inspector .line", has_text="%relu_1 = top.relu").hover()
    page.wait_for_selector('.node.hovered[data-id="relu_1"]')
    page.locator('.node[data-id="norm_1"]').hover()
    page.wait_for_selector(".line.hovered")
    assert "norm_1 = top.batch_norm" in watched.names(".line.hovered")[0]


def test_statements_of_a_kernel_are_linked_between_levels(
    watched: Watched, trace: Trace, tmp_path: Path
):
    page = opened(watched, trace, tmp_path).page
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("3")
    page.keyboard.press("b")
    page.wait_for_selector(".beside .line")
    page.locator(".tab-body:not(.beside) .line", has_text="arith.maximumf").hover()
    page.wait_for_selector(".beside .line.hovered")
    assert ["max8" in line for line in watched.names(".beside .line.hovered")] == [True]


def test_rewrites_are_stepped_and_explained(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.locator('.pass-row[data-pass="4"]').click()
    page.wait_for_selector(".rule-row")
    page.keyboard.press("J")
    page.wait_for_selector('.site[aria-current="true"]')
    assert watched.names('.site[aria-current="true"]') == ["conv_1, norm_1 → conv_1"]
    page.keyboard.press("J")
    page.wait_for_selector('.node.selected[data-id="conv_2"]')
    page.wait_for_selector(".rewrite-card .delta.removed")
    assert "batch_norm(conv(x, w)) -> conv(x, w')" in page.locator(".rewrite-card").inner_text()
    assert watched.is_clean(), watched


def test_declined_candidates_say_why(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.locator('.pass-row[data-pass="5"]').click()
    page.get_by_role("button", name="declined candidates").click()
    page.wait_for_selector(".site .reason")
    assert watched.names(".site .reason")[0].endswith("it needs a whole row at once")


def test_search_leads_to_an_operation(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.keyboard.press("/")
    page.keyboard.type("Gemm_13")
    page.wait_for_selector(".hit")
    page.keyboard.press("Enter")
    page.wait_for_selector('.node.selected[data-id="matmul_1"]')


def test_a_link_brings_back_what_was_seen(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    link = page.url.split("#")[0] + "#pass=8&selection=conv_3&tab=loops&step=1&dock=timeline"
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".rung[aria-current]")
    assert current_pass(watched) == "choose-layouts"
    assert watched.names(".rung[aria-current]") == ["split"]
    assert watched.names('.dock > .tab-bar > .tabs [aria-selected="true"]') == ["timeline"]


def test_a_broken_link_opens_the_first_view(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    link = page.url.split("#")[0] + "#pass=999&tab=%3Cscript%3E&step=-4&dock=nothing&evil=1"
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".node")
    assert current_pass(watched) == "fold-batch-norm"
    assert watched.is_clean(), watched


def test_names_of_a_model_stay_text(watched: Watched, hostile_trace: Trace, tmp_path: Path):
    page = opened(watched, hostile_trace, tmp_path).page
    assert "<script>alert('x')</script>" in page.locator(".model-name").inner_text()
    page.locator('.node[data-id="conv_1"]').click()
    for key in ("1", "2", "3", "4", "5", "6", "m", "a", "t", "n", "a"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    page.locator('.node[data-id="conv_1"]').hover()
    assert page.locator("#explorer script").count() == 0
    assert watched.is_clean(), watched


def test_a_comparison_is_shown_only_when_there_is_one(
    watched: Watched, trace: Trace, fork: Trace, tmp_path: Path
):
    page = opened(watched, trace, tmp_path).page
    assert page.get_by_role("tab", name="compare").count() == 0
    page = opened(watched, trace, tmp_path, against=fork).page
    page.get_by_role("tab", name="compare").click()
    page.wait_for_selector(".dock table")
    row = page.locator(".dock [aria-label='passes of both'] tbody tr", has_text="fuse-activation")
    assert row.inner_text().split()[:7] == ["fuse-activation", "14", "→", "17", "3", "→", "0"]
    assert "fuse-activation/*/*" in page.locator(".first-difference").inner_text()


def test_the_theme_follows_the_system_and_the_switch(
    watched: Watched, trace: Trace, tmp_path: Path
):
    page = watched.page
    page.emulate_media(color_scheme="dark")
    opened(watched, trace, tmp_path)
    assert page.locator(".explorer").get_attribute("data-theme") == "dark"
    page.get_by_role("button", name="switch between light and dark").click()
    assert page.locator(".explorer").get_attribute("data-theme") == "light"


@pytest.mark.parametrize("width", [1100, 1440])
def test_nothing_is_wider_than_the_screen(
    watched: Watched, trace: Trace, tmp_path: Path, width: int
):
    page = watched.page
    page.set_viewport_size({"width": width, "height": 700})
    opened(watched, trace, tmp_path)
    overflowing = page.evaluate(
        "[...document.querySelectorAll('.topbar, .pane, .pane-head, .tab-bar')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1"
        " || e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.className)"
    )
    assert overflowing == []


def test_help_lists_the_keys_and_closes(watched: Watched, trace: Trace, tmp_path: Path):
    page = opened(watched, trace, tmp_path).page
    page.keyboard.press("?")
    assert "next pass, pass before" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_a_notebook_hosts_the_same_module(watched: Watched, trace: Trace):
    """A stand-in for anywidget's model: traits by name, chunks over messages, in several parts."""
    payload = trace_payload(trace)
    chunks = {
        key: list(chunk_messages(key, encode(payload.chunk(key)), revision=0, most=5000))
        for key in payload.chunk_keys()
    }
    state = {"mode": "notebook", "head": payload.head, "revision": 0}
    watched.page.set_content(
        f"""<div id="cell" style="height: 720px"></div><script type="module">
        {explorer_module().replace("export default {render};", "")}
        const state = {script_data(state)}, chunks = {script_data(chunks)};
        let listener = null;
        const model = {{
          get: (name) => state[name], set: (name, value) => {{ state[name] = value; }},
          save_changes: () => {{}},
          on: (name, receive) => {{ if (name === "msg:custom") listener = receive; }},
          send: (message) => {{
            const parts = [...chunks[message.keys[0]]].reverse();
            for (const part of parts) setTimeout(listener, 0, part);
          }},
        }};
        render({{model, el: document.getElementById("cell")}});
        </script>"""
    )
    page = watched.page
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("3")
    page.wait_for_selector(".rung[aria-current]")
    assert page.get_by_role("button", name="share").count() == 0
    assert page.evaluate("location.hash") == ""
    assert watched.is_clean(), watched


@pytest.fixture(scope="module")
def app_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on an invented compiler, offering a good and a hostile model."""
    models = tmp_path_factory.mktemp("models")
    for name in ("good.onnx", "hostile.onnx"):
        (models / name).write_bytes(b"")
    path = os.pathsep.join((str(FOLDER.parent.parent), str(FOLDER)))
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / "served.py"), "a-test-token", str(models)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found, "the app did not start"
    yield found.group()
    process.terminate()
    process.wait(10)


def opened_app(watched: Watched, address: str) -> Watched:
    watched.page.goto(address)
    watched.page.wait_for_selector(".node")
    return watched


def test_the_app_compiles_and_shows_a_model(watched: Watched, app_address: str):
    page = opened_app(watched, app_address).page
    assert current_pass(watched) == "fold-batch-norm"
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("4")
    page.wait_for_selector(".inspector .line")
    page.keyboard.press("j")
    assert current_pass(watched) == "fuse-activation"
    page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
    assert watched.is_clean(), watched


def test_a_pass_is_switched_off_and_on_again(watched: Watched, app_address: str):
    page = opened_app(watched, app_address).page
    page.get_by_role("checkbox", name="run fuse-activation").uncheck()
    page.wait_for_selector(".pass.off")
    assert watched.names(".pass.off .pass-name") == ["fuse-activation"]
    page.get_by_role("checkbox", name="run fuse-activation").last.check()
    page.wait_for_selector(".pass.off", state="detached")
    assert watched.is_clean(), watched


def test_a_failure_says_what_where_and_the_way_out(watched: Watched, app_address: str):
    page = opened_app(watched, app_address).page
    page.get_by_label("target").select_option("broken")
    banner = page.get_by_role("alert")
    banner.wait_for()
    text = banner.inner_text()
    assert "no device was found" in text
    assert "while compiling good.onnx for broken" in text
    assert "try the target cpu" in text
    assert page.get_by_label("target").input_value() == "cpu"
    page.keyboard.press("j")
    assert current_pass(watched) == "fuse-activation"
    banner.get_by_role("button", name="dismiss").click()
    banner.wait_for(state="detached")


def test_a_compilation_is_cancelled_and_the_rest_stays(watched: Watched, app_address: str):
    page = opened_app(watched, app_address).page
    page.get_by_label("target").select_option("endless")
    page.get_by_role("button", name="cancel").click()
    page.get_by_role("button", name="cancel").wait_for(state="detached")
    assert page.get_by_label("target").input_value() == "cpu"
    assert page.locator(".node").count() > 3


def test_a_model_file_is_uploaded(watched: Watched, app_address: str, tmp_path: Path):
    page = opened_app(watched, app_address).page
    file = tmp_path / "net of mine.onnx"
    file.write_bytes(bytes(600_000))
    page.get_by_label("model file").set_input_files(str(file))
    page.wait_for_function(
        "() => { const find = (root) => { for (const e of root.querySelectorAll('*')) {"
        " if (e.matches('.model-select')) return e; if (e.shadowRoot) { const found ="
        " find(e.shadowRoot); if (found) return found; } } return null; };"
        " const e = find(document);"
        " return e && e.selectedOptions[0]?.text === 'net of mine.onnx'; }"
    )
    assert watched.is_clean(), watched


def test_a_file_of_another_kind_is_refused(watched: Watched, app_address: str, tmp_path: Path):
    page = opened_app(watched, app_address).page
    file = tmp_path / "model.pickle"
    file.write_bytes(b"cos\nsystem\n.")
    page.get_by_label("model file").set_input_files(str(file))
    page.get_by_role("alert").wait_for()
    assert (
        "'model.pickle' is no model file that can be read here"
        in page.get_by_role("alert").inner_text()
    )


def test_a_hostile_model_stays_text_in_the_app(watched: Watched, app_address: str):
    page = opened_app(watched, app_address).page
    page.get_by_label("model", exact=True).select_option(label="hostile.onnx")
    page.locator(".welcome h2", has_text="<script>alert('x')</script>").wait_for()
    assert watched.is_clean(), watched


@pytest.mark.parametrize("path", ["", "wrong-token", "wrong-token/ws"])
def test_without_the_token_there_is_no_page(app_address: str, path: str):
    root = app_address.rsplit("/", 1)[0]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{root}/{path}", timeout=10)


def test_the_websocket_refuses_other_origins(app_address: str):
    # By http.client, for urllib closes every connection and so cannot upgrade one.
    place = urllib.parse.urlsplit(app_address)
    connection = http.client.HTTPConnection(place.netloc, timeout=10)
    headers = {
        "Origin": "http://evil.example",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    connection.request("GET", f"{place.path}/ws", headers=headers)
    assert connection.getresponse().status == 403
