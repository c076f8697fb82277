"""One compiled program in one file: a seal, a head in JSON, and the binary.

    explorer program 1\\n
    <SHA-256 of all that follows, 64 hexadecimal digits>\\n
    {"key": {...}, "name": ..., "headers": {...}, "source": ..., ...}\\n
    <binary>

One file, so that it is there whole or not at all. The seal finds every damaged byte; it does not
say who wrote the file, so that a foreign entry is tried in a child process before it is used.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from explorer.runtime.cache.keys import ProgramKey, digest_of

MAGIC = b"explorer program 1\n"
SEAL_BYTES = 64
SUFFIX = ".program"
MAX_HEAD_BYTES = 64 << 20
MAX_SOURCE_BYTES = 64 << 20
"""Of the source when it is unpacked; a longer one is not kept beside its binary."""


class DamagedEntry(Exception):
    """The file is not what was written; the text says how."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A compiled program with everything it was made of."""

    digest: str
    """Of its key."""
    key: dict[str, Any]
    """`ProgramKey.fields`."""
    name: str
    """Of the model that it was compiled for first."""
    payload: bytes
    """A shared library, or what the OpenCL driver gave."""
    headers: dict[str, str] = field(default_factory=dict)
    """Digests of the included headers, by path."""
    source: str = ""
    """The text; empty where it was left out."""
    build_seconds: float = 0.0
    made_at: str = ""
    """ISO 8601, UTC."""
    is_foreign: bool = False
    """Came from elsewhere, not out of a compiler of this machine."""

    @staticmethod
    def of(
        key: ProgramKey,
        payload: bytes,
        *,
        headers: dict[str, str],
        build_seconds: float,
        made_at: str,
        keeps_source: bool = True,
    ) -> Entry:
        source = key.source if keeps_source and len(key.source) <= MAX_SOURCE_BYTES else ""
        return Entry(
            digest=key.digest(),
            key=key.fields,
            name=key.name,
            payload=payload,
            headers=headers,
            source=source,
            build_seconds=build_seconds,
            made_at=made_at,
        )

    @property
    def seal(self) -> str:
        """Names this content: the same program, built twice, may differ in its bytes."""
        return digest_of(self._body())

    def to_bytes(self) -> bytes:
        body = self._body()
        return MAGIC + digest_of(body).encode() + b"\n" + body

    def _body(self) -> bytes:
        head = {
            "digest": self.digest,
            "key": self.key,
            "name": self.name,
            "headers": self.headers,
            "source": base64.b64encode(zlib.compress(self.source.encode())).decode(),
            "build_seconds": self.build_seconds,
            "made_at": self.made_at,
            "is_foreign": self.is_foreign,
        }
        return json.dumps(head, sort_keys=True).encode() + b"\n" + self.payload


def read_entry(content: bytes, digest: str = "") -> Entry:
    """The entry in a file's content. Raises `DamagedEntry`; nothing in it is executed.

    `digest` is what the key's digest has to be, where the caller knows it.
    """
    start = len(MAGIC) + SEAL_BYTES + 1
    if not content.startswith(MAGIC):
        raise DamagedEntry("it does not begin as a compiled program does")
    seal = content[len(MAGIC) : start - 1]
    body = content[start:]
    if len(content) < start or content[start - 1 : start] != b"\n":
        raise DamagedEntry(f"it is cut off after {len(content)} bytes")
    if digest_of(body).encode() != seal:
        raise DamagedEntry("its content does not fit its seal: bytes are changed or missing")
    end = body.find(b"\n", 0, MAX_HEAD_BYTES)
    if end < 0:
        raise DamagedEntry("its head has no end")
    # The seal fits, yet anybody can compute one: what is in the head is still checked.
    entry = entry_of_head(body[:end], body[end + 1 :])
    if digest and entry.digest != digest:
        raise DamagedEntry("it is the program of another key")
    return entry


def entry_of_head(line: bytes, payload: bytes = b"") -> Entry:
    """What a head's line of JSON says. Raises `DamagedEntry`, also where its digest is not that of
    its key."""
    try:
        head = json.loads(line)
        entry = Entry(
            digest=_text(head["digest"]),
            key=dict(head["key"]),
            name=_text(head["name"]),
            payload=payload,
            headers={_text(path): _text(d) for path, d in head["headers"].items()},
            source=_unpacked(_text(head["source"])),
            build_seconds=float(head["build_seconds"]),
            made_at=_text(head["made_at"]),
            is_foreign=bool(head["is_foreign"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error, RecursionError) as error:
        raise DamagedEntry(f"its head cannot be read: {error}") from error
    if digest_of(json.dumps(entry.key, sort_keys=True).encode()) != entry.digest:
        raise DamagedEntry("its key is another one than its name says")
    return entry


def may_be_like(line: bytes, key: ProgramKey) -> bool:
    """Whether the program of a head, which is not read for that, may have the key's source or the
    name of its model. Most heads of a folder are those of strangers, and to read one takes a
    millisecond: it holds the whole source."""
    return key.source_digest.encode() in line or (
        bool(key.name) and json.dumps(key.name).encode() in line
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r}: a text expected")
    return value


def _unpacked(text: str) -> str:
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(base64.b64decode(text, validate=True), MAX_SOURCE_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError("the source is longer than any that is kept")
    return content.decode()
