"""The served app in a real browser, on an invented compiler: models, branches, failures, safety."""

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.app.uploads import UPLOAD_LIMIT_BYTES


@pytest.mark.browser
def test_the_app_compiles_shows_a_model_and_switches_passes_off_and_on(opened_app: Any):
    watched = opened_app()
    page = watched.page
    watched.expect_pass("fold-batch-norm")
    # Panel translates from TypeScript what is not said to be ready.
    ready = "[...Bokeh.documents[0].all_models].filter((m) => m.esm).map((m) => m.bundle !== null)"
    assert page.evaluate(ready) == [True]
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("4")
    page.wait_for_selector(".inspector .line")
    page.keyboard.press("j")
    watched.expect_pass("fuse-activation")
    page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
    with watched.step("what is done while results arrive counts, and branches are dropped"):
        page.keyboard.press("n")
        page.get_by_role("checkbox", name="run fuse-add").uncheck()
        page.locator(".pass.off").wait_for()
        page.locator(".dock-body th button", has_text="kernel").click()
        order = page.locator('.dock-body th[aria-sort="ascending"]')
        order.wait_for()
        watched.wait_until_done()
        assert order.inner_text().startswith("kernel")

        page.get_by_role("checkbox", name="run remove-identities").uncheck()
        page.get_by_role("tab", name="roofline", exact=True).click()
        watched.wait_for_branch("remove-identities")
        expect(page.locator(".pass.off")).to_have_count(2)
        selected = page.locator('.dock [role=tab][aria-selected="true"]')
        expect(selected).to_have_text("roofline")

        expect(page.locator(".branch-select option")).to_have_count(3)
        page.get_by_role("button", name="drop the other branches").click()
        page.locator(".branch-select option").nth(2).wait_for(state="detached")
        assert "remove-identities" in watched.branch()
    with watched.step("a pass is switched off and on"):
        off = page.locator(".pass.off .pass-name", has_text="fuse-activation")
        page.get_by_role("checkbox", name="run fuse-activation").uncheck()
        expect(off).to_have_count(1)
        page.get_by_role("checkbox", name="run fuse-activation").last.check()
        expect(off).to_have_count(0)
    assert watched.is_clean(), watched


@pytest.mark.browser
def test_a_failure_a_dead_worker_and_a_lost_device_cost_only_what_they_were_at(opened_app: Any):
    watched = opened_app()
    page = watched.page
    target = page.get_by_label("target", exact=True)
    banner = page.get_by_role("alert")
    dismiss = banner.get_by_role("button", name="dismiss")
    target.select_option("broken")
    banner.wait_for()
    text = banner.inner_text()
    assert "no device was found" in text
    assert "while compiling good.onnx for broken" in text
    assert "try the target cpu" in text
    expect(target).to_have_value("cpu")
    page.keyboard.press("j")
    watched.expect_pass("fuse-activation")
    dismiss.click()
    banner.wait_for(state="detached")

    target.select_option("dying")
    banner.wait_for()
    expect(banner).to_contain_text("the compiler's process ended without an answer (signal 9)")
    assert "good.onnx for dying" in banner.inner_text()
    dismiss.click()
    assert page.locator(".node").count() > 3
    page.get_by_role("checkbox", name="run fuse-add").uncheck()
    watched.wait_for_branch("without fuse-add")

    target.select_option("lost")
    banner.wait_for()
    expect(banner).to_contain_text("the device does not answer")
    expect(banner).to_contain_text("device gpu 0")
    expect(banner).to_contain_text("Try: plug it in")
    assert watched.branch().endswith("for lost")
    banner.get_by_role("button", name="try again").click()
    banner.wait_for()
    dismiss.click()
    page.keyboard.press("a")
    page.wait_for_selector(".heat-plot")
    assert watched.is_clean(), watched


@pytest.mark.browser
def test_work_says_how_long_it_takes_and_is_cancelled_and_the_rest_stays(opened_app: Any):
    watched = opened_app()
    page = watched.page
    target = page.get_by_label("target", exact=True)
    cancel = page.get_by_role("button", name="cancel")
    watched.wait_until_done()
    expect(page.locator(".banner.working")).to_have_count(0)
    page.get_by_role("checkbox", name="run fuse-add").uncheck()
    watched.wait_for_branch("without fuse-add")
    branches = 2
    for name, later in (("slow", "remove-identities"), ("deaf", "fuse-activation")):
        target.select_option(name)
        expect(page.locator(".banner.working .elapsed")).to_have_text(re.compile(r"^0:\d\d"))
        cancel.click()
        cancel.wait_for(state="detached")
        expect(target).to_have_value("cpu")
        expect(page.locator(".branch-select option")).to_have_count(branches)
        # What is asked for next is compiled, also where the worker had to be ended.
        page.get_by_role("checkbox", name=f"run {later}").uncheck()
        branches += 1
        expect(page.locator(".branch-select option")).to_have_count(branches)
        expect(page.locator(".pass.off .pass-name", has_text=later)).to_have_count(1)
        watched.wait_until_done()
    target.select_option("patient")
    expect(page.locator(".background .elapsed")).to_have_text(re.compile(r"^0:\d\d"))
    with watched.step("passes are shown while errors are still compared"):
        page.locator(".background", has_text="comparing 1 of 3").wait_for()
        expect(page.locator(".verdict")).to_contain_text("comparing")
        page.keyboard.press("a")
        page.locator(".dock-body .empty", has_text="Being compared").wait_for()
        # What is asked for in the meantime does not wait for the comparison.
        page.get_by_role("checkbox", name="run fuse-add").last.check()
        off = page.locator(".pass.off .pass-name")
        expect(off.filter(has_text="fuse-add")).to_have_count(0)
        expect(off.filter(has_text="fuse-activation")).to_have_count(1)
    assert watched.is_clean(), watched


