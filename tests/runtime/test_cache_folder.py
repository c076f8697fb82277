"""The program cache's folder: whose it is, what goes first, several processes, no space."""

import dataclasses
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.errors import CacheWarning
from explorer.runtime.cache import FoundEntry, Missed, ProgramCache, store
from explorer.runtime.cache.files import Listed, listed
from explorer.runtime.cache.folder import cache_folder, make_private, open_cache

sys.path.insert(0, str(Path(__file__).parent))
from cached_entries import KEY, entry_of, reopened


def test_the_least_used_goes_first(cache: ProgramCache):
    keys = [dataclasses.replace(KEY, source=f"int x{i};") for i in range(4)]
    for number, key in enumerate(keys):
        cache.store(entry_of(key))
        assert cache.folder is not None
        os.utime(cache.folder / (key.digest() + ".program"), (1000 + number, 1000 + number))
    later = reopened(cache)
    assert isinstance(later.find(keys[0]), FoundEntry)  # used again
    size = later.entries()[0].size_bytes
    later.prune(2 * size + 5)
    assert {s.digest for s in later.entries()} == {keys[0].digest(), keys[3].digest()}


def test_a_folder_with_room_is_not_looked_through_for_every_program(
    cache: ProgramCache, monkeypatch: pytest.MonkeyPatch
):
    looked: list[tuple[str, ...]] = []

    def look(folder: Path, suffixes: tuple[str, ...], prefix: str = "") -> list[Listed]:
        looked.append(suffixes)
        return listed(folder, suffixes, prefix)

    monkeypatch.setattr(store, "listed", look)
    for number in range(20):
        cache.store(entry_of(dataclasses.replace(KEY, source=f"int x{number};")))
    assert looked == [store.PRUNED]
    assert len(cache.entries()) == 20


def test_processes_that_fill_a_folder_together_keep_its_limit(cache: ProgramCache):
    cache.store(entry_of())
    size = cache.total_bytes()
    writers = [ProgramCache(cache.folder, 30 * size) for _ in range(4)]
    for number in range(100):
        key = dataclasses.replace(KEY, source=f"int x{number};")
        writers[number % 4].store(entry_of(key))
        assert cache.total_bytes() <= 30 * size
    assert cache.total_bytes() > 25 * size


def test_what_a_killed_build_left_goes_with_the_next_pruning(cache: ProgramCache):
    assert cache.folder is not None
    old, new = cache.folder / "unfinished-1-aa", cache.folder / "unfinished-2-bb"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    assert cache.prune() == [old]
    assert new.exists()


# -- where there is no room, no right, no folder


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="others may write"):
        cache = open_cache(folder)
    assert cache.folder is None
    cache.store(entry_of())
    assert isinstance(cache.find(KEY), FoundEntry)
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_others_may_replace_is_not_used(tmp_path: Path):
    open_to_all = tmp_path / "open"
    folder = open_to_all / "programs"
    folder.mkdir(parents=True, mode=0o700)
    open_to_all.chmod(0o777)
    assert make_private(folder) == f"others may replace it: they may write to {open_to_all}"
    open_to_all.chmod(0o1777)  # as /tmp is: only its owner may rename what lies in it
    assert make_private(folder) == ""


def others_may_write(path: Path) -> None:
    path.chmod(0o666)


def belongs_to_another(path: Path) -> None:
    os.chown(path, 4321, 4321)


def is_a_link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def is_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def is_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def is_endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


PLANTED = {
    others_may_write: "others may write to it",
    belongs_to_another: "it belongs to another user",
    is_a_link: "it is a link",
    is_endless: "it is a link",
    is_a_pipe: "it is no regular file",
    is_a_folder: "it is no regular file",
}


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_somebody_else_may_have_left_is_not_run(
    cache: ProgramCache, plant: Callable[[Path], None]
):
    """The seal fits: anybody can compute one."""
    if plant is belongs_to_another and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    cache.store(entry_of())
    assert cache.folder is not None
    (path,) = cache.folder.glob("*.program")
    plant(path)
    again = ProgramCache(cache.folder)
    with pytest.warns(CacheWarning, match=PLANTED[plant]):
        found = again.find(KEY)
    assert isinstance(found, Missed)
    assert found.reason == f"the entry cannot be read: {PLANTED[plant]}"
    assert list(again.verify().values()) == [f"it cannot be read: {PLANTED[plant]}"]
    assert again.entries() == []
    if plant is not is_a_folder:
        again.store(entry_of())
        assert isinstance(ProgramCache(cache.folder).find(KEY), FoundEntry)


def test_a_new_folder_is_its_owners_alone(tmp_path: Path):
    folder = tmp_path / "a" / "b"
    assert make_private(folder) == ""
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_is_a_file_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning, match="is not used"):
        assert open_cache(tmp_path / "file").folder is None


def test_the_environment_names_the_folder_or_turns_it_off(tmp_path: Path):
    assert cache_folder({"EXPLORER_CACHE": "off"}) is None
    assert cache_folder({"EXPLORER_CACHE": str(tmp_path)}) == tmp_path
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "explorer" / "programs"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == cache_folder({})


def test_a_full_disk_is_told_once_and_the_program_is_there(tmp_path: Path):
    script = """
        import dataclasses, resource, sys, warnings
        from pathlib import Path
        from explorer.runtime.cache import Entry, FoundEntry, ProgramCache, ProgramKey
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        cache = ProgramCache(Path(sys.argv[1]))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for text in ("int a;", "int b;"):
                key = ProgramKey(
                    language="c", source=text, options=(), compiler="cc", device="cpu"
                )
                cache.store(Entry.of(key, bytes(9999), headers={}, build_seconds=1, made_at=""))
                assert isinstance(cache.find(key), FoundEntry)
        print(len(told), told[0].message)
    """
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert finished.stdout.startswith("1 the program cache cannot keep a program in")
    assert list(tmp_path.iterdir()) == []


def test_processes_that_write_at_once_leave_whole_entries(tmp_path: Path):
    script = """
        import sys
        from pathlib import Path
        from explorer.runtime.cache import Entry, FoundEntry, ProgramCache, ProgramKey
        for turn in range(60):
            cache = ProgramCache(Path(sys.argv[1]))
            key = ProgramKey(
                language="c", source=f"int x{turn % 3};", options=(), compiler="cc", device="cpu"
            )
            found = cache.find(key)
            if isinstance(found, FoundEntry):
                assert found.entry.payload.startswith(b"program of ")
            content = b"program of " + sys.argv[2].encode() * 20_000
            cache.store(Entry.of(key, content, headers={}, build_seconds=1, made_at=""))
        assert cache.problems == []
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script), str(tmp_path)]
    processes = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert ProgramCache(tmp_path).verify() == {}
    assert len(list(tmp_path.iterdir())) == 3
