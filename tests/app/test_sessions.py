"""Two people at one app: neither sees nor reaches what the other one brought."""

import base64
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.app.branches import ResultStore
from explorer.app.compiler import ModelCompiler
from explorer.app.uploads import Uploads
from explorer.app.workbench import Shown, Workbench


def offered(seen: Any) -> list[str]:
    """What the page lets one choose."""
    options = seen.page.get_by_label("model", exact=True).locator("option")
    return options.all_inner_texts()


@pytest.mark.browser
@pytest.mark.slow
def test_an_uploaded_model_is_seen_by_nobody_else(
    visit: Callable[[], Any], sample_models: Path, tmp_path: Path
):
    mine, other = visit(), visit()
    file = tmp_path / "private net.onnx"
    shutil.copy(sample_models / "digits_resnet.onnx", file)
    mine.page.get_by_label("model file").set_input_files(str(file))
    mine.page.get_by_label("model", exact=True).locator(
        "option:checked", has_text="private net.onnx"
    ).wait_for(state="attached", timeout=90_000)
    mine.page.wait_for_selector(".node", timeout=90_000)
    later = visit()
    assert offered(mine) == ["digits_cnn.onnx", "private net.onnx", "open a file …"]
    for seen in (other, later):
        assert offered(seen) == ["digits_cnn.onnx", "open a file …"]
        assert "private net" not in seen.page.locator(".explorer").inner_text()
        assert seen.page.get_by_role("alert").count() == 0
        assert seen.is_clean(), seen


@pytest.mark.browser
@pytest.mark.slow
def test_a_refusal_is_told_to_the_person_who_provoked_it(visit: Callable[[], Any], tmp_path: Path):
    mine, other = visit(), visit()
    file = tmp_path / "notes.txt"
    file.write_text("no model")
    mine.page.get_by_label("model file").set_input_files(str(file))
    mine.page.get_by_role("alert").wait_for()
    other.page.keyboard.press("j")
    assert other.page.get_by_role("alert").count() == 0


@pytest.fixture
def workbenches(sample_models: Path, tmp_path: Path):
    """Two pages of one app, and what each of them was told to show."""
    results, pages = ResultStore(), []
    for name in ("mine", "other"):
        folder = tmp_path / name
        folder.mkdir()
        told: list[Shown] = []
        models = [sample_models / "digits_cnn.onnx"]
        workbench = Workbench(
            models, ("cpu",), "cpu", ModelCompiler, results, Uploads(folder), told.append
        )
        pages.append((workbench, told))
    yield pages
    for workbench, _ in pages:
        workbench.stop()


def test_the_name_of_an_upload_opens_nothing_elsewhere(workbenches: Any):
    (mine, _), (other, told) = workbenches
    data = base64.b64encode(b"a model").decode()
    mine.handle({"kind": "upload", "name": "n.onnx", "part": 0, "parts": 1, "bytes": data})
    mine.stop()
    key = mine.shown.models[-1].key
    path = mine.shown.models[-1].path
    assert key != mine.shown.models[0].key
    other.handle({"kind": "compile", "model": key})
    other.handle({"kind": "compile", "model": path})
    other.handle({"kind": "show", "branch": "1"})
    assert told == []
    assert [choice.label for choice in other.shown.models] == ["digits_cnn.onnx"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "compile",
        {},
        {"kind": "compile"},
        {"kind": "compile", "model": ["0"]},
        {"kind": "fork", "settings": {"target": "../cpu", "disable": [], "pins": []}},
        {"kind": "fork", "settings": {"target": "cpu", "disable": "fuse", "pins": []}},
        {"kind": "fork", "settings": 7},
        {"kind": "show", "branch": "__proto__"},
        {"kind": "forget", "branch": {}},
        {"kind": "bisect"},
        {"kind": "run", "code": "import os"},
    ],
)
def test_messages_that_no_page_of_ours_sends_start_nothing(workbenches: Any, message: object):
    (mine, _), _ = workbenches
    mine.handle(message)
    assert mine.shown.status == "idle"
    assert mine.shown.branches == ()