DROP = """kind => {
  const find = (root) => { for (const e of root.querySelectorAll('*')) {
    if (e.matches('.explorer')) return e;
    const found = e.shadowRoot && find(e.shadowRoot); if (found) return found; } return null; };
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(1000)], 'dropped.onnx'));
  find(document).dispatchEvent(
    new DragEvent(kind, {dataTransfer: data, bubbles: true, composed: true, cancelable: true}));
}"""


@pytest.mark.browser
def test_files_are_uploaded_dropped_and_refused_and_their_names_stay_text(
    opened_app: Any, tmp_path: Path
):
    watched = opened_app()
    page = watched.page
    file = tmp_path / "net of mine.onnx"
    file.write_bytes(bytes(2_600_000))  # more pieces than are sent ahead
    page.get_by_label("model file").set_input_files(str(file))
    page.locator(".document.current", has_text="net of mine.onnx").wait_for()
    page.wait_for_selector(".node")
    assert watched.open_models() == ["good.onnx", "net of mine.onnx"]

    page.evaluate(DROP, "dragenter")
    page.locator(".drop-veil", has_text="Drop a model").wait_for()
    page.evaluate(DROP, "drop")
    page.locator(".document.current", has_text="dropped.onnx").wait_for()
    page.locator(".drop-veil").wait_for(state="hidden")

    file = tmp_path / "model.pickle"
    file.write_bytes(b"cos\nsystem\n.")
    page.get_by_label("model file").set_input_files(str(file))
    banner = page.get_by_role("alert")
    banner.wait_for()
    assert "'model.pickle' is nothing that can be read here" in banner.inner_text()

    banner.get_by_role("button", name="dismiss").click()
    file = tmp_path / "large.onnx"
    with file.open("wb") as opened:
        opened.truncate(UPLOAD_LIMIT_BYTES + 1)  # a sparse file: no bytes are written
    page.get_by_label("model file").set_input_files(str(file))
    expect(banner).to_contain_text(
        "'large.onnx' is larger than 512 MiB, the most that a page may send"
    )
    expect(banner).to_contain_text("start the explorer with its path instead")
    expect(page.locator(".node").nth(3)).to_be_attached()
    banner.get_by_role("button", name="dismiss").click()

    watched.open_offered("hostile.onnx")
    page.locator(".welcome h2", has_text="<script>alert('x')</script>").wait_for()
    assert watched.is_clean(), watched


@pytest.mark.parametrize("path", ["", "wrong-token", "wrong-token/ws"])
def test_without_the_token_there_is_no_page(invented_address: str, path: str):
    root = invented_address.rstrip("/").rsplit("/", 1)[0]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{root}/{path}", timeout=10)


