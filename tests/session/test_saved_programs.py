"""Finished programs: started without compiling, and never where anything is not as it was."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.errors import CacheWarning, InputError, ModelError
from explorer.importers.onnx import from_proto
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.folder import open_cache
from explorer.runtime.cache.tuned import TunedEntry, TunedKey, TunedStore
from explorer.session import ModelSource, Session, start

STARTED = "started from the kept program"


def product(*shape: int | str, scale: float = 1.0, operator: str = "MatMul") -> onnx.ModelProto:
    """y = x · w, for a w of 4×4 that `scale` multiplies."""
    weight = scale * np.arange(16, dtype=np.float32).reshape(4, 4)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reshaping() -> onnx.ModelProto:
    """y = reshape(x, shape), where the shape is an input."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")],
        "reshaping",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (12,)),
            helper.make_tensor_value_info("shape", TensorProto.INT64, (2,)),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file with a product of fixed size."""
    path = tmp_path / "product.onnx"
    onnx.save(product(2, 4), str(path))
    return path


X = np.arange(8, dtype=np.float32).reshape(2, 4)


def expected(x: np.ndarray = X, scale: float = 1.0) -> np.ndarray:
    return x @ (scale * np.arange(16, dtype=np.float32).reshape(4, 4))


def called(path: Path, x: np.ndarray = X, scale: float = 1.0, **options: Any) -> str:
    """Event and reason of one call in a session of its own; its numbers are right."""
    with Session(path, isolated=False, **options) as opened:
        np.testing.assert_allclose(opened(x)["y"], expected(x, scale), rtol=1e-6)
        return opened.why().removeprefix("call 1 ")


def test_a_second_session_starts_from_the_kept_program(place, model, monkeypatch):
    assert called(model) == "(compiled): nothing was compiled before"
    monkeypatch.setattr("explorer.importers.load", forbidden)
    monkeypatch.setattr("explorer.compilation.compile_model", forbidden)
    for isolated in (False, True):
        with Session(model, isolated=isolated) as opened:
            for _ in range(2):
                np.testing.assert_array_equal(opened(X)["y"], expected())
            assert [call.event for call in opened.calls] == ["started", "hit"]
            assert opened.why().endswith(STARTED)
            (program,) = opened.record().programs
            assert program.tier in ("memory", "folder")
            assert opened.programs[0].compilation is None


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("nothing was to be read or compiled")


@pytest.mark.parametrize("mode", ["lazy", "asynchronous"])
def test_a_kept_program_answers_the_first_call_of_every_mode(place, model, mode):
    called(model)
    with Session(model, mode=mode, isolated=False) as opened:
        np.testing.assert_array_equal(opened(X)["y"], expected())
        assert (opened.calls[0].event, opened.calls[0].answered_by) == ("started", "program")


CHILD = """
    import sys
    from pathlib import Path
    from explorer.runtime.cache import environment
    environment.PACKAGE = Path(sys.argv[2])
    import numpy as np
    import explorer as ex
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with ex.Session(sys.argv[1]) as session:
        y = session(x)["y"]
        print(session.calls[0].event, y.sum())
    with ex.start(sys.argv[1], isolated=False) as started:
        assert (started.run({"x": x})["y"] == y).all()
    forbidden = ("xdsl", "onnx", "onnxruntime", "explorer.passes", "explorer.importers",
                 "explorer.kernels", "explorer.compilation", "explorer.views")
    print(sorted(name for name in sys.modules if name.startswith(forbidden)))
"""


def child(model: Path, package: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(model), str(package)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_fresh_process_loads_no_compiler_to_start_a_kept_program(place, model):
    called(model)
    output, errors = child(model, place.package).communicate(timeout=120)
    assert output.splitlines() == [f"started {expected().sum()}", "[]"], errors


def test_processes_that_keep_the_same_program_at_once_leave_a_whole_one(place, model):
    processes = [child(model, place.package) for _ in range(2)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert output.split()[1] == str(expected().sum()), errors
    assert len(place.files(".kept")) == len(place.files(".weights")) == 1
    assert called(model).startswith("(started)")


def test_a_started_session_shows_itself_in_a_notebook(place, model):
    called(model)
    program = """
        import sys
        from pathlib import Path
        from explorer.runtime.cache import environment
        environment.PACKAGE = Path(sys.argv[2])
        import numpy as np
        import explorer as ex
        with ex.Session(sys.argv[1]) as session:
            session(np.zeros((2, 4), np.float32))
            assert "explorer.views" not in sys.modules
            assert "started" in str(session), str(session)
            assert "started" in session._repr_html_()
            assert "started" in str(session.record())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(model), str(place.package)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr


