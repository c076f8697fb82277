"""The pages that are open, each with a workbench, a worker's process and a folder for uploads.

    pages = Pages(make_workbench, folder, most=16)
    workbench = pages.open(publish, is_connected)       or why there is no room
    pages.end(workbench)

A page opens when it says hello over its websocket. One that is loaded again leaves its session
behind for some seconds, in case that its connection comes back; where there is no room for another
page, such a session ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from explorer.app.shown import Shown
from explorer.app.upload_folder import page_folder
from explorer.app.uploads import Quota, Uploads
from explorer.app.workbench import Workbench

Publish = Callable[[Shown], None]


@dataclass(frozen=True)
class OpenPage:
    """One page of a browser."""

    uploads: Uploads
    is_connected: Callable[[], bool]


class Pages:
    """All of one app; called from its event loop."""

    def __init__(
        self, make_workbench: Callable[[Uploads, Publish], Workbench], folder: Path, most: int
    ) -> None:
        """`folder` is for what pages send."""
        self._make_workbench = make_workbench
        self._folder = folder
        self._most = most
        self._quota = Quota()
        self._open: dict[Workbench, OpenPage] = {}

    def open(self, publish: Publish, is_connected: Callable[[], bool]) -> Workbench | str:
        """A page's workbench, or a sentence for the person who opened one page too many."""
        if len(self._open) >= self._most:
            self._end_lost()
        if len(self._open) >= self._most:
            count = "1 page is" if self._most == 1 else f"{self._most} pages are"
            return (
                f"{count} open, which is the most that this explorer was started for. Close one "
                "and load this page again, or start the explorer with a larger number of --pages."
            )
        uploads = Uploads(page_folder(self._folder), self._quota)
        workbench = self._make_workbench(uploads, publish)
        self._open[workbench] = OpenPage(uploads, is_connected)
        return workbench

    def end(self, workbench: Workbench) -> None:
        """Ends the worker and removes the uploads; a second time nothing."""
        page = self._open.pop(workbench, None)
        if page is not None:
            workbench.stop()
            page.uploads.remove_all()

    def end_all(self) -> None:
        for workbench in list(self._open):
            self.end(workbench)

    def _end_lost(self) -> None:
        for workbench, page in list(self._open.items()):
            if not page.is_connected():
                self.end(workbench)
