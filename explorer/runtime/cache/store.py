"""A folder of compiled programs that several processes share, and bundles that were shipped.

    cache = ProgramCache(Path("~/.cache/explorer/programs"))
    found = cache.find(key)              FoundEntry(entry, tier) | Missed(reason)
    cache.store(entry)
    cache.entries(), cache.verify(), cache.prune(limit_bytes), cache.explain(digest)

Tiers, the nearest first: `memory` (this process), `folder`, `shipped` (bundles). Nothing that goes
wrong with the cache stops a compilation: it is told once (`warnings`), kept in `problems`, and
the program is built from source.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.errors import CacheWarning
from explorer.files import UNFINISHED_PREFIX, write_whole
from explorer.logs import logger
from explorer.results import TIERS, ProgramLookup
from explorer.results.displayed import Displayed
from explorer.runtime.cache.entries import (
    MAGIC,
    MAX_HEAD_BYTES,
    SEAL_BYTES,
    SUFFIX,
    DamagedEntry,
    Entry,
    entry_of_head,
    may_be_like,
    read_entry,
)
from explorer.runtime.cache.files import Listed, listed, open_private, read_private
from explorer.runtime.cache.keys import ProgramKey, changed_header

LOG = logger(__name__)

LIMIT_BYTES = 1 << 30
"""Of a folder; when a new program exceeds it, those that were not used for longest go."""
MAX_ENTRY_BYTES = 256 << 20
MAX_IN_MEMORY_BYTES = 64 << 20
WRITERS = 16
"""How many processes may fill one folder at the same time without exceeding its limit."""
UNFINISHED_SECONDS = 3600
"""After this an unfinished file belongs to a process that was killed."""
MAX_COMPARED = 200
"""Entries that are looked at for the reason of a miss, the latest first."""
TRIED_SUFFIX = ".tried"
MAX_MARK_BYTES = 1 << 16
PRUNED = (SUFFIX, ".kept", ".weights")
"""What counts for the limit, by suffix: see `saved_program_files` and `weights`."""


@dataclass(frozen=True)
class FoundEntry:
    entry: Entry
    tier: str
    """memory, folder or shipped."""


@dataclass(frozen=True)
class Missed:
    reason: str


@dataclass(frozen=True)
class Stored:
    """An entry of the folder, without its content."""

    digest: str
    path: Path
    size_bytes: int
    used_at: float
    """Seconds since 1970."""
    name: str
    language: str
    compiler: str
    device: str
    made_at: str
    build_seconds: float


Trial = Callable[[Entry], str]
"""Tries a binary in a child process: why it is of no use, or nothing."""


class ProgramCache(Displayed):
    """Safe for threads, and for processes that share the folder. `folder` None: memory only."""

    def __init__(
        self,
        folder: Path | None,
        limit_bytes: int = LIMIT_BYTES,
        shipped: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.shipped = tuple(shipped)
        self.problems: list[str] = []
        self.looked: list[ProgramLookup] = []
        """Every program that was asked for, in order."""
        self._free_bytes = 0
        """What may be written to the folder before it is full, were all writers as busy as this
        one; counted when it is pruned."""
        self._memory: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def counts(self) -> dict[str, int]:
        """How many programs came from each tier."""
        counted = Counter(looked.tier for looked in self.looked)
        return {tier: counted[tier] for tier in TIERS}

    def held(self, digest: str) -> Entry | None:
        """A program that this process has had, without looking further."""
        return self._memory.get(digest)

    def note(self, key: ProgramKey, tier: str, seconds: float, reason: str = "") -> None:
        why = f" ({reason})" if reason else ""
        LOG.info("program %s from %s%s, %.2f s", key.name, tier, why, seconds)
        self.looked.append(
            ProgramLookup(
                name=key.name,
                digest=key.digest(),
                tier=tier,
                reason=reason,
                seconds=seconds,
                key=key.described(),
            )
        )

    # -- looking up --------------------------------------------------------------------------

    def find(
        self, key: ProgramKey, trial: Trial | None = None, *, tries_own: bool = False
    ) -> FoundEntry | Missed:
        """The program of a key, or why there is none.

        `trial` is asked once for every foreign binary; with `tries_own` also for those that this
        machine made, before they are used from the folder.
        """
        with self._lock:
            reasons: list[str] = []
            found = self._look(key.digest(), trial, tries_own, reasons)
            return found or Missed("; ".join(reasons) or self._reason(key))

    def find_kept(self, digest: str, trial: Trial | None = None) -> FoundEntry | Missed:
        """The program of a key's digest, for who has no source to make the key of.

        Without a trial its binary is nothing that may be loaded yet: `find` has to say so.
        """
        with self._lock:
            reasons: list[str] = []
            found = self._look(digest, trial, trial is None, reasons)
            return found or Missed("; ".join(reasons) or "its binary is gone")

    def _look(
        self, digest: str, trial: Trial | None, tries_own: bool, reasons: list[str]
    ) -> FoundEntry | None:
        """The program in the nearest tier that has one of use; adds to the reasons."""
        for tier, candidates in (
            ("memory", self._in_memory(digest)),
            ("folder", self._in_folder(digest, reasons)),
            ("shipped", self._in_bundles(digest, reasons)),
        ):
            for entry in candidates:
                if reason := changed_header(entry.headers if tier != "shipped" else {}):
                    reasons.append(reason)
                    self._drop(digest)
                    continue
                is_doubtful = tier != "memory" and (tries_own or entry.is_foreign)
                if is_doubtful and (reason := self._tried(entry, trial)):
                    reasons.append(f"the binary is of no use here: {reason}")
                    self.complain(f"a cached program is of no use here: {reason}")
                    if tier == "folder":
                        self._drop(digest)
                    continue
                if trial is not None or not is_doubtful:
                    self._remember(entry)
                return FoundEntry(entry, tier)
        return None

    def _in_memory(self, digest: str) -> Iterator[Entry]:
        if digest in self._memory:
            self._memory.move_to_end(digest)
            yield self._memory[digest]

    def _in_folder(self, digest: str, reasons: list[str]) -> Iterator[Entry]:
        if self.folder is None:
            return
        path = self._path(digest)
        try:
            entry = read_entry(_read(path), digest)
        except FileNotFoundError:
            return
        except OSError as error:
            reasons.append(f"the entry cannot be read: {error.strerror}")
            self.complain(f"the program cache cannot read {path}: {error.strerror}")
            return
        except DamagedEntry as error:
            reasons.append(f"the entry was damaged: {error}")
            self.complain(f"the program cache drops {path.name}: {error}")
            self._drop(digest)
            return
        with contextlib.suppress(OSError):  # a read-only folder keeps its times
            os.utime(path)
        yield entry

    def _in_bundles(self, digest: str, reasons: list[str]) -> Iterator[Entry]:
        for bundle in self.shipped:
            try:
                with zipfile.ZipFile(bundle) as archive:
                    name = digest + SUFFIX
                    if name not in archive.namelist():
                        continue
                    if archive.getinfo(name).file_size > MAX_ENTRY_BYTES:
                        raise DamagedEntry("the program is larger than any that is taken")
                    entry = replace(read_entry(archive.read(name), digest), is_foreign=True)
            except (OSError, zipfile.BadZipFile, DamagedEntry, EOFError, ValueError) as error:
                reasons.append(f"the shipped programs in {bundle} are damaged: {error}")
                self.complain(f"the shipped programs in {bundle} cannot be used: {error}")
                continue
            yield entry

    def _tried(self, entry: Entry, trial: Trial | None) -> str:
        """Why a binary is of no use; each content is tried once on this machine."""
        if trial is None:
            return ""
        mark = self._path(entry.digest, TRIED_SUFFIX) if self.folder else None
        words = f"{entry.seal} {entry.key.get('compiler')} {entry.key.get('device')}"
        if mark is not None:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if read_private(mark, MAX_MARK_BYTES).decode() == words:
                    return ""
        refusal = trial(entry)
        if not refusal and mark is not None:
            self._write(mark, words.encode(), "keep that a program was tried")
        return refusal

    def _reason(self, key: ProgramKey) -> str:
        """Why there is no entry: how the one most like it differs."""
        best: tuple[tuple[bool, bool, bool, int], Entry] | None = None
        for path in self.files(most=MAX_COMPARED):
            head = read_head(path, key)
            if head is None or head.key.get("language") != key.language:
                continue
            same = sum(head.key.get(f) == v for f, v in key.fields.items())
            is_same_text = head.key.get("source") == key.source_digest
            is_same_name = bool(key.name) and head.name == key.name
            if not (is_same_text or is_same_name):
                continue
            score = (is_outdated(head, key), is_same_text, is_same_name, same)
            if best is None or score > best[0]:
                best = (score, head)
        if best is None:
            return "it was not compiled before"
        nearest = best[1]
        if is_outdated(nearest, key):
            self._drop(nearest.digest)  # its compiler is not there any more; others stay
        return "; ".join(key.differences(nearest.key, nearest.source)) or "its entry is gone"

    # -- storing -----------------------------------------------------------------------------

    def store(self, entry: Entry) -> None:
        """Keeps a program; what cannot be written is told, and remembered for this process."""
        with self._lock:
            self._remember(entry)
            if self.folder is None:
                return
            content = entry.to_bytes()
            if self._write(self._path(entry.digest), content, "keep a program"):
                self.make_room(len(content), keep=(entry.digest,))

    def _write(self, path: Path, content: bytes, action: str) -> bool:
        """A file that is there whole or not at all, whoever writes it at the same time."""
        try:
            write_whole(path, content)
        except OSError as error:
            self.complain(f"the program cache cannot {action} in {path.parent}: {error.strerror}")
            return False
        return True

    def _remember(self, entry: Entry) -> None:
        self._memory[entry.digest] = entry
        self._memory.move_to_end(entry.digest)
        while sum(len(e.payload) for e in self._memory.values()) > MAX_IN_MEMORY_BYTES:
            if len(self._memory) == 1:
                break
            self._memory.popitem(last=False)

    # -- looking after -----------------------------------------------------------------------

    def entries(self) -> list[Stored]:
        """What is in the folder, the last used first; unreadable heads are left to `verify`."""
        found = []
        for path in self.files():
            head = read_head(path)
            with contextlib.suppress(OSError):
                state = path.stat()
                if head is not None:
                    found.append(
                        Stored(
                            digest=head.digest,
                            path=path,
                            size_bytes=state.st_size,
                            used_at=state.st_mtime,
                            name=head.name,
                            language=str(head.key.get("language")),
                            compiler=str(head.key.get("compiler")),
                            device=str(head.key.get("device")),
                            made_at=head.made_at,
                            build_seconds=head.build_seconds,
                        )
                    )
        return found

    def total_bytes(self) -> int:
        """What the folder holds: binaries, finished programs and weights."""
        return sum(file.size_bytes for file in self._listed(PRUNED))

    def entry(self, digest: str) -> Entry | None:
        """An entry whole; None where there is none or it is damaged."""
        try:
            return read_entry(_read(self._path(digest)), digest)
        except (OSError, DamagedEntry):
            return None

    def verify(self) -> dict[Path, str]:
        """What is wrong with each file; nothing where all are right. Nothing is changed."""
        wrong = {}
        for path in self.files():
            try:
                entry = read_entry(_read(path), path.stem)
            except OSError as error:
                wrong[path] = f"it cannot be read: {error.strerror}"
            except DamagedEntry as error:
                wrong[path] = str(error)
            else:
                if reason := changed_header(entry.headers):
                    wrong[path] = f"it is out of date: {reason}"
        return wrong

    def make_room(self, written_bytes: int, keep: Collection[str] = ()) -> None:
        """Prunes, unless what this process has written since it last did is a small part of what
        was left then: to look at every file takes longer than to compile a small program."""
        self._free_bytes -= WRITERS * written_bytes
        if self._free_bytes < 0:
            self.prune(self.limit_bytes, keep)

    def prune(self, limit_bytes: int | None = None, keep: Collection[str] = ()) -> list[Path]:
        """Drops what was not used for longest until the rest fits; and what killed builds left.

        Kept programs and their weights count, too. `keep`: names that stay.
        """
        if self.folder is None:
            return []
        limit_bytes = self.limit_bytes if limit_bytes is None else limit_bytes
        dropped = [*self._drop_unfinished()]
        files = self._listed(PRUNED)
        total = sum(file.size_bytes for file in files)
        for file in reversed(files):
            if total <= limit_bytes:
                break
            path = Path(file.path)
            if path.stem in keep:
                continue
            if path.suffix == SUFFIX:
                self._drop(path.stem)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
            dropped.append(path)
            total -= file.size_bytes
        self._free_bytes = self.limit_bytes - total
        return dropped

    def drop(self, digest: str) -> None:
        """Takes one entry away, here and in the folder."""
        with self._lock:
            self._drop(digest)

    def _drop_unfinished(self) -> Iterator[Path]:
        assert self.folder is not None
        for path in self.folder.glob(UNFINISHED_PREFIX + "*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                    path.unlink()
                    yield path

    def _drop(self, digest: str) -> None:
        self._memory.pop(digest, None)
        if self.folder is None:
            return
        for suffix in (SUFFIX, TRIED_SUFFIX):
            with contextlib.suppress(OSError):
                self._path(digest, suffix).unlink()

    def files(self, suffix: str = SUFFIX, prefix: str = "", most: int | None = None) -> list[Path]:
        """The entries' files, the last used first; or those of another kind. `most`: so many."""
        return [Path(file.path) for file in self._listed((suffix,), prefix)[:most]]

    def _listed(self, suffixes: tuple[str, ...], prefix: str = "") -> list[Listed]:
        return [] if self.folder is None else listed(self.folder, suffixes, prefix)

    def _path(self, digest: str, suffix: str = SUFFIX) -> Path:
        assert self.folder is not None
        return self.folder / (digest + suffix)

    def complain(self, text: str) -> None:
        """Told once each: a folder that is full would else be told for every program."""
        if text not in self.problems:
            self.problems.append(text)
            warnings.warn(text, CacheWarning, stacklevel=4)


