"""How many pages are open at once, and what goes with one that ends."""

from pathlib import Path
from typing import Any

import pytest

from explorer.app.server.pages import Pages
from explorer.app.uploads import Uploads


class Bench:
    """A workbench that notes its end."""

    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class Visitors:
    """People with pages: who is connected, and what they are shown."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.connected: set[str] = set()
        self.pages = Pages(lambda uploads, _: Bench(uploads), folder, most)  # pyright: ignore[reportArgumentType]  (a stand-in)

    def open(self, name: str) -> Any:
        self.connected.add(name)
        return self.pages.open(lambda _: None, lambda: name in self.connected)


@pytest.fixture
def two(tmp_path: Path) -> Visitors:
    return Visitors(tmp_path, 2)


def test_one_page_too_many_is_told_and_one_that_ends_makes_room(two: Visitors):
    first, second = two.open("first"), two.open("second")
    assert isinstance(second, Bench)
    refusal = two.open("third")
    assert refusal == (
        "2 pages are open, which is the most that this explorer was started for. Close one and "
        "load this page again, or start the explorer with a larger number of --pages."
    )
    two.pages.end(first)
    assert first.is_stopped
    assert isinstance(two.open("third"), Bench)
    assert isinstance(two.open("fourth"), str)


def test_a_page_whose_connection_is_lost_stays_until_there_is_no_room(two: Visitors):
    first, second = two.open("first"), two.open("second")
    two.pages.end(second)
    two.connected.remove("first")
    assert isinstance(two.open("third"), Bench)
    assert not first.is_stopped
    assert isinstance(two.open("fourth"), Bench)
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
