"""The worker's side: one process that compiles for one page, stage by stage.

    page: compile 1        worker: passes 1, program 1, kernels 1, accuracy 1 ...

Passes come first: when another compilation is asked for while errors are compared, its passes are
run in between, and the page shows them within a second. The worker sends JSON and nothing that is
unpickled: whatever a model did to it, the app gets data.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from explorer.app.session import STAGES, Compiler, Request, failure_of
from explorer.views.payload import encode, trace_payload
from explorer.views.payload_snapshots import SnapshotParts

URGENT = STAGES[:2]
"""Stages that another compilation's later ones wait for."""


@dataclass
class Task:
    """One compilation on its way."""

    key: int
    request: Request
    waiting: list[str] = field(default_factory=lambda: list(STAGES))
    parts: SnapshotParts | None = None
    sent: dict[str, int] = field(default_factory=dict)
    """Hashes of the chunks that the page has."""


class Worker:
    """Answers the messages of one connection until it is closed."""

    def __init__(self, connection: Connection, compiler: Compiler) -> None:
        self._connection = connection
        self._compiler = compiler
        self._tasks: list[Task] = []
        """The last one goes first: it is what the person asked for last."""
        self._bisections: list[Task] = []
        self._is_between = False
        """Whether another compilation's stage waits while this one runs."""

    def run(self) -> None:
        while True:
            self._receive(is_blocking=not self._tasks and not self._bisections)
            urgent = [task for task in self._tasks if task.waiting[0] in URGENT]
            if urgent:
                self._advance(urgent[-1])
            elif self._bisections:
                self._bisect(self._bisections.pop())
            elif self._tasks:
                self._advance(self._tasks[-1])

    def _receive(self, is_blocking: bool) -> None:
        """Takes all messages that are there; waits for one first if `is_blocking`."""
        while is_blocking or self._connection.poll():
            is_blocking = False
            kind, key, data = json.loads(self._connection.recv_bytes())
            request = Request.of_json(data)
            if kind == "compile":
                self._tasks.append(Task(key, request))
            elif kind == "bisect":
                self._bisections.append(Task(key, request))
            elif kind == "forget":
                self._tasks = [task for task in self._tasks if task.key != key]
                self._compiler.forget(request)

    def _advance(self, task: Task) -> None:
        """Runs the next stage of a compilation and sends what it made."""
        stage = task.waiting.pop(0)
        try:
            trace = self._compiler.stage(task.request, stage, self._progress(task, stage))
            if task.parts is None:
                task.parts = SnapshotParts.of(trace)
            payload = trace_payload(trace, parts=task.parts)
            self._send("head", task.key, payload.head, self._compiler.optional(task.request))
            for key in payload.chunk_keys():
                if key in task.sent and key in payload.settled:
                    continue
                text = encode(payload.chunk(key))
                if task.sent.get(key) != hash(text):
                    task.sent[key] = hash(text)
                    self._send("chunk", task.key, key, text)
            self._send("stage", task.key, stage)
        except Exception as error:  # whatever a model file provokes is shown to the person
            self._send("failed", task.key, stage, asdict(failure_of(error, task.request, stage)))
            if stage == STAGES[0]:
                task.waiting.clear()
        if not task.waiting and task in self._tasks:
            self._tasks.remove(task)
            self._send("finished", task.key)

    def _bisect(self, task: Task) -> None:
        try:
            found = self._compiler.bisect(task.request)
            self._send("bisected", task.key, None if found is None else asdict(found))
        except Exception as error:  # as above
            self._send(
                "failed", task.key, "bisect", asdict(failure_of(error, task.request, "bisect"))
            )

    def _progress(self, task: Task, stage: str) -> Callable[[str, int, int], None]:
        def progress(name: str, index: int, total: int) -> None:
            self._send("progress", task.key, stage, name, index, total)
            if stage not in URGENT and not self._is_between:
                self._let_others_through()

        return progress

    def _let_others_through(self) -> None:
        """Runs the urgent stages of what was asked for in the meantime."""
        self._receive(is_blocking=False)
        self._is_between = True
        try:
            for task in reversed(list(self._tasks)):
                while task.waiting and task.waiting[0] in URGENT and task in self._tasks:
                    self._advance(task)
        finally:
            self._is_between = False

    def _send(self, *message: Any) -> None:  # Any: what JSON holds
        self._connection.send_bytes(json.dumps(message).encode())


def work(connection: Connection, make_compiler: Callable[[], Compiler]) -> None:
    """The worker's process, until the app closes the connection or ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the app, which ends its workers
    try:
        Worker(connection, make_compiler()).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
