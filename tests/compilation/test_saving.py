"""Traces on disk: everything comes back, and a damaged or foreign file is refused."""

import io
import json
import resource
import zipfile
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation, SavedCompilation
from explorer.errors import DeviceError, InputError, ModelError
from explorer.ir.inspection.printing import dump, parse
from explorer.traces import saving
from explorer.traces.saving import MAX_UNPACKED_BYTES

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Compilation:
    model = sources.source_model(tmp_path_factory.mktemp("model"), sources.CHAIN)
    compilation = explorer.compile(model, "cpu")
    compilation.accuracy()
    compilation.close()
    return compilation


@pytest.fixture(scope="module")
def file(compiled, tmp_path_factory) -> Path:
    return compiled.save(tmp_path_factory.mktemp("traces") / "chain.nnx")


@pytest.fixture(scope="module")
def saved(file) -> SavedCompilation:
    return explorer.open(file)


def test_everything_that_is_known_comes_back(compiled, saved):
    assert saved.trace() == compiled.trace()


def test_passes_come_back_with_texts_graphs_diffs_and_events(compiled, saved):
    assert saved.names == compiled.names
    for old, new in zip(compiled.passes, saved.passes, strict=True):
        assert new.after.text == old.after.text
        assert new.before.text == old.before.text
        assert new.after.graph == old.after.graph
        assert (new.diff, new.events) == (old.diff, old.events)
        assert (new.changed, new.description) == (old.changed, old.description)


def test_unchanged_snapshots_stay_one_object(compiled, saved):
    for old, new in zip(compiled.passes, saved.passes, strict=True):
        assert (new.after is new.before) == (old.after is old.before)


def test_plan_kernels_and_accuracy_come_back(compiled, saved):
    assert saved.memory == compiled.memory
    assert saved.kernels == compiled.kernels
    assert saved.accuracy is not None
    assert saved.accuracy.passed
    assert saved.profile is None


def test_weights_come_back_bit_by_bit(compiled, saved):
    assert list(saved.weights) == list(compiled.final.weights)
    for name, array in compiled.final.weights.items():
        np.testing.assert_array_equal(saved.weights[name], array)
        assert saved.weights[name].dtype == array.dtype


def test_the_complete_ir_of_every_snapshot_is_in_the_file(compiled, file):
    with zipfile.ZipFile(file) as content:
        manifest = json.loads(content.read("manifest.json"))
        for result, number in zip(compiled.passes, manifest["snapshots"], strict=True):
            text = content.read(f"snapshots/{number}.mlir").decode()
            assert text == result.after.dump()
            assert dump(parse(text)) == text


def test_a_saved_compilation_says_that_it_cannot_run(saved):
    with pytest.raises(DeviceError, match="a saved compilation cannot run"):
        saved.run({})
    with pytest.raises(InputError, match="there is no pass 'nothing'"):
        saved["nothing"]
    assert saved["fuse-activation"].name == "fuse-activation"
    assert saved[0].name == "import"


def test_saving_replaces_a_file_as_a_whole(compiled, tmp_path):
    path = tmp_path / "trace.nnx"
    path.write_bytes(b"what was here before")
    compiled.save(path)
    assert explorer.open(path).names == compiled.names
    assert [p.name for p in tmp_path.iterdir()] == ["trace.nnx"]


# -- files that came from others -------------------------------------------------------------------


def rewritten(file: Path, folder: Path, **members: bytes | None) -> Path:
    """The trace with some of its members (by name, `_` for `.` and `/`) changed or removed."""
    path = folder / "changed.nnx"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            key = name.replace(".", "_").replace("/", "_")
            data = members.get(key, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return path


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "nothing.nnx", tmp_path):
        with pytest.raises(ModelError, match="no such file"):
            explorer.open(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x00" * 100, b"PK\x03\x04" + b"\x00" * 100])
def test_what_is_no_zip_file_is_refused(tmp_path, content):
    path = tmp_path / "broken.nnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a readable trace"):
        explorer.open(path)


def test_a_file_without_its_first_bytes_is_refused(file, tmp_path):
    """The directory at its end is whole, and points before the beginning."""
    path = tmp_path / "cut.nnx"
    path.write_bytes(file.read_bytes()[100:])
    with pytest.raises(ModelError, match="the trace cannot be read: Invalid argument") as caught:
        explorer.open(path)
    assert caught.value.file == str(path)


