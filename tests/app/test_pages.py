"""How many pages are open at once, and what goes with one that ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.app.server.pages import Pages
from explorer.app.state.page_state import PageState
from explorer.app.uploads import Uploads
from explorer.app.workspaces import Workspace, Workspaces


class FakePage:
    """A page that notes its end."""

    def __init__(self, uploads: Uploads, workspace: Workspace) -> None:
        self.uploads = uploads
        self.workspace = workspace
        self.is_stopped = False

    def show_in(self, publish: Callable[[PageState], None]) -> None:
        self.publish = publish

    def files_to_keep(self) -> set[Path]:
        return set()

    def stop(self) -> None:
        self.is_stopped = True
        self.workspace.close()


class Visitors:
    """People with pages: who is connected, and what they are shown."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.connected: set[str] = set()
        self.pages = Pages(
            lambda uploads, _, workspace: FakePage(uploads, workspace),  # pyright: ignore[reportArgumentType]  (a stand-in)
            folder,
            most,
            Workspaces(None),
        )

    def open(self, name: str, *workspaces: str) -> Any:
        self.connected.add(name)
        return self.pages.open(lambda _: None, lambda: name in self.connected, workspaces)


@pytest.fixture
def two(tmp_path: Path) -> Visitors:
    return Visitors(tmp_path, 2)


def test_one_page_too_many_is_told_and_one_that_ends_makes_room(two: Visitors):
    first, second = two.open("first"), two.open("second")
    assert isinstance(second, FakePage)
    refusal = two.open("third")
    assert refusal == (
        "2 pages are open, which is the most that this explorer was started for. Close one and "
        "load this page again, or start the explorer with a larger number of --pages."
    )
    two.pages.end(first)
    assert first.is_stopped
    assert isinstance(two.open("third"), FakePage)
    assert isinstance(two.open("fourth"), str)


def test_a_page_whose_connection_is_lost_stays_until_there_is_no_room(two: Visitors):
    first, second = two.open("first"), two.open("second")
    two.pages.end(second)
    two.connected.remove("first")
    assert isinstance(two.open("third"), FakePage)
    assert not first.is_stopped
    assert isinstance(two.open("fourth"), FakePage)
    assert first.is_stopped


def test_a_page_takes_its_uploads_with_it(two: Visitors):
    two.open("first")
    page = two.open("second")
    assert len(list(two.folder.iterdir())) == 2
    two.pages.end(page)
    two.pages.end(page)
    assert len(list(two.folder.iterdir())) == 1
    two.pages.end_all()
    assert list(two.folder.iterdir()) == []


def test_a_page_that_is_loaded_again_is_the_same_page(two: Visitors):
    page = two.open("before")
    two.connected.remove("before")
    again = two.open("after", page.workspace.name)
    assert again is page
    two.pages.leave(page, lambda: False)  # the connection of before ends late
    assert not page.is_stopped


def test_a_page_that_somebody_looks_at_is_not_taken_over(two: Visitors):
    page = two.open("mine")
    assert two.open("another", page.workspace.name) is not page