# -- what a program depends on ---------------------------------------------------------------------


def test_another_file_of_the_same_name_is_compiled(place, model):
    called(model)
    onnx.save(product(2, 4, scale=3), str(model))
    assert called(model, scale=3).endswith("no kept program: the model's file changed")
    assert called(model, scale=3).startswith("(started)")


def test_another_explorer_compiles_again_and_drops_what_the_first_one_kept(place, model):
    called(model)
    place.edit_sources("second")
    assert "no kept program: another explorer" in called(model)
    assert len(place.files(".kept")) == 1


def test_sources_that_changed_since_the_process_began_keep_nothing(place, model):
    (place.package / "passes.py").write_text("edited now")
    called(model)
    assert place.files(".kept") == []


def test_another_compiler_is_the_reason(place, model, monkeypatch):
    called(model)
    monkeypatch.setenv("CC", "gcc")
    assert "no kept program: the compiler: " in called(model)
    monkeypatch.delenv("CC")
    assert called(model).startswith("(started)")  # both are kept


def test_a_new_tuned_schedule_is_the_reason(place, model):
    called(model)
    key = TunedKey(
        workload="3f" * 32,
        target="cpu",
        device="AMD",
        threads=2,
        compiler="gcc 12.2.0",
        generator="a" * 16,
    )
    TunedStore(place.folder).keep(
        TunedEntry(
            key=key, kernel="conv_1", choices=(("pixels", 7),), tuned_us=41.2, default_us=48.0
        )
    )
    assert "no kept program: the tuned schedules: kept (none) before" in called(model)


def test_external_data_belongs_to_the_file(place, tmp_path):
    path = tmp_path / "outside.onnx"
    for scale in (1, 2):
        (tmp_path / "weights.bin").unlink(missing_ok=True)
        onnx.save(
            product(2, 4, scale=scale),
            str(path),
            save_as_external_data=True,
            location="weights.bin",
            size_threshold=0,
        )
        time.sleep(0.05)  # what was written just now may still be changing
        if scale == 1:
            assert called(path).startswith("(compiled)")
            assert called(path).startswith("(started)")
        else:
            assert "the file weights.bin beside the model changed" in called(path, scale=2)


