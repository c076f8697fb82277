"""Predictions that were locked, one line of JSON each, in `predictions.jsonl` next to the lesson.

{"question": "How many ...?", "answer": 9, "truth": 11, "state": "wrong"}

Students hand the file in; `explorer course guesses` draws what they thought.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.course.locking import LEDGER
from explorer.errors import InputError

MAX_LINES = 10_000
WIDTH = 30
"""Of the longest bar, in characters."""


@dataclass(frozen=True)
class Question:
    """One question, and the first answer of every student to it."""

    text: str
    truth: object
    answers: Mapping[str, int]
    """How many students gave each answer, the most frequent first."""
    right: int

    def summary(self) -> dict[str, Any]:
        return {
            "question": self.text,
            "truth": self.truth,
            "answers": dict(self.answers),
            "right": self.right,
            "students": sum(self.answers.values()),
        }


def collect(submissions: Path) -> list[Question]:
    """The questions of all ledgers in the order in which they were met."""
    answers: dict[str, Counter[str]] = {}
    truths: dict[str, object] = {}
    right: Counter[str] = Counter()
    if not submissions.is_dir():
        raise InputError("this is no folder", file=str(submissions))
    for student in sorted(path for path in submissions.iterdir() if path.is_dir()):
        seen: set[str] = set()
        for path in sorted(student.rglob(LEDGER)):
            for entry in _entries(path):
                text = str(entry.get("question", ""))
                if not text or text in seen:
                    continue
                seen.add(text)
                answers.setdefault(text, Counter())[_shown(entry.get("answer"))] += 1
                truths.setdefault(text, entry.get("truth"))
                right[text] += entry.get("state") == "right"
    if not answers:
        raise InputError(f"there is no {LEDGER} with predictions in it", file=str(submissions))
    return [
        Question(text, truths[text], dict(counts.most_common()), right[text])
        for text, counts in answers.items()
    ]


def histogram_lines(question: Question) -> Iterator[str]:
    """The question, then a bar for each answer; the right one has a tick."""
    total = sum(question.answers.values())
    yield f"{question.text} ({question.right} of {total} right)"
    most = max(question.answers.values())
    width = max(len(answer) for answer in question.answers)
    for answer, count in question.answers.items():
        sign = "✓" if answer == _shown(question.truth) else " "
        yield f"  {sign} {answer:{width}}  {'█' * max(1, WIDTH * count // most)} {count}"
    yield ""


def _entries(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[:MAX_LINES]
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(sorted(map(str, value)))
    return str(value)[:60]
