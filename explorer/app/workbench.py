"""What one page of the app does: choices in, compilations in a worker, branches out.

    page: {"kind": "fork", "settings": {"target": "cpu", "disable": ["fuse-activation"], ...}}
        -> session: status working, progress ... -> a new branch: its passes, then its kernels,
           errors and times as they arrive, each with a new revision

Nothing here knows Panel: `publish` takes what is to be shown, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.app.branches import (
    MOST_BRANCHES,
    Branch,
    ResultStore,
    compared,
    request_of,
    settings_of,
)
from explorer.app.process import CompilerProcess, Report
from explorer.app.session import (
    Bisection,
    Compiler,
    DrawnTrace,
    Failure,
    Progressed,
    Request,
)
from explorer.app.uploads import UPLOAD_LIMIT_BYTES, UploadRefused, Uploads, too_large


@dataclass(frozen=True)
class Choice:
    """A model that the page offers."""

    key: str
    label: str
    path: str


@dataclass(frozen=True)
class Shown:
    """What the page shows: `session` drives the controls, the branch everything else."""

    models: tuple[Choice, ...]
    targets: tuple[str, ...]
    wanted: Request
    """What was asked for last: it may still run, or have failed."""
    branches: tuple[Branch, ...] = ()
    """Of one model."""
    current: str = ""
    """Key of the branch that is looked at."""
    status: str = "idle"
    """idle, working or failed."""
    progress: Progressed | None = None
    """Of what is waited for, or else of what is made in the background."""
    error: Failure | None = None
    revision: int = 0
    """Rises whenever the branch that is looked at is another one, or more is known of it."""
    optional: frozenset[str] = field(default=frozenset())
    """All passes that may be switched off, of all branches."""

    @property
    def branch(self) -> Branch | None:
        return next((branch for branch in self.branches if branch.key == self.current), None)

    @property
    def model(self) -> str:
        path = self.branch.request.path if self.branch else self.wanted.path
        return next(choice.key for choice in self.models if choice.path == path)

    @property
    def first_target(self) -> str:
        return self.branches[0].request.target if self.branches else self.wanted.target

    def session(self) -> dict[str, Any]:
        """As session.js reads it."""
        branch, progress, error = self.branch, self.progress, self.error
        shown = branch.request if branch else self.wanted
        return {
            "models": [{"key": m.key, "label": m.label} for m in self.models],
            "targets": list(self.targets),
            "model": self.model,
            "optional": list(branch.trace.optional) if branch else [],
            "settings": settings_of(shown),
            "wanted": settings_of(self.wanted),
            "status": self.status,
            "progress": None
            if progress is None
            else {
                "stage": progress.stage,
                "name": progress.name,
                "index": progress.index,
                "total": progress.total,
            },
            "error": None
            if error is None
            else {"what": error.what, "where": error.where, "advice": error.advice},
            "branches": [
                {
                    "key": b.key,
                    "label": b.label(self.first_target),
                    "stages": len(b.trace.stages),
                    "verdict": b.trace.head["summary"]["verdict"],
                }
                for b in self.branches
            ],
            "branch": self.current,
            "pending": branch.pending if branch else [],
            "bisection": None
            if branch is None or branch.bisection is None
            else {
                "pass": branch.bisection.pass_name,
                "rule": branch.bisection.rule,
                "operation": branch.bisection.operation,
                "address": branch.bisection.address,
            },
            "isBisecting": branch is not None and branch.is_bisecting,
            "uploadLimit": UPLOAD_LIMIT_BYTES,
        }


class Workbench:
    """One page's state; messages of the page go to `handle`."""

    def __init__(
        self,
        models: Sequence[Path],
        targets: Sequence[str],
        target: str,
        make_compiler: Callable[[], Compiler],
        results: ResultStore,
        uploads: Uploads,
        publish: Callable[[Shown], None],
    ) -> None:
        choices = tuple(Choice(str(i), path.name, str(path)) for i, path in enumerate(models))
        if not choices:
            raise ValueError("the explorer needs at least one model to offer")
        self.shown = Shown(choices, tuple(targets), Request(choices[0].path, target))
        self._make_compiler = make_compiler
        self._results = results
        self._uploads = uploads
        self._publish = publish
        self._process: CompilerProcess | None = None
        self._asked: dict[int, Request] = {}
        self._count = 0
        self._lock = threading.RLock()

    def start(self) -> None:
        """Compiles the first model."""
        self._compile(self.shown.wanted)

    def stop(self) -> None:
        """Ends the worker; the page is gone."""
        with self._lock:
            process, self._process = self._process, None
            self._asked.clear()
        if process is not None:
            process.end()

    def handle(self, message: object) -> None:
        """A message of the page; what is none of those below has no effect."""
        if not isinstance(message, dict):
            return
        kind = message.get("kind")
        if kind == "compile":
            self._choose(str(message.get("model")))
        elif kind == "fork":
            self._fork(message.get("settings"))
        elif kind == "show":
            self._look_at(str(message.get("branch")))
        elif kind == "forget":
            self._forget(str(message.get("branch")))
        elif kind == "bisect":
            self._bisect()
        elif kind == "retry":
            self._compile(self.shown.wanted)
        elif kind == "cancel":
            self._cancel()
        elif kind == "dismiss":
            self._show(replace(self.shown, status="idle", error=None))
        elif kind == "upload":
            self._upload(message)
        elif kind == "refused":
            self._refuse(too_large(str(message.get("name", "")), UPLOAD_LIMIT_BYTES))

    def comparison(self, key: str) -> str | None:
        """The comparison of the branch that is looked at with another one, as JSON text."""
        shown = self.shown
        other = next((branch for branch in shown.branches if branch.key == key), None)
        if shown.branch is None or other is None:
            return None
        labels = (shown.branch.label(shown.first_target), other.label(shown.first_target))
        return compared(shown.branch.trace, other.trace, labels)

    # -- what the page asks for --------------------------------------------------------------

    def _choose(self, model: str) -> None:
        choice = next((choice for choice in self.shown.models if choice.key == model), None)
        if choice is not None:
            self._compile(Request(choice.path, self._target))

    def _fork(self, settings: object) -> None:
        branch = self.shown.branch
        path = branch.request.path if branch else self.shown.wanted.path
        request = request_of(settings, path, self.shown.targets, set(self.shown.optional))
        if request is not None:
            self._compile(request)

    def _look_at(self, key: str) -> None:
        with self._lock:
            shown = self.shown
            found = next((branch for branch in shown.branches if branch.key == key), None)
            if found is None or key == shown.current:
                return
            self._show(
                replace(shown, current=key, wanted=found.request, revision=shown.revision + 1)
            )

    def _forget(self, key: str) -> None:
        """Drops a branch, but not the one that is looked at."""
        with self._lock:
            kept = tuple(
                b for b in self.shown.branches if b.key != key or key == self.shown.current
            )
            for branch in self.shown.branches:
                if branch not in kept:
                    self._asked.pop(int(branch.key), None)
                    if self._process is not None:
                        self._process.forget(int(branch.key), branch.request)
            self._show(replace(self.shown, branches=kept))

    def _bisect(self) -> None:
        with self._lock:
            branch = self.shown.branch
            if branch is None or branch.is_bisecting:
                return
            self._update(replace(branch, is_bisecting=True))
            self._running().bisect(int(branch.key), branch.request)

    def _cancel(self) -> None:
        """Ends the worker. What the branch that is looked at still lacks is made by a new one."""
        self.stop()
        with self._lock:
            branch = self.shown.branch
            if branch is not None:
                branch = replace(branch, is_bisecting=False)
                self._update(branch)
                if branch.pending:
                    self._ask(int(branch.key), branch.request)
            wanted = branch.request if branch else self.shown.wanted
            self._show(replace(self.shown, status="idle", progress=None, wanted=wanted))

    def _upload(self, message: dict[str, Any]) -> None:
        try:
            upload = self._uploads.receive(message)
        except UploadRefused as refused:
            self._refuse(str(refused))
            return
        if upload is None:
            return
        choice = Choice(f"upload {upload.path.stem}", upload.label, str(upload.path))
        with self._lock:
            self.shown = replace(self.shown, models=(*self.shown.models, choice))
        self._compile(Request(choice.path, self._target))

    @property
    def _target(self) -> str:
        branch = self.shown.branch
        return branch.request.target if branch else self.shown.wanted.target

    def _refuse(self, reason: str) -> None:
        error = Failure("the file was not taken", reason, "What was shown before stays usable.")
        self._show(replace(self.shown, status="failed", error=error))

    # -- the worker --------------------------------------------------------------------------

    def _compile(self, request: Request) -> None:
        with self._lock:
            self.shown = replace(self.shown, wanted=request)
            known = next((b for b in self.shown.branches if b.request == request), None)
            if known is not None:
                self._look_at(known.key)
                self._show(replace(self.shown, status="idle", progress=None, error=None))
                return
            self._count += 1
            kept = self._results.get(request)
            if kept is not None:
                self._asked[self._count] = request
                self._drawn(self._count, request, kept)
                return
            self._show(replace(self.shown, status="working", progress=None, error=None))
            self._ask(self._count, request)

    def _ask(self, key: int, request: Request) -> None:
        self._asked[key] = request
        self._running().compile(key, request)

    def _running(self) -> CompilerProcess:
        if self._process is None or not self._process.is_alive:
            self._process = CompilerProcess(self._make_compiler, self._reported)
        return self._process

    def _reported(self, key: int, report: Report) -> None:
        with self._lock:
            request = self._asked.get(key)
            if request is None:
                return  # forgotten, or asked of a worker that was ended
            if isinstance(report, Progressed):
                is_shown = str(key) == self.shown.current or request == self.shown.wanted
                if is_shown:
                    self._show(replace(self.shown, progress=report))
            elif isinstance(report, DrawnTrace):
                self._drawn(key, request, report)
            elif isinstance(report, Failure):
                self._failed(key, request, report)
            else:
                self._bisected(key, report)

    def _drawn(self, key: int, request: Request, trace: DrawnTrace) -> None:
        """More is known of a compilation: a new branch, or a further stage of one."""
        shown = self.shown
        if trace.is_complete:
            self._results.put(request, trace)
        known = next((b for b in shown.branches if b.key == str(key)), None)
        if known is not None:
            # A worker that took over from one that was ended begins with what is there already.
            if not set(trace.stages) <= set(known.trace.stages):
                self._update(replace(known, trace=trace), is_news=True)
            return
        others = tuple(b for b in shown.branches if b.request.path == request.path)
        if len(others) >= MOST_BRANCHES:
            oldest = next(b for b in others[1:] if b.key != shown.current)
            self._forget(oldest.key)
            others = tuple(b for b in others if b is not oldest)
        for branch in shown.branches:
            if branch.request.path != request.path and self._process is not None:
                self._asked.pop(int(branch.key), None)
                self._process.forget(int(branch.key), branch.request)
        is_wanted = request == shown.wanted
        shown = replace(
            shown,
            branches=(*others, Branch(str(key), request, trace)),
            optional=shown.optional | set(trace.optional),
        )
        if is_wanted or not others:
            shown = replace(shown, current=str(key), revision=shown.revision + 1)
        if is_wanted:
            shown = replace(shown, status="idle", progress=None, error=None)
        self._show(shown)

    def _failed(self, key: int, request: Request, failure: Failure) -> None:
        branch = next((b for b in self.shown.branches if b.key == str(key)), None)
        if branch is None:
            self._asked.pop(key, None)
            if request == self.shown.wanted:
                self._show(replace(self.shown, status="failed", progress=None, error=failure))
            return
        # A worker that died makes none of what was still to come.
        is_dead = self._process is None or not self._process.is_alive
        lost = branch.pending if is_dead else [failure.stage]
        self._update(replace(branch, failed=(*branch.failed, *lost), is_bisecting=False))
        if str(key) == self.shown.current:
            self._show(replace(self.shown, status="failed", progress=None, error=failure))

    def _bisected(self, key: int, found: Bisection | None) -> None:
        branch = next((b for b in self.shown.branches if b.key == str(key)), None)
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
