"""`explorer cache`: what a person sees of the compiled programs."""

import json
from pathlib import Path

import numpy as np
import pytest

from explorer.cli import main
from explorer.runtime.cache.tuned import TunedEntry, TunedKey, TunedStore


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, which the environment names."""
    folder = tmp_path / "programs"
    monkeypatch.setenv("EXPLORER_CACHE", str(folder))
    return folder


def test_a_program_is_missing_until_it_was_built_and_listed_then(
    sample_models: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = str(sample_models / "digits_mlp.onnx")
    assert main(["cache", "explain", model]) == 1
    assert "would be built: it was not compiled before" in capsys.readouterr().out
    assert main(["bench", model, "--repeats", "2", "--threads", "1"]) == 0
    assert main(["cache", "explain", model]) == 0
    capsys.readouterr()
    assert main(["cache", "list"]) == 0
    listed = capsys.readouterr().out
    assert "digits_mlp" in listed
    assert "1 programs" in listed
    assert main(["cache", "list", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["language"] == "c"
    path = Path(entry["path"])
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["cache", "verify"]) == 1
    assert "does not fit its seal" in capsys.readouterr().out
    assert main(["cache", "verify", "--repair"]) == 0
    assert not path.exists()


def test_an_exported_program_is_used_by_whoever_gets_it(
    sample_models: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    import explorer
    from explorer.runtime.cache import ProgramCache

    model = sample_models / "digits_mlp.onnx"
    bundle = tmp_path / "digits.programs"
    assert main(["cache", "export", str(model), "-o", str(bundle), "--without-source"]) == 0
    assert b"digits" not in bundle.read_bytes()
    cache = ProgramCache(None, shipped=[bundle])
    explorer.compile(model).open(cache=cache).close()
    assert cache.counts["shipped"] == 1


def test_pruning_takes_a_size(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["cache", "prune", "--most", "0"]) == 0
    assert "0 dropped, 0 stay" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["cache", "prune", "--most", "much"])
    assert "expected a size such as 200MB" in capsys.readouterr().err


def test_a_cache_that_is_off_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("EXPLORER_CACHE", "off")
    assert main(["cache", "list"]) == 2
    assert "EXPLORER_CACHE=off" in capsys.readouterr().err


def test_tuned_schedules_are_listed_verified_and_dropped_when_damaged(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    folder.mkdir(mode=0o700)
    key = TunedKey(
        workload="3f" * 32,
        target="cpu",
        device="AMD",
        threads=2,
        compiler="gcc 12.2.0",
        generator="a" * 16,
    )
    path = TunedStore(folder).keep(
        TunedEntry(
            key=key, kernel="conv_1", choices=(("pixels", 7),), tuned_us=41.2, default_us=48.0
        )
    )
    assert path is not None
    assert main(["cache", "list"]) == 0
    listed = capsys.readouterr().out
    assert "tuned   conv_1  41.2 µs against 48.0, 2 thread(s), cpu" in listed
    assert "and 1 tuned schedules" in listed
    assert main(["cache", "list", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["tuned"]
    assert entry["choices"] == [["pixels", 7]]

    path.write_bytes(path.read_bytes()[:-1])
    assert main(["cache", "verify"]) == 1
    assert f"{path.name}: its content does not fit its seal" in capsys.readouterr().out
    assert path.exists()
    assert main(["cache", "verify", "--repair"]) == 0
    assert not path.exists()


def test_what_was_run_once_is_run_again_without_compiling(
    sample_models: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    package = tmp_path / "package"  # in the place of sources that may be edited meanwhile
    package.mkdir()
    monkeypatch.setattr("explorer.runtime.cache.environment.PACKAGE", package)
    model = str(sample_models / "digits_mlp.onnx")
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, image=np.random.default_rng(0).random((2, 1, 8, 8), dtype=np.float32))
    outputs = []
    for name in ("first.npz", "second.npz"):
        command = ["run", model, "--input", str(inputs), "--output", str(tmp_path / name)]
        assert main(command) == 0, capsys.readouterr().err
        outputs.append(np.load(tmp_path / name)["logits"])
        monkeypatch.setattr("explorer.compilation.compile_model", None)
    np.testing.assert_array_equal(*outputs)
    capsys.readouterr()
    assert main(["cache", "explain", model, "--dim", "batch=2"]) == 0
    assert "is kept, and starts without compiling" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
    listed = capsys.readouterr().out
    assert "1 programs, 1 of them finished" in listed
    assert "digits_mlp batch=2  cpu" in listed
    assert main(["cache", "list", "--json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)["kept"]
    assert kept["sizes"] == {"batch": "2"}
    weights = folder / (kept["weights"] + ".weights")
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert main(["cache", "verify"]) == 1
    assert f"{weights.name}: its digest is another one" in capsys.readouterr().out
    assert main(["cache", "verify", "--repair"]) == 0
    assert not weights.exists()
    assert main(["cache", "prune", "--most", "0"]) == 0
    assert "0 stay" in capsys.readouterr().out
