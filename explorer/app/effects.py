"""A page as the app holds it: its state, and whoever does what follows from a message.

    page = Page(state, take_worker, results, uploads, publish)
    page.handle({"kind": "fork", "settings": {...}})
        ->  step(state, message)        what the page shows, and what is to be done (state/step.py)
        ->  the worker compiles         its words are the next messages

Nothing here knows Panel: `publish` takes what is to be shown, from any thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from explorer.app.branches import MAX_COMPARED, Branch, ResultStore, compared, difference
from explorer.app.later_chunks import LaterChunks
from explorer.app.protocol import (
    COMPUTED,
    CompileRequest,
    Died,
    DrawnTrace,
    Examined,
    MadeChunk,
    SavedFile,
    Stopped,
    two_files_key,
)
from explorer.app.state.messages import (
    Begun,
    Bisect,
    Cancel,
    Compile,
    Effect,
    Examine,
    FileRefused,
    Forget,
    Judge,
    KeepResult,
    Message,
    ModelExamined,
    PageMessage,
    PairUploads,
    Prepare,
    ReceiveUpload,
    RemoveUpload,
    Reported,
    ShowSweep,
    StartSearch,
    StartTiming,
    UploadArrived,
    UploadGrew,
    WorkerReplaced,
)
from explorer.app.state.page_state import PageState
from explorer.app.state.saved import restored, saved_of
from explorer.app.state.saving import save_order
from explorer.app.state.step import QUIET, step
from explorer.app.uploads import SWEEP, Upload, UploadRefused, Uploads
from explorer.app.worker.process import NOBODY, CompilerProcess, Report
from explorer.app.workspaces import Workspace
from explorer.errors import InputError

FIRST_FILE = 1 << 40
"""Keys of files are larger than those of branches and searches."""
CANCEL_SECONDS = 2.0
"""How long a worker may take to give up what is cancelled, before it is ended."""


class Page:
    """One page; messages come from its browser, its worker and its timers, in any thread."""

    def __init__(
        self,
        state: PageState,
        take_worker: Callable[[CompileRequest], CompilerProcess],
        results: ResultStore,
        uploads: Uploads,
        publish: Callable[[PageState], None],
        workspace: Workspace | None = None,
        opening: object = None,
    ) -> None:
        """`opening`: the link that is followed where the address has none."""
        self.workspace = workspace or Workspace("")
        self.state = _with_workspace(state, self.workspace, uploads)
        self._take_worker = take_worker
        self._results = results
        self._uploads = uploads
        self._publish = publish
        self._opening = opening
        self._process: CompilerProcess | None = None
        self._timers: dict[int, threading.Timer] = {}
        """Of what is cancelled, until the worker has heard it."""
        self._examining: dict[int, str] = {}
        """Paths of models that a worker looks at, by key."""
        self.later = LaterChunks(self._need)
        """What is made when the page asks for it."""
        self._lock = threading.RLock()
        self._files = 0
        """How many files were asked for."""
        self._takers: dict[int, Callable[[SavedFile], None]] = {}
        """Of files that are being made, by key."""

    def begin(self, link: object = None) -> None:
        """The page is there; `link` is what its address says."""
        self._dispatch(Begun(self._opening if link is None else link))

    def handle(self, message: object) -> None:
        """A message of the page; what is none of those in `state/step.py` has no effect."""
        if isinstance(message, dict):
            self._dispatch(message)

    def show_in(self, publish: Callable[[PageState], None]) -> None:
        """The page was loaded again: from now on this is told."""
        with self._lock:
            self._publish = publish

    def save(self, message: PageMessage, take: Callable[[SavedFile], None]) -> None:
        """A file of the branch that is looked at, as the page asks for it; `take` gets it, from
        another thread."""
        with self._lock:
            if self.state.is_reading:
                take(SavedFile(error="the model is not compiled yet: its passes still run"))
                return
            ordered = save_order(self.state, message)
            if ordered is None:
                return
            request, order = ordered
            self._files += 1
            key = FIRST_FILE + self._files
            self._takers[key] = take
            self._running(request).save(key, request, order)

    def stop(self) -> None:
        """Ends the worker; the page is gone."""
        with self._lock:
            process, self._process = self._process, None
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
        if process is not None:
            process.end()
        self.workspace.close()

    def files_to_keep(self) -> set[Path]:
        """Files that the page sent and that its workspace, once it is restored, asks for."""
        folder = self.workspace.files
        names = saved_of(self.state).file_names
        return set() if folder is None else {folder / name for name in names}

    def comparison(self, keys: Sequence[str], place: str | None = None) -> str | None:
        """Branches side by side, the base of all others first, as JSON text; None where there is
        no such.

        With a pass's name as the place, how their programs differ after it ("" for the end).
        ValueError where one of them is asleep: it is woken, and compared when it is there.
        """
        state = self.state
        branches = [state.named(key) for key in dict.fromkeys(keys)]
        if not 2 <= len(branches) <= MAX_COMPARED or None in branches:
            return None
        present = [branch for branch in branches if branch is not None]
        self._wake([branch for branch in present if branch.is_asleep])
        find = self.later.awaited
        if place is not None:
            return difference(present, place, find)
        return compared(present, [state.full_label(branch) for branch in present], find)

    def two_files(self, keys: Sequence[str]) -> tuple[Branch, str]:
        """The branch of the first key, and the key of its chunk that compares its model with that
        of the other branch. ValueError where there is nothing to compare."""
        branches = [self.state.named(key) for key in keys]
        if len(branches) != 2 or branches[0] is None or branches[1] is None:
            raise ValueError("the branches are not there any more")
        first, other = branches[0], branches[1]
        if first.request.is_trace or other.request.is_trace:
            raise ValueError("a saved trace holds no model: open the models themselves")
        self._wake([branch for branch in (first, other) if branch.is_asleep])
        pair = first.request, other.request
        choices = [self.state.choice(side.path) for side in pair]
        files = [
            side.path if choice is None else choice.label
            for side, choice in zip(pair, choices, strict=True)
        ]
        return first, two_files_key(pair, files)

    def _wake(self, asleep: Sequence[Branch]) -> None:
        """Has branches compiled again; ValueError names the first one."""
        for branch in asleep:
            self._dispatch({"kind": "wake", "branch": branch.key})
        if asleep:
            raise ValueError(f"{self.state.label(asleep[0])} is compiled again first")

    def _dispatch(self, message: Message) -> None:
        """A message, all that follows from it, and then the state that came of it."""
        with self._lock:
            before = self.state
            messages: deque[Message] = deque([message])
            while messages:
                self.state, effects = step(self.state, messages.popleft())
                for effect in effects:
                    messages.extend(self._perform(effect))
            if self.state is before:
                return
            self.workspace.write_soon(self.state)
            if not (isinstance(message, Mapping) and message.get("kind") in QUIET):
                self._publish(self.state)

    def _perform(self, effect: Effect) -> list[Message]:
        """Does it; the messages that it answers with at once."""
        if isinstance(effect, Compile):
            return self._compile(effect)
        if isinstance(effect, Judge):
            worker = self._running(effect.request)
            if not worker.judge(effect.key, effect.request):
                worker.compile(effect.key, effect.request)
            return []
        if isinstance(effect, ShowSweep):
            worker = self._running(effect.request)
            if not worker.show_sweep(effect.key, effect.request, effect.path):
                worker.compile(effect.key, effect.request)
            return []
        if isinstance(effect, Examine):
            worker = self._running(CompileRequest(effect.path, effect.target))
            self._examining[effect.key] = effect.path
            worker.examine(effect.key, effect.path)
        elif isinstance(effect, Prepare):
            self._running(effect.request).prepare(effect.request)
        elif isinstance(effect, Bisect):
            self._running(effect.request).bisect(effect.key, effect.request)
        elif isinstance(effect, StartSearch):
            self._running(effect.request).search(effect.key, effect.request, effect.order)
        elif isinstance(effect, StartTiming):
            base, *others = effect.requests
            self._running(base).turns(effect.key, base, others)
        elif isinstance(effect, Cancel):
            self._cancel(effect)
        elif isinstance(effect, Forget):
            self.later.give_up(str(effect.key))
            if self._process is not None:
                self._process.forget(effect.key, effect.request)
        elif isinstance(effect, KeepResult):
            self._results.put(effect.request, effect.trace)
        elif isinstance(effect, ReceiveUpload):
            return [self._receive(effect.message)]
        elif isinstance(effect, RemoveUpload):
            self._uploads.remove(effect.path)
        elif isinstance(effect, PairUploads):
            try:
                self._uploads.pair(effect.layers, effect.weights)
            except UploadRefused as refused:
                return [FileRefused(str(refused))]
        return []

    def _compile(self, effect: Compile) -> list[Message]:
        """What this app knows already is shown at once; the worker makes the rest."""
        key, request = effect.key, effect.request
        known = self._results.get(request) if effect.may_be_known else None
        if known is not None and known.is_complete(request):
            if not request.is_trace:
                self._running(request).prepare(request)
        else:
            process = self._running(request)
            process.compile(key, request)
            known = known or process.read(request)
        return [] if known is None else [Reported(key, known)]

    def _need(self, branch: Branch, chunk: str) -> bool:
        process = self._process
        if process is None or not process.is_alive:
            return False
        key, request = int(branch.key), branch.request
        is_unknown = chunk.startswith(COMPUTED) and not process.has(key) and not request.is_trace
        if is_unknown:
            # What is shown was known already, and the worker has not compiled it.
            process.compile(key, request)
        process.need(key, chunk, is_to_come=is_unknown)
        return True

    def _running(self, request: CompileRequest) -> CompilerProcess:
        """The worker, or another one that can begin with a request at once."""
        if self._process is None or not self._process.is_alive:
            self._process = self._take_worker(request)
            self._process.adopt(self._reported)
            for path, file in self.state.sweeps.items():
                self._process.show_sweep(NOBODY, CompileRequest(path, ""), file)
        return self._process

    def _cancel(self, effect: Cancel) -> None:
        """The worker is told, and goes on with the rest.

        One that doesn't hear in time of what a person waits for is ended, and another one makes
        what is still missing.
        """
        if self._process is None or not self._process.is_alive:
            return
        self._process.cancel(effect.key, effect.request)
        if effect.is_waited_for:
            timer = threading.Timer(CANCEL_SECONDS, self._start_afresh, [self._process])
            timer.daemon = True
            self._timers[effect.key] = timer
            timer.start()

    def _start_afresh(self, deaf: CompilerProcess) -> None:
        """Another worker in place of one that does not answer."""
        with self._lock:
            if self._process is not deaf:
                return
            self._process = None
            self._timers.clear()
            self._dispatch(WorkerReplaced())
            self.later.ask_again(self.state.named)
        deaf.end()

    def _receive(self, message: PageMessage) -> Message:
        try:
            upload = self._uploads.receive(dict(message))
        except UploadRefused as refused:
            return FileRefused(str(refused))
        if upload is None:
            return UploadGrew(self._uploads.current)
        if upload.purpose == SWEEP and (problem := self._problem_of_sweep(upload)):
            self._uploads.remove(upload.path)
            return FileRefused(problem)
        return UploadArrived(upload)

    def _problem_of_sweep(self, upload: Upload) -> str:
        """Why a file is no sweep of the model that is looked at; empty where it is one."""
        from explorer.tuning.fronts import PAGE_BYTES, read_front

        branch = self.state.branch
        choice = None if branch is None else self.state.choice(branch.request.path)
        if branch is None or choice is None or branch.request.is_trace:
            return ""  # that is said for whatever is in the file
        try:
            name = Path(choice.label).stem
            read_front(upload.path, name, branch.request.target, PAGE_BYTES)
        except InputError as error:
            hint = f"; {error.hint}" if error.hint else ""
            return f"{upload.label!r}: {error.message}{hint}"
        return ""

    def _reported(self, key: int, report: Report) -> None:
        if isinstance(report, Examined):
            self._dispatch(ModelExamined(self._examining.pop(key, ""), report.form))
            return
        if isinstance(report, SavedFile):
            self._takers.pop(key, _nobody)(report)
            return
        if isinstance(report, Died):
            for file, failure in report.failures.items():
                self._takers.pop(file, _nobody)(SavedFile(error=failure.what))
        if isinstance(report, MadeChunk):
            self.later.arrived(self.state.named(str(key)), str(key), report)
            return
        if isinstance(report, Died):
            self.later.give_up()
        read = self.state.read
        if isinstance(report, DrawnTrace) and read is not None and read.key == str(key):
            self.later.give_up(read.key)  # what was asked of another trace
        if not isinstance(report, Stopped):
            self._dispatch(Reported(key, report))
            return
        with self._lock:
            timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()


def _nobody(_file: SavedFile) -> None:
    """Takes a file that nobody waits for."""


def _with_workspace(state: PageState, workspace: Workspace, uploads: Uploads) -> PageState:
    """The state as it was left, where it was left before, with the files that were sent."""
    notice, saved = workspace.problem, workspace.saved
    found = uploads.take_over(saved.file_names if saved is not None else ())
    if saved is not None:
        try:
            state, notice = restored(state, saved, found)
        except (ValueError, TypeError, KeyError) as error:
            notice = f"What was open before could not be restored: {error}."
    return replace(state, workspace=workspace.name, notice=notice)