def test_the_websocket_refuses_other_origins(invented_address: str):
    # By http.client, for urllib closes every connection and so cannot upgrade one.
    place = urllib.parse.urlsplit(invented_address)
    connection = http.client.HTTPConnection(place.netloc, timeout=10)
    headers = {
        "Origin": "http://evil.example",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    connection.request("GET", f"{place.path.rstrip('/')}/ws", headers=headers)
    assert connection.getresponse().status == 403


@pytest.mark.browser
def test_errors_and_times_are_added_and_the_guilty_rewrite_is_found_and_left_out(opened_app: Any):
    watched = opened_app()
    page = watched.page
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("t")
    page.get_by_label("target", exact=True).select_option("faulty")
    watched.wait_for_branch("for faulty")
    page.locator(".verdict", has_text="differs from source").wait_for()
    page.wait_for_selector(".timeline-plot canvas")
    page.wait_for_selector('.node.selected[data-id="conv_1"]')
    page.locator(".background:empty").wait_for(state="attached")
    assert watched.branch() == "2  for faulty"

    page.keyboard.press("a")
    page.get_by_role("button", name="bisect").click()
    page.locator(".fault", has_text="guilty: add-into-conv at fused_1").wait_for()
    page.get_by_role("button", name="fork without it").click()
    watched.wait_for_branch("without add-into-conv at fused_1")

    page.get_by_label("branch", exact=True).select_option(index=0)
    page.locator(".target-select option:checked", has_text="cpu").wait_for(state="attached")
    assert watched.branch() == "1  first"
    assert watched.is_clean(), watched


@pytest.mark.browser
def test_changes_become_branches_and_buffers_are_pinned(opened_app: Any):
    watched = opened_app()
    page = watched.page
    with watched.step("one change becomes a branch that can be compared"):
        page.locator('.node[data-id="conv_1"]').click()
        page.get_by_role("button", name="fork +").click()
        knob = page.get_by_label("pixels of conv_1")
        knob.wait_for()
        assert knob.locator("option").all_inner_texts() == ["2", "4", "8"]
        knob.select_option(label="4")
        watched.wait_for_branch("conv_1 pixels = 4")
        page.locator(".knob-row.changed", has_text="pixels").wait_for()
        # The dock stays what it is while results arrive: no click is lost.
        page.get_by_role("tab", name="compare", exact=True).click()
        page.wait_for_selector(".first-difference")
        expect(page.locator(".first-difference")).to_have_text("schedule-loops/conv_1/pixels")
        expect(page.locator(".partings")).to_contain_text("A 8")
        expect(page.locator(".partings")).to_contain_text("B 4")
        expect(page.locator(".partings")).to_contain_text("as many as fit")
        page.get_by_label("branch", exact=True).select_option(index=0)
        watched.wait_for_branch("first")
    with watched.step("several changes become one branch"):
        page.get_by_role("checkbox", name="compile every change at once").uncheck()
        page.get_by_label("pixels of conv_1").select_option(label="2")
        page.get_by_role("checkbox", name="pass fuse-add in the fork").uncheck()
        changes = page.locator(".fork-change")
        expect(changes).to_have_count(2)
        expect(changes.filter(has_text="schedule-loops/conv_1/pixels = 2")).to_have_count(1)
        expect(changes.filter(has_text="without fuse-add")).to_have_count(1)
        page.get_by_role("button", name="take back: without fuse-add").click()
        page.get_by_role("button", name="compile this fork").click()
        watched.wait_for_branch("conv_1 pixels = 2")
        assert watched.branch() == "3  conv_1 pixels = 2"
    page.get_by_role("checkbox", name="compile every change at once").check()
    page.get_by_label("branch", exact=True).select_option(index=0)
    watched.wait_for_branch("first")
    with watched.step("a buffer is pinned"):
        page.keyboard.press("m")
        page.locator('.node[data-id="conv_1"]').click()
        page.get_by_role("spinbutton", name="address of conv_1 in bytes").fill("32768")
        page.get_by_role("button", name="pin", exact=True).click()
        watched.wait_for_branch("conv_1 at byte 32768")
        page.locator(".pin", has_text="pinned").wait_for()
        expect(page.locator(".pin strong")).to_have_attribute("title", "conv_1")
        expect(page.locator(".pin strong")).to_have_text("Conv_0")
        page.get_by_label("branch", exact=True).select_option(index=0)
        watched.wait_for_branch("first")
    with watched.step("a dragged buffer becomes a fork with a pin"):
        page.locator('.node[data-id="conv_1"]').click()
        page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
        box = page.locator('.buffer.marked[data-buffer="conv_1"]').bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - 60, steps=4)
        offset = int(page.locator(".ghost").get_attribute("data-offset"))
        assert offset > 0
        page.mouse.up()
        page.locator(f'.branch-select option[title*="conv_1 at byte {offset}"]').wait_for(
            state="attached"
        )
        page.locator(".pin", has_text="pinned").wait_for()
        page.wait_for_selector(".pinned-mark")
        page.get_by_label("branch", exact=True).select_option(index=0)
        watched.wait_for_branch("first")
    with watched.step("a buffer is moved with the keys and planned again"):
        page.locator('.node[data-id="conv_1"]').click()
        page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
        page.locator(".memory-plot").focus()
        page.keyboard.press("Shift+ArrowUp")
        offset = page.locator(".ghost").get_attribute("data-offset")
        page.keyboard.press("Enter")
        page.locator(f'.branch-select option[title*="conv_1 at byte {offset}"]').wait_for(
            state="attached"
        )
        page.get_by_label("branch", exact=True).select_option(index=0)
        watched.wait_for_branch("first")
    with watched.step("a rule is switched off and passes change places"):
        page.locator(".graph-body").focus()
        page.keyboard.press("f")
        page.locator(".fork-passes summary", has_text="1 rule").click()
        page.get_by_role("checkbox", name="rule fuse-add/add-into-conv").uncheck()
        watched.wait_for_branch("without add-into-conv")
        page.get_by_role("button", name="run fuse-add earlier").click()
        watched.wait_for_branch("in the order")
        page.locator(".fork-passes li").first.wait_for()
        names = page.locator(".fork-passes .fork-pass").all_inner_texts()
        assert [name.split("\n")[0] for name in names] == [
            "remove-identities", "fuse-add", "fuse-activation",
        ]  # fmt: skip
    assert watched.is_clean(), watched
