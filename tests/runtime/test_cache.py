"""The program cache: hits, misses with their reasons, damage, several processes, no space."""

import dataclasses
import os
import random
import shlex
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.errors import BuildError, CacheWarning
from explorer.results import Program
from explorer.runtime.cache import Entry, FoundEntry, Missed, ProgramCache, ProgramKey, store
from explorer.runtime.cache.bundles import bundle_of
from explorer.runtime.cache.c_programs import cached_library, headers_in, library_key, try_library
from explorer.runtime.cache.entries import DamagedEntry, entry_of_head, read_entry
from explorer.runtime.cache.files import Listed, listed
from explorer.runtime.cache.folder import cache_folder, make_private, open_cache
from explorer.runtime.cache.keys import header_digests
from explorer.runtime.compilers import Compiler, find_compiler
from explorer.runtime.devices import list_devices
from explorer.runtime.native.program import NativeProgram

Inputs = dict[str, np.ndarray]
SOURCE = "int explorer_run(void) { return 42; }\n"
KEY = ProgramKey(
    language="c",
    source=SOURCE,
    options=("-O2", "-std=c11"),
    compiler="/usr/bin/cc (gcc 12)",
    device="a processor",
    name="net",
)


def entry_of(key: ProgramKey = KEY, payload: bytes = b"\x7fELF and more", **more: object) -> Entry:
    made = Entry.of(key, payload, headers={}, build_seconds=0.5, made_at="2020-01-01T00:00:00")
    return dataclasses.replace(made, **more)


@pytest.fixture
def cache(tmp_path: Path) -> ProgramCache:
    return open_cache(tmp_path / "programs")


def reopened(cache: ProgramCache) -> ProgramCache:
    """As another process sees it."""
    return ProgramCache(cache.folder, cache.limit_bytes)


def reason_of(found: FoundEntry | Missed) -> str:
    assert isinstance(found, Missed), found
    return found.reason


def test_what_was_stored_is_found_in_memory_and_by_another_process(cache: ProgramCache):
    assert reason_of(cache.find(KEY)) == "it was not compiled before"
    cache.store(entry_of())
    near, far = cache.find(KEY), reopened(cache).find(KEY)
    assert isinstance(near, FoundEntry)
    assert isinstance(far, FoundEntry)
    assert (near.tier, far.tier) == ("memory", "folder")
    assert near.entry == far.entry == entry_of()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"compiler": "/usr/bin/cc (gcc 13)"},
            "the compiler: /usr/bin/cc (gcc 12) before, /usr/bin/cc (gcc 13) now",
        ),
        ({"device": "another"}, "the device: a processor before, another now"),
        ({"options": ("-O3", "-std=c11")}, "the options: now without -O2 and with -O3"),
        ({"options": ("-std=c11", "-O2")}, "the options: in another order"),
        (
            {"source": SOURCE.replace("42", "43")},
            'the source: line 1 is "int explorer_run(void) { return 43; }" instead of '
            '"int explorer_run(void) { return 42; }"',
        ),
        ({"source": SOURCE + "int x;\n"}, 'the source: 1 lines more, from line 2: "int x;"'),
    ],
)
def test_a_miss_says_what_differs_from_the_last_time(
    cache: ProgramCache, change: dict[str, object], reason: str
):
    cache.store(entry_of())
    assert reason_of(reopened(cache).find(dataclasses.replace(KEY, **change))) == reason


def test_a_program_of_another_model_is_no_reason(cache: ProgramCache):
    cache.store(entry_of())
    other = dataclasses.replace(KEY, source="int other;", name="another net")
    assert reason_of(reopened(cache).find(other)) == "it was not compiled before"