def is_outdated(entry: Entry, key: ProgramKey) -> bool:
    """Whether an entry was made by what is not there any more: the same compiler, changed.

    `place (details)` is how a compiler is written; the place is a command, or a platform.
    """
    before, now = str(entry.key.get("compiler")), key.compiler
    return (
        before != now
        and before.split(" (")[0] == now.split(" (")[0]
        and entry.key.get("source") == key.source_digest
        and entry.key.get("options") == list(key.options)
        and entry.key.get("device") == key.device
    )


def read_head(path: Path, like: ProgramKey | None = None) -> Entry | None:
    """An entry without its binary; None where its head cannot be read. Its seal is not tested.

    `like`: also None where the entry has neither this key's source nor its model's name.
    """
    try:
        with os.fdopen(open_private(path), "rb") as file:
            start = file.read(len(MAGIC) + SEAL_BYTES + 1)
            line = file.readline(MAX_HEAD_BYTES)
        if not start.startswith(MAGIC) or not line.endswith(b"\n"):
            return None
        if like is not None and not may_be_like(line, like):
            return None
        entry = entry_of_head(line)
    except (OSError, DamagedEntry):
        return None
    return entry if entry.digest == path.stem else None


def _read(path: Path) -> bytes:
    content = read_private(path, MAX_ENTRY_BYTES)
    if len(content) > MAX_ENTRY_BYTES:
        raise DamagedEntry("it is larger than any program that is kept")
    return content