def test_a_compressed_stream_that_is_none_is_refused(file, tmp_path):
    """Checked by its reader and not by the archive's checksum, which comes at its end."""
    path = tmp_path / "changed.nnx"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    content = bytearray(path.read_bytes())
    begin = content.index(b"BZh")
    content[begin : begin + 3] = b"xyz"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a readable trace: Invalid data stream"):
        explorer.open(path)


def test_a_small_file_cannot_hold_more_values_than_are_taken(file, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "MAX_VALUES", 100_000)
    path = rewritten(file, tmp_path, trace_json=b"[" + b"[]," * 200_000 + b"[]]")
    with pytest.raises(ModelError, match="more than 100,000 values"):
        explorer.open(path)


@pytest.mark.parametrize("count", [10, 2_000_000])
def test_values_are_counted_and_text_is_not(count):
    """Each list takes one mark to open it and one to go on; those in a string do not count."""
    quoted = json.dumps("[]," * count).encode()
    assert saving.count_values(b"[" + b"[]," * count + b"[]]") == 2 * count + 2
    assert saving.count_values(b"[" + quoted + b"]") <= 2 * count + 1
    if count > saving.MANY_VALUES:
        assert saving.count_values(b"[" + quoted + b"]") == 1


def test_two_members_of_one_name_are_refused(file, tmp_path):
    path = tmp_path / "twice.nnx"
    path.write_bytes(file.read_bytes())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("trace.json", b"{}")
    with pytest.raises(ModelError, match="two of its members have one name"):
        explorer.open(path)


def test_a_full_disk_leaves_no_part_of_a_trace(compiled, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError, match="it cannot be written"):
            compiled.save(tmp_path / "trace.nnx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(file, tmp_path, part):
    data = file.read_bytes()
    path = tmp_path / "cut.nnx"
    path.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(ModelError):
        explorer.open(path)


@pytest.mark.parametrize("seed", range(30))
def test_flipped_bytes_are_refused_or_harmless(file, compiled, tmp_path, seed):
    """Checksums cover the contents: what opens in spite of a flipped byte is what was saved."""
    data = bytearray(file.read_bytes())
    random = np.random.default_rng(seed)
    data[random.integers(len(data))] ^= int(random.integers(1, 256))
    path = tmp_path / "flipped.nnx"
    path.write_bytes(bytes(data))
    try:
        opened = explorer.open(path)
    except ModelError:
        return
    assert opened.names == compiled.names


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"manifest_json": None}, "a zip file, but not a saved trace: it has no manifest"),
        ({"manifest_json": b"{}"}, "its manifest is not that of a trace"),
        ({"manifest_json": b"[1]"}, "its manifest is not that of a trace"),
        ({"manifest_json": b"\xff"}, "not a readable trace"),
        ({"trace_json": b"{}"}, "missing fields"),
        ({"trace_json": b"[" * 100_000}, "not a readable trace"),
        ({"trace_json": None}, "There is no item named 'trace.json'"),
        ({"snapshots_0_json": None}, "There is no item named 'snapshots/0.json'"),
        ({"weights_json": b"3"}, "not a readable trace"),
        ({"weights_json": b'["a", "b", "c", "d", "e", "f", "g"]' * 40}, "not a readable trace"),
        ({"weights_npz": b"PK"}, "not a readable trace"),
    ],
)
def test_damaged_members_are_refused(file, tmp_path, members, message):
    with pytest.raises(ModelError, match=message):
        explorer.open(rewritten(file, tmp_path, **members))


@pytest.mark.parametrize(
    "damaged", [3, [], {"tensors": 3, "left_out": 0}, {"tensors": [{}], "left_out": 0}, {"x": 1}]
)
def test_a_damaged_part_is_refused_when_the_trace_is_opened(file, tmp_path, damaged):
    with zipfile.ZipFile(file) as content:
        trace = json.loads(content.read("trace.json"))
    changed = json.dumps({**trace, "parts": {"weights": damaged}}).encode()
    with pytest.raises(ModelError, match="weights"):
        explorer.open(rewritten(file, tmp_path, trace_json=changed))


@pytest.mark.parametrize(
    "snapshots", [[0], [0] * 100, ["../../etc/passwd"] * 19, "all", None, [1e300], [-1] * 19, [{}]]
)
def test_a_manifest_that_lists_other_snapshots_is_refused(file, tmp_path, snapshots):
    with zipfile.ZipFile(file) as content:
        manifest = json.loads(content.read("manifest.json"))
    changed = json.dumps({**manifest, "snapshots": snapshots}).encode()
    with pytest.raises(ModelError):
        explorer.open(rewritten(file, tmp_path, manifest_json=changed))