def test_only_heads_that_may_be_the_reason_are_read(
    cache: ProgramCache, monkeypatch: pytest.MonkeyPatch
):
    strangers = [dataclasses.replace(KEY, source=f"int x{i};", name=f"net {i}") for i in range(5)]
    umlaut = dataclasses.replace(KEY, source="int y;", name="Zürich")
    for key in (*strangers, KEY, umlaut):
        cache.store(entry_of(key))
    read = []

    def noted(line: bytes) -> Entry:
        read.append(entry_of_head(line).name)
        return entry_of_head(line)

    monkeypatch.setattr(store, "entry_of_head", noted)
    again = dataclasses.replace(KEY, source="int z;", name="net 9")
    assert reason_of(reopened(cache).find(again)) == "it was not compiled before"
    assert read == []
    same_text = dataclasses.replace(again, source=SOURCE, options=("-O3", "-std=c11"))
    assert "-O3" in reason_of(reopened(cache).find(same_text))
    assert read == ["net"]
    same_name = dataclasses.replace(again, name="Zürich")
    assert "the source: " in reason_of(reopened(cache).find(same_name))
    assert read == ["net", "Zürich"]


def test_a_changed_compiler_drops_its_own_entries_only(cache: ProgramCache):
    kept = dataclasses.replace(KEY, compiler="/usr/bin/clang (clang 15)")
    cache.store(entry_of())
    cache.store(entry_of(kept))
    newer = dataclasses.replace(KEY, compiler="/usr/bin/cc (gcc 13)")
    later = reopened(cache)
    assert "gcc 12" in reason_of(later.find(newer))
    assert [stored.compiler for stored in later.entries()] == ["/usr/bin/clang (clang 15)"]


def test_a_changed_or_missing_header_is_the_reason(cache: ProgramCache, tmp_path: Path):
    header = tmp_path / "width.h"
    header.write_text("#define WIDTH 8\n")
    cache.store(entry_of(headers=header_digests([header])))
    assert isinstance(reopened(cache).find(KEY), FoundEntry)
    header.write_text("#define WIDTH 9\n")
    assert reason_of(reopened(cache).find(KEY)) == f"the included header {header} changed"
    cache.store(entry_of(headers=header_digests([header])))
    header.unlink()
    assert "is not there any more" in reason_of(reopened(cache).find(KEY))


def test_every_damaged_byte_is_noticed(cache: ProgramCache):
    cache.store(entry_of())
    assert cache.folder is not None
    path = cache.folder / (KEY.digest() + ".program")
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 + place % 255
        with pytest.raises(DamagedEntry):
            read_entry(bytes(damaged), KEY.digest())
        with pytest.raises(DamagedEntry):
            read_entry(whole[:place], KEY.digest())


def test_a_damaged_entry_is_told_and_dropped(cache: ProgramCache):
    cache.store(entry_of())
    assert cache.folder is not None
    path = cache.folder / (KEY.digest() + ".program")
    path.write_bytes(path.read_bytes()[:-3])
    later = reopened(cache)
    with pytest.warns(CacheWarning, match="drops .* its content does not fit its seal"):
        assert reason_of(later.find(KEY)).startswith("the entry was damaged")
    assert not path.exists()


def test_a_sealed_entry_with_a_false_head_is_refused(cache: ProgramCache):
    # Anybody can compute a seal: the program of one key does not pose as another's.
    other = dataclasses.replace(KEY, source="int other;")
    with pytest.raises(DamagedEntry, match="another key"):
        read_entry(entry_of(other).to_bytes(), KEY.digest())
    false = dataclasses.replace(entry_of(), digest="0" * 64)
    with pytest.raises(DamagedEntry, match="another one than its name says"):
        read_entry(false.to_bytes(), "0" * 64)


def test_a_foreign_binary_is_tried_once_and_refused_with_its_reason(cache: ProgramCache):
    tried = []

    def trial(entry: Entry) -> str:
        tried.append(entry.digest)
        return ""

    cache.store(entry_of(is_foreign=True))
    assert isinstance(reopened(cache).find(KEY, trial), FoundEntry)
    assert isinstance(reopened(cache).find(KEY, trial), FoundEntry)
    assert tried == [KEY.digest()]
    cache.store(entry_of(payload=b"another", is_foreign=True))
    later = reopened(cache)
    with pytest.warns(CacheWarning):
        assert "SIGSEGV" in reason_of(later.find(KEY, lambda _: "it ended with SIGSEGV"))
    assert reopened(cache).entries() == []


def test_a_library_that_is_none_is_refused_by_a_child_process():
    assert "invalid ELF header" in try_library(entry_of(payload=b"\x7fELG" + bytes(100)))