def test_external_data_that_was_just_written_is_not_kept(place, tmp_path):
    path = tmp_path / "outside.onnx"
    onnx.save(
        product(2, 4),
        str(path),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    later = time.time() + 60
    os.utime(tmp_path / "weights.bin", (later, later))
    assert called(path).startswith("(compiled)")
    assert place.files(".kept") == []


@pytest.mark.parametrize(
    ("options", "is_kept"),
    [
        ({"disable": ["eliminate-dead-code"]}, True),
        ({"fuel": 0}, True),
        ({"tuned": False}, True),
        ({"pipeline": "own"}, False),
    ],
)
def test_options_are_part_of_what_is_asked(place, model, options, is_kept):
    called(model)
    if "pipeline" in options:
        compilation = ex.compile(model)
        options = {"pipeline": compilation.pipeline}
    assert called(model, **options).startswith("(compiled)")
    assert called(model, **options).startswith("(started)" if is_kept else "(compiled)")


def test_a_model_without_a_file_is_not_kept(place):
    with Session(from_proto(product(2, 4)), isolated=False) as opened:
        opened(X)
    assert place.files(".kept") == []


# -- shapes ----------------------------------------------------------------------------------------


def test_every_size_has_its_own_program_and_all_share_the_weights(place, tmp_path):
    path = tmp_path / "sized.onnx"
    onnx.save(product("n", 4), str(path))
    arrays = [np.arange(4 * n, dtype=np.float32).reshape(n, 4) for n in (1, 3)]
    for event in ("compiled", "started"):
        with Session(path, isolated=False) as opened:
            for x in arrays:
                np.testing.assert_allclose(opened(x)["y"], expected(x), rtol=1e-6)
            assert [call.event for call in opened.calls] == [event] * 2
    assert (len(place.files(".kept")), len(place.files(".weights"))) == (2, 1)


def test_a_bucket_starts_as_one_program_for_all_its_sizes(place, tmp_path):
    path = tmp_path / "sized.onnx"
    onnx.save(product("n", 4), str(path))
    for events in (["compiled", "hit"], ["started", "hit"]):
        with Session(path, ranges={"n": [(1, 4)]}, isolated=False) as opened:
            for n in (3, 2):
                x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
                np.testing.assert_allclose(opened(x)["y"], expected(x), rtol=1e-6)
            assert [call.event for call in opened.calls] == events


def test_contents_that_decide_a_shape_are_compared(place, tmp_path):
    path = tmp_path / "reshaping.onnx"
    onnx.save(reshaping(), str(path))
    x = np.arange(12, dtype=np.float32)
    for events in (["compiled"] * 2, ["started"] * 2):
        with Session(path, isolated=False) as opened:
            for shape in ([3, 4], [2, 6]):
                y = opened({"x": x, "shape": np.array(shape, np.int64)})["y"]
                np.testing.assert_array_equal(y, x.reshape(shape))
            assert [call.event for call in opened.calls] == events


def choosing() -> str:
    """y is x as 4×2 where `mode` is 1, else as 3×3, which its eight elements never fit."""
    return """<ir_version: 9, opset_import: ["" : 17]>
    choosing (float[2,4] x, int64 mode) => (y) {
      one = Constant <value_int = 1> ()
      is_one = Equal (mode, one)
      y = If (is_one) <
        then_branch = a () => (then) <int64[2] to = {4, 2}> { then = Reshape (x, to) },
        else_branch = b () => (other) <int64[2] to = {3, 3}> { other = Reshape (x, to) }
      >
    }"""


def test_a_program_for_the_only_branch_that_fits_is_started_without_contents(place, tmp_path):
    """The sizes decide which branch it is; contents that are given are compared all the same."""
    path = tmp_path / "choosing.onnx"
    onnx.save(onnx.parser.parse_model(choosing()), str(path))
    inputs = {"x": X, "mode": np.array(1)}
    for is_kept in (False, True):
        with start(path, isolated=False) as started:
            assert (started.is_kept, started.not_kept) == (is_kept, "")
            np.testing.assert_array_equal(started.run(inputs)["y"], X.reshape(4, 2))
    for event in ("compiled", "started"):
        with Session(path, isolated=False) as opened:
            np.testing.assert_array_equal(opened(inputs)["y"], X.reshape(4, 2))
            assert opened.calls[0].event == event


def test_inputs_are_checked_as_ever(place, model):
    called(model)
    with Session(model, isolated=False) as opened:
        with pytest.raises(InputError, match="axis 1 has size 5, expected 4 as the model says"):
            opened(np.zeros((2, 5), np.float32))
        with pytest.raises(InputError, match="no input 'z'"):
            opened.run({"z": X})
        assert opened.calls == []


# -- damage ----------------------------------------------------------------------------------------


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("suffix", "damage", "words"),
    [
        (".kept", lambda path: flip(path, -1), "the kept program was damaged: its content"),
        (".kept", lambda path: path.write_bytes(b""), "it does not begin as a kept program does"),
        (
            ".weights",
            lambda path: flip(path, 5),
            "its weights were damaged: their sums are other ones",
        ),
        (".weights", lambda path: os.truncate(path, 8), "they have 8 bytes instead of"),
        (".program", lambda path: flip(path, -1), "the entry was damaged"),
    ],
)
def test_damage_is_told_and_mended(
    place, model, suffix: str, damage: Callable[[Path], object], words: str
):
    called(model)
    (path,) = place.files(suffix)
    damage(path)
    with pytest.warns(CacheWarning):
        reason = called(model, cache=place.cache)
    assert reason.startswith("(compiled)")
    assert words in reason
    assert called(model, cache=place.cache).startswith("(started)")


@pytest.mark.parametrize(
    ("suffix", "words"),
    [(".weights", "its weights are gone"), (".program", "its binary is gone")],
)
def test_what_was_pruned_is_made_again(place, model, suffix: str, words: str):
    called(model)
    for path in place.files(suffix):
        path.unlink()
    assert called(model, cache=place.cache).endswith(f"no kept program: {words}")
    assert called(model, cache=place.cache).startswith("(started)")


