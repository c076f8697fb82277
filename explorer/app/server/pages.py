"""The pages that are open, each with its state, a worker's process and a folder for uploads.

    pages = Pages(make_page, folder, most=16)
    page = pages.open(publish, is_connected, names)       or why there is no room
    pages.leave(page, is_connected)

A page opens when it says hello over its websocket, with the names of the workspaces that its
browser knows. One that is loaded again finds itself as it was: what a browser leaves stays for some
seconds, results and worker included, and after that its workspace. Where there is no room for
another page, one that nobody is connected to ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.app.effects import Page
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import SavedWorkspace
from explorer.app.upload_folder import page_folder
from explorer.app.uploads import Quota, Uploads
from explorer.app.workspaces import Workspace, Workspaces

Publish = Callable[[PageState], None]


@dataclass(frozen=True)
class Visit:
    """What belongs to a page."""

    uploads: Uploads
    is_connected: Callable[[], bool]


class Pages:
    """All of one app; called from its event loop."""

    def __init__(
        self,
        make_page: Callable[[Uploads, Publish, Workspace], Page],
        folder: Path,
        most: int,
        workspaces: Workspaces,
        fits: Callable[[SavedWorkspace], bool] = lambda _: False,
    ) -> None:
        """`folder` is for what pages send and no workspace keeps. The first page goes on with the
        workspace of before that was written last and that `fits`."""
        self._make_page = make_page
        self._folder = folder
        self._most = most
        self._quota = Quota()
        self._open: dict[Page, Visit] = {}
        self._workspaces = workspaces
        self._fits = fits
        self._is_first = True

    def open(
        self, publish: Publish, is_connected: Callable[[], bool], names: Sequence[object] = ()
    ) -> Page | str:
        """A page, or a sentence for the person who opened one page too many.

        names: of the workspaces that the browser had, the one of this very page first.
        """
        for page, visit in self._open.items():
            if page.workspace.name in names and not visit.is_connected():
                self._open[page] = Visit(visit.uploads, is_connected)
                page.show_in(publish)
                return page
        if len(self._open) >= self._most:
            self._end_lost()
        if len(self._open) >= self._most:
            count = "1 page is" if self._most == 1 else f"{self._most} pages are"
            return (
                f"{count} open, which is the most that this explorer was started for. Close one "
                "and load this page again, or start the explorer with a larger number of --pages."
            )
        workspace = self._workspace(names)
        uploads = Uploads(workspace.files or page_folder(self._folder), self._quota)
        page = self._make_page(uploads, publish, workspace)
        self._open[page] = Visit(uploads, is_connected)
        return page

    def leave(self, page: Page, is_connected: Callable[[], bool]) -> None:
        """Ends a page, unless it was loaded again in the meantime."""
        visit = self._open.get(page)
        if visit is not None and visit.is_connected is is_connected:
            self.end(page)

    def _workspace(self, names: Sequence[object]) -> Workspace:
        """One that the browser had, or that the app before this one had, or a new one."""
        is_first, self._is_first = self._is_first, False
        for name in names:
            found = self._workspaces.claim(name)
            if found is not None:
                return found
        found = self._workspaces.newest(self._fits) if is_first else None
        return found or self._workspaces.new()

    def end(self, page: Page) -> None:
        """Ends the worker and removes the uploads that no workspace keeps; a second time
        nothing."""
        visit = self._open.pop(page, None)
        if visit is not None:
            keep = page.files_to_keep()
            visit.uploads.close(keep)
            page.stop()
            self._workspaces.tidy()

    def end_all(self) -> None:
        for page in list(self._open):
            self.end(page)

    def _end_lost(self) -> None:
        for page, visit in list(self._open.items()):
            if not visit.is_connected():
                self.end(page)
