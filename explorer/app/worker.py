"""A compilation in a process of its own: a fault or a cancel ends the process and not the app.

    Job(request, compile_trace, report)   ->  report(Progressed(...)) ... report(DrawnTrace(...))
                                              or report(Failure(...))

The worker sends JSON, nothing is unpickled: whatever a model did to the worker, the app gets data.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from explorer.app.session import (
    Compiler,
    DrawnTrace,
    Failure,
    Request,
    drawn,
    failure_of,
)

TERMINATION_SECONDS = 2.0
"""How long a worker may take to end before it is killed."""


@dataclass(frozen=True)
class Progressed:
    """`index` of `total` steps are done; `name` comes next."""

    name: str
    index: int
    total: int


Report = Progressed | DrawnTrace | Failure


class Job:
    """One running compilation. `report` is called from another thread, last with the outcome."""

    def __init__(
        self, request: Request, compiler: Compiler, report: Callable[[Report], None]
    ) -> None:
        context = multiprocessing.get_context("spawn")  # fork would copy the server's threads
        receiver, sender = context.Pipe(duplex=False)
        self.request = request
        self._report = report
        self._is_cancelled = threading.Event()
        self._process = context.Process(
            target=_work, args=(sender, request, compiler), name="explorer-compiler", daemon=True
        )
        self._process.start()
        sender.close()
        self._listener = threading.Thread(target=self._listen, args=(receiver,), daemon=True)
        self._listener.start()

    def cancel(self) -> None:
        """Ends the worker; nothing is reported any more."""
        self._is_cancelled.set()
        self._process.terminate()
        self._process.join(TERMINATION_SECONDS)
        if self._process.is_alive():
            self._process.kill()

    def wait(self, seconds: float | None = None) -> None:
        """Until the outcome was reported."""
        self._listener.join(seconds)

    def _listen(self, receiver: Connection) -> None:
        outcome: Report | None = None
        head, optional, chunks = None, (), {}
        while outcome is None:
            try:
                kind, *values = json.loads(receiver.recv_bytes())
            except EOFError:
                break
            if kind == "progress" and not self._is_cancelled.is_set():
                self._report(Progressed(*values))
            elif kind == "head":
                head, optional = values[0], tuple(values[1])
            elif kind == "chunk":
                chunks[values[0]] = values[1]
            elif kind == "done" and head is not None:
                outcome = DrawnTrace(head, chunks, optional)
            elif kind == "failed":
                outcome = Failure(**values[0])
        receiver.close()
        self._process.join(TERMINATION_SECONDS)
        if not self._is_cancelled.is_set():
            self._report(outcome or self._death())

    def _death(self) -> Failure:
        code = self._process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        return Failure(
            what=f"the compiler's process ended without an answer ({how})",
            where=f"compiling {Path(self.request.path).name} for {self.request.target}",
            advice="Try again; if it happens again, choose another target or a smaller model.",
        )


def _work(sender: Connection, request: Request, compiler: Compiler) -> None:
    """In the worker: compile, then send the outcome piece by piece."""

    def send(*message: object) -> None:
        sender.send_bytes(json.dumps(message).encode())

    def progress(name: str, index: int, total: int) -> None:
        send("progress", name, index, total)

    try:
        compiled = compiler(request.path, request.target, request.disable, progress)
        progress("drawing", 1, 1)
        result = drawn(compiled)
    except Exception as error:  # whatever a model file provokes is shown to the person
        send("failed", asdict(failure_of(error, request)))
        return
    send("head", result.head, result.optional)
    for key, text in result.chunks.items():
        send("chunk", key, text)
    send("done")
