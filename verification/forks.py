"""Requests that a child process answers, each in a fork of its own.

    answer_in_forks(answer, int(sys.argv[1]))       as long as there are lines on standard input

What a request leaves in memory is gone with its fork, and what all of them need is loaded once. If
a fork ends without an answer, the child ends in the same way: `explorer/runtime/child.py` reports
it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, NoReturn

Answering = Callable[[dict[str, Any]], dict[str, Any]]


def answer_in_forks(answer: Answering, descriptor: int) -> None:
    with os.fdopen(descriptor, "w") as replies:
        for line in sys.stdin:
            process = os.fork()
            if process == 0:
                _answer_and_end(answer, json.loads(line), replies)
            _, status = os.waitpid(process, 0)
            if status:
                _end_as(os.waitstatus_to_exitcode(status))


def _answer_and_end(answer: Answering, request: dict[str, Any], replies: IO[str]) -> NoReturn:
    try:
        replies.write(json.dumps(answer(request)) + "\n")
        replies.flush()
    except BaseException:  # the fork must not return to the loop of its parent
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _end_as(status: int) -> NoReturn:
    """By the same signal, or with the same status."""
    if status < 0:
        with suppress(OSError):  # what ends a process always (SIGKILL) has no other handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
