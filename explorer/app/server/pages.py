"""The pages that are open, each with its state, a worker's process and a folder for uploads.

    pages = Pages(make_page, folder, most=16)
    page = pages.open(publish, is_connected)       or why there is no room
    pages.end(page)

A page opens when it says hello over its websocket. One that is loaded again leaves its session
behind for some seconds, in case that its connection comes back; where there is no room for another
page, such a session ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from explorer.app.effects import Page
from explorer.app.state.page_state import PageState
from explorer.app.upload_folder import page_folder
from explorer.app.uploads import Quota, Uploads

Publish = Callable[[PageState], None]


@dataclass(frozen=True)
class Visit:
    """What belongs to a page."""

    uploads: Uploads
    is_connected: Callable[[], bool]


class Pages:
    """All of one app; called from its event loop."""

    def __init__(
        self, make_page: Callable[[Uploads, Publish], Page], folder: Path, most: int
    ) -> None:
        """`folder` is for what pages send."""
        self._make_page = make_page
        self._folder = folder
        self._most = most
        self._quota = Quota()
        self._open: dict[Page, Visit] = {}

    def open(self, publish: Publish, is_connected: Callable[[], bool]) -> Page | str:
        """A page, or a sentence for the person who opened one page too many."""
        if len(self._open) >= self._most:
            self._end_lost()
        if len(self._open) >= self._most:
            count = "1 page is" if self._most == 1 else f"{self._most} pages are"
            return (
                f"{count} open, which is the most that this explorer was started for. Close one "
                "and load this page again, or start the explorer with a larger number of --pages."
            )
        uploads = Uploads(page_folder(self._folder), self._quota)
        page = self._make_page(uploads, publish)
        self._open[page] = Visit(uploads, is_connected)
        return page

    def end(self, page: Page) -> None:
        """Ends the worker and removes the uploads; a second time nothing."""
        visit = self._open.pop(page, None)
        if visit is not None:
            page.stop()
            visit.uploads.remove_all()

    def end_all(self) -> None:
        for page in list(self._open):
            self.end(page)

    def _end_lost(self) -> None:
        for page, visit in list(self._open.items()):
            if not visit.is_connected():
                self.end(page)
