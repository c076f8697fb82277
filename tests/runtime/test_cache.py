"""The program cache: hits, misses with their reasons, damage, other compilers and drivers."""

import dataclasses
import os
import random
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.errors import BuildError, CacheWarning
from explorer.results import Program
from explorer.runtime.cache import Entry, FoundEntry, ProgramCache, store
from explorer.runtime.cache.bundles import bundle_of
from explorer.runtime.cache.c_programs import cached_library, headers_in, library_key, try_library
from explorer.runtime.cache.entries import DamagedEntry, entry_of_head, read_entry
from explorer.runtime.cache.folder import open_cache
from explorer.runtime.cache.keys import header_digests
from explorer.runtime.compilers import Compiler, find_compiler
from explorer.runtime.devices import list_devices
from explorer.runtime.native.program import NativeProgram

sys.path.insert(0, str(Path(__file__).parent))
from cached_entries import KEY, SOURCE, entry_of, reason_of, reopened

Inputs = dict[str, np.ndarray]


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
