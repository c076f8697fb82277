"""Tuned schedules in a folder: just the asked key, whole files only, damage told and dropped."""

import json
import multiprocessing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from explorer.errors import CacheWarning
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.keys import digest_of
from explorer.runtime.cache.tuned import MAGIC, TunedEntry, TunedKey, TunedStore, generator_digest

KEY = TunedKey(
    workload="3f" * 32,
    target="cpu",
    device="AMD EPYC (features 1f0c9a6e)",
    threads=1,
    compiler="gcc 12.2.0",
    generator="a" * 16,
)
ENTRY = TunedEntry(
    key=KEY,
    kernel="conv_1",
    choices=(("schedule", "direct"), ("pixels", 7)),
    tuned_us=41.2,
    default_us=48.0,
    made_at="2026-01-02",
)


def sealed(body: object) -> bytes:
    """A file whose seal is right, whatever is in it."""
    text = json.dumps(body).encode() + b"\n"
    return MAGIC + digest_of(text).encode() + b"\n" + text


def body_of(entry: TunedEntry) -> dict:
    return json.loads(entry.to_bytes().split(b"\n", 2)[2])


def test_what_was_kept_is_found_under_its_key_alone(tmp_path):
    store = TunedStore(tmp_path)
    store.keep(ENTRY)
    assert TunedStore(tmp_path).find(KEY) == ENTRY
    assert ENTRY.why == "tuned: 41.2 µs against 48.0"
    for field in fields(TunedKey):
        other = replace(KEY, **{field.name: 2 if field.name == "threads" else "another"})
        assert store.find(other) is None


def test_a_later_entry_takes_the_place_and_is_another_stamp(tmp_path):
    store = TunedStore(tmp_path)
    assert store.stamp() == (0, 0)
    store.keep(ENTRY)
    before = store.stamp()
    store.keep(replace(ENTRY, tuned_us=40.0))
    assert store.stamp() != before
    assert [e.tuned_us for e in store.entries()] == [40.0]
    store.forget(KEY)
    assert store.find(KEY) is None


def test_without_a_folder_nothing_is_kept():
    store = TunedStore(None)
    assert store.keep(ENTRY) is None
    assert store.find(KEY) is None
    assert store.entries() == []


CHANGES = {
    "cut off": lambda content: content[: len(content) // 2],
    "a changed byte": lambda content: content.replace(b"41.2", b"11.2"),
    "another file": lambda content: b"ELF" + content,
    "empty": lambda content: b"",
    "no JSON": lambda content: sealed("text"),
    "no choices": lambda content: sealed({**body_of(ENTRY), "choices": []}),
    "choices of lists": lambda content: sealed({**body_of(ENTRY), "choices": [["pixels", [7]]]}),
    "a choice that is true": lambda content: sealed({**body_of(ENTRY), "choices": [["a", True]]}),
    "no time": lambda content: sealed({**body_of(ENTRY), "tuned_us": float("nan")}),
    "slower than the default": lambda content: sealed({**body_of(ENTRY), "tuned_us": 50.0}),
    "a field missing": lambda content: sealed(
        {k: v for k, v in body_of(ENTRY).items() if k != "key"}
    ),
    "the wrong key": lambda content: replace(ENTRY, key=replace(KEY, threads=2)).to_bytes(),
}


@pytest.mark.parametrize("damage", CHANGES)
def test_a_damaged_file_is_told_named_by_verify_and_dropped(tmp_path, damage):
    store = TunedStore(tmp_path)
    path = store.keep(ENTRY)
    assert path is not None
    assert store.verify() == {}
    path.write_bytes(CHANGES[damage](path.read_bytes()))

    assert list(store.verify()) == [path]
    with pytest.warns(CacheWarning, match="is dropped"):
        assert store.find(KEY) is None
    assert not path.exists()


def write_many(folder: str, count: int) -> None:
    store = TunedStore(Path(folder))
    for number in range(count):
        store.keep(replace(ENTRY, tuned_us=1.0 + number / count))


def test_several_writers_leave_a_whole_file_at_every_moment(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(str(tmp_path), 40)) for _ in range(2)]
    store = TunedStore(tmp_path)
    store.keep(ENTRY)
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        found = store.find(KEY)
        assert found is not None
        assert found.key == KEY
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert store.problems == []
    assert len(list(tmp_path.iterdir())) == 1


def test_programs_and_tuned_schedules_share_a_folder_and_leave_one_another_alone(tmp_path):
    TunedStore(tmp_path).keep(ENTRY)
    cache = ProgramCache(tmp_path)
    assert cache.entries() == []
    assert cache.verify() == {}
    cache.prune(0)
    assert TunedStore(tmp_path).find(KEY) == ENTRY


def test_the_code_that_makes_kernels_has_a_name():
    assert len(generator_digest()) == 16
    assert generator_digest() == generator_digest()
