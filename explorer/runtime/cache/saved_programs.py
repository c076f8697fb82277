"""Saved programs, next to their binaries in the cache: they start without compiling.

    programs = saved_programs(cache)
    programs.interface(request)                 the model's inputs, where a program of it is kept
    programs.find(request, sizes, inputs)       Startable(kept, binary, weights, tier) | Missed
    programs.store(kept, weights)

    MODEL-ASKED-REST.kept      see `saved_program_files`; what was asked is in the name
    DIGEST.weights             its packed weights
    DIGEST.program             its binary, an entry of the program cache

Nothing in a file is executed but the binary, which is treated as every entry is. Whatever is
wrong with a file is told once; the file is dropped, and the program is compiled.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from explorer.errors import ExplorerError
from explorer.files import write_whole
from explorer.results.runs.saved_program import ModelInterface, SavedPart, SavedProgram
from explorer.runtime.cache.digests import (
    digest_of_array,
    digest_of_descriptor,
    digest_of_file,
)
from explorer.runtime.cache.entries import Entry
from explorer.runtime.cache.environment import (
    OF_THE_BUILD,
    Circumstances,
    details_of,
    difference,
)
from explorer.runtime.cache.files import open_private, read_private
from explorer.runtime.cache.languages import KeptLanguages, SavedLanguage
from explorer.runtime.cache.requests import SHORT, ProgramRequest, Sizes
from explorer.runtime.cache.saved_program_files import (
    MAX_BYTES,
    SUFFIX,
    DamagedProgram,
    fits_contents,
    name_of,
    read_saved,
    to_bytes,
    with_text,
)
from explorer.runtime.cache.store import Missed, ProgramCache
from explorer.runtime.cache.weights import SUFFIX as WEIGHTS_SUFFIX
from explorer.runtime.cache.weights import (
    DamagedWeights,
    MappedWeights,
    map_weights,
    weights_path,
    write_weights,
)

MAX_COMPARED = 20
"""Kept programs that are looked at for one that fits, or for the reason of a miss."""
NEVER = "it was not compiled before"

_DAMAGE = (OSError, zipfile.BadZipFile, DamagedProgram, DamagedWeights, EOFError, ValueError)


@dataclass(frozen=True, eq=False)
class Startable:
    """A finished program with all that belongs to it."""

    kept: SavedProgram
    binary: Entry | None
    """Of a program that is one; parts have theirs in `others`."""
    weights: np.ndarray | MappedWeights
    tier: str
    """folder or shipped."""
    others: Mapping[str, Entry] = field(default_factory=dict)
    """All binaries by digest, where there are parts."""

    @property
    def block(self) -> np.ndarray:
        """All weights as bytes."""
        return self.weights.array if isinstance(self.weights, MappedWeights) else self.weights

    def parts(self) -> Iterator[tuple[SavedPart, Startable | None]]:
        """Every part with what starts it; None for the host's, which has no binary."""
        for part, of_program in zip(self.kept.parts, self.kept.program.parts, strict=True):
            program = of_program.program
            if not part.binary or program is None:
                yield part, None
                continue
            kept = replace(self.kept, program=program, binary=part.binary, parts=(), arrays=())
            entry = self.others[part.binary]
            own = self.block[part.weights_at : part.weights_at + program.weights_bytes]
            yield part, Startable(with_text(kept, entry), entry, own, self.tier)


