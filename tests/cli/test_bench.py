"""`explorer bench`: what is timed, in which order, and what the figures mean."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from explorer.cli.bench import bound_caller
from explorer.cli.latency import open_vino
from explorer.cli.latency.open_vino import VERSION, environment, environment_folder
from explorer.compilation.measurements import rounds
from explorer.compilation.measurements.rounds import Calls, Timings, run_interleaved
from explorer.errors import DeviceError
from explorer.references import timing
from explorer.references.timing import time_calls

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
has_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system binds no threads"
)
has_openvino = environment_folder().is_dir()


@pytest.fixture
def mlp() -> Path:
    return SAMPLES / "digits_mlp.onnx"


def test_bench_compares_whole_calls(explorer_command, mlp):
    finished = explorer_command(
        "bench", mlp, "--against", "onnxruntime", "--threads", "1", "--repeats", "10", "--json"
    )

    assert finished.status == 0, finished.errors
    summary = json.loads(finished.output)
    assert set(summary) == {"model", "target", "threads", "ours_ms", "launches_ms", "peers"}
    peer = summary["peers"]["onnxruntime"]
    assert set(peer) == {"ms", "ratio", "noise"}
    assert min(summary["ours_ms"], summary["launches_ms"], peer["ms"], peer["ratio"]) > 0
    assert peer["noise"] >= 1


@pytest.mark.skipif(not has_openvino, reason="the environment of OpenVINO was not made here")
def test_bench_compares_with_openvino_in_its_own_process(explorer_command, mlp):
    finished = explorer_command("bench", mlp, "--against", "openvino", "--repeats", "3", "--json")

    assert finished.status == 0, finished.errors
    assert set(json.loads(finished.output)["peers"]) == {"openvino"}


def test_an_environment_that_is_missing_or_incomplete_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(open_vino, "cache_folder", lambda: tmp_path / "programs")
    folder = environment_folder()
    for made in ((), ("bin",)):  # nothing, then an interpreter without the package
        for name in made:
            (folder / name).mkdir(parents=True)
            (folder / name / "python").touch()
        with pytest.raises(DeviceError, match="no environment") as refusal:
            environment()
        assert f"-m venv {folder}" in refusal.value.hint
        assert f"pip install openvino=={VERSION}" in refusal.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--against", "nothing"), "no peer 'nothing'; there are reference, onnxruntime"),
        (("--against", "opencv"), "opencv runs no onnx models"),
        (("--affinity", "0,x"), "expected a whole number of 0 or more: 'x'"),
        pytest.param(
            ("--affinity", "999999"), "may not run on processor 999999", marks=has_affinity
        ),
        pytest.param(
            ("--threads", "2", "--affinity", "0"), "1 processors for 2 threads", marks=has_affinity
        ),
    ],
)
def test_bench_refuses(explorer_command, mlp, arguments, message):
    finished = explorer_command("bench", mlp, *arguments)

    assert finished.status == 2
    assert message in finished.errors


@has_affinity
def test_the_callers_thread_is_bound_only_inside():
    before = os.sched_getaffinity(0)
    chosen = max(before)
    with bound_caller((chosen,)):
        assert os.sched_getaffinity(0) == {chosen}
    assert os.sched_getaffinity(0) == before


@has_affinity
def test_run_takes_threads_and_their_processors(explorer_command, mlp, tmp_path):
    given, answer = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, image=np.ones((1, 1, 8, 8), np.float32))
    processors = sorted(os.sched_getaffinity(0))[:2]
    options = ["--threads", str(len(processors)), "--affinity", ",".join(map(str, processors))]

    finished = explorer_command("run", mlp, "--input", given, "--output", answer, *options)

    assert finished.status == 0, finished.errors
    with np.load(answer) as outputs:
        assert outputs["logits"].shape == (1, 10)


def test_a_ratio_is_that_within_a_round():
    """The machine halves its clock after the first round: both take twice as long."""
    timings = Timings({"ours": ((2.0,), (4.0,)), "peer": ((4.0,), (8.0,))})

    assert timings.ratio("ours", "peer") == 0.5
    assert timings.noise("ours", "peer") == 1.0
    assert timings.milliseconds("ours") == 3000


def test_noise_is_the_ratio_of_every_other_round_to_the_rest():
    timings = Timings({"ours": ((1.0,), (1.2,)) * 3, "peer": ((1.0,),) * 6})

    assert timings.noise("ours", "peer") == pytest.approx(1.2)
    assert Timings({"ours": ((1.0,),), "peer": ((2.0,),)}).noise("ours", "peer") == 1.0


def test_every_round_begins_with_another_side(monkeypatch):
    monkeypatch.setattr(rounds, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(rounds, "BUDGET_SECONDS", 0.0)
    monkeypatch.setattr(timing, "WARM_UP_SECONDS", 0.0)
    order: list[str] = []
    sides = [Calls(name, lambda name=name: order.append(name)) for name in "abc"]

    timings = run_interleaved(sides, 3)

    turns = [name for before, name in zip(["", *order], order, strict=False) if name != before]
    assert turns == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert {len(found) for found in timings.rounds.values()} == {3}


def test_calls_are_repeated_until_the_budget_is_spent(monkeypatch):
    monkeypatch.setattr(timing, "WARM_UP_SECONDS", 0.0)
    calls: list[None] = []

    assert len(time_calls(lambda: calls.append(None), 5, 0.0)) == 5
    assert len(calls) == 6  # one is not counted
    assert len(time_calls(lambda: None, 5, 60.0)) == timing.MAX_CALLS
