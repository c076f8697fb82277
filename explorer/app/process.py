"""A worker's process as the app holds it: a fault or a cancel ends the process and not the app.

process = CompilerProcess(ModelCompiler, report)
process.compile(1, Request("digits_cnn.onnx", "cpu"))
    ->  report(1, Progressed(...)) ... report(1, DrawnTrace(...)) after every stage
        or report(1, Failure(...))
"""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

from explorer.app.session import (
    Bisection,
    Compiler,
    DrawnTrace,
    Failure,
    Progressed,
    Request,
)
from explorer.app.worker import work

TERMINATION_SECONDS = 2.0
"""How long a worker may take to end before it is killed."""

Report = Progressed | DrawnTrace | Failure | Bisection | None
"""None: a bisection found nothing wrong."""


class CompilerProcess:
    """One worker. `report(key, report)` is called from another thread."""

    def __init__(
        self, make_compiler: Callable[[], Compiler], report: Callable[[int, Report], None]
    ) -> None:
        context = multiprocessing.get_context("spawn")  # fork would copy the server's threads
        self._connection, theirs = context.Pipe()
        self._report = report
        self._is_ended = threading.Event()
        self._requests: dict[int, Request] = {}
        """What is not finished yet."""
        self._drawn: dict[int, DrawnTrace] = {}
        self._process = context.Process(
            target=work, args=(theirs, make_compiler), name="explorer-compiler", daemon=True
        )
        self._process.start()
        theirs.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def is_alive(self) -> bool:
        return not self._is_ended.is_set() and self._process.is_alive()

    def compile(self, key: int, request: Request) -> None:
        self._requests[key] = request
        self._send("compile", key, request)

    def bisect(self, key: int, request: Request) -> None:
        self._requests[key] = request
        self._send("bisect", key, request)

    def forget(self, key: int, request: Request) -> None:
        self._drawn.pop(key, None)
        self._requests.pop(key, None)
        self._send("forget", key, request)

    def end(self) -> None:
        """Ends the worker; nothing is reported any more."""
        self._is_ended.set()
        self._process.terminate()
        self._process.join(TERMINATION_SECONDS)
        if self._process.is_alive():
            self._process.kill()

    def _send(self, kind: str, key: int, request: Request) -> None:
        try:
            self._connection.send_bytes(json.dumps([kind, key, asdict(request)]).encode())
        except OSError:
            return  # the worker has died: the listener reports that

    def _listen(self) -> None:
        connection: Connection = self._connection
        heads: dict[int, tuple[dict, tuple[str, ...]]] = {}
        chunks: dict[int, dict[str, str]] = {}
        while not self._is_ended.is_set():
            try:
                kind, key, *values = json.loads(connection.recv_bytes())
            except (EOFError, OSError):
                break
            if kind == "progress":
                stage, name, index, total = values
                self._tell(key, Progressed(name, index, total, stage))
            elif kind == "head":
                heads[key] = (values[0], tuple(values[1]))
            elif kind == "chunk":
                chunks.setdefault(key, {})[values[0]] = values[1]
            elif kind == "stage":
                head, optional = heads[key]
                before = self._drawn.get(key)
                known = {**(before.chunks if before else {}), **chunks.pop(key, {})}
                done = (*(before.stages if before else ()), values[0])
                self._drawn[key] = DrawnTrace(head, known, optional, done)
                self._tell(key, self._drawn[key])
            elif kind == "failed":
                chunks.pop(key, None)
                self._tell(key, Failure(**values[1]))
            elif kind == "finished":
                self._requests.pop(key, None)
            elif kind == "bisected":
                self._tell(key, None if values[0] is None else Bisection(**values[0]))
        connection.close()
        self._process.join(TERMINATION_SECONDS)
        if not self._is_ended.is_set():
            self._is_ended.set()
            for key in list(self._requests):
                self._tell(key, self._death(self._requests[key]))

    def _tell(self, key: int, report: Report) -> None:
        if self._is_ended.is_set() and not isinstance(report, Failure):
            return
        self._report(key, report)

    def _death(self, request: Request) -> Failure:
        code = self._process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        return Failure(
            what=f"the compiler's process ended without an answer ({how})",
            where=f"compiling {Path(request.path).name} for {request.target}",
            advice="Try again; if it happens again, choose another target or a smaller model.",
        )
