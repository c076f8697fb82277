"""Asks a condition about candidates: each one once, with what was found kept on the disk.

    trials = Trials(condition, Progress(folder, ...))
    trials.begin(candidate)          has to fail; InputError where it does not
    trials.fails(smaller)            adopted as the smallest so far, where it fails in the same way

A folder next to the output has the smallest candidate so far, and the outcome of each that was
tried: who runs the same command again goes on there.

    small.onnx.reducing/origin.json    what is reduced, and how
                        current.onnx, current.npz
                        tried.jsonl    a line for each candidate: digest, kind, reason
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from explorer.errors import InputError
from explorer.files import append_line, write_whole
from explorer.importers.arrays import arrays_as_npz, read_arrays
from explorer.importers.onnx import load
from explorer.reducing.candidate import Candidate, candidate_of
from explorer.reducing.conditions import HUNG, PASSES, Condition, Outcome

SUFFIX = ".reducing"
Report = Callable[[str, Candidate, int], None]
"""What is being done, the smallest candidate, and how many were tried."""


class Folder:
    """The state of a reduction on the disk."""

    def __init__(self, path: Path, origin: dict[str, str]) -> None:
        """InputError for a folder of another reduction."""
        self.path, self._origin = path, origin
        file = path / "origin.json"
        if file.is_file() and json.loads(file.read_text(encoding="utf-8")) != origin:
            raise InputError(
                "a reduction of another model, input or condition is kept here",
                file=str(path),
                hint=f"give another output, or remove it: rm -r {path}",
            )

    def begun(self) -> tuple[Candidate | None, dict[str, Outcome]]:
        """The smallest candidate so far, and what is known of candidates."""
        model, arrays, tried = (
            self.path / n for n in ("current.onnx", "current.npz", "tried.jsonl")
        )
        known: dict[str, Outcome] = {}
        for line in tried.read_text(encoding="utf-8").splitlines() if tried.is_file() else ():
            try:
                entry = json.loads(line)
                known[entry["digest"]] = Outcome(entry["kind"], entry["reason"])
            except (ValueError, KeyError):  # the line in which it was interrupted
                continue
        if not (model.is_file() and arrays.is_file()):
            return None, known
        return candidate_of(load(model), read_arrays(arrays)), known

    def begin(self) -> None:
        self.path.mkdir(exist_ok=True)
        write_whole(self.path / "origin.json", json.dumps(self._origin).encode(), mode=0o666)

    def adopt(self, candidate: Candidate) -> None:
        model = candidate.model.SerializeToString()
        write_whole(self.path / "current.npz", arrays_as_npz(candidate.inputs), mode=0o666)
        write_whole(self.path / "current.onnx", model, mode=0o666)

    def note(self, digest: str, outcome: Outcome) -> None:
        entry = {"digest": digest, "kind": outcome.kind, "reason": outcome.reason}
        append_line(self.path / "tried.jsonl", json.dumps(entry))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Trials:
    def __init__(
        self, condition: Condition, folder: Folder | None = None, report: Report | None = None
    ) -> None:
        self._condition, self._folder, self._report = condition, folder, report
        self._known: dict[str, Outcome] = {}
        self.kind = ""
        """How the whole model fails."""
        self.reason = ""
        """Of the smallest candidate."""
        self.others: dict[str, str] = {}
        """Kinds of failures of candidates that are another fault, with the first reason."""
        self.count = 0
        """Candidates that the condition was asked about."""
        self.doing = ""

    def begin(self, candidate: Candidate) -> Candidate:
        """The candidate to go on with. InputError for one that does not fail, or hangs."""
        before, known = self._folder.begun() if self._folder else (None, {})
        outcome = self._outcome(candidate)  # anew: the fault may be gone since then
        self._known = {**known, **self._known}
        if not outcome.kind:
            raise InputError(
                "it does not fail: there is nothing to reduce",
                hint="run it once by itself, with the same input and target",
            )
        if outcome.kind == HUNG:
            raise InputError(f"it hangs: {outcome.reason}", hint="give it more time with --seconds")
        self.kind, self.reason = outcome.kind, outcome.reason
        if self._folder is not None:
            self._folder.begin()
            self._folder.note(candidate.digest, outcome)
        if before is not None and self._outcome(before).kind == self.kind:
            self.reason = self._outcome(before).reason
            return before
        if self._folder is not None:
            self._folder.adopt(candidate)
        return candidate

    def fails(self, candidate: Candidate) -> bool:
        """Whether a candidate fails as the whole model does; then it is the smallest so far."""
        outcome = self._outcome(candidate)
        if outcome.kind == self.kind:
            self.reason = outcome.reason
            if self._folder is not None:
                self._folder.adopt(candidate)
            return True
        if outcome.kind:
            self.others.setdefault(outcome.kind, outcome.reason)
        return False

    def report(self, doing: str, candidate: Candidate) -> None:
        self.doing = doing
        if self._report is not None:
            self._report(doing, candidate, self.count)

    def _outcome(self, candidate: Candidate) -> Outcome:
        known = self._known.get(candidate.digest)
        if known is not None:
            return known
        if self._report is not None:
            self._report(self.doing, candidate, self.count)
        found = self._condition(candidate)
        self.count += 1
        if not isinstance(found, Outcome):
            found = Outcome("fails") if found else PASSES
        self._known[candidate.digest] = found
        if self._folder is not None and self.kind:  # nothing is left of what does not fail
            self._folder.note(candidate.digest, found)
        return found
