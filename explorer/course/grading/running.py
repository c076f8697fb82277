"""Starts the child that runs a lesson with answers, and ends it where it takes too long."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.processor import core_count

MAX_REPORT = 1 << 20
"""Characters of a child's report."""
MODELS = "sample_models"
"""What lessons look for in their folder and in those above it."""
DIED = "the lesson ended with this answer"


@dataclass(frozen=True)
class Judged:
    """What became of one answer."""

    exercise: str
    is_right: bool
    message: str


@dataclass(frozen=True)
class Limits:
    """Of one lesson of one student; seconds of wall time."""

    seconds: float = 300.0
    answer_seconds: float = 60.0


def run_lesson(
    path: Path, answers: Mapping[str, str], work: Path, limits: Limits
) -> dict[str, Judged]:
    """The answers' verdicts by exercise. Answers that end the child, or that it does not survive in
    time, are wrong; the lesson is run again without them, so that the others count.

    work: a folder of the child's own, in which it may write.
    """
    left = dict(answers)
    found: dict[str, Judged] = {}
    while True:
        report, reason = _run_child(path, left, work, limits)
        for line in report:
            name = line.get("exercise")
            if isinstance(name, str) and name not in found and name in left:
                is_right = line.get("right") is True
                found[name] = Judged(name, is_right, str(line.get("message", "")))
        if any(line.get("done") is True for line in report):
            return found
        begun = [line["begins"] for line in report if isinstance(line.get("begins"), str)]
        guilty = next((name for name in reversed(begun) if name in left), None)
        if guilty is None or guilty in found:
            missing = [name for name in left if name not in found]
            found |= {name: Judged(name, False, f"not reached: {reason}") for name in missing}
            return found
        found[guilty] = Judged(guilty, False, reason)
        del left[guilty]


def _run_child(
    path: Path, answers: Mapping[str, str], work: Path, limits: Limits
) -> tuple[list[dict[str, Any]], str]:
    """The lines that a child reported, and why it ended if it did not reach the end."""
    work.mkdir(parents=True, exist_ok=True)
    models = next((f / MODELS for f in path.resolve().parents if (f / MODELS).is_dir()), None)
    if models is not None and not (work / MODELS).exists():
        (work / MODELS).symlink_to(models)
    reader, writer = os.pipe()
    cache = work.parent / "programs"
    order = {
        "lesson": str(path.resolve()),
        "answers": dict(answers),
        "report": writer,
        "seconds": int(limits.seconds * core_count()) + 1,
        "answer_seconds": limits.answer_seconds,
        "folder": str(work.resolve()),
        "writable": [str(work.resolve()), str(cache.resolve()), "/dev/null"],
        "hidden": [str(path.resolve().parent / "solutions")],
    }
    environment = {
        **{key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ},
        "HOME": str(work),
        "TMPDIR": str(work),
        "EXPLORER_CACHE": str(cache),
        "EXPLORER_COURSE": "open",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "explorer.course.grading.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=work,
        env=environment,
        pass_fds=(writer,),
        start_new_session=True,
    )
    os.close(writer)
    try:
        assert child.stdin is not None
        child.stdin.write(json.dumps(order).encode())
        child.stdin.close()
        text, is_late = _read(reader, time.monotonic() + limits.seconds)
    except BrokenPipeError:
        text, is_late = "", False
    finally:
        os.close(reader)
        _end(child)
    lines = [_line(line) for line in text.splitlines()]
    failed = next((str(line["failed"]) for line in lines if "failed" in line), DIED)
    return lines, f"this takes longer than {limits.seconds:g} s" if is_late else failed


def _read(reader: int, until: float) -> tuple[str, bool]:
    """What the child reports until it closes the pipe, and whether time ran out before."""
    parts: list[bytes] = []
    size = 0
    while size < MAX_REPORT:
        ready, _, _ = select.select([reader], [], [], max(until - time.monotonic(), 0))
        if not ready:
            return b"".join(parts).decode("utf-8", "replace"), True
        part = os.read(reader, 1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts).decode("utf-8", "replace"), False


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _line(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
