"""What one page of the app does: choices in, compilations in a worker, traces out.

    page: {"kind": "compile", "model": "1", "target": "cpu", "disabled": ["fuse-activation"]}
        -> session: status working, progress ... -> head and revision of the new trace

Nothing here knows Panel: `publish` takes what is to be shown, from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.app.session import Compiler, DrawnTrace, Failure, Request
from explorer.app.uploads import UPLOAD_LIMIT_BYTES, UploadRefused, Uploads, too_large
from explorer.app.worker import Job, Progressed, Report

KEPT_RESULTS = 4


class ResultStore:
    """The last few compilations, shared by all pages: going back to one costs nothing."""

    def __init__(self, capacity: int = KEPT_RESULTS) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._results: OrderedDict[Request, DrawnTrace] = OrderedDict()

    def get(self, request: Request) -> DrawnTrace | None:
        with self._lock:
            if request in self._results:
                self._results.move_to_end(request)
            return self._results.get(request)

    def put(self, request: Request, result: DrawnTrace) -> None:
        with self._lock:
            self._results[request] = result
            self._results.move_to_end(request)
            while len(self._results) > self._capacity:
                self._results.popitem(last=False)


@dataclass(frozen=True)
class Choice:
    """A model that the page offers."""

    key: str
    label: str
    path: str


@dataclass(frozen=True)
class Shown:
    """What the page shows: `session` drives the controls, the trace everything else."""

    models: tuple[Choice, ...]
    targets: tuple[str, ...]
    model: str
    target: str
    disabled: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Passes that may be switched off."""
    status: str = "idle"
    """idle, working or failed."""
    progress: Progressed | None = None
    error: Failure | None = None
    trace: DrawnTrace | None = field(default=None, compare=False)
    revision: int = 0
    wanted_model: str = ""
    wanted_target: str = ""
    wanted_disabled: tuple[str, ...] = ()
    """What the last compilation was asked for: it may still run, or have failed."""

    def session(self) -> dict[str, Any]:
        """As session.js reads it."""
        progress, error = self.progress, self.error
        return {
            "models": [{"key": m.key, "label": m.label} for m in self.models],
            "targets": list(self.targets),
            "model": self.model,
            "target": self.target,
            "disabled": list(self.disabled),
            "optional": list(self.optional),
            "status": self.status,
            "progress": None
            if progress is None
            else {"pass": progress.name, "index": progress.index, "total": progress.total},
            "error": None
            if error is None
            else {"what": error.what, "where": error.where, "advice": error.advice},
            "wanted": {
                "model": self.wanted_model,
                "target": self.wanted_target,
                "disabled": list(self.wanted_disabled),
            },
            "uploadLimit": UPLOAD_LIMIT_BYTES,
        }


class Workbench:
    """One page's state; messages of the page go to `handle`."""

    def __init__(
        self,
        models: Sequence[Path],
        targets: Sequence[str],
        target: str,
        compiler: Compiler,
        results: ResultStore,
        uploads: Uploads,
        publish: Callable[[Shown], None],
    ) -> None:
        choices = tuple(Choice(str(i), path.name, str(path)) for i, path in enumerate(models))
        if not choices:
            raise ValueError("the explorer needs at least one model to offer")
        self.shown = Shown(choices, tuple(targets), choices[0].key, target)
        self._compiler = compiler
        self._results = results
        self._uploads = uploads
        self._publish = publish
        self._job: Job | None = None
        self._lock = threading.RLock()

    def start(self) -> None:
        """Compiles the first model."""
        self._compile(self.shown.model, self.shown.target, ())

    def stop(self) -> None:
        """Ends a compilation that is under way; the page is gone."""
        with self._lock:
            if self._job is not None:
                self._job.cancel()
                self._job = None

    def handle(self, message: object) -> None:
        """A message of the page; what is none of those below has no effect."""
        if not isinstance(message, dict):
            return
        kind = message.get("kind")
        if kind == "compile":
            self._choose(message)
        elif kind == "cancel":
            self.stop()
            self._show(replace(self.shown, status="idle", progress=None))
        elif kind == "dismiss":
            self._show(replace(self.shown, status="idle", error=None))
        elif kind == "upload":
            self._upload(message)
        elif kind == "refused":
            self._refuse(too_large(str(message.get("name", "")), UPLOAD_LIMIT_BYTES))

    def _choose(self, message: dict[str, Any]) -> None:
        model, target = str(message.get("model")), str(message.get("target"))
        disabled = message.get("disabled")
        known = {*self.shown.optional, *self.shown.disabled}
        if not any(choice.key == model for choice in self.shown.models):
            return
        if target not in self.shown.targets or not isinstance(disabled, list):
            return
        self._compile(model, target, tuple(name for name in disabled if name in known))

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
        self._compile(choice.key, self.shown.target, ())

    def _refuse(self, reason: str) -> None:
        error = Failure("the file was not taken", reason, "What was shown before stays usable.")
        self._show(replace(self.shown, status="failed", error=error))

    def _compile(self, model: str, target: str, disabled: tuple[str, ...]) -> None:
        with self._lock:
            self.stop()
            path = next(choice.path for choice in self.shown.models if choice.key == model)
            request = Request(path, target, disabled)
            self.shown = replace(
                self.shown,
                wanted_model=model,
                wanted_target=target,
                wanted_disabled=disabled,
            )
            kept = self._results.get(request)
            if kept is not None:
                self._finish(request, kept)
                return
            self._show(replace(self.shown, status="working", progress=None, error=None))
            self._job = Job(request, self._compiler, lambda report: self._reported(request, report))

    def _reported(self, request: Request, report: Report) -> None:
        with self._lock:
            if self._job is None or self._job.request != request:
                return  # a newer choice took its place
            if isinstance(report, Progressed):
                self._show(replace(self.shown, progress=report))
                return
            self._job = None
            if isinstance(report, Failure):
                self._show(replace(self.shown, status="failed", progress=None, error=report))
                return
            self._results.put(request, report)
            self._finish(request, report)

    def _finish(self, request: Request, trace: DrawnTrace) -> None:
        self._show(
            replace(
                self.shown,
                model=self.shown.wanted_model,
                target=request.target,
                optional=trace.optional,
                disabled=request.disable,
                status="idle",
                progress=None,
                error=None,
                trace=trace,
                revision=self.shown.revision + 1,
            )
        )

    def _show(self, shown: Shown) -> None:
        with self._lock:
            self.shown = shown
            self._publish(shown)