class SavedPrograms:
    """Those of a program cache: in its folder, and in what was shipped."""

    def __init__(self, cache: ProgramCache, languages: KeptLanguages) -> None:
        """`languages`: those of the backends, see `explorer.backends.loading.saved_programs`."""
        self.cache = cache
        self._languages = languages
        self.circumstances = Circumstances(cache.folder)
        self._read: dict[Path, tuple[tuple[int, int], SavedProgram]] = {}
        """What this object has read, by path, with inode and size then."""
        self._troubles: list[str] = []
        """Damage that was met since the last miss was explained."""

    # -- looking up --------------------------------------------------------------------------

    def interface(self, request: ProgramRequest) -> ModelInterface | None:
        """What a model's kept programs say of it, where this explorer wrote it."""
        for kept, tier in self._candidates(request.model[:SHORT] + "-"):
            if kept.model.digest != request.model:
                continue
            if not self._difference(kept, tier, ("explorer", "packages")):
                return kept.model
        return None

    def find(
        self, request: ProgramRequest, sizes: Sizes, inputs: Mapping[str, np.ndarray] | None = None
    ) -> Startable | Missed:
        """The program for what was asked, or why there is none.

        `inputs`: for programs that are right for certain contents of some of them only.
        """
        reasons: list[str] = []
        for kept, tier in self._candidates(request.prefix(sizes)):
            asked = (kept.model.digest, kept.target, kept.options, kept.sizes)
            if asked != (request.model, request.target, request.options, sizes):
                continue  # only the beginnings of their digests are the same
            if not fits_contents(kept, inputs or {}):
                continue
            language = self._language(kept)
            reason = self._difference(kept, tier, language.circumstances, language)
            reason = reason or _changed_file(kept.model, request.path.parent)
            found = self._with_parts(kept, tier) if not reason else Missed(reason)
            if isinstance(found, Startable):
                return found
            reasons.append(found.reason)
        reasons = [*self._troubles, *reasons]
        self._troubles.clear()
        return Missed("; ".join(dict.fromkeys(reasons)) or self._reason(request))

    def _with_parts(self, kept: SavedProgram, tier: str) -> Startable | Missed:
        """The program with its binary and weights, or which of them cannot be used."""
        language = self._language(kept)
        entries: dict[str, Entry] = {}
        for digest in kept.binaries:
            found = self.cache.find_kept(digest, language.try_binary)
            if isinstance(found, Missed):
                return found
            if language.needs_source and not found.entry.source:
                return Missed("its source was left out, which an OpenCL driver needs")
            entries[digest] = found.entry
        try:
            weights = self._weights(kept, tier)
        except FileNotFoundError:
            return Missed("its weights are gone")
        except _DAMAGE as error:
            words = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.cache.complain(f"kept weights of {kept.model.name} cannot be used: {words}")
            if tier == "folder" and not isinstance(error, OSError):
                drop(weights_path(self._folder, kept.weights))
            return Missed(f"its weights were damaged: {words}")
        if kept.parts:
            return Startable(kept, None, weights, tier, entries)
        (binary,) = entries.values()
        return Startable(with_text(kept, binary), binary, weights, tier)

    def _weights(self, kept: SavedProgram, tier: str) -> np.ndarray | MappedWeights:
        size = kept.block_bytes
        if not kept.weights:
            return np.zeros(0, np.uint8)
        if tier == "folder":
            path = weights_path(self._folder, kept.weights)
            weights = map_weights(path, kept.sums, size)
            _touch(path)
            return weights
        for bundle in self.cache.shipped:
            with zipfile.ZipFile(bundle) as archive:
                name = kept.weights + WEIGHTS_SUFFIX
                if name not in archive.namelist() or archive.getinfo(name).file_size != size:
                    continue
                array = np.frombuffer(archive.read(name), np.uint8)
            if digest_of_array(array) != kept.weights:
                raise DamagedWeights("their digest is another one: bytes are changed")
            return array
        raise DamagedWeights("they were not shipped")

    def _candidates(self, prefix: str) -> Iterator[tuple[SavedProgram, str]]:
        """Kept programs whose names begin so, the last used first; damaged ones are dropped."""
        for path in self.files(prefix, MAX_COMPARED):
            try:
                kept = self._read_once(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._troubles.append(f"the kept program cannot be read: {error.strerror}")
                self.cache.complain(f"the kept program {path} cannot be read: {error.strerror}")
                continue
            except DamagedProgram as error:
                self._troubles.append(f"the kept program was damaged: {error}")
                self.cache.complain(f"the program cache drops {path.name}: {error}")
                drop(path)
                continue
            _touch(path)
            yield kept, "folder"
        for bundle in self.cache.shipped:
            try:
                found = list(shipped_in(bundle, prefix))
                for kept in found:
                    self._language(kept)
            except _DAMAGE as error:
                self._troubles.append(f"the shipped programs in {bundle} are damaged: {error}")
                self.cache.complain(f"the shipped programs in {bundle} cannot be used: {error}")
                continue
            yield from ((kept, "shipped") for kept in found)

    def _read_once(self, path: Path) -> SavedProgram:
        """Files are replaced, never changed: with its inode and size the content is the same."""
        state = path.lstat()
        known = self._read.get(path)
        if known is None or known[0] != (state.st_ino, state.st_size):
            content = read_private(path, MAX_BYTES)
            if len(content) > MAX_BYTES:
                raise DamagedProgram("it is larger than any that is kept")
            kept = read_saved(content)
            self._language(kept)
            known = (state.st_ino, state.st_size), kept
            self._read[path] = known
        return known[1]

    def _language(self, kept: SavedProgram) -> SavedLanguage:
        """DamagedProgram for a language of which nothing is kept."""
        language = self._languages(kept.language)
        if language is None:
            raise DamagedProgram(f"it cannot be read: language: {kept.language!r}")
        return language

    def _difference(
        self,
        kept: SavedProgram,
        tier: str,
        names: tuple[str, ...],
        language: SavedLanguage | None = None,
    ) -> str:
        """The first circumstance that is not what it was, in words; nothing where all are."""
        before = dict(kept.circumstances)
        for name in names:
            if tier == "shipped" and name in OF_THE_BUILD:
                continue
            try:
                now = self.circumstances.current(name, language)
            except ExplorerError as error:
                return str(error)
            if details_of(name, before.get(name, "")) != details_of(name, now):
                return difference(name, before.get(name, ""), now)
        return ""

    def _reason(self, request: ProgramRequest) -> str:
        """Why nothing is kept for a request: how the last program of the same file differs."""
        for path in self.files(most=MAX_COMPARED):
            with contextlib.suppress(OSError, DamagedProgram):
                kept = self._read_once(path)
                if kept.path != str(request.path):
                    continue
                if kept.model.digest != request.model:
                    return "the model's file changed"
                if kept.target != request.target:
                    return f"it was compiled for the target {kept.target}"
                if kept.options != request.options:
                    return f"it was compiled with the options {kept.options}"
                return "it was compiled for other inputs"
        return NEVER

    # -- storing -----------------------------------------------------------------------------

    def store(self, kept: SavedProgram, weights: np.ndarray) -> str:
        """Keeps a program in the place of those that it follows; why it is not kept, or nothing.

        `kept.weights` and `kept.sums` are filled in here.
        """
        if self.cache.folder is None:
            return "the program cache has no folder"
        if weights.nbytes > self.cache.limit_bytes // 2:
            return f"its weights take {weights.nbytes:,} bytes, more than half of the cache"
        try:
            digest, sums = write_weights(self._folder, weights) if weights.nbytes else ("", "")
            whole = replace(kept, weights=digest, sums=sums)
            path = self._folder / name_of(whole)
            self._drop_followed(whole, path)
            # Without waiting for the disk: what a crash leaves behind does not fit its seal.
            content = to_bytes(whole)
            write_whole(path, content, waits=False)
        except OSError as error:
            words = f"a finished program cannot be kept in {self._folder}: {error.strerror}"
            self.cache.complain(f"the program cache: {words}")
            return words
        written_bytes = len(content) + weights.nbytes
        self.cache.make_room(written_bytes, keep=(path.stem, digest, *kept.binaries))
        return ""

    def _drop_followed(self, kept: SavedProgram, place: Path) -> None:
        """Drops programs for the same request whose compiler, sources or device are no more:
        in the place of each that differs there is another one now."""
        for path in self.files(place.name[: 2 * (SHORT + 1)]):
            with contextlib.suppress(OSError, DamagedProgram):
                other = self._read_once(path)
                pairs = zip(other.circumstances, kept.circumstances, strict=False)
                same_places = all(a[1].split(" (")[0] == b[1].split(" (")[0] for a, b in pairs)
                if path != place and other.contents == kept.contents and same_places:
                    drop(path)

    # -- looking after -----------------------------------------------------------------------

    def files(self, prefix: str = "", most: int | None = None) -> list[Path]:
        """The kept programs' files, the last used first. `most`: so many."""
        return self.cache.files(SUFFIX, prefix, most)

    def programs(self) -> list[tuple[Path, SavedProgram]]:
        """Those that can be read, the last used first; others are left to `verify`."""
        found = []
        for path in self.files():
            with contextlib.suppress(OSError, DamagedProgram):
                found.append((path, self._read_once(path)))
        return found

    def verify(self) -> dict[Path, str]:
        """What is wrong with each file of programs and weights. Nothing is changed."""
        wrong: dict[Path, str] = {}
        for path in self.files():
            try:
                kept = read_saved(read_private(path, MAX_BYTES))
                self._language(kept)
                if name_of(kept) != path.name:
                    raise DamagedProgram("it is the program of another request than its name says")
            except OSError as error:
                wrong[path] = f"it cannot be read: {error.strerror}"
            except DamagedProgram as error:
                wrong[path] = str(error)
        folder = self.cache.folder
        for path in sorted(folder.glob("*" + WEIGHTS_SUFFIX)) if folder is not None else ():
            try:
                with os.fdopen(open_private(path), "rb") as file:
                    digest = digest_of_descriptor(file.fileno())
                if digest != path.stem:
                    wrong[path] = "its digest is another one than its name: bytes are changed"
            except OSError as error:
                wrong[path] = f"it cannot be read: {error.strerror}"
            except EOFError as error:
                wrong[path] = str(error)
        return wrong

    @property
    def _folder(self) -> Path:
        assert self.cache.folder is not None
        return self.cache.folder


def shipped_in(bundle: Path, prefix: str) -> Iterator[SavedProgram]:
    """The kept programs of a bundle whose names begin so."""
    with zipfile.ZipFile(bundle) as archive:
        for name in archive.namelist():
            if not name.startswith(prefix) or not name.endswith(SUFFIX):
                continue
            if archive.getinfo(name).file_size > MAX_BYTES:
                raise DamagedProgram("it is larger than any that is taken")
            yield read_saved(archive.read(name))


def drop(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _changed_file(interface: ModelInterface, folder: Path) -> str:
    """The first file with external data that is not what it was, in words."""
    for name, digest in interface.files:
        try:
            if digest_of_file(folder / name) != digest:
                return f"the file {name} beside the model changed"
        except (OSError, EOFError):
            return f"the file {name} beside the model cannot be read"
    return ""


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):  # a read-only folder keeps its times
        os.utime(path)
