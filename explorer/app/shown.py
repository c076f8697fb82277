"""What one page shows, as one value: what is open, what is looked at, what is waited for.

Shown(...).session()    ->  what session.js reads; the drawing of the branch travels apart
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.app.branches import MOST_COMPARED, Branch
from explorer.app.catalog import Choice, offered_suffixes
from explorer.app.decisions import settings_of
from explorer.app.protocol import CompileRequest, Failure, Progressed
from explorer.app.searches import Search
from explorer.app.uploads import UPLOAD_LIMIT_BYTES, Upload


@dataclass(frozen=True)
class Shown:
    """`session` drives the controls, the branch that is looked at everything else."""

    choices: tuple[Choice, ...]
    """What may be opened: what the app was started with, and what this page uploaded."""
    targets: tuple[str, ...]
    wanted: CompileRequest
    """What was asked for last: it may still run, or have failed."""
    branches: tuple[Branch, ...] = ()
    """Of all models and traces that are open."""
    current: str = ""
    """Key of the branch that is looked at; empty when nothing is open."""
    status: str = "idle"
    """idle, working or failed."""
    progress: Progressed | None = None
    """Of what is waited for, or else of what is made in the background."""
    error: Failure | None = None
    upload: Upload | None = None
    """A file on its way."""
    refusals: int = 0
    """How many files were not taken so far: a page that sends one stops when this rises."""
    notice: str = ""
    """What of a link could not be restored."""
    searches: tuple[Search, ...] = ()
    """For schedules, the one that was begun last at the end."""
    revision: int = 0
    """Rises whenever the branch that is looked at is another one, or more is known of it."""

    @property
    def branch(self) -> Branch | None:
        return self.named(self.current)

    def named(self, key: str) -> Branch | None:
        return next((branch for branch in self.branches if branch.key == key), None)

    def of_path(self, path: str) -> tuple[Branch, ...]:
        """The branches of one model or trace, the oldest first."""
        return tuple(branch for branch in self.branches if branch.request.path == path)

    def choice(self, path: str) -> Choice | None:
        return next((choice for choice in self.choices if choice.path == path), None)

    def label(self, branch: Branch) -> str:
        """What tells a branch from the others of its model."""
        return branch.label(self.of_path(branch.request.path)[0].request.target)

    def full_label(self, branch: Branch) -> str:
        """With its model's name, where several are open."""
        label, choice = self.label(branch), self.choice(branch.request.path)
        paths = {b.request.path for b in self.branches}
        return f"{choice.label}: {label}" if len(paths) > 1 and choice else label

    def found(self) -> list[dict[str, Any]]:
        """The searches as session.js reads them; they travel apart from the rest."""
        return [search.session(self.branches) for search in self.searches]

    def session(self) -> dict[str, Any]:
        """As session.js reads it."""
        branch, progress, error = self.branch, self.progress, self.error
        shown = branch.request if branch else self.wanted
        return {
            "models": [self._model(choice) for choice in self.choices],
            "targets": list(self.targets),
            "model": self._key(shown.path),
            "isTrace": shown.is_trace,
            "optional": list(branch.trace.optional) if branch else [],
            "settings": settings_of(shown),
            "switchedOff": list(shown.disable),
            "wanted": {**settings_of(self.wanted), "model": self._key(self.wanted.path)},
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
            "notice": self.notice,
            "branches": [self._branch(b) for b in self.branches],
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
            "upload": None
            if self.upload is None
            else {
                "name": self.upload.label,
                "received": self.upload.received,
                "parts": self.upload.parts,
            },
            "refusals": self.refusals,
            "uploadLimit": UPLOAD_LIMIT_BYTES,
            "suffixes": list(offered_suffixes()),
            "mostCompared": MOST_COMPARED,
        }

    def _key(self, path: str) -> str:
        choice = self.choice(path)
        return choice.key if choice else ""

    def _model(self, choice: Choice) -> dict[str, Any]:
        is_opening = self.status == "working" and self.wanted.path == choice.path
        return {
            "key": choice.key,
            "label": choice.label,
            "kind": choice.kind,
            "isUpload": choice.is_upload,
            "isOpen": bool(self.of_path(choice.path)) or is_opening,
        }

    def _branch(self, branch: Branch) -> dict[str, Any]:
        return {
            "key": branch.key,
            "model": self._key(branch.request.path),
            "label": self.label(branch),
            "fullLabel": self.full_label(branch),
            "stages": len(branch.trace.stages),
            "verdict": branch.trace.head["summary"]["verdict"],
            "settings": settings_of(branch.request),
        }
