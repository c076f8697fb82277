"""What one page of the app does: choices in, compilations in a worker, branches out.

    page: {"kind": "fork", "settings": {"target": "cpu", "disable": ["fuse-activation"], ...}}
        -> session: status working, progress ... -> a new branch: its passes, then its kernels,
           errors and times as they arrive, each with a new revision

Nothing here knows Panel: `publish` takes what is to be shown, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from explorer.app.branches import (
    MOST_BRANCHES,
    MOST_COMPARED,
    Branch,
    ResultStore,
    compared,
    difference,
)
from explorer.app.decisions import request_of
from explorer.app.later_chunks import LaterChunks
from explorer.app.links import followed
from explorer.app.offers import Choice
from explorer.app.searches import Search, SearchOrder, with_search
from explorer.app.session import (
    STAGES,
    Bisection,
    CompileRequest,
    Died,
    DrawnTrace,
    Failure,
    MadeChunk,
    Progressed,
    SearchProgress,
    Stopped,
)
from explorer.app.shown import Shown
from explorer.app.uploads import UPLOAD_LIMIT_BYTES, UploadRefused, Uploads, too_large
from explorer.app.worker.process import CompilerProcess, Report

MOST_OPEN = 8
"""Models and traces that are open at once."""
CANCEL_SECONDS = 2.0
"""How long a worker may take to give up what is cancelled, before it is ended."""
MOST_NAME = 120
STAYS = "What was shown before stays usable."


class Workbench:
    """One page's state; messages of the page go to `handle`."""

    def __init__(
        self,
        choices: Sequence[Choice],
        targets: Sequence[str],
        target: str,
        take_worker: Callable[[CompileRequest], CompilerProcess],
        results: ResultStore,
        uploads: Uploads,
        publish: Callable[[Shown], None],
        opening: object = None,
    ) -> None:
        """`opening`: the link that is followed where a page has none."""
        if not choices:
            raise ValueError("the explorer needs at least one model to offer")
        self.shown = Shown(tuple(choices), tuple(targets), first_request(choices[0], target))
        self._target = target
        self._take_worker = take_worker
        self._results = results
        self._uploads = uploads
        self._publish = publish
        self._process: CompilerProcess | None = None
        self._asked: dict[int, CompileRequest] = {}
        self._count = 0
        self._after_base: CompileRequest | None = None
        """A link's fork, which is asked for when what it forks from is there."""
        self._last: dict[str, str] = {}
        """Of every model, by path, the branch that was looked at last."""
        self._timers: dict[int, threading.Timer] = {}
        """Of what is cancelled, until the worker has heard it."""
        self.later = LaterChunks(self._need)
        """What is made when the page asks for it."""
        self._has_begun = False
        self._opening = opening
        self._lock = threading.RLock()

    def begin(self, link: object = None) -> None:
        """Opens what a link says, or the first model. A page that says hello again begins nothing.

        link: {"model": label, "settings": decisions}, both as the page found them in its address
        """
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
            self._follow(self._opening if link is None else link)

    def _follow(self, link: object) -> None:
        with self._lock:
            request, notice = followed(link, self.shown, self._target_now)
            self.shown = replace(self.shown, notice=notice)
            has_base = any(b.request == request.base for b in self.shown.branches)
            if request != request.base and not has_base:
                self._after_base = request
                self._compile(request.base)
            else:
                self._compile(request)

    def stop(self) -> None:
        """Ends the worker; the page is gone."""
        with self._lock:
            process, self._process = self._process, None
            self._asked.clear()
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
        if process is not None:
            process.end()

    def handle(self, message: object) -> None:
        """A message of the page; what is none of those below has no effect."""
        if not isinstance(message, dict):
            return
        kind = message.get("kind")
        if kind == "open":
            self._open(str(message.get("model")))
        elif kind == "close":
            self._close(str(message.get("model")))
        elif kind == "fork":
            self._fork(message.get("settings"))
        elif kind == "show":
            self._look_at(str(message.get("branch")))
        elif kind == "forget":
            self._forget(str(message.get("branch")))
        elif kind == "link":
            self._follow(message.get("link"))
        elif kind == "unreadable":
            name = str(message.get("name", ""))[:MOST_NAME]
            self._refuse(f"the browser could not read {name!r}: is it a folder, or was it moved?")
        elif kind == "bisect":
            self._bisect()
        elif kind == "search":
            self._search(SearchOrder.of_page(message))
        elif kind == "cancel search":
            self._cancel_search()
        elif kind == "retry":
            self._retry()
        elif kind == "cancel":
            self._cancel()
        elif kind == "dismiss":
            self._show(replace(self.shown, status="idle", error=None, notice=""))
        elif kind == "upload":
            self._upload(message)
        elif kind == "refused":
            self._refuse(too_large(str(message.get("name", "")), UPLOAD_LIMIT_BYTES))

    def comparison(self, keys: Sequence[str], place: str | None = None) -> str | None:
        """The branch that is looked at beside others, as JSON text; None where there is no such.

        With a pass's name as the place, how their programs differ after it ("" for the end).
        """
        shown = self.shown
        branches = [shown.branch, *(shown.named(key) for key in dict.fromkeys(keys))]
        if not 2 <= len(branches) <= MOST_COMPARED or None in branches:
            return None
        present = [branch for branch in branches if branch is not None]
        if place is not None:
            return difference(present, place, self.later.awaited)
        labels = [shown.full_label(branch) for branch in present]
        return compared(present, labels, self.later.awaited)

    # -- what the page asks for --------------------------------------------------------------

    def _open(self, key: str) -> None:
        """Looks at a model or trace as it was left; opens it if it isn't open yet."""
        with self._lock:
            choice = next((choice for choice in self.shown.choices if choice.key == key), None)
            if choice is None:
                return
            branches = self.shown.of_path(choice.path)
            if branches:
                last = self._last.get(choice.path, branches[0].key)
                self._look_at(last if self.shown.named(last) else branches[0].key)
                return
            if self._is_room_for(choice):
                self._compile(first_request(choice, self._target_now))

    def _is_room_for(self, choice: Choice) -> bool:
        if len({branch.request.path for branch in self.shown.branches}) < MOST_OPEN:
            return True
        self._refuse(
            f"{choice.label!r} is not opened: {MOST_OPEN} are open, which is the most; close one",
            what="too many models are open",
        )
        return False

    def _close(self, key: str) -> None:
        """Drops a model with its branches; an upload with its file."""
        with self._lock:
            shown = self.shown
            choice = next((choice for choice in shown.choices if choice.key == key), None)
            if choice is None:
                return
            if shown.status == "working" and shown.wanted.path == choice.path:
                self._cancel()
            for branch in self.shown.of_path(choice.path):
                self._drop(branch)
            self._last.pop(choice.path, None)
            left = tuple(b for b in self.shown.branches if b.request.path != choice.path)
            shown = replace(self.shown, branches=left)
            if choice.is_upload:
                shown = replace(shown, choices=tuple(c for c in shown.choices if c != choice))
                self._uploads.remove(Path(choice.path))
            if shown.branch is None:
                shown = replace(
                    shown,
                    current=left[-1].key if left else "",
                    wanted=left[-1].request
                    if left
                    else first_request(shown.choices[0], self._target)
                    if shown.choices
                    else shown.wanted,
                    revision=shown.revision + 1,
                )
            self._show(shown)

    def _fork(self, settings: object) -> None:
        shown = self.shown
        path = shown.branch.request.path if shown.branch else shown.wanted.path
        request = request_of(settings, path, shown.targets)
        if request is None:
            return
        if request.is_trace:
            self._refuse(
                "A saved trace holds what a compilation was, not its model: open the model's file "
                "and change its decisions there.",
                what="a saved trace cannot be compiled again",
            )
            return
        self._compile(request)

    def _look_at(self, key: str) -> None:
        with self._lock:
            shown = self.shown
            found = shown.named(key)
            if found is None or key == shown.current:
                return
            self._last[found.request.path] = key
            status = "idle" if shown.status == "failed" else shown.status
            error = None if shown.status == "failed" else shown.error
            wanted = shown.wanted if shown.status == "working" else found.request
            self._show(
                replace(
                    shown,
                    current=key,
                    wanted=wanted,
                    status=status,
                    error=error,
                    revision=shown.revision + 1,
                )
            )
            self._prepare(found.request)

    def _forget(self, key: str) -> None:
        """Drops a branch, but not the one that is looked at."""
        with self._lock:
            branch = self.shown.named(key)
            if branch is None or key == self.shown.current:
                return
            self._drop(branch)
            kept = tuple(b for b in self.shown.branches if b.key != key)
            self._show(replace(self.shown, branches=kept))

    def _drop(self, branch: Branch) -> None:
        self._asked.pop(int(branch.key), None)
        self.later.give_up(branch.key)
        if self._process is not None:
            self._process.forget(int(branch.key), branch.request)

    def _bisect(self) -> None:
        with self._lock:
            branch = self.shown.branch
            if branch is None or branch.is_bisecting or branch.request.is_trace:
                return
            self._update(replace(branch, is_bisecting=True))
            self._asked[int(branch.key)] = branch.request
            self._running(branch.request).bisect(int(branch.key), branch.request)

    def _search(self, order: SearchOrder | None) -> None:
        """Searches the schedule of a kernel of the branch that is looked at; one at a time."""
        with self._lock:
            branch = self.shown.branch
            if order is None or branch is None or branch.request.is_trace:
                return
            if any(search.is_running for search in self.shown.searches):
                return
            self._count += 1
            search = Search(self._count, branch.request, order)
            self._asked[search.key] = branch.request
            self._show(replace(self.shown, searches=with_search(self.shown.searches, search)))
            self._running(branch.request).search(search.key, branch.request, order)

    def _cancel_search(self) -> None:
        with self._lock:
            for search in self.shown.searches:
                if search.is_running and self._process is not None:
                    self._process.cancel(search.key, search.request)

    def _searched(self, key: int, found: SearchProgress) -> None:
        search = next((s for s in self.shown.searches if s.key == key), None)
        if search is None:
            return
        if found.status != "running":
            self._asked.pop(key, None)
        searches = with_search(self.shown.searches, search.after(found))
        self._show(replace(self.shown, searches=searches))

    def _retry(self) -> None:
        """Once more what failed: the compilation, or the stages of it that are missing."""
        with self._lock:
            branch = self.shown.branch
            if branch is None or not branch.failed or self.shown.wanted != branch.request:
                self._compile(self.shown.wanted)
                return
            self._update(replace(branch, failed=()))
            self._show(replace(self.shown, status="idle", error=None))
            self._ask(int(branch.key), branch.request)

    def _cancel(self) -> None:
        """Gives up what is waited for; everything that is there already stays.

        The worker is told, and goes on with the rest. One that doesn't hear within two seconds
        is ended, and another one makes what is still missing.
        """
        with self._lock:
            shown = self.shown
            self._after_base = None
            key = next((k for k, r in self._asked.items() if r == shown.wanted), None)
            if shown.status == "working" and key is not None and shown.named(str(key)) is None:
                request = self._asked.pop(key)
                if self._process is not None and self._process.is_alive:
                    timer = threading.Timer(CANCEL_SECONDS, self._start_afresh, [self._process])
                    timer.daemon = True
                    self._timers[key] = timer
                    self._process.cancel(key, request)
                    timer.start()
            wanted = shown.branch.request if shown.branch else shown.wanted
            self._show(replace(shown, status="idle", progress=None, wanted=wanted))

    def _start_afresh(self, deaf: CompilerProcess) -> None:
        """Another worker in place of one that does not answer."""
        with self._lock:
            if self._process is not deaf:
                return
            self._process = None
            self._timers.clear()
            self._take_over()
            self.later.ask_again(self.shown.named)
        deaf.end()

    def _take_over(self) -> None:
        """A new worker makes what branches still lack, and what forks of them need."""
        current = self.shown.branch
        others = [b for b in self.shown.branches if b is not current]
        for branch in [*others, *([current] if current else [])]:
            if branch.is_bisecting:
                self._update(replace(branch, is_bisecting=False))
            if branch.pending:
                self._ask(int(branch.key), branch.request)
        if current is not None:
            self._prepare(current.request)

    def _prepare(self, request: CompileRequest) -> None:
        """Sees to it that forks of a branch begin from what is compiled already."""
        if not request.is_trace:
            self._running(request).prepare(request)

    def _upload(self, message: dict[str, Any]) -> None:
        try:
            upload = self._uploads.receive(message)
        except UploadRefused as refused:
            self._refuse(str(refused))
            return
        if upload is None:
            self._show(replace(self.shown, upload=self._uploads.current))
            return
        with self._lock:
            self.shown = replace(self.shown, upload=None)
            labels = [choice.label for choice in self.shown.choices]
            label, number = upload.label, 1
            while label in labels:
                number += 1
                label = f"{upload.label} ({number})"
            choice = Choice(f"upload {upload.path.stem}", label, str(upload.path), is_upload=True)
            if not self._is_room_for(choice):
                self._uploads.remove(upload.path)
                return
            self.shown = replace(self.shown, choices=(*self.shown.choices, choice))
            self._compile(first_request(choice, self._target_now))

    @property
    def _target_now(self) -> str:
        """The target that was looked at or asked for last; a trace has none."""
        branch = self.shown.branch
        return (branch.request.target if branch else self.shown.wanted.target) or self._target

    def _refuse(self, reason: str, what: str = "the file was not taken") -> None:
        error = Failure(what, reason, STAYS)
        count = self.shown.refusals + 1
        shown = replace(self.shown, status="failed", error=error, upload=None, refusals=count)
        self._show(shown)

    # -- the worker --------------------------------------------------------------------------

    def _compile(self, request: CompileRequest) -> None:
        with self._lock:
            known = next((b for b in self.shown.branches if b.request == request), None)
            self.shown = replace(self.shown, wanted=request)
            if known is not None:
                self._look_at(known.key)
                self._show(replace(self.shown, status="idle", progress=None, error=None))
                return
            self._count += 1
            kept = None if self._is_private(request) else self._results.get(request)
            if kept is not None:
                self._asked[self._count] = request
                self._drawn(self._count, request, kept)
                if kept.is_complete(request):
                    del self._asked[self._count]
                    self._prepare(request)
                else:
                    self._ask(self._count, request)
                return
            self._show(replace(self.shown, status="working", progress=None, error=None))
            self._ask(self._count, request)

    def _is_private(self, request: CompileRequest) -> bool:
        choice = self.shown.choice(request.path)
        return choice is None or choice.is_upload

    def _need(self, branch: Branch, chunk: str) -> bool:
        process = self._process
        if process is None or not process.is_alive:
            return False
        process.need(int(branch.key), chunk)
        return True

    def _ask(self, key: int, request: CompileRequest) -> None:
        self._asked[key] = request
        self._running(request).compile(key, request)

    def _running(self, request: CompileRequest) -> CompilerProcess:
        """The worker, or another one that can begin with a request at once."""
        if self._process is None or not self._process.is_alive:
            self._process = self._take_worker(request)
            self._process.adopt(self._reported)
        return self._process

    def _reported(self, key: int, report: Report) -> None:
        with self._lock:
            if isinstance(report, Stopped):
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
                return
            if isinstance(report, Died):
                self.later.give_up()
                self._died(report)
                return
            if isinstance(report, MadeChunk):
                self.later.arrived(self.shown.named(str(key)), str(key), report)
                return
            request = self._asked.get(key)
            if request is None:
                return  # forgotten, or asked of a worker that was ended
            if isinstance(report, Progressed):
                is_shown = str(key) == self.shown.current or request == self.shown.wanted
                if is_shown:
                    self._show(replace(self.shown, progress=report))
            elif isinstance(report, DrawnTrace):
                self._drawn(key, request, report)
            elif isinstance(report, SearchProgress):
                self._searched(key, report)
            elif isinstance(report, Failure):
                self._failed(key, request, self._as_named(report, request))
            else:
                self._bisected(key, report)

    def _drawn(self, key: int, request: CompileRequest, trace: DrawnTrace) -> None:
        """More is known of a compilation: a new branch, or a further stage of one."""
        shown = self.shown
        if self._is_private(request):
            trace = self._with_given_name(trace, request)
        else:
            self._results.put(request, trace)
        known = shown.named(str(key))
        if known is not None:
            # A worker that took over from one that was ended begins with what is there already.
            if not set(trace.stages) <= set(known.trace.stages):
                self._update(replace(known, trace=trace), is_news=True)
            return
        others = shown.of_path(request.path)
        if len(others) >= MOST_BRANCHES:
            oldest = next(b for b in others[1:] if b.key != shown.current)
            self._forget(oldest.key)
            shown = self.shown
        branches = (*shown.branches, Branch(str(key), request, trace))
        shown = replace(shown, branches=branches)
        following, self._after_base = self._after_base, None
        if following is not None and following.base == request:
            self.shown = shown
            self._compile(following)
            return
        is_wanted = request == shown.wanted
        if is_wanted or shown.branch is None:
            self._last[request.path] = str(key)
            shown = replace(shown, current=str(key), revision=shown.revision + 1)
        if is_wanted:
            shown = replace(shown, status="idle", progress=None, error=None)
        self._show(shown)

    def _with_given_name(self, trace: DrawnTrace, request: CompileRequest) -> DrawnTrace:
        """Under the name that the person's file has, not the one under which it lies here."""
        choice = self.shown.choice(request.path)
        if choice is None or request.is_trace:
            return trace
        model = {**trace.head["model"], "name": Path(choice.label).stem}
        return replace(trace, head={**trace.head, "model": model})

    def _as_named(self, failure: Failure, request: CompileRequest) -> Failure:
        """The failure with the person's name of the file in place of the path that it has here."""
        choice = self.shown.choice(request.path)
        if choice is None:
            return failure
        texts = {
            name: getattr(failure, name)
            .replace(request.path, choice.label)
            .replace(Path(request.path).name, Path(choice.label).name)
            for name in ("what", "where", "advice")
        }
        return replace(failure, **texts)

    def _failed(self, key: int, request: CompileRequest, failure: Failure) -> None:
        branch = self.shown.named(str(key))
        if branch is None:
            self._refused(key, request, failure)
            return
        failed = (*branch.failed, *([failure.stage] if failure.stage in STAGES else []))
        self._update(replace(branch, failed=failed, is_bisecting=False))
        if str(key) == self.shown.current:
            self._show(replace(self.shown, status="failed", progress=None, error=failure))

    def _refused(self, key: int, request: CompileRequest, failure: Failure) -> None:
        """There will be no such branch."""
        self._asked.pop(key, None)
        self._after_base = None
        if request != self.shown.wanted:
            return
        shown = self.shown
        if shown.branch is None and shown.branches:
            # What a link forks from is there, and nothing is looked at yet.
            first = shown.branches[-1]
            shown = replace(shown, current=first.key, revision=shown.revision + 1)
        self._show(replace(shown, status="failed", progress=None, error=failure))

    def _died(self, report: Died) -> None:
        """What the worker was at is lost: it may be what it died of. The branches stay."""
        for key, failure in report.failures.items():
            request = self._asked.get(key)
            if request is None:
                continue
            failure = self._as_named(failure, request)
            if any(search.key == key for search in self.shown.searches):
                self._searched(key, SearchProgress("failed", error=failure.what))
                continue
            branch = self.shown.named(str(key))
            if branch is None:
                self._refused(key, request, failure)
                continue
            failed = (*branch.failed, *branch.pending)
            self._update(replace(branch, failed=failed, is_bisecting=False))
            if str(key) == self.shown.current:
                self._show(replace(self.shown, status="failed", progress=None, error=failure))
        if self.shown.branch is not None:
            self._take_over()

    def _bisected(self, key: int, found: Bisection | None) -> None:
        branch = self.shown.named(str(key))
        if branch is not None:
            self._update(replace(branch, bisection=found, is_bisecting=False))

    def _update(self, branch: Branch, is_news: bool = False) -> None:
        """Another state of a branch; `is_news` when its trace tells more."""
        shown = self.shown
        branches = tuple(branch if b.key == branch.key else b for b in shown.branches)
        revision = shown.revision + (is_news and branch.key == shown.current)
        is_done = not branch.pending and branch.key == shown.current and shown.status == "idle"
        progress = None if is_done else shown.progress
        self._show(replace(shown, branches=branches, revision=revision, progress=progress))

    def _show(self, shown: Shown) -> None:
        with self._lock:
            self.shown = shown
            self._publish(shown)


def first_request(choice: Choice, target: str) -> CompileRequest:
    """A model as it is compiled by default, or a trace as it was saved."""
    return CompileRequest(choice.path, "" if choice.kind == "trace" else target)