def test_a_trace_from_before_there_were_parts_and_languages_opens(file, tmp_path):
    with zipfile.ZipFile(file) as content:
        trace = json.loads(content.read("trace.json"))
    for record, field in ((trace, "language"), (trace["program"], "parts")):
        del record[field]
    del trace["program"]["results"]
    opened = explorer.open(rewritten(file, tmp_path, trace_json=json.dumps(trace).encode()))
    assert opened.trace().source_language == "C"
    assert opened.trace().program.parts == opened.trace().program.transfers == ()
    gpu = replace(opened.trace(), target="opencl_gpu")
    assert gpu.source_language == "OpenCL C"


def test_another_version_is_refused(file, tmp_path):
    with zipfile.ZipFile(file) as content:
        manifest = json.loads(content.read("manifest.json"))
    changed = json.dumps({**manifest, "version": 999}).encode()
    with pytest.raises(ModelError, match="the trace has version 999, this program reads"):
        explorer.open(rewritten(file, tmp_path, manifest_json=changed))


def test_arrays_that_would_execute_something_are_refused(file, tmp_path):
    """A pickled array runs code when it is loaded."""
    arrays = io.BytesIO()
    np.savez(arrays, w0=np.array([object()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(arrays) as content:
        assert "w0.npy" in content.namelist()
    names = json.dumps(["w"]).encode()
    changed = rewritten(file, tmp_path, weights_npz=arrays.getvalue(), weights_json=names)
    with pytest.raises(ModelError, match="which would execute code"):
        explorer.open(changed)


class Counted(zipfile.ZipFile):
    """Writes members that claim to be larger than they are."""

    def claim(self, name: str, size: int) -> None:
        self.getinfo(name).file_size = size


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(file, tmp_path):
    path = tmp_path / "bomb.nnx"
    with zipfile.ZipFile(file) as old, Counted(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        new.claim("trace.json", MAX_UNPACKED_BYTES)
    with pytest.raises(ModelError, match=f"more than {MAX_UNPACKED_BYTES}"):
        explorer.open(path)


def test_arrays_inside_arrays_are_counted_too(file, tmp_path):
    """The weights are a zip file inside the zip file, which has its own sizes."""
    arrays = io.BytesIO()
    np.savez(arrays, w0=np.zeros(3, np.float32))
    with Counted(arrays, "a") as inner:
        inner.claim("w0.npy", MAX_UNPACKED_BYTES + 1)
        inner._didModify = True
    names = json.dumps(["w"]).encode()
    changed = rewritten(file, tmp_path, weights_npz=arrays.getvalue(), weights_json=names)
    with pytest.raises(ModelError, match=f"more than {MAX_UNPACKED_BYTES}"):
        explorer.open(changed)


def test_an_array_that_claims_a_size_of_its_own_is_refused(file, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (2**40,)}
    )
    arrays = io.BytesIO()
    with zipfile.ZipFile(arrays, "w") as inner:
        inner.writestr("w0.npy", header.getvalue())
    names = json.dumps(["w"]).encode()
    changed = rewritten(file, tmp_path, weights_npz=arrays.getvalue(), weights_json=names)
    with pytest.raises(ModelError):
        explorer.open(changed)


def test_names_of_weights_are_names_and_no_paths(tmp_path):
    name = "../../../evil/w1"
    graph = sources.CHAIN.replace("w1", "evil")
    model = sources.source_model(tmp_path, graph)
    compilation = explorer.compile(model, "cpu")
    weights = compilation.final.weights
    weights.add(name, np.ones(3, np.float32))
    opened = explorer.open(compilation.save(tmp_path / "evil.nnx"))
    np.testing.assert_array_equal(opened.weights[name], np.ones(3))
    with zipfile.ZipFile(tmp_path / "evil.nnx") as content:
        assert not any("evil" in n for n in content.namelist())


def test_a_trace_of_nothing_but_records_is_what_was_saved(compiled, saved):
    """Records are compared by value, and labels are among them."""
    assert saved.trace() != replace(compiled.trace(), label="another")


def test_as_many_values_as_are_taken_are_read(monkeypatch):
    text = b"[[],[],[]]"
    held: Any = SimpleNamespace(read=lambda name: text)
    monkeypatch.setattr(saving, "MAX_VALUES", saving.count_values(text))
    assert saving._Members(held)("trace.json") == [[], [], []]
    monkeypatch.setattr(saving, "MAX_VALUES", saving.count_values(text) - 1)
    with pytest.raises(ModelError, match="values"):
        saving._Members(held)("trace.json")
