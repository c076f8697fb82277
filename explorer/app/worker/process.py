"""A worker's process as the app holds it: a fault or a cancel ends the process and not the app.

process = CompilerProcess(ModelCompiler, report)
process.compile(1, CompileRequest("digits_cnn.onnx", "cpu"))
    ->  report(1, Progressed(...)) ... report(1, DrawnTrace(...)) after every stage
        or report(1, Failure(...))
process.cancel(1)
    ->  report(1, Stopped())               the worker goes on with what else it was asked for
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from explorer.app.protocol import (
    COMPLETE,
    JUDGED,
    LEVERS,
    READ,
    STAGES,
    Bisection,
    Compiler,
    CompileRequest,
    Died,
    DrawnTrace,
    Examined,
    Failure,
    MadeChunk,
    Progressed,
    SavedFile,
    SaveOrder,
    SearchProgress,
    Stopped,
    where_of,
)
from explorer.app.searches import SearchOrder
from explorer.app.worker.program import work
from explorer.results.encoding import from_json, to_json
from explorer.runtime.scratch import remove_stale_folders

if TYPE_CHECKING:  # Windows has no fork server
    from multiprocessing.context import ForkServerContext, SpawnContext

NOBODY = 0
"""The key of what nobody waits for."""
TERMINATION_SECONDS = 2.0
"""How long a worker may take to end before it is killed."""

PRELOADED = ("explorer.app.worker.program", "explorer.app.worker.compiler", "explorer.compilation")

Report = (
    Progressed
    | DrawnTrace
    | Examined
    | MadeChunk
    | Failure
    | Bisection
    | SearchProgress
    | SavedFile
    | Stopped
    | Died
    | None
)
"""None: a bisection found nothing wrong."""


def start_context() -> ForkServerContext | SpawnContext:
    """How workers start: on Linux they are forked from a process that has imported the compiler
    once and runs no model, in milliseconds instead of a second. A fork of the server itself would
    copy its threads. Elsewhere forks are not safe, and every worker imports what it needs."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


