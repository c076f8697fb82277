"""The worker's side: one process that compiles for one page, stage by stage.

    page: compile 1     worker: passes 1, program 1; then in the background kernels 1, errors 1 ...
    page: compile 2     worker: passes 2, program 2 at once; the background holds still meanwhile

Passes come first, whatever else is going on: a change is seen within a second. Of them a page gets
what its first picture shows; of a large program that is the graph of one pass. Other graphs, texts
and drawings are made when it asks for them, and else in the background. The worker sends JSON and
nothing that is unpickled: whatever a model did to it, the app gets data.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from explorer.app.protocol import (
    COMPLETE,
    COMPUTED,
    JUDGED,
    LEVERS,
    READ,
    TEXTS,
    TWO_FILES,
    URGENT,
    Cancelled,
    Compiler,
    CompileRequest,
    SavedFile,
    SaveOrder,
    failure_of,
    stages_of,
)
from explorer.app.worker.background import Background
from explorer.errors import ExplorerError
from explorer.results import Trace
from explorer.results.encoding import from_json
from explorer.runtime.processes import limit_memory
from explorer.views.payload.snapshots import START, SnapshotParts
from explorer.views.trace_payload import GRAPHS, TracePayload, encode, trace_payload

BISECT = "bisect"
SEARCH = "search"
SAVE = "save"
TURNS = "turns"
ORDERED = (SEARCH, TURNS)
"""What tells how far it is under a key of its own."""
MEASURED = "profile"
"""The stage whose results depend on what else the machine does."""
MAX_MEASUREMENTS = 3
RESTS_ON = {"sqnr_db": "accuracy", "seconds": MEASURED}
"""Stages that the levers of a quantity rest on; those of others need the compilation alone."""


@dataclass
class Task:
    """One compilation on its way."""

    key: int
    request: CompileRequest
    waiting: list[str]
    parts: SnapshotParts | None = None
    payload: TracePayload | None = None
    """The latest one; chunks that were not sent with a stage are made of it."""
    wanted: list[str] = field(default_factory=list)
    """Chunks that were asked for before there was a payload."""
    making: threading.Lock = field(default_factory=threading.Lock)
    sent: dict[str, int] = field(default_factory=dict)
    """Hashes of the chunks that the page has."""
    is_silent: bool = False
    """Nothing is sent: it is compiled so that forks of it are quick."""
    is_cancelled: bool = False
    order: dict[str, Any] | None = None  # JSON: what a search is to do

    @property
    def is_urgent(self) -> bool:
        return bool(self.waiting) and self.waiting[0] in URGENT


class Worker:
    """Answers the messages of one connection until it is closed."""

    def __init__(
        self, connection: Connection, compiler: Compiler, needs: Connection | None = None
    ) -> None:
        """`needs`: where pages ask at any time, ["need", key, chunk] or ["examine", key, path]."""
        self._connection = connection
        self._needs = needs
        self._sending = threading.Lock()
        self._compiler = compiler
        self._read: dict[CompileRequest, TracePayload] = {}
        """Large models as they were read, until they are compiled."""
        self._tasks: dict[int, Task] = {}
        """Whose chunks may be asked for."""
        self._early: dict[int, list[str]] = {}
        """Chunks of compilations that have not arrived: what is needed comes another way, and a
        page that shows what another one compiled needs it at once."""
        self._dropped: set[int] = set()
        self._entering = threading.Lock()
        """Of these three."""
        self._urgent: list[Task] = []
        """The last one goes first: it is what the person asked for last."""
        self._background: Background[Task] = Background(self._advance)

    def run(self) -> None:
        self._background.start()
        if self._needs is not None:
            threading.Thread(target=self._answer_needs, name="explorer-needs", daemon=True).start()
        while True:
            self._receive(is_blocking=not self._urgent)
            if not self._urgent:
                continue
            task = self._urgent[-1]
            with self._background.held_still():
                self._advance(task)
            if task.is_silent:
                self._send("prepared", task.key)
            if not task.is_urgent and task in self._urgent:
                self._urgent.remove(task)
                if task.waiting:
                    self._background.add(task)

    def _answer_needs(self) -> None:
        """A thread of its own: what is looked at is made at once, whatever others are at."""
        assert self._needs is not None
        with suppress(EOFError, OSError):  # the app has closed it, and ends this process
            while True:
                kind, key, what, *more = json.loads(self._needs.recv_bytes())
                if kind == "examine":
                    self._examine(key, what)
                elif kind != READ:
                    self.need(key, what, *more)
                elif not self._answer_read(key, what, more[0]):
                    self.need(key, what)

    def _answer_read(self, key: int, chunk: str, request: Mapping[str, Any]) -> bool:
        """Makes a chunk of a model as it was read; False where that is compiled by now."""
        payload = self._read.get(from_json(CompileRequest, request))
        if payload is None:
            return False
        try:
            self._send("made", key, chunk, encode(payload.chunk(chunk)))
        except (KeyError, ExplorerError) as error:
            self._send("made", key, chunk, None, str(error))
        return True

    def _examine(self, key: int, path: str) -> None:
        try:
            form = self._compiler.examine(path)
        except Exception as error:  # whatever a file provokes is for the person who opens it
            message = error.message if isinstance(error, ExplorerError) else str(error)
            form = {"error": message or type(error).__name__}
        self._send("examined", key, form)

    def need(self, key: int, chunk: str, is_to_come: bool = False) -> None:
        """Makes a chunk of a compilation now, or as soon as there is a trace of it.

        is_to_come: the key is compiled once more, which this worker may not have heard yet.
        """
        with self._entering:
            if is_to_come:
                self._dropped.discard(key)
            task = self._tasks.get(key)
            if task is None and key not in self._dropped:
                self._early.setdefault(key, []).append(chunk)
                return
        if task is None:
            self._send("made", key, chunk, None, "it was dropped")
            return
        with task.making:
            if task.payload is None:
                task.wanted.append(chunk)
                return
        self._answer(task, chunk)

    def _compute(self, task: Task, chunk: str) -> None:
        """Is computed every time: it rests on what was measured, or on another model."""
        try:
            if chunk.startswith(TWO_FILES):
                sides, files = json.loads(chunk.removeprefix(TWO_FILES))
                pair = [from_json(CompileRequest, side) for side in sides]
                found = self._compiler.two_files(pair, files)
            else:
                found = self._compiler.levers(task.request, chunk.removeprefix(LEVERS))
        except Exception as error:  # whatever a model provokes is for the person who looks at it
            self._send("made", task.key, chunk, None, str(error))
        else:
            self._send("made", task.key, chunk, encode(found))

    def _answer(self, task: Task, chunk: str) -> None:
        """As `_make`; who asked is told what went wrong."""
        if chunk.startswith(COMPUTED):
            self._compute(task, chunk)
            return
        try:
            self._make(task, chunk)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # whatever a model provokes is for the person who looks at it
            self._send("made", task.key, chunk, None, str(error))

    def _make(self, task: Task, chunk: str) -> None:
        """Makes and sends a chunk that no stage sends, once."""
        with task.making:
            if chunk in task.sent or task.payload is None:
                return  # it is on its way
            text = encode(task.payload.chunk(chunk))
            task.sent[chunk] = hash(text)
            self._send("made", task.key, chunk, text)

    def _receive(self, is_blocking: bool) -> None:
        """Takes all messages that are there; waits for one first if `is_blocking`."""
        while is_blocking or self._connection.poll():
            is_blocking = False
            kind, key, data, *more = json.loads(self._connection.recv_bytes())
            request = from_json(CompileRequest, data)
            if kind == "compile":
                self._urgent.append(self._entered(key, request))
            elif kind == "judge":
                self._judge(key, request)
            elif kind == "sweep":
                self._show_sweep(key, request, more[0])
            elif kind == "prepare":
                # Behind what is waited for.
                self._urgent.insert(0, Task(key, request, list(URGENT[:1]), is_silent=True))
            elif kind == BISECT:
                self._background.add(Task(key, request, [BISECT]))
            elif kind == SEARCH:
                self._background.add(Task(key, request, [SEARCH], order=more[0]))
            elif kind == SAVE:
                self._background.add(Task(key, request, [SAVE], order=more[0]))
            elif kind == TURNS:
                self._background.add(Task(key, request, [TURNS], order={"others": more[0]}))
            elif kind == "cancel":
                self._drop(key, request, "cancelled")
            elif kind == "forget":
                self._drop(key, request, "forgotten")
                self._compiler.forget(request)

    def _judge(self, key: int, request: CompileRequest) -> None:
        """Has stages that rest on data made again; the others stay."""
        with self._entering:
            task = self._tasks.get(key)
        if task is None or task.is_cancelled:
            self._urgent.append(self._entered(key, request))
            return
        task.request = request
        others = [stage for stage in task.waiting if stage not in JUDGED]
        urgent = [stage for stage in others if stage in URGENT]
        task.waiting = [*urgent, *JUDGED, *others[len(urgent) :]]
        if task not in self._urgent and task not in self._background.tasks():
            self._background.add(task)

    def _show_sweep(self, key: int, request: CompileRequest, file: str) -> None:
        """Has the sweep in the file with what comes of the model, and of what is there already."""
        self._compiler.take_sweep(request, file)
        with self._entering:
            task = self._tasks.get(key)
        if task is None or task.is_cancelled or URGENT[0] in task.waiting:
            return
        urgent = [stage for stage in task.waiting if stage in URGENT]
        others = [stage for stage in task.waiting if stage not in (*URGENT, COMPLETE)]
        task.waiting = [*urgent, COMPLETE, *others]
        if task not in self._urgent and task not in self._background.tasks():
            self._background.add(task)

    def _entered(self, key: int, request: CompileRequest) -> Task:
        with self._entering:
            self._dropped.discard(key)
            wanted = self._early.pop(key, [])
            task = Task(key, request, list(stages_of(request)), wanted=wanted)
            self._tasks[key] = task
        return task

    def _leave(self, key: int) -> None:
        """Nothing is made for a key any more; who waits for a chunk is told."""
        with self._entering:
            self._tasks.pop(key, None)
            self._dropped.add(key)
            early = self._early.pop(key, [])
        for chunk in early:
            self._send("made", key, chunk, None, "it was dropped")

    def _drop(self, key: int, request: CompileRequest, answer: str) -> None:
        """Gives up what is asked for under a key; what runs ends at its next step."""
        for task in (*self._urgent, *self._background.tasks()):
            is_same = task.request == request
            is_search = answer == "forgotten" and task.order is not None
            if task.key == key or (is_same and (task.is_silent or is_search)):
                task.is_cancelled = True
                if task.waiting and task.waiting[0] in ORDERED:  # it has not begun
                    self._send("searched", task.key, {"status": "cancelled"})
                if task.waiting == [SAVE]:
                    why = "the branch was dropped"
                    self._send("saved", task.key, asdict(SavedFile(error=why)))
                self._leave(task.key)
        self._read.pop(request, None)
        if answer == "forgotten":
            self._leave(key)
        self._urgent = [task for task in self._urgent if not task.is_cancelled]
        self._background.drop(lambda task: task.is_cancelled)
        self._send(answer, key)

    def _advance(self, task: Task) -> None:
        """Runs the next stage of a compilation and sends what it made."""
        stage = task.waiting.pop(0)
        try:
            if stage == BISECT:
                found = self._compiler.bisect(task.request)
                self._send("bisected", task.key, None if found is None else asdict(found))
                return
            if stage in ORDERED:
                self._measure(task, stage)
                return
            if stage == SAVE:
                self._send("saved", task.key, asdict(self._saved(task)))
                return
            if stage == TEXTS:
                self._rest(task)
            else:
                if stage == URGENT[0]:
                    self._show_read(task)
                trace = self._made(task, stage)
                if task.is_silent:
                    return
                self._show(task, trace, stage)
                self._read.pop(task.request, None)
            self._send("stage", task.key, stage)
            if stage == URGENT[0]:
                self._look(task)
            else:
                self._look_again(task)
        except Cancelled:
            task.waiting.clear()
            return
        except (BrokenPipeError, ConnectionResetError):
            task.waiting.clear()  # the page is gone, and the app ends this process
        except Exception as error:  # whatever a model file provokes is shown to the person
            if task.is_silent:
                return  # it is said when somebody asks for it
            if stage == SAVE:
                failure = failure_of(error, task.request, stage)
                why = ": ".join(text for text in (failure.what, failure.advice) if text)
                self._send("saved", task.key, asdict(SavedFile(error=why)))
                return
            if stage in ORDERED:
                failure = failure_of(error, task.request, stage)
                self._send("searched", task.key, {"status": "failed", "error": failure.what})
                return
            self._send("failed", task.key, stage, asdict(failure_of(error, task.request, stage)))
            if stage == URGENT[0]:
                self._read.pop(task.request, None)
                task.waiting.clear()
            else:
                self._look_again(task)
        if not task.waiting and stage not in (BISECT, SAVE, *ORDERED):
            self._send("finished", task.key)

    def _show_read(self, task: Task) -> None:
        """Sends a large model as its file has it, which is seen while passes run; of what is only
        prepared, too, for somebody may ask for it before it is there."""
        from explorer.compilation.collection import paused_collection

        trace = self._compiler.read(task.request, self._progress(task, URGENT[0]))
        if trace is None:
            return
        with paused_collection():
            payload = trace_payload(trace)
            keys = (*payload.at_once(is_first=True), *payload.first)
            chunks = {key: encode(payload.chunk(key)) for key in keys}
        self._read[task.request] = payload
        self._send(READ, task.key, asdict(task.request), payload.head, chunks)

    def _show(self, task: Task, trace: Trace, stage: str) -> None:
        """Sends what a page draws at once of what a stage made."""
        # The app imports this module, too, and has no use for a compiler.
        from explorer.compilation.collection import paused_collection

        with paused_collection():
            if task.parts is None:
                self._progress(task, stage)("drawing", 0, 0)
                task.parts = SnapshotParts.of(trace)
            payload = trace_payload(trace, parts=task.parts)
        self._send("head", task.key, payload.head, self._compiler.optional(task.request))
        with task.making:
            task.payload = payload
            for key in payload.at_once(is_first=stage == URGENT[0]):
                if key in task.sent and key in payload.settled:
                    continue
                text = encode(payload.chunk(key))
                if task.sent.get(key) != hash(text):
                    task.sent[key] = hash(text)
                    self._send("chunk", task.key, key, text)

    def _look(self, task: Task) -> None:
        """Makes what the page shows first, and what it asked for before there was a trace."""
        assert task.payload is not None
        for key in task.payload.first:
            self._answer(task, key)
        self._look_again(task)

    def _look_again(self, task: Task) -> None:
        """Makes what was asked for before there was a trace, as soon as all that it rests on is
        measured."""
        for key in list(task.wanted):
            if RESTS_ON.get(re.split("[/?]", key.removeprefix(LEVERS))[0]) not in task.waiting:
                task.wanted.remove(key)
                self._answer(task, key)

    def _rest(self, task: Task) -> None:
        """Makes what nobody asked for yet, so that all is there for whoever asks."""
        assert task.payload is not None
        progress = self._progress(task, TEXTS)
        # Graphs first, which pages of nodes come from, then texts, which pages of lines come from.
        for doing, kinds in (("drawing", GRAPHS), ("printing", ("text",)), ("drawing", ())):
            keys = [key for key in task.payload.chunk_keys() if key not in task.sent]
            keys = [key for key in keys if not key.startswith(f"{START}/")]
            keys = [key for key in keys if not kinds or key.split("/")[0] in kinds]
            for number, key in enumerate(keys):
                progress(doing, number, len(keys))
                self._make(task, key)

    def _saved(self, task: Task) -> SavedFile:
        order = from_json(SaveOrder, task.order)
        return self._compiler.saved(task.request, order, self._progress(task, SAVE))

    def _measure(self, task: Task, stage: str) -> None:
        """Measures candidates, or compilations in turns; what is known is sent meanwhile."""
        assert task.order is not None

        def progress(name: str, index: int, total: int) -> None:
            self._background.wait_while_held()
            if task.is_cancelled:
                raise Cancelled
            self._send("searched", task.key, {"number": index, "most": total})

        def report(result: dict[str, Any]) -> None:
            self._send("searched", task.key, {"result": result})

        try:
            if stage == TURNS:
                others = [from_json(CompileRequest, other) for other in task.order["others"]]
                result = self._compiler.turns(task.request, others, progress)
            else:
                result = self._compiler.search(task.request, task.order, progress, report)
        except Cancelled:
            self._send("searched", task.key, {"status": "cancelled"})
            raise
        self._send("searched", task.key, {"status": "done", "result": result})

    def _made(self, task: Task, stage: str) -> Trace:
        """The trace after a stage. Times taken while something was compiled are taken again."""
        progress = self._progress(task, stage)
        for _ in range(MAX_MEASUREMENTS - 1):
            holds = self._background.holds
            trace = self._compiler.stage(task.request, stage, progress)
            if stage != MEASURED or holds == self._background.holds:
                return trace
        return self._compiler.stage(task.request, stage, progress)

    def _progress(self, task: Task, stage: str) -> Callable[[str, int, int], None]:
        is_urgent = stage in URGENT

        def progress(name: str, index: int, total: int) -> None:
            if is_urgent:
                self._receive(is_blocking=False)
            else:
                self._background.wait_while_held()
            if task.is_cancelled:
                raise Cancelled
            # What is prepared may have been asked for in the meantime.
            waiting = [t.key for t in self._urgent if t.request == task.request and not t.is_silent]
            for key in waiting if task.is_silent else [task.key]:
                self._send("progress", key, stage, name, index, total)

        return progress

    def _send(self, *message: Any) -> None:  # Any: what JSON holds
        with self._sending:
            self._connection.send_bytes(json.dumps(message).encode())


def work(
    connection: Connection,
    needs: Connection,
    make_compiler: Callable[[], Compiler],
    environment: Mapping[str, str],
) -> None:
    """The worker's process, until the app closes the connections or ends it. `environment`: of the
    app now; a process that was forked has that of an earlier time."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # it depends on the environment
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the app, which ends its workers
    limit_memory()  # a file that asks for more ends in a message, and not the machine
    try:
        compiler = make_compiler()
        gc.collect()
        gc.freeze()  # modules stay: no collection need walk over them again
        Worker(connection, compiler, needs).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
