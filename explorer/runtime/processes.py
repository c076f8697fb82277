"""Processes within limits: of time, with all that they started themselves, and of memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARE_OF_MEMORY = 0.75
"""Of the machine's, which one process may take: the rest is for whoever has to tell of it."""


@dataclass(frozen=True)
class FinishedCommand:
    status: int
    """0 is success; negative: the number of the signal that ended it."""
    output: str
    """Standard output and standard error, in the order in which they were written."""


def run_command(
    command: Sequence[str],
    *,
    seconds: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> FinishedCommand:
    """Run `command` in `folder` for at most `seconds`.

    `subprocess.run(timeout=...)` kills the command only: a compiler's driver would die, and its
    back end compile on. Here the command leads a process group, and all of the group is killed.
    Raises `subprocess.TimeoutExpired`, and `OSError` when the command cannot be started.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=None if environment is None else dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except BaseException:  # the limit, or Ctrl-C: in both cases nothing may be left behind
        kill_group(process)
        raise
    return FinishedCommand(process.returncode, output.decode("utf-8", errors="replace"))


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, with all that it started, and collect its status."""
    if process.returncode is None:
        # Not yet collected, so its number still belongs to it and to no other process.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def limit_memory(most_bytes: int = 0) -> None:
    """From now on more memory than this is a MemoryError here, and in what this process starts.

    0: three quarters of the machine's. What counts is memory of its own; what is mapped and never
    touched, as drivers do by the terabyte, does not. A lower limit that is there already stays.
    """
    if not most_bytes:
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        most_bytes = int(SHARE_OF_MEMORY * machine_bytes)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([most_bytes, *known]), hard))


def signal_name(status: int) -> str:
    """`SIGSEGV` for the status -11 of a process; empty when no signal ended it.

    Some sandboxes and shells report 128 + number instead.
    """
    number = -status if status < 0 else status - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return "" if status >= 0 else f"signal {number}"