class CompilerProcess:
    """One worker. `report(key, report)` is called from another thread.

    It may be started before anybody has a use for it: nothing is reported before `adopt`.
    """

    def __init__(
        self,
        make_compiler: Callable[[], Compiler],
        report: Callable[[int, Report], None] | None = None,
    ) -> None:
        context = start_context()
        self._connection, theirs = context.Pipe()
        their_needs, self._needs = context.Pipe(duplex=False)
        self._asking = threading.Lock()
        self._report = report
        self._prepared: set[CompileRequest] = set()
        self._preparing: CompileRequest | None = None
        """What was asked for last to be prepared, until it is."""
        self._is_ended = threading.Event()
        self._requests: dict[int, CompileRequest] = {}
        """What is not finished yet."""
        self._entered: set[int] = set()
        """Keys of what was compiled here, and not given up."""
        self._drawn: dict[int, DrawnTrace] = {}
        self._read: dict[CompileRequest, DrawnTrace] = {}
        """Large models as they were read, until they are compiled."""
        self._process = context.Process(
            target=work,
            args=(theirs, their_needs, make_compiler, dict(os.environ)),
            name="explorer-compiler",
            daemon=True,
        )
        self._process.start()
        theirs.close()
        their_needs.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def is_alive(self) -> bool:
        return not self._is_ended.is_set() and self._process.is_alive()

    def is_busy_for(self, request: CompileRequest) -> bool:
        """Whether what it prepares, which may take for ever, would let a request wait."""
        return self._preparing is not None and self._preparing != request

    def adopt(self, report: Callable[[int, Report], None]) -> None:
        """From now on this is told."""
        self._report = report

    def compile(self, key: int, request: CompileRequest) -> None:
        self._requests[key] = request
        self._entered.add(key)
        self._prepared.add(request)
        self._send("compile", key, request)

    def has(self, key: int) -> bool:
        """Whether this worker was asked to compile what has the key."""
        return key in self._entered

    def read(self, request: CompileRequest) -> DrawnTrace | None:
        """A large model as it was read, where its passes still run."""
        return self._read.get(request)

    def judge(self, key: int, request: CompileRequest) -> bool:
        """Measures what was compiled under the key once more, on the data of the request; False
        where this worker has not compiled it."""
        drawn = self._drawn.get(key)
        if drawn is None:
            return False
        stages = tuple(stage for stage in drawn.stages if stage not in JUDGED)
        self._drawn[key] = replace(drawn, stages=stages)
        self._requests[key] = request
        self._send("judge", key, request)
        return True

    def show_sweep(self, key: int, request: CompileRequest, file: str) -> bool:
        """Has the sweep in the file with all compilations of the model; False where this worker has
        not compiled what has the key."""
        drawn = self._drawn.get(key)
        if drawn is not None:
            stages = tuple(stage for stage in drawn.stages if stage != COMPLETE)
            self._drawn[key] = replace(drawn, stages=stages)
            self._requests[key] = request
        self._send("sweep", key, request, file)
        return drawn is not None

    def prepare(self, request: CompileRequest) -> None:
        """Compiles in the background what forks are expected of; nothing is reported."""
        if request not in self._prepared:
            self._prepared.add(request)
            self._preparing = request
            self._send("prepare", NOBODY, request)

    def need(self, key: int, chunk: str, is_to_come: bool = False) -> None:
        """Has a chunk made before others; `MadeChunk` is reported. From any thread.

        is_to_come: the key is compiled anew, though it may have been given up before.
        """
        request = self._requests.get(key)
        if request in self._read and key not in self._drawn:
            self._ask_at_once(READ, key, chunk, asdict(request))
        else:
            self._ask_at_once("need", key, chunk, is_to_come)

    def examine(self, key: int, path: str) -> None:
        """Has a model looked at before it is compiled; `Examined` is reported."""
        self._ask_at_once("examine", key, path)

    def _ask_at_once(self, kind: str, key: int, *what: Any) -> None:  # Any: JSON
        with self._asking, suppress(OSError):  # a worker that has died is reported elsewhere
            self._needs.send_bytes(json.dumps([kind, key, *what]).encode())

    def cancel(self, key: int, request: CompileRequest) -> None:
        """Gives a compilation up; `Stopped` is reported when the worker has heard it."""
        self._requests.pop(key, None)
        self._entered.discard(key)
        self._drawn.pop(key, None)
        self._read.pop(request, None)
        self._prepared.discard(request)
        self._send("cancel", key, request)

    def bisect(self, key: int, request: CompileRequest) -> None:
        self._requests[key] = request
        self._send("bisect", key, request)

    def search(self, key: int, request: CompileRequest, order: SearchOrder) -> None:
        """Searches the schedule of a kernel; `SearchProgress` comes as often as more is known."""
        self._requests[key] = request
        self._send("search", key, request, asdict(order))

    def save(self, key: int, request: CompileRequest, order: SaveOrder) -> None:
        """Makes a file of a branch; `SavedFile` is reported."""
        self._requests[key] = request
        self._send("save", key, request, to_json(order))

    def turns(self, key: int, request: CompileRequest, others: Sequence[CompileRequest]) -> None:
        """Times compilations in turns; `SearchProgress` comes as often as more is known."""
        self._requests[key] = request
        self._send("turns", key, request, [asdict(other) for other in others])

    def forget(self, key: int, request: CompileRequest) -> None:
        self._drawn.pop(key, None)
        self._entered.discard(key)
        self._requests.pop(key, None)
        self._prepared.discard(request)
        self._send("forget", key, request)

    def end(self) -> None:
        """Ends the worker; nothing is reported any more."""
        self._is_ended.set()
        self._process.terminate()
        self._process.join(TERMINATION_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(TERMINATION_SECONDS)
        remove_stale_folders()  # it had no time to remove its own

    def _send(self, kind: str, key: int, request: CompileRequest, *more: Any) -> None:  # Any: JSON
        try:
            message = [kind, key, asdict(request), *more]
            self._connection.send_bytes(json.dumps(message).encode())
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
            elif kind == READ:
                request = from_json(CompileRequest, values[0])
                self._read[request] = DrawnTrace(values[1], values[2], (), (READ,))
                for waiting in [key for key, r in self._requests.items() if r == request]:
                    self._tell(waiting, self._read[request])
            elif kind == "made":
                made = MadeChunk(*values)
                drawn = self._drawn.get(key)
                is_kept = not made.key.startswith(LEVERS)
                if drawn is not None and made.text is not None and is_kept:
                    drawn.chunks[made.key] = made.text
                self._tell(key, made)
            elif kind == "examined":
                self._tell(key, Examined(values[0]))
            elif kind == "chunk":
                chunks.setdefault(key, {})[values[0]] = values[1]
            elif kind == "stage":
                head, optional = heads[key]
                before = self._drawn.get(key)
                known = {**(before.chunks if before else {}), **chunks.pop(key, {})}
                done = (*(before.stages if before else ()), values[0])
                self._drawn[key] = DrawnTrace(head, known, optional, done)
                if before is None and key in self._requests:
                    self._read.pop(self._requests[key], None)
                self._tell(key, self._drawn[key])
            elif kind == "failed":
                chunks.pop(key, None)
                # What still needed the failed passes is not on its way any more.
                if values[0] == STAGES[0]:
                    self._requests.pop(key, None)
                self._tell(key, Failure(**values[1]))
            elif kind == "prepared":
                self._preparing = None
            elif kind == "finished":
                self._requests.pop(key, None)
            elif kind == "cancelled":
                self._tell(key, Stopped())
            elif kind == "saved":
                self._requests.pop(key, None)
                self._tell(key, SavedFile(**values[0]))
            elif kind == "searched":
                found = SearchProgress(**values[0])
                if found.status != "running":
                    self._requests.pop(key, None)
                self._tell(key, found)
            elif kind == "bisected":
                self._tell(key, None if values[0] is None else Bisection(**values[0]))
        connection.close()
        self._needs.close()
        self._process.join(TERMINATION_SECONDS)
        if not self._is_ended.is_set():
            self._is_ended.set()
            requests = dict(self._requests)
            self._tell(NOBODY, Died({key: self._death(r) for key, r in requests.items()}))

    def _tell(self, key: int, report: Report) -> None:
        if self._is_ended.is_set() and not isinstance(report, Died):
            return
        if self._report is not None:
            self._report(key, report)

    def _death(self, request: CompileRequest) -> Failure:
        code = self._process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        return Failure(
            what=f"the compiler's process ended without an answer ({how})",
            where=where_of(request),
            advice="Try again; if it happens again, choose another target or a smaller model.",
        )
