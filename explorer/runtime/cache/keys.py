"""What a compiled program depends on: all of it is the key, and what differs is the reason.

    ProgramKey("c", source, options, compiler, device)
    key.digest()                     -> the entry's name
    key.differences(other)           -> ("the compiler: gcc 12.2.0 before, gcc 13.1.0 now",)

Included headers belong to it too. Which they are is known only after compiling, so an entry
holds their digests (`header_digests`) and they are compared when it is found.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MAX_LINES_COMPARED = 20_000
"""Of two sources, to name their first difference."""


@dataclass(frozen=True, kw_only=True)
class ProgramKey:
    """Everything but the headers that decides what binary comes out."""

    language: str
    """c or opencl."""
    source: str
    """The whole text that the compiler reads."""
    options: tuple[str, ...]
    compiler: str
    """Command, version, size and time of its file; or OpenCL platform and driver."""
    device: str
    """Processor with its features, or OpenCL device."""
    name: str = ""
    """Of the model: not part of the key, but tells a successor from a stranger."""

    @cached_property
    def source_digest(self) -> str:
        return digest_of(self.source.encode())

    @property
    def fields(self) -> dict[str, object]:
        """What the key is made of, as JSON has it."""
        return {
            "language": self.language,
            "source": self.source_digest,
            "options": list(self.options),
            "compiler": self.compiler,
            "device": self.device,
        }

    def described(self) -> tuple[tuple[str, str], ...]:
        """(field, value) for a person."""
        return tuple(
            (name, " ".join(map(str, value)) if isinstance(value, list) else str(value))
            for name, value in self.fields.items()
        )

    def digest(self) -> str:
        """64 hexadecimal digits."""
        return digest_of(json.dumps(self.fields, sort_keys=True).encode())

    def differences(self, before: Mapping[str, object], source_before: str) -> tuple[str, ...]:
        """In words, how an entry with these `fields` and this source differs from this key."""
        found = []
        for field in ("compiler", "device"):
            if before.get(field) != getattr(self, field):
                found.append(f"the {field}: {before.get(field)} before, {getattr(self, field)} now")
        if before.get("options") != list(self.options):
            found.append(_option_difference(before.get("options"), self.options))
        if before.get("source") != self.source_digest:
            found.append(f"the source: {_source_difference(source_before, self.source)}")
        return tuple(found)


def digest_of(content: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def header_digests(headers: Iterable[Path]) -> dict[str, str]:
    """Digest by path; those that cannot be read are left out, so that they differ later."""
    digests = {}
    for header in headers:
        try:
            digests[str(header)] = digest_of(header.read_bytes())
        except OSError:
            continue
    return digests


def changed_header(digests: Mapping[str, str]) -> str:
    """The first header that is not what it was, with what happened; empty when all are."""
    for path, digest in digests.items():
        try:
            now = digest_of(Path(path).read_bytes())
        except OSError:
            return f"the included header {path} is not there any more"
        if now != digest:
            return f"the included header {path} changed"
    return ""


def _option_difference(before: object, now: tuple[str, ...]) -> str:
    old = [str(option) for option in before] if isinstance(before, list) else []
    gone = [option for option in old if option not in now]
    new = [option for option in now if option not in old]
    if not gone and not new:
        return "the options: in another order"
    words = [f"without {' '.join(gone)}"] if gone else []
    words += [f"with {' '.join(new)}"] if new else []
    return f"the options: now {' and '.join(words)}"


def _source_difference(before: str, now: str) -> str:
    """`line 120 is "x = 2" instead of "x = 1" (3 lines differ)`."""
    if not before:
        return "another text"
    old, new = before.splitlines(), now.splitlines()
    if max(len(old), len(new)) > MAX_LINES_COMPARED:
        return f"{len(new):,} lines instead of {len(old):,}, or other ones"
    for number, (a, b) in enumerate(zip(old, new, strict=False), 1):
        if a != b:
            return f"line {number} is {_quoted(b)} instead of {_quoted(a)}{_count(old, new)}"
    if len(old) == len(new):
        return "other line ends"
    longer, words = (new, "more") if len(new) > len(old) else (old, "fewer")
    first = min(len(old), len(new))
    count = abs(len(new) - len(old))
    return f"{count:,} lines {words}, from line {first + 1}: {_quoted(longer[first])}"


def _count(old: list[str], new: list[str]) -> str:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if len(old) * len(new) > 4_000_000:  # quadratic in the worst case
        return ""
    count = sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")
    return f" ({count:,} lines differ)" if count > 1 else ""


def _quoted(line: str) -> str:
    short = " ".join(line.split())
    return '"' + (short if len(short) <= 60 else short[:57] + "...") + '"'
