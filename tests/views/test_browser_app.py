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
