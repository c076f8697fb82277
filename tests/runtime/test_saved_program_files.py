"""What finished programs are made of: digests, sums, requests, sources; and their files."""

import dataclasses
import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.errors import ModelError
from explorer.results import Launch, Port, Program, SourceText
from explorer.results.program import ProgramPart
from explorer.results.runs.saved_program import (
    FixedContent,
    ModelInput,
    ModelInterface,
    SavedArray,
    SavedPart,
    SavedProgram,
)
from explorer.runtime.cache import digests
from explorer.runtime.cache.digests import (
    BLOCK_BYTES,
    digest_of_array,
    digest_of_file,
    sums_of_array,
)
from explorer.runtime.cache.environment import compiler_on_disk
from explorer.runtime.cache.requests import ProgramRequest, Undigested, request_of, sizes_of
from explorer.runtime.cache.saved_program_files import (
    MAGIC,
    DamagedProgram,
    fits_contents,
    name_of,
    read_saved,
    to_bytes,
)
from explorer.runtime.cache.sources import MEMO, packages, process_start_ns, sources_of
from explorer.runtime.cache.weights import DamagedWeights, map_weights, write_weights

PROGRAM = Program(
    target="cpu",
    source=SourceText("c", (), ()),
    kernels=(),
    launches=(Launch("add_0", "add", (), ("sum",)),),
    inputs=(Port(name="x", element_type="float32", shape=(2, 4), offset_bytes=0, size_bytes=32),),
    outputs=(Port(name="y", element_type="float32", shape=(2, 4), offset_bytes=64, size_bytes=32),),
    taps=(),
    weights=(),
    arena_bytes=128,
    weights_bytes=64,
)
KEPT = SavedProgram(
    model=ModelInterface("net", "ab" * 32, (ModelInput("x", "float32", ("n", 4)),), (("n", 1),)),
    path="/somewhere/net.onnx",
    target="cpu",
    options="{}",
    sizes=(("n", 2, 2),),
    contents=(FixedContent("k", "0100", "[1]"),),
    circumstances=(("explorer", "here (1)"),),
    program=PROGRAM,
    language="c",
    binary="cd" * 32,
    weights="ef" * 32,
    sums="01" * 32,
    compile_seconds=1.5,
    made_at="2020-01-01T00:00:00",
)


PART = SavedPart(function="main_host", text="func.func @main_host() {}")
OF_PROGRAM = ProgramPart(
    function="main_host", device="host", inputs=(), outputs=(), program=PROGRAM, reason="loop1"
)
ARRAY = {"name": "w", "element_type": "float32", "shape": [2], "offset_bytes": 64, "size_bytes": 8}


def test_what_is_written_is_read():
    assert read_saved(to_bytes(KEPT)) == KEPT
    program = replace(PROGRAM, parts=(OF_PROGRAM,))
    array = SavedArray(
        name="w",
        element_type="bfloat16",
        shape=(4, 8),
        offset_bytes=64,
        size_bytes=2,
        is_splat=True,
    )
    parts = replace(KEPT, program=program, parts=(PART,), arrays=(array,))
    assert read_saved(to_bytes(parts)) == parts
    assert parts.block_bytes == 66


def test_every_damaged_byte_of_a_kept_program_is_noticed():
    whole = to_bytes(KEPT)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 + place % 255
        with pytest.raises(DamagedProgram):
            read_saved(bytes(damaged))
        with pytest.raises(DamagedProgram):
            read_saved(whole[:place])


@pytest.mark.parametrize(
    "change",
    [
        {"binary": "../../elsewhere"},
        {"weights": ""},
        {"weights": "EF" * 32},
        {"contents": [{"name": "k", "content": "no digits", "preview": ""}]},
        {"program": {"target": "cpu"}},
        {"sizes": [["n", "2", 2]]},
        {"extra": 1},
        {"parts": [{"function": "main_cpu", "binary": "cd" * 32}]},
        {"arrays": [{**ARRAY, "size_bytes": 4}]},
        {"arrays": [{**ARRAY, "offset_bytes": -8}]},
        {"arrays": [{**ARRAY, "element_type": "complex7"}]},
    ],
)
def test_a_sealed_file_that_makes_no_sense_is_refused(change: dict[str, object]):
    body = to_bytes(KEPT)[len(MAGIC) + 65 :]
    body = json.dumps({**json.loads(body), **change}).encode()
    seal = hashlib.sha256(body).hexdigest().encode()
    with pytest.raises(DamagedProgram, match="cannot be read"):
        read_saved(MAGIC + seal + b"\n" + body)


