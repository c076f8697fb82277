"""Nothing is lost: a reload, Back, another start of the app, undo and redo, names of branches."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

SERVED = Path(__file__).parent / "served.py"


class Sight:
    """A page with the app in it, as a person reads it."""

    def __init__(self, seen: Any) -> None:
        self.page = seen.page
        self.seen = seen

    def branch(self, label: str) -> None:
        """Waits until this branch is looked at."""
        chosen = self.page.locator(f'.branch-select option:checked[title*="{label}"]')
        chosen.wait_for(state="attached")
        key = chosen.get_attribute("value")
        self.page.locator(f'.frame[data-branch="{key}"]').wait_for()

    def history(self) -> list[str]:
        """What was done, the last first."""
        self.page.get_by_role("tab", name="branches", exact=True).click()
        return self.page.locator(".history-point").all_inner_texts()

    def tree_of(self) -> list[str]:
        """As `tree`, from whatever tab."""
        self.page.get_by_role("tab", name="branches", exact=True).click()
        return self.tree()

    def tree(self) -> list[str]:
        return self.page.locator(".branch-show").all_inner_texts()

    def switch_off(self, name: str) -> None:
        before = self.page.locator(".branch-select option").count()
        self.page.get_by_label(f"run {name}").uncheck()
        self.branch(f"{max(before, 1) + 1}  without")

    def drag(self, name: str, dx: int, dy: int) -> None:
        box = self.page.get_by_role("separator", name=name).bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + dx, y + dy, steps=4)
        self.page.mouse.up()

    def width(self, selector: str) -> int:
        return round(self.page.locator(selector).bounding_box()["width"])

    def height(self, selector: str) -> int:
        return round(self.page.locator(selector).bounding_box()["height"])

    def theme(self) -> str:
        return self.page.locator(".explorer").get_attribute("data-theme")


Open = Callable[..., Sight]


@pytest.fixture
def browse(browsing: ModuleType, chromium: Browser) -> Iterator[Open]:
    """Opens an address as another person would."""
    with ExitStack() as visits:

        def opened(address: str) -> Sight:
            seen = visits.enter_context(browsing.watched(chromium, timeout_seconds=30))
            seen.page.goto(address)
            seen.page.wait_for_selector(".node")
            return Sight(seen)

        yield opened


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("good.onnx", "other.onnx"):
        (folder / name).write_bytes(b"")
    return folder


@pytest.fixture
def start(
    serve_apart: Callable[..., Any], models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Any]:
    """The app on the invented compiler, which keeps workspaces; each start has an address. It
    offers the folder of the models, or the files that are named."""
    monkeypatch.setenv("EXPLORER_WORKSPACES", str(tmp_path / "workspaces"))

    @contextmanager
    def started(*files: Path) -> Iterator[str]:
        named = map(str, files or (models,))
        with serve_apart(str(SERVED), "a-test-token", *named) as (address, _):
            yield address

    return started


@pytest.fixture(scope="module")
def address(
    serve_apart: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The same app for tests that do not end it: whoever comes begins with a new workspace."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "models").mkdir()
    (folder / "models" / "good.onnx").write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPLORER_WORKSPACES", str(folder / "workspaces"))
        with serve_apart(str(SERVED), "a-test-token", str(folder / "models")) as (found, _):
            yield found


@pytest.mark.browser
def test_a_reload_and_another_start_show_everything_as_it_was(
    start: Any, browse: Open, tmp_path: Path
):
    sent = tmp_path / "sent by hand.onnx"
    sent.write_bytes(b"model")
    open_models = ["good.onnx", "other.onnx", sent.name]
    with start() as address:
        sight = browse(address)
        page = sight.page
        sight.switch_off("fuse-activation")
        sight.drag("height of the dock", 0, -70)
        sight.drag("width of the passes", 50, 0)
        sizes = sight.height(".dock"), sight.width(".passes-pane")
        page.get_by_label("switch between light and dark").click()
        theme = sight.theme()
        page.keyboard.press("Escape")
        for _ in range(3):
            page.keyboard.press("j")
        page.locator(".node").first.click()
        sight.history()
        page.locator(".branch-row.current").get_by_text("rename").click()
        page.get_by_label("name of the branch").fill("no fusion")
        page.keyboard.press("Enter")
        sight.branch("no fusion")
        page.get_by_label("note on the branch").last.fill("slower by a third")
        page.get_by_label("note on the branch").last.blur()
        page.get_by_label("open a model or a saved trace").select_option(label="other.onnx")
        page.locator(".document.current", has_text="other.onnx").wait_for()
        page.locator('.frame[data-model="1"]').wait_for()
        assert (sight.height(".dock"), sight.width(".passes-pane")) == sizes
        page.get_by_label("model file").set_input_files(str(sent))
        page.locator(".document.current", has_text="sent by hand.onnx").wait_for()
        sent.unlink()
        page.locator(".document-tab", has_text="good.onnx").click()
        sight.branch("no fusion")
        page.locator('.frame[data-model="0"]').wait_for()
        seen_pass = sight.seen.current_pass()
        selected = page.locator(".subject-name h2").first.inner_text()
        history = sight.history()

        def is_as_it_was() -> None:
            sight.branch("no fusion")
            page.wait_for_selector(".node")
            sight.seen.expect_pass(seen_pass)
            assert page.locator(".document-label").all_inner_texts() == open_models
            assert sight.theme() == theme
            assert (sight.height(".dock"), sight.width(".passes-pane")) == sizes
            expect(page.locator(".subject-name h2").first).to_have_text(selected)
            assert sight.history() == history
            assert sight.tree() == ["first", "no fusion"]
            expect(page.get_by_label("note on the branch").last).to_have_value("slower by a third")

        page.reload()
        is_as_it_was()
        assert sight.seen.is_clean(), sight.seen
        page.close()
    with start() as address:
        # Another port, and a browser that has never been here.
        sight = browse(address)
        page = sight.page
        is_as_it_was()
        other = browse(address)
        assert other.page.locator(".document-label").all_inner_texts() == ["good.onnx"]


@pytest.mark.browser
def test_ir_is_edited_another_start_has_it_and_a_damaged_workspace_is_said(
    start: Any, browse: Open, models: Path, tmp_path: Path
):
    with start() as address:
        sight = browse(address)
        page = sight.page
        page.locator(".pass-row", has_text="fuse-add").click()
        page.get_by_role("tab", name="IR", exact=True).click()
        page.locator(".edit-ir").click()
        area, said = page.locator(".editor-text"), page.locator(".editor-said")
        expect(area).to_have_value("builtin.module {\n  top.add\n}\n")
        area.fill("builtin.module {\n\n  wrong\n}\n")
        page.get_by_role("button", name="compile from here").click()
        expect(said).to_have_text("line 3: not valid IR: no such operation")
        expect(page.locator(".editor-strip")).to_be_visible()
        page.keyboard.press("Escape")
        page.locator(".edit-ir").click()
        expect(area).to_have_value("builtin.module {\n\n  wrong\n}\n")
        expect(page.locator(".rule-words")).to_contain_text('c.insert(rule, after="fuse-add")')
        area.fill("builtin.module {\n}\n")
        page.keyboard.press("Control+Enter")
        sight.branch("edited after fuse-add")
        expect(page.locator(".ir-editor")).to_have_count(0)
        assert sight.tree_of() == ["first", "edited after fuse-add"]
        assert sight.seen.is_clean(), sight.seen
        page.close()
    with start() as address:
        sight = browse(address)
        sight.branch("edited after fuse-add")
        assert sight.seen.is_clean(), sight.seen
        sight.page.close()
    (file,) = (tmp_path / "workspaces").glob("*.workspace")
    file.write_bytes(file.read_bytes()[:-40])
    both = sorted(models.iterdir())
    with start(*both) as address:
        sight = browse(address)
        expect(sight.page.get_by_role("alert")).to_contain_text("bytes are changed or missing")
        # It begins anew, and two files that are named are compared at once.
        expect(sight.page.locator(".document-label")).to_have_text([file.name for file in both])
        expect(sight.page.locator('.dock [aria-selected="true"]').first).to_have_text("compare")
        expect(sight.page.locator(".compare-choice input:checked")).to_have_count(1)
        assert os.path.exists(f"{file}.damaged")


@pytest.mark.browser
def test_back_walks_through_what_was_looked_at_and_does_not_leave(address: str, browse: Open):
    sight = browse(address)
    page, seen = sight.page, sight.seen
    first = seen.current_pass()
    page.locator(".pass-row", has_text="remove-identities").click()
    page.get_by_role("tab", name="IR", exact=True).click()
    sight.switch_off("fuse-activation")
    page.get_by_role("tab", name="kernels").click()
    page.wait_for_url("**dock=kernels**")  # it is written after the frame
    page.go_back()
    expect(page.get_by_role("tab", name="memory")).to_have_attribute("aria-selected", "true")
    page.go_back()
    sight.branch("first")
    tab = page.get_by_role("tab", name="IR", exact=True)
    expect(tab).to_have_attribute("aria-selected", "true")
    seen.expect_pass("remove-identities")
    page.go_back()
    expect(tab).to_have_attribute("aria-selected", "false")
    page.go_back()
    seen.expect_pass(first)
    page.go_back()
    expect(page.locator(".announcer")).to_have_text(
        "One more step back leaves the explorer; what is open stays."
    )
    assert page.url.startswith(address)
    page.go_forward()
    seen.expect_pass(first)
    page.go_forward()
    seen.expect_pass("remove-identities")
    assert seen.is_clean(), seen


@pytest.mark.browser
def test_every_action_is_undone_by_a_key_a_button_or_the_history(address: str, browse: Open):
    sight = browse(address)
    page = sight.page
    sight.switch_off("fuse-activation")
    off = page.locator(".pass.off")
    before = off.locator("xpath=preceding-sibling::li[1]")
    expect(before).to_contain_text("fold-batch-norm")  # where it stood
    sight.switch_off("remove-identities")
    assert sight.history()[0].startswith("forked without fuse-activation, ")
    assert len(sight.tree()) == 3
    page.locator(".branch-row", has_text="first").first.get_by_text("delete").click()
    expect(page.locator(".branch-show")).to_have_count(2)
    page.locator(".explorer").focus()
    page.keyboard.press("Control+z")
    expect(page.locator(".branch-show")).to_have_count(3)
    page.locator(".undo").click()
    sight.branch("without fuse-activation")
    expect(page.locator(".branch-show")).to_have_count(2)
    page.keyboard.press("Control+Shift+z")
    sight.branch("without fuse-activation, without")
    page.locator(".history-point", has_text="opened good.onnx").click()
    expect(page.locator(".branch-show")).to_have_text(["first"])
    page.locator(".history-point", has_text="deleted").click()
    expect(page.locator(".branch-show")).to_have_count(2)
    page.locator(".document-close").click()
    expect(page.locator(".waiting strong")).to_have_text("Nothing is open")
    page.locator(".undo").click()
    sight.branch("without fuse-activation, without")
    assert sight.seen.is_clean(), sight.seen