def test_a_full_disk_is_told_once_and_stops_nothing(place, model, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("explorer.runtime.cache.weights.write_whole", full)
    with pytest.warns(CacheWarning, match="cannot be kept .* No space left"):
        assert called(model).startswith("(compiled)")
    assert place.files(".kept") == []


def test_weights_count_for_the_bound_of_the_folder(place, model):
    called(model)
    sizes = sum(path.stat().st_size for path in place.folder.glob("*.*") if path.suffix != ".json")
    assert place.cache.total_bytes() == sizes
    place.cache.prune(0)
    assert [path.name for path in place.folder.iterdir()] == ["sources.json"]


def test_weights_that_would_fill_the_folder_are_not_kept(place, model):
    small = ProgramCache(place.folder, limit_bytes=100)
    with Session(model, isolated=False, cache=small) as opened:
        opened(X)
    assert place.files(".weights") == []


def test_a_file_that_changed_after_it_was_opened_is_not_compiled(place, tmp_path):
    path = tmp_path / "sized.onnx"
    onnx.save(product("n", 4), str(path))
    called(path)
    with Session(path, isolated=False) as opened:
        onnx.save(product("n", 4, scale=3), str(path))
        np.testing.assert_array_equal(opened(X)["y"], expected())
        with pytest.raises(ModelError, match="the file changed since it was opened"):
            opened(np.zeros((7, 4), np.float32))


# -- start and shipping ----------------------------------------------------------------------------


def test_start_says_whether_something_was_compiled(place, model):
    with start(model, isolated=False) as first:
        assert (first.is_kept, first.why) == (False, "it was not compiled before")
        assert first.not_kept == ""
    with start(model, isolated=False) as second:
        assert (second.is_kept, second.why, second.compilation) == (True, STARTED, None)
        np.testing.assert_array_equal(second.run({"x": X})["y"], expected())
        assert second.executable.profile({"x": X}, 2).events


def test_what_is_made_of_a_file_is_kept_beside_the_file_itself(place, model):
    """As `explorer bench` does with models whose weights are constant."""
    doubled = from_proto(product(2, 4, scale=2.0), "product")
    for is_kept in (False, True):
        source = ModelSource(model, "cpu", {}, place.cache)
        for made, scale in ((source, 1.0), (source.varied("doubled", doubled), 2.0)):
            with start(made.model, source=made, isolated=False) as started:
                assert started.is_kept == is_kept
                np.testing.assert_array_equal(started.run({"x": X})["y"], expected(scale=scale))
    other = source.varied("tripled", from_proto(product(2, 4, scale=3.0), "product"))
    with start(other.model, source=other, isolated=False) as started:
        np.testing.assert_array_equal(started.run({"x": X})["y"], expected(scale=3.0))


def test_a_session_and_start_share_what_is_kept(place, tmp_path):
    path = tmp_path / "sized.onnx"
    onnx.save(product("n", 4), str(path))
    with start(path, isolated=False) as started:  # n is 1 where nobody says it
        assert started.sizes == (("n", 1, 1),)
    assert called(path, X[:1]).startswith("(started)")


def test_taps_of_a_started_program_are_those_of_the_compiled_one(place, model):
    taken = []
    for _ in range(2):
        with start(model, isolated=False) as started:
            taken.append(started.executable.run_with_taps({"x": X})[1])
    assert taken[0].keys() == taken[1].keys()
    for key, value in taken[0].items():
        np.testing.assert_array_equal(value, taken[1][key])


@pytest.fixture
def shipped(place, model, tmp_path) -> Path:
    from explorer.cli import main

    bundle = tmp_path / "product.programs"
    assert main(["cache", "export", str(model), "-o", str(bundle), "--without-source"]) == 0
    return bundle


def test_a_shipped_program_starts_where_there_is_no_compiler(
    place, model, shipped, tmp_path, monkeypatch
):
    monkeypatch.setenv("CC", "/nowhere/cc")
    monkeypatch.setattr("explorer.compilation.compile_model", forbidden)
    cache = open_cache(tmp_path / "another")
    with Session(model, isolated=False, cache=cache, programs=shipped) as opened:
        np.testing.assert_array_equal(opened(X)["y"], expected())
        assert opened.calls[0].event == "started"


def test_a_damaged_shipped_file_is_told_and_the_program_compiled(place, model, shipped):
    content = bytearray(shipped.read_bytes())
    for position in range(0, len(content), 7):
        content[position] ^= 1
    shipped.write_bytes(content)
    with pytest.warns(CacheWarning, match="shipped programs"):
        assert called(model, programs=shipped).startswith("(compiled)")


@pytest.mark.opencl
def test_an_opencl_program_starts_as_well(place, model):
    for is_kept in (False, True):
        with start(model, "opencl") as started:
            assert started.is_kept == is_kept
            np.testing.assert_allclose(started.run({"x": X})["y"], expected(), rtol=1e-6)
