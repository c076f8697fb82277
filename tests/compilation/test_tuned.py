"""Tuned schedules in compilations: used where they fit exactly, and never against a person."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest
from xdsl.dialects.builtin import StringAttr

import explorer
from explorer.compilation import Compilation
from explorer.compilation.settings.tuned import schedules_for, tuned_store
from explorer.errors import CacheWarning
from explorer.kernels.passes import ScheduleLoops
from explorer.kernels.schedules.workload import workload_digest
from explorer.runtime.cache.tuned import TunedEntry
from explorer.targets import load_target

sources = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "source_models.py")))

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
KERNEL = "conv_3x3_2"
TARGET = load_target("cpu", {"vector_floats": 16, "core.family": "neoverse_v1"})
"""A core that multiplies what the definition says, whichever machine this is."""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    return tmp_path / "programs"


def digest_of(compilation: Compilation, kernel: str) -> str:
    (scheduling,) = [p for p in compilation.pipeline if isinstance(p, ScheduleLoops)]
    scheduled = compilation._scheduled[kernel]
    return workload_digest(scheduled.steps[0].origin, scheduled.given_packs, scheduling.machine)


def keep(compilation: Compilation, choices: dict, kernel: str = KERNEL, threads: int = 1) -> None:
    found = schedules_for(compilation.target, compilation.device, threads)
    assert found is not None
    key = found.key(digest_of(compilation, kernel))
    tuned_store().keep(
        TunedEntry(
            key=key, kernel=kernel, choices=tuple(choices.items()), tuned_us=41.2, default_us=48.0
        )
    )


def test_a_kept_schedule_is_used_and_says_what_was_measured():
    plain = explorer.compile(MODEL, TARGET)
    keep(plain, {"pixels": 2})

    tuned = explorer.compile(MODEL, TARGET)

    assert tuned.schedule[KERNEL]["pixels"] == 2
    address = f"schedule-loops/{KERNEL}/pixels"
    why = next(knob.why for knob in tuned.knobs if knob.address == address)
    own = plain.schedule[KERNEL]["pixels"]
    assert own != 2 and why.startswith(f"tuned: 41.2 µs against 48.0; by itself it would be {own}")
    others = [name for name in plain.schedule if name != KERNEL]
    assert {n: tuned.schedule[n] for n in others} == {n: plain.schedule[n] for n in others}
    assert plain.accuracy().passed
    assert tuned.accuracy().passed


def test_without_tuned_schedules_the_default_stays():
    plain = explorer.compile(MODEL, TARGET)
    keep(plain, {"pixels": 2})
    assert explorer.compile(MODEL, TARGET, tuned=False).program == plain.program
    # It was measured with one thread: that says nothing of two.
    assert explorer.compile(MODEL, TARGET, tuned_threads=2).program == plain.program


def test_what_a_person_decides_goes_before_what_was_tuned():
    plain = explorer.compile(MODEL, TARGET)
    keep(plain, {"pixels": 2})
    tuned = explorer.compile(MODEL, TARGET)
    decided = {KERNEL: {"rows": 1, "vectors": 1}}
    forked = tuned.fork(schedule=decided)
    assert forked.schedule[KERNEL] == plain.fork(schedule=decided).schedule[KERNEL]
    assert forked.schedule[KERNEL]["pixels"] != 2
    assert tuned.fork(schedule={KERNEL: {"pixels": 2}}).schedule == tuned.schedule
    assert forked.fork(schedule={KERNEL: None}).schedule == tuned.schedule


def test_a_fork_takes_up_what_was_tuned_in_between():
    plain = explorer.compile(MODEL, TARGET)
    keep(plain, {"pixels": 2})
    assert plain.fork().schedule[KERNEL]["pixels"] == 2


def test_choices_that_are_not_legal_are_declined_with_the_reason():
    plain = explorer.compile(MODEL, TARGET)
    keep(plain, {"pixels": 99})
    compiled = explorer.compile(MODEL, TARGET)
    assert compiled.schedule == plain.schedule
    declined = [e for e in compiled["schedule-loops"].events if e.rule == "tuned"]
    assert "pixels = 99; 1 to 8 are legal" in declined[0].reason


def test_a_damaged_entry_is_told_and_the_default_is_used(empty_cache):
    plain = explorer.compile(MODEL, TARGET)
    keep(plain, {"pixels": 2})
    (path,) = empty_cache.glob("*.tuned")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(CacheWarning, match="is dropped"):
        compiled = explorer.compile(MODEL, TARGET)
    assert compiled.schedule == plain.schedule


def convolution(tmp_path: Path, channels: int, size: int, strides: int) -> Compilation:
    text = f"""
    net (float[1,{channels},{size},{size}] x) => (float[1,16,N,N] y)
    <float[16,{channels},3,3] w> {{
        y = Conv <kernel_shape = [3,3], strides = [{strides},{strides}]> (x, w)
    }}
    """
    return explorer.compile(sources.source_model(tmp_path, text), TARGET)


def test_layers_that_differ_in_input_channels_or_stride_have_keys_of_their_own(tmp_path):
    # All of them have 16 channels of 8 x 8 pixels as their output.
    cases = [(16, 10, 1), (32, 10, 1), (16, 17, 2)]
    digests = []
    for number, (channels, size, strides) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        compiled = convolution(folder, channels, size, strides)
        names = [name for name in compiled.schedule if name.startswith("conv")]
        digests.append(digest_of(compiled, names[0]))
    assert len(set(digests)) == len(cases)


def test_equal_layers_of_other_models_share_a_key_whatever_they_are_called():
    compiled = explorer.compile(MODEL, TARGET)
    scheduled = compiled._scheduled[KERNEL]
    other = scheduled.steps[0].origin.clone()
    other.properties["sym_name"] = StringAttr("another")
    (scheduling,) = [p for p in compiled.pipeline if isinstance(p, ScheduleLoops)]
    machine = scheduling.machine
    same = workload_digest(other, scheduled.given_packs, machine)
    assert same == digest_of(compiled, KERNEL)
    assert workload_digest(other, {}, machine) != same  # another layout
    narrow = replace(machine, vector_floats=8)
    assert workload_digest(other, scheduled.given_packs, narrow) != same
