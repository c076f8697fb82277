"""A child process that answers requests, each with a time limit: a crash or a hang ends it only.

    child = Child(("-m", "verification.conformance.case_process"))
    child.ask({"case": "test_add", "group": "node", "device": "CPU"}, seconds=60)

    request   one line of JSON to the child's standard input
    answer    one line of JSON back, {"status": "passed", ...}

A child answers one request after another. One that dies or does not answer is replaced when the
next request comes, and the answer is {"status": "crashed" | "hung" | "finding", "reason": ...}
with the child's last words.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from explorer.errors import DeviceError
from explorer.runtime.processes import kill_group, signal_name

START_SECONDS = 120.0
"""For what a child imports on a busy machine, on top of the first request's own limit."""

Answer = dict[str, Any]


class Child:
    """One child process at a time; started when there is something to ask."""

    def __init__(
        self,
        program: Sequence[str],
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        executable: str = sys.executable,
        inherited: Sequence[int] = (),
    ) -> None:
        """`program`: what Python runs. It gets the number of the descriptor for its answers, then
        `arguments`; `environment` comes on top of this process's own. `executable`: the
        Python interpreter. `inherited`: descriptors that it finds open under the same numbers."""
        self._program = program
        self._arguments = arguments
        self._environment = environment or {}
        self._executable = executable
        self._inherited = tuple(inherited)
        self._process: subprocess.Popen[bytes] | None = None
        self._replies = -1
        self._has_answered = False
        self.exit_status = 0
        """Of the child that died last, negative for a signal."""
        self._received = b""
        self._log: IO[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the child that answered last still lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the child now, where there is none, so that it is ready by the first request."""
        if self._process is None:
            self._start()

    def ask(self, request: Answer, seconds: float) -> Answer:
        """The answer to a request, whatever happens to the child."""
        is_new = not self._has_answered
        process = self._process or self._start()
        assert process.stdin is not None and self._log is not None
        if not is_new:  # its last words are about this request
            self._log.seek(0)
            self._log.truncate()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = self._receive(seconds + (START_SECONDS if is_new else 0.0))
        except BrokenPipeError:
            answer = b""
        except TimeoutError:
            self.close()
            return {"status": "hung", "reason": f"it did not end within {seconds:g} s"}
        except BaseException:  # Ctrl-C: its answer would be taken for that of the next request
            self.close()
            raise
        if answer:
            self._has_answered = True
            return json.loads(answer)
        last_words = self._last_words()
        self.close()
        return last_words

    def close(self) -> None:
        """Ends the child, if there is one."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # what it did not read any more
                self._process.stdin.close()
        kill_group(self._process)
        os.close(self._replies)
        if self._log is not None:
            self._log.close()
        self._process, self._has_answered, self._received = None, False, b""

    def _start(self) -> subprocess.Popen[bytes]:
        read, write = os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the child
        try:
            self._process = subprocess.Popen(
                [self._executable, *self._program, str(write), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(write, *self._inherited),
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        except OSError as error:
            os.close(read)
            raise DeviceError(f"cannot start a child process: {error.strerror}") from error
        finally:
            os.close(write)
        self._replies = read
        return self._process

    def _receive(self, seconds: float) -> bytes:
        """One line from the child, b"" if it ended before; TimeoutError after the limit."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(seconds):
                    raise TimeoutError
                received = os.read(self._replies, 1 << 16)
                if not received:
                    return b""
                self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _last_words(self) -> Answer:
        """What is known of a child that ended by itself."""
        assert self._process is not None and self._log is not None
        self.exit_status = status = self._process.wait()
        self._log.seek(0)
        log = self._log.read().decode("utf-8", errors="replace")
        finding = re.search(r"(ERROR: \w*Sanitizer: .*|runtime error: .*)", log)
        if finding is not None:
            place = re.search(r"#\d+ 0x\w+ in (\w+_phase\d+)", log)
            where = f" in {place.group(1)}" if place else ""
            return {"status": "finding", "reason": finding.group(1)[:300] + where}
        last = log.strip().splitlines()[-1:]
        ending = signal_name(status) or f"status {status}"
        reason = ": ".join([f"the process ended with {ending}", *last])
        return {"status": "crashed", "reason": reason[:300]}