def test_a_library_that_crashes_its_loader_ends_the_child_only(tmp_path: Path):
    crashing = "__attribute__((constructor)) static void f(void) { __builtin_trap(); }\n" + SOURCE
    library = cached_library(crashing, tmp_path, ProgramCache(None))
    words = try_library(entry_of(payload=library.read_bytes()))
    assert words.startswith("loading it ended with SIG")


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


def test_verify_names_every_wrong_file_and_changes_nothing(cache: ProgramCache, tmp_path: Path):
    header = tmp_path / "a.h"
    header.write_text("int a;")
    cache.store(entry_of(headers=header_digests([header])))
    assert cache.verify() == {}
    header.write_text("int b;")
    assert cache.folder is not None
    (cache.folder / ("f" * 64 + ".program")).write_bytes(b"nonsense")
    reasons = sorted(cache.verify().values())
    assert reasons == [
        "it does not begin as a compiled program does",
        f"it is out of date: the included header {header} changed",
    ]
    assert len(list(cache.folder.iterdir())) == 2


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


# -- C


def test_a_second_process_compiles_nothing(
    c_program: Program, weights: np.ndarray, inputs: Inputs, cache: ProgramCache
):
    with NativeProgram(c_program, weights, cache=cache, name="net") as first:
        expected = first.run(inputs)
    later = reopened(cache)
    with NativeProgram(c_program, weights, cache=later, name="net") as second:
        np.testing.assert_equal(second.run(inputs), expected)
    assert cache.counts == {"memory": 0, "folder": 0, "shipped": 0, "source": 1}
    assert later.counts == {"memory": 0, "folder": 1, "shipped": 0, "source": 0}


def test_any_damage_to_a_library_gives_a_rebuild_and_the_same_numbers(
    c_program: Program, weights: np.ndarray, inputs: Inputs, cache: ProgramCache
):
    with NativeProgram(c_program, weights, cache=cache) as first:
        expected = first.run(inputs)
    assert cache.folder is not None
    (path,) = cache.folder.glob("*.program")
    whole = path.read_bytes()
    choose = random.Random(7)
    for number in range(8):
        place = choose.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << number
        path.write_bytes(damaged if number % 2 else whole[:place])
        later = reopened(cache)
        with pytest.warns(CacheWarning), NativeProgram(c_program, weights, cache=later) as again:
            np.testing.assert_equal(again.run(inputs), expected)
        assert later.counts["source"] == 1
        assert "damaged" in later.looked[0].reason


def test_a_header_of_the_system_belongs_to_the_key(tmp_path: Path, cache: ProgramCache):
    header = tmp_path / "answer.h"
    header.write_text("#define ANSWER 42\n")
    source = f'#include "{header}"\nint explorer_run(void) {{ return ANSWER; }}\n'
    cached_library(source, tmp_path, cache)
    assert isinstance(cache.find(library_key(source, find_compiler(), (), "")), FoundEntry)
    header.write_text("#define ANSWER 43\n")
    later = reopened(cache)
    cached_library(source, tmp_path, later)
    assert later.looked[0].reason == f"the included header {header} changed"


@pytest.mark.skipif(os.name != "posix", reason="a shell script as the compiler")
def test_a_compiler_that_was_replaced_is_another_one(tmp_path: Path, cache: ProgramCache):
    real = find_compiler()
    wrapper = tmp_path / "cc"

    def install(comment: str) -> Compiler:
        wrapper.write_text(f'#!/bin/sh\n# {comment}\nexec {shlex.join(real.command)} "$@"\n')
        wrapper.chmod(0o700)
        return dataclasses.replace(real, command=(str(wrapper),))

    cached_library(SOURCE, tmp_path, cache, compiler=install("1"))
    later = reopened(cache)
    cached_library(SOURCE, tmp_path, later, compiler=install("number 2"))
    assert later.looked[0].reason.startswith(f"the compiler: {wrapper} (")
    assert len(later.entries()) == 1  # the old compiler's is gone


def test_a_broken_compiler_leaves_nothing_behind(tmp_path: Path, cache: ProgramCache):
    with pytest.raises(BuildError):
        cached_library("this is no C\n", tmp_path, cache)
    assert cache.entries() == []
    assert cache.looked == []


