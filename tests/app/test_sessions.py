"""Two people at one app: neither sees nor reaches what the other one brought."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.app.branches import ResultStore
from explorer.app.catalog import choices_of, first_request
from explorer.app.effects import Page
from explorer.app.state.page_state import PageState
from explorer.app.uploads import Uploads
from explorer.app.worker.compiler import ModelCompiler
from explorer.app.worker.process import CompilerProcess


def offered(seen: Any) -> list[str]:
    """What the page lets one open besides what is open."""
    options = seen.page.get_by_label("open a model or a saved trace").locator("option")
    return options.all_inner_texts()


@pytest.mark.browser
def test_an_uploaded_model_is_seen_by_nobody_else(opened_app: Callable[..., Any], tmp_path: Path):
    mine, other = opened_app(), opened_app()
    file = tmp_path / "private net.onnx"
    file.write_bytes(b"a model")
    mine.page.get_by_label("model file").set_input_files(str(file))
    mine.page.locator(".document.current", has_text="private net.onnx").wait_for()
    mine.wait_until_drawn()
    later = opened_app(link="model=private+net.onnx&pass=3")
    assert mine.open_models() == ["good.onnx", "private net.onnx"]
    for seen in (other, later):
        ways = ["a file …", "with sizes, values or labels …"]
        assert offered(seen) == ["+ open", "hostile.onnx", *ways]
        assert seen.open_models() == ["good.onnx"]
        assert "private net" not in seen.page.locator(".panes").inner_text()
        assert seen.is_clean(), seen
    expect(other.page.get_by_role("alert")).to_have_count(0)
    notice = later.page.get_by_role("alert").inner_text()
    assert "'private net.onnx', which is not offered here" in notice
    assert "files of one page are not reachable from another" in notice
    with mine.step("the person who provoked a refusal sees it"):
        file = tmp_path / "notes.md"
        file.write_text("no model")
        mine.page.get_by_label("model file").set_input_files(str(file))
        mine.page.get_by_role("alert").wait_for()
        other.page.keyboard.press("j")
        expect(other.page.get_by_role("alert")).to_have_count(0)


@pytest.fixture
def two_pages(sample_models: Path, tmp_path: Path):
    """Two pages of one app, and what each of them was given to show."""
    results, pages = ResultStore(), []
    for name in ("mine", "other"):
        folder = tmp_path / name
        folder.mkdir()
        published: list[PageState] = []
        choices = choices_of([sample_models / "digits_cnn.onnx"])
        page = Page(
            PageState(choices, ("cpu",), "cpu", first_request(choices[0], "cpu")),
            lambda _: CompilerProcess(ModelCompiler),
            results,
            Uploads(folder),
            published.append,
        )
        pages.append((page, published))
    yield pages
    for page, _ in pages:
        page.stop()


def test_the_name_of_an_upload_opens_nothing_elsewhere(two_pages: Any):
    (mine, _), (other, published) = two_pages
    data = base64.b64encode(b"a model").decode()
    mine.handle({"kind": "upload", "name": "n.onnx", "part": 0, "parts": 1, "bytes": data})
    mine.stop()
    key, path = mine.state.choices[-1].key, mine.state.choices[-1].path
    assert key != mine.state.choices[0].key
    other.handle({"kind": "open", "model": key})
    other.handle({"kind": "open", "model": path})
    other.handle({"kind": "close", "model": key})
    other.handle({"kind": "show", "branch": "1"})
    assert other.comparison(["1"]) is None
    assert published == []
    assert Path(path).is_file()
    assert [choice.label for choice in other.state.choices] == ["digits_cnn.onnx"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "compile",
        {},
        {"kind": "open"},
        {"kind": "open", "model": ["0"]},
        {"kind": "open", "model": "/etc/passwd"},
        {"kind": "close", "model": "7"},
        {"kind": "fork", "settings": {"target": "../cpu", "disable": [], "pins": []}},
        {"kind": "fork", "settings": {"target": "cpu", "disable": "fuse", "pins": []}},
        {"kind": "fork", "settings": 7},
        {"kind": "show", "branch": "__proto__"},
        {"kind": "forget", "branch": {}},
        {"kind": "bisect"},
        {"kind": "run", "code": "import os"},
    ],
)
def test_messages_that_no_page_of_ours_sends_start_nothing(two_pages: Any, message: object):
    (mine, _), _ = two_pages
    mine.handle(message)
    assert mine.state.status == "idle"
    assert mine.state.branches == ()
