"""Tuned schedules beside the programs: for each workload the choices that were measured faster.

    store = TunedStore(folder)
    store.keep(TunedEntry(TunedKey(workload, "cpu", device, 1, compiler, generator), ...))
    store.find(key)            the entry, or None

One file per key, `DIGEST.tuned`: a seal over JSON, written whole or not at all, so that several
processes may write. The key is everything that the measurement depends on: the workload (all
shapes, types, layouts, strides, the epilogue: see `kernels/schedules/workload.py`), target, device,
threads, compiler, and the code that makes kernels. A damaged file is told and dropped; nothing in
it is executed, and its choices are checked like those of a person.
"""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from explorer.errors import CacheWarning
from explorer.files import sealed, unsealed, write_whole
from explorer.results.encoding import from_json
from explorer.runtime.cache.files import read_private
from explorer.runtime.cache.keys import digest_of

MAGIC = b"explorer tuned schedule 1\n"
SUFFIX = ".tuned"
MAX_FILE_BYTES = 1 << 20
MAX_CHOICES = 100

Choices = tuple[tuple[str, int | str], ...]


class DamagedTuning(Exception):
    """The file is not what was written; the text says how."""


@dataclass(frozen=True, kw_only=True)
class TunedKey:
    """Everything that decides which schedule of a kernel is the fastest."""

    workload: str
    """Digest of what the kernel computes, on which layouts and vectors."""
    target: str
    device: str
    threads: int
    compiler: str
    generator: str
    """Digest of the code that makes kernels: another one may make the same choices slower."""

    def digest(self) -> str:
        """64 hexadecimal digits."""
        return digest_of(json.dumps(asdict(self), sort_keys=True).encode())


@dataclass(frozen=True, kw_only=True)
class TunedEntry:
    """Choices that beat the default of a kernel, and by how much."""

    key: TunedKey
    kernel: str
    """Its name where it was tuned, for people."""
    choices: Choices
    tuned_us: float
    """Median of one launch."""
    default_us: float
    """The default's, measured in turns with it."""
    made_at: str = ""
    """ISO 8601, UTC."""

    @property
    def why(self) -> str:
        """`tuned: 41.2 µs against 48.0`."""
        return f"tuned: {self.tuned_us:.1f} µs against {self.default_us:.1f}"

    def to_bytes(self) -> bytes:
        body = json.dumps(asdict(self), sort_keys=True).encode() + b"\n"
        return sealed(MAGIC, body)


class TunedStore:
    """The tuned schedules in a folder. Safe for processes that share it; None: there are none."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def find(self, key: TunedKey) -> TunedEntry | None:
        """The entry of just this key; a damaged one is told and dropped."""
        if self.folder is None:
            return None
        path = self.folder / (key.digest() + SUFFIX)
        try:
            entry = read_tuned(_read(path))
            if entry.key != key:
                raise DamagedTuning("it is the schedule of another key")
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(f"the tuned schedule {path} cannot be read: {error.strerror}")
            return None
        except DamagedTuning as error:
            self._complain(f"the tuned schedule {path.name} is dropped: {error}")
            self.drop(path)
            return None
        return entry

    def keep(self, entry: TunedEntry) -> Path | None:
        """Writes an entry, in the place of an older one; None, and told, where it cannot."""
        if self.folder is None:
            return None
        path = self.folder / (entry.key.digest() + SUFFIX)
        try:
            write_whole(path, entry.to_bytes())
        except OSError as error:
            self._complain(f"a tuned schedule cannot be kept in {path.parent}: {error.strerror}")
            return None
        return path

    def forget(self, key: TunedKey) -> None:
        """Takes the entry of a key away, if there is one."""
        if self.folder is not None:
            self.drop(self.folder / (key.digest() + SUFFIX))

    def drop(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()

    def files(self) -> list[Path]:
        """All files of tuned schedules, by name."""
        if self.folder is None:
            return []
        with contextlib.suppress(OSError):
            return sorted(self.folder.glob("*" + SUFFIX))
        return []

    def stamp(self) -> tuple[int, int]:
        """Changes when an entry comes, goes or is replaced; (0, 0) where there is none."""
        times = []
        for path in self.files():
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime_ns)
        return len(times), sum(times) % (1 << 62)

    def entries(self) -> list[TunedEntry]:
        """Those that can be read."""
        found = []
        for path in self.files():
            with contextlib.suppress(OSError, DamagedTuning):
                found.append(read_tuned(_read(path)))
        return found

    def verify(self) -> dict[Path, str]:
        """What is wrong with each file; nothing where all are right. Nothing is changed."""
        wrong = {}
        for path in self.files():
            try:
                entry = read_tuned(_read(path))
                if entry.key.digest() != path.stem:
                    raise DamagedTuning("it is the schedule of another key than its name says")
            except OSError as error:
                wrong[path] = f"it cannot be read: {error.strerror}"
            except DamagedTuning as error:
                wrong[path] = str(error)
        return wrong

    def _complain(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)
            warnings.warn(text, CacheWarning, stacklevel=4)


def read_tuned(content: bytes) -> TunedEntry:
    """The entry in a file's content. Raises `DamagedTuning`."""
    try:
        body = unsealed(MAGIC, content, "tuned schedule")
    except ValueError as error:
        raise DamagedTuning(str(error)) from error
    # The seal fits, yet anybody can compute one: what it holds is still checked.
    try:
        entry = from_json(TunedEntry, json.loads(body))
    except (ValueError, RecursionError) as error:
        raise DamagedTuning(f"it cannot be read: {error}") from error
    if not 0 < len(entry.choices) <= MAX_CHOICES:
        raise DamagedTuning(f"it cannot be read: {len(entry.choices)} choices")
    for microseconds in (entry.tuned_us, entry.default_us):
        if not math.isfinite(microseconds) or microseconds <= 0:
            raise DamagedTuning(f"it cannot be read: {microseconds!r} is no time")
    if entry.tuned_us >= entry.default_us:
        raise DamagedTuning("what it holds is no faster than the default")
    return entry


def _read(path: Path) -> bytes:
    content = read_private(path, MAX_FILE_BYTES)
    if len(content) > MAX_FILE_BYTES:
        raise DamagedTuning("it is larger than any tuned schedule")
    return content


@cache
def generator_digest() -> str:
    """A short name of the code that schedules and prints kernels."""
    package = Path(__file__).parents[2]
    folders = [package / "kernels", package / "ir"]
    paths = sorted(
        p for folder in folders for p in folder.rglob("*") if p.suffix in (".py", ".c", ".cl")
    )
    content = b"".join(digest_of(path.read_bytes()).encode() for path in paths)
    return digest_of(content)[:16]