def test_shipped_programs_start_without_compiling(
    c_program: Program, weights: np.ndarray, inputs: Inputs, tmp_path: Path
):
    first = ProgramCache(None)
    with NativeProgram(c_program, weights, cache=first, name="secret net") as executable:
        expected = executable.run(inputs)
    source = "\n".join(c_program.source.lines) + "\n"
    entry = first.held(library_key(source, find_compiler(), (), "").digest())
    assert entry is not None
    bundle = tmp_path / "net.programs"
    bundle.write_bytes(bundle_of([entry], keeps_source=False))
    assert b"secret" not in bundle.read_bytes()
    later = ProgramCache(open_cache(tmp_path / "empty").folder, shipped=[bundle])
    with NativeProgram(c_program, weights, cache=later) as executable:
        np.testing.assert_equal(executable.run(inputs), expected)
    assert later.counts["shipped"] == 1
    bundle.write_bytes(bundle.read_bytes()[:-40])
    damaged = ProgramCache(None, shipped=[bundle])
    with pytest.warns(CacheWarning), NativeProgram(c_program, weights, cache=damaged) as again:
        np.testing.assert_equal(again.run(inputs), expected)


def test_headers_are_read_out_of_make_rules():
    rules = "program: program-1.c /usr/include/math.h \\\n /usr/a\\ b/c.h /x/d$$e.h\n"
    assert headers_in(rules) == [
        Path("/usr/include/math.h"),
        Path("/usr/a b/c.h"),
        Path("/x/d$e.h"),
    ]


# -- OpenCL


@pytest.fixture
def open_opencl(opencl_program: Program, weights: np.ndarray) -> Callable[..., Any]:
    """`open_opencl(cache, version=...)`: the program on the first device that works."""
    record = next((d for d in list_devices(("opencl",)) if d.usable), None)
    if record is None:
        pytest.skip("no usable OpenCL device; `explorer devices` says why")
    from explorer.runtime.opencl.program import OpenCLProgram

    def build(cache: ProgramCache, **changes: str) -> Any:
        device = dataclasses.replace(record, **changes)
        return OpenCLProgram(opencl_program, weights, device, cache=cache)

    return build


@pytest.mark.opencl
def test_an_opencl_driver_builds_nothing_the_second_time(
    inputs: Inputs, cache: ProgramCache, open_opencl: Callable[..., Any]
):
    with open_opencl(cache) as first:
        expected = first.run(inputs)
    later = reopened(cache)
    with open_opencl(later) as second:
        np.testing.assert_equal(second.run(inputs), expected)
    assert (cache.counts["source"], later.counts["folder"]) == (1, 1)
    assert cache.folder is not None
    assert len(list(cache.folder.glob("*.tried"))) == 1  # in a child process, once


@pytest.mark.opencl
def test_a_binary_that_the_driver_dislikes_is_tried_in_a_child_and_rebuilt(
    inputs: Inputs, cache: ProgramCache, open_opencl: Callable[..., Any]
):
    with open_opencl(cache) as first:
        expected = first.run(inputs)
    (stored,) = cache.entries()
    entry = cache.entry(stored.digest)
    assert entry is not None
    # As a driver of another version would have written it: sealed, yet of no use.
    cache.store(dataclasses.replace(entry, payload=b"\x00" * len(entry.payload)))
    later = reopened(cache)
    with pytest.warns(CacheWarning, match="of no use here"), open_opencl(later) as second:
        np.testing.assert_equal(second.run(inputs), expected)
    assert later.counts["source"] == 1
    assert "of no use here" in later.looked[0].reason


@pytest.mark.opencl
def test_another_driver_version_is_the_reason(cache: ProgramCache, open_opencl: Callable[..., Any]):
    with open_opencl(cache):
        pass
    later = reopened(cache)
    with open_opencl(later, version="OpenCL 9.9 of tomorrow"):
        pass
    reason = later.looked[0].reason
    assert reason.startswith("the compiler: ")
    assert "OpenCL 9.9 of tomorrow) now" in reason
    assert len(later.entries()) == 1
