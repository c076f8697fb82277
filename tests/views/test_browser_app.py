"""The served app in a real browser, on an invented compiler: models, branches, failures, safety."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser


def test_the_app_compiles_and_shows_a_model(watched: Any, opened_app: Any):
    page = opened_app().page
    assert watched.current_pass() == "fold-batch-norm"
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("4")
    page.wait_for_selector(".inspector .line")
    page.keyboard.press("j")
    assert watched.current_pass() == "fuse-activation"
    page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
    assert watched.is_clean(), watched


def test_a_pass_is_switched_off_and_on_again(watched: Any, opened_app: Any):
    page = opened_app().page
    page.get_by_role("checkbox", name="run fuse-activation").uncheck()
    page.wait_for_selector(".pass.off")
    assert watched.names(".pass.off .pass-name") == ["fuse-activation"]
    page.get_by_role("checkbox", name="run fuse-activation").last.check()
    page.wait_for_selector(".pass.off", state="detached")
    assert watched.is_clean(), watched


def test_a_failure_says_what_where_and_the_way_out(watched: Any, opened_app: Any):
    page = opened_app().page
    page.get_by_label("target").select_option("broken")
    banner = page.get_by_role("alert")
    banner.wait_for()
    text = banner.inner_text()
    assert "no device was found" in text
    assert "while compiling good.onnx for broken" in text
    assert "try the target cpu" in text
    assert page.get_by_label("target").input_value() == "cpu"
    page.keyboard.press("j")
    assert watched.current_pass() == "fuse-activation"
    banner.get_by_role("button", name="dismiss").click()
    banner.wait_for(state="detached")


def test_a_compilation_is_cancelled_and_the_rest_stays(watched: Any, opened_app: Any):
    page = opened_app().page
    page.get_by_label("target").select_option("endless")
    page.get_by_role("button", name="cancel").click()
    page.get_by_role("button", name="cancel").wait_for(state="detached")
    assert page.get_by_label("target").input_value() == "cpu"
    assert page.locator(".node").count() > 3


def test_a_model_file_is_uploaded(watched: Any, opened_app: Any, tmp_path: Path):
    page = opened_app().page
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


def test_a_file_of_another_kind_is_refused(watched: Any, opened_app: Any, tmp_path: Path):
    page = opened_app().page
    file = tmp_path / "model.pickle"
    file.write_bytes(b"cos\nsystem\n.")
    page.get_by_label("model file").set_input_files(str(file))
    page.get_by_role("alert").wait_for()
    assert (
        "'model.pickle' is no model file that can be read here"
        in page.get_by_role("alert").inner_text()
    )


def test_a_hostile_model_stays_text_in_the_app(watched: Any, opened_app: Any):
    page = opened_app().page
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


def branch_label(page: Any) -> str:
    return page.locator(".branch-select option:checked").inner_text()


def wait_for_branch(page: Any, label: str) -> None:
    page.locator(".branch-select option:checked", has_text=label).wait_for(state="attached")


def test_passes_are_shown_while_errors_are_still_compared(watched: Any, opened_app: Any):
    page = opened_app().page
    page.get_by_label("target", exact=True).select_option("patient")
    wait_for_branch(page, "for patient")
    page.locator(".background", has_text="comparing 1 of 3").wait_for()
    assert "not compared" in page.locator(".verdict").inner_text()
    page.keyboard.press("a")
    page.locator(".dock-body .empty", has_text="Being compared").wait_for()
    # What is asked for in the meantime does not wait for the comparison.
    page.get_by_role("checkbox", name="run fuse-activation").uncheck()
    wait_for_branch(page, "without fuse-activation, for patient")
    assert page.locator(".pass.off .pass-name").inner_text() == "fuse-activation"
    assert watched.is_clean(), watched


def test_errors_and_times_are_added_when_they_arrive(watched: Any, opened_app: Any):
    page = opened_app().page
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("t")
    page.get_by_label("target", exact=True).select_option("faulty")
    wait_for_branch(page, "for faulty")
    page.locator(".verdict", has_text="differs from source").wait_for()
    page.wait_for_selector(".timeline-plot canvas")
    page.wait_for_selector('.node.selected[data-id="conv_1"]')
    page.locator(".background:empty").wait_for(state="attached")
    assert branch_label(page) == "2  for faulty"
    page.get_by_label("branch", exact=True).select_option(index=0)
    page.locator(".target-select option:checked", has_text="cpu").wait_for(state="attached")
    assert branch_label(page) == "1  first"
    assert watched.is_clean(), watched


def test_a_changed_choice_becomes_a_branch_that_can_be_compared(watched: Any, opened_app: Any):
    page = opened_app().page
    page.locator('.node[data-id="conv_1"]').click()
    page.get_by_role("button", name="fork +").click()
    page.get_by_role("spinbutton", name="pixels of conv_1").fill("4")
    page.keyboard.press("Tab")
    page.locator(".fork-change", has_text="schedule-loops/conv_1/pixels = 4").wait_for()
    page.get_by_role("button", name="compile this fork").click()
    wait_for_branch(page, "conv_1 pixels = 4")
    assert page.get_by_role("spinbutton", name="pixels of conv_1").input_value() == "4"
    page.keyboard.press("Escape")
    # A dock that is drawn anew while results arrive may lose the click: all of them first.
    page.locator(".background:empty").wait_for(state="attached")
    page.get_by_role("tab", name="compare", exact=True).click()
    page.wait_for_selector(".first-difference")
    assert page.locator(".first-difference").inner_text() == "schedule-loops/conv_1/pixels"
    assert "A 4" in page.locator(".compare-head").inner_text()
    assert "B 8" in page.locator(".compare-head").inner_text()
    page.get_by_label("branch", exact=True).select_option(index=0)
    wait_for_branch(page, "first")
    assert watched.is_clean(), watched


def test_the_guilty_rewrite_is_found_and_left_out(watched: Any, opened_app: Any):
    page = opened_app().page
    page.get_by_label("target", exact=True).select_option("faulty")
    page.locator(".verdict", has_text="differs from source").wait_for()
    page.keyboard.press("a")
    page.get_by_role("button", name="bisect").click()
    page.locator(".fault", has_text="guilty: add-into-conv at fused_1").wait_for()
    page.get_by_role("button", name="fork without it").click()
    wait_for_branch(page, "without fuse-add at fused_1")


def test_a_buffer_is_pinned_and_the_memory_planned_again(watched: Any, opened_app: Any):
    page = opened_app().page
    page.locator('.node[data-id="conv_1"]').click()
    page.get_by_role("spinbutton", name="address of conv_1 in bytes").fill("32768")
    page.get_by_role("button", name="pin", exact=True).click()
    wait_for_branch(page, "conv_1 at byte 32768")
    page.locator(".pin", has_text="pinned").wait_for()
    assert page.locator(".pin").inner_text().split("\n")[0].startswith("conv_1")


def test_branches_are_dropped(watched: Any, opened_app: Any):
    page = opened_app().page
    for name in ("fuse-add", "remove-identities"):
        page.get_by_role("checkbox", name=f"run {name}").uncheck()
        wait_for_branch(page, name)
    assert page.locator(".branch-select option").count() == 3
    page.get_by_role("button", name="drop the other branches").click()
    page.wait_for_function(
        "() => { const find = (r) => { for (const e of r.querySelectorAll('*')) {"
        " if (e.matches('.branch-select')) return e; if (e.shadowRoot) { const f ="
        " find(e.shadowRoot); if (f) return f; } } return null; };"
        " return find(document).options.length == 2; }"
    )
    assert "remove-identities" in branch_label(page)
    assert watched.is_clean(), watched
