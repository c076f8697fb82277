"""A child process that answers with another program, one request after another, within limits.

    serve(engine)       engine.answer({"do": "run", ...}, exchange) -> {"outputs": {...}}

    python PROGRAM REPLY_FD EXCHANGE_FD MEMORY_BYTES IDLE_SECONDS

Each line of the standard input is a request, answered by one line of JSON; a refusal is
{"error": ...}. Arrays lie in the exchange. The child ends when its parent does, even in the midst
of an inference, and when nobody asked for IDLE_SECONDS (0: it waits for as long as it takes).
"""

from __future__ import annotations

import json
import os
import queue
import resource
import sys
import threading
from typing import Any, Protocol

from exchange import Exchange  # pyright: ignore[reportMissingImports]  beside this file


class Engine(Protocol):
    """The other program."""

    def answer(self, request: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        """Any exception is a refusal."""
        ...


def serve(engine: Engine) -> None:
    replies, exchange_descriptor, memory_bytes, idle_seconds = map(int, sys.argv[1:])
    bound_memory(memory_bytes)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    exchange = Exchange(exchange_descriptor)
    with os.fdopen(replies, "wb") as out:
        while True:
            try:
                line = requests.get(timeout=idle_seconds or None)
            except queue.Empty:
                os._exit(0)  # not sys.exit: the other thread is in the midst of a read
            try:
                answer = engine.answer(json.loads(line), exchange)
            except MemoryError:
                answer = {"error": "it needs more memory than it may take"}
            # The other program's own exceptions have no base of theirs.
            except Exception as error:
                answer = {"error": first_line(error)}
            out.write(json.dumps(answer).encode() + b"\n")
            out.flush()


def bound_memory(size_bytes: int) -> None:
    """Private memory of this process, and no file of a crash, which is expected."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def first_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


def _read_requests(requests: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)  # the parent has ended, or does not need this process any more