def test_the_name_begins_with_what_was_asked():
    request = ProgramRequest("ab" * 32, Path("/elsewhere"), "cpu", "{}")
    assert name_of(KEPT).startswith(request.prefix(KEPT.sizes))
    assert not name_of(KEPT).startswith(request.prefix((("n", 2, 3),)))
    other = dataclasses.replace(KEPT, circumstances=(("explorer", "here (2)"),))
    assert name_of(other) != name_of(KEPT)


def test_contents_fit_by_their_bytes():
    assert fits_contents(KEPT, {"k": np.array([1], "<i2")})
    assert not fits_contents(KEPT, {"k": np.array([2], "<i2")})
    assert not fits_contents(KEPT, {})


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 3 * 4096 + 5])
def test_a_file_and_an_array_of_the_same_bytes_have_the_same_digest(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(digests, "PART_BYTES", 4096)
    array = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    path = tmp_path / "file"
    path.write_bytes(array.tobytes())
    assert digest_of_file(path) == digest_of_array(array)
    if size:
        array[size // 2] ^= 1
        assert digest_of_file(path) != digest_of_array(array)


@pytest.mark.parametrize("size", [1, 8, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES - 5])
def test_sums_notice_every_changed_byte(size: int):
    array = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    whole = sums_of_array(array)
    for place in range(0, size, max(1, size // 50)):
        array[place] ^= 0x80
        assert sums_of_array(array) != whole
        array[place] ^= 0x80
    assert sums_of_array(array) == whole


SIGNS = np.where(np.arange(BLOCK_BYTES // 4) % 3, np.float32(0.5), np.float32(-0.5))
ONE_HOT = np.eye(2, BLOCK_BYTES // 8, dtype=np.float32).reshape(-1)


@pytest.mark.parametrize("content", [SIGNS, ONE_HOT, None], ids=["signs", "one-hot", "random"])
@pytest.mark.parametrize("moved_bytes", [4, 8, 4096])
def test_sums_notice_what_changed_places(content: np.ndarray | None, moved_bytes: int):
    """Swapped words and pages have the same sum; numbers that differ in few bits are hardest."""
    random = np.random.default_rng(moved_bytes)
    if content is None:
        content = random.normal(size=BLOCK_BYTES // 4).astype(np.float32)
    parts = content.view(np.uint8).reshape(-1, moved_bytes)
    whole = sums_of_array(parts)
    for _ in range(30):
        one = random.integers(len(parts))
        other = random.choice(np.flatnonzero((parts != parts[one]).any(axis=1)))
        damaged = parts.copy()
        damaged[[one, other]] = parts[[other, one]]
        assert sums_of_array(damaged) != whole


def test_mapped_weights_are_read_only_and_whole(tmp_path: Path):
    array = np.arange(1000, dtype=np.float32)
    digest, sums = write_weights(tmp_path, array)
    (path,) = tmp_path.iterdir()
    assert path.name == digest + ".weights"
    mapped = map_weights(path, sums, 4000)
    np.testing.assert_array_equal(mapped.array.view(np.float32), array)
    assert not mapped.array.flags.writeable
    with pytest.raises(DamagedWeights, match="4000 bytes instead of 4001"):
        map_weights(path, sums, 4001)
    with pytest.raises(DamagedWeights, match="their sums"):
        map_weights(path, "0" * 64, 4000)


# -- requests --------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"a model")
    return path


def test_options_that_have_their_default_are_no_other_request(file: Path):
    plain = request_of(file, "cpu", {})
    same = request_of(str(file), "cpu", {"disable": [], "fuel": None, "tuned": True})
    other = request_of(file, "cpu", {"disable": ["fuse-bias"]})
    assert isinstance(plain, ProgramRequest)
    assert isinstance(same, ProgramRequest)
    assert isinstance(other, ProgramRequest)
    assert plain.prefix(()) == same.prefix(()) != other.prefix(())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pipeline": [object()]}, "pipeline: "),
        ({"planner": object()}, "planner: object has no digest"),
        ({"decisions": {"a/b/c": object()}}, "decisions: "),
        ({"unheard_of": 1}, "unheard_of: "),
    ],
)
def test_what_has_no_digest_is_no_request(file: Path, options: dict[str, object], reason: str):
    found = request_of(file, "cpu", options)
    assert isinstance(found, Undigested)
    assert found.reason.startswith(reason)


def test_a_target_of_ones_own_counts_by_its_content(file: Path, tmp_path: Path):
    target = tmp_path / "chip.toml"
    target.write_text("one")
    first = request_of(file, target, {})
    target.write_text("two")
    second = request_of(file, str(target), {})
    assert isinstance(first, ProgramRequest)
    assert isinstance(second, ProgramRequest)
    assert first.prefix(()) != second.prefix(())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_an_error(file: Path):
    file.chmod(0)
    with pytest.raises(ModelError, match="cannot be read"):
        request_of(file, "cpu", {})


def test_sizes_are_those_of_all_dimensions_or_none():
    interface = dataclasses.replace(
        KEPT.model, inputs=(ModelInput("x", "float32", ("n", "time", 4)),)
    )
    assert sizes_of(interface, {"time": 5}) == (("n", 1, 1), ("time", 5, 5))
    assert sizes_of(interface, {"time": (1, 5), "n": 2}) == (("n", 2, 2), ("time", 1, 5))
    for wrong in ({}, {"time": 0}, {"time": (5, 1)}, {"time": True}, {"time": 5, "other": 1}):
        assert sizes_of(interface, wrong) is None


# -- sources ---------------------------------------------------------------------------------------


def test_sources_are_read_once_and_again_when_one_of_them_changed(tmp_path: Path):
    package, memo = tmp_path / "package", tmp_path / "memo"
    (package / "passes").mkdir(parents=True)
    (package / "views").mkdir()
    memo.mkdir()
    (package / "passes" / "one.py").write_text("a")
    (package / "views" / "picture.py").write_text("a")
    first = sources_of(package, memo)
    assert json.loads((memo / MEMO).read_text())
    (package / "views" / "picture.py").write_text("b")
    assert sources_of(package, memo).digest == first.digest  # decides no program
    (package / "passes" / "one.py").write_text("b")
    assert sources_of(package, memo).digest != first.digest
    (memo / MEMO).write_text("[damaged")
    (package / "passes" / "one.py").write_text("a")
    assert sources_of(package, memo).digest == first.digest


def test_equal_sources_in_another_place_are_the_same(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pass.py").write_text("the same")
    assert sources_of(tmp_path / "one").digest == sources_of(tmp_path / "two").digest


def test_versions_come_from_the_first_folder_that_has_the_package(tmp_path: Path):
    for folder, version in (("first", "1.2"), ("second", "9.9")):
        (tmp_path / folder / f"numpy-{version}.dist-info").mkdir(parents=True)
    text = packages((str(tmp_path / "none"), str(tmp_path / "first"), str(tmp_path / "second")))
    assert text.endswith(", numpy 1.2")


def test_this_process_began_before_now():

    assert 0 < process_start_ns() < time.time_ns()


def test_the_compilers_state_is_known_without_running_it(tmp_path: Path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    before = compiler_on_disk({"PATH": str(tmp_path), "CC": "cc"})
    assert before.startswith(f"{compiler} (")
    assert compiler_on_disk({"PATH": str(tmp_path), "CC": "cc", "CPATH": "/x"}) != before
    compiler.write_text("#!/bin/sh\nexit 12\n")
    assert compiler_on_disk({"PATH": str(tmp_path), "CC": "cc"}) != before
    assert compiler_on_disk({"PATH": str(tmp_path), "CC": "nothing"}) == "none"
