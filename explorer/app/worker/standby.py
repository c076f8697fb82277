"""A worker that is ready before a page asks for one: starting one takes seconds.

    standby = StandbyWorkers(ModelCompiler, first=CompileRequest("digits_cnn.onnx", "cpu"))
    standby.take(request)      the worker that has compiled `first` by now; the next one is started
                              later. Not one that is still busy with something else.

A worker serves one page and ends with it: what one person's model did there reaches nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from explorer.app.protocol import Compiler, CompileRequest
from explorer.app.worker.process import CompilerProcess

REST_SECONDS = 6.0
"""How long after one was taken the next is started: first the page has the machine to itself."""


class StandbyWorkers:
    """One standby worker for all pages."""

    def __init__(
        self,
        make_compiler: Callable[[], Compiler],
        first: CompileRequest | None = None,
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        self._make_compiler = make_compiler
        self._rest_seconds = rest_seconds
        self._lock = threading.Lock()
        self._standby: CompilerProcess | None = None
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self._start()
        if first is not None and self._standby is not None:
            self._standby.prepare(first)

    def take(self, request: CompileRequest) -> CompilerProcess:
        """A worker of one's own for a first request; the caller ends it."""
        with self._lock:
            worker, self._standby = self._standby, None
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(self._rest_seconds, self._start)
                self._timer.daemon = True
                self._timer.start()
        if worker is not None and worker.is_alive:
            if not worker.is_busy_for(request):
                return worker
            worker.end()
        return CompilerProcess(self._make_compiler)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            worker, self._standby = self._standby, None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if worker is not None:
            worker.end()

    def _start(self) -> None:
        with self._lock:
            self._timer = None
            if self._standby is None and not self._is_closed:
                self._standby = CompilerProcess(self._make_compiler)
