"""What is measured of a core: plausible here, believed where it is clear, kept per processor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.backends.cores import cost_machine_of, known_core
from explorer.cli import main
from explorer.processor import cache_bytes
from explorer.runtime.core_at_hand import SETTING, lanes_at_hand
from explorer.runtime.measuring import (
    Measurement,
    keep,
    measure_core,
    measured_core,
    probes,
    saved_measurement,
)
from explorer.runtime.measuring.load import watching
from explorer.runtime.measuring.saved_measurements import kept_file
from explorer.targets import load_target

CLEAR = Measurement(
    vector_floats=8, clock_hz=3e9, multiply_adds=1.98, multiply_adds_of_half=1.99,
    latency_cycles=4.02, loads=1.96, loads_of_half=1.99, stores=0.98, l1_bytes=60.0, l2_bytes=31.6,
    l3_bytes=14.2, memory_bytes=6.4, launch_seconds=2e-9, claim_seconds=3e-9,
    handover_seconds=5e-8, wake_seconds=4e-6, steal=0.01, others=0.5,
)  # fmt: skip


@pytest.fixture
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    return tmp_path


def test_a_short_measurement_is_plausible(monkeypatch: pytest.MonkeyPatch):
    """Every processor of the last twenty years lies between these bounds."""
    sizes = {**probes.USUAL_CACHES, **cache_bytes(), "l3": 4 << 20}
    monkeypatch.setattr(probes, "cache_bytes", lambda: sizes)
    found = measure_core(16, seconds=0.3)
    assert found.vector_floats == lanes_at_hand()
    assert 0.3e9 < found.clock_hz < 8e9
    for rate in (found.multiply_adds, found.loads, found.stores):
        assert 0.1 < rate < 8
    assert 1.5 < found.latency_cycles < 40
    assert 0.1 < found.memory_bytes < found.l1_bytes * 1.2 < 400
    assert 0 < found.launch_seconds < 1e-5 and 0 < found.claim_seconds < 1e-5
    assert found.steal is None or 0 <= found.steal <= 1


def test_clear_figures_replace_what_the_family_is_known_for():
    core = measured_core(CLEAR).core
    assert (core.arithmetic_units, core.unit_bytes) == (2, 32)
    assert (core.load_units, core.load_bytes, core.store_units) == (2, 32, 1)
    assert core.multiply_add_latency_cycles == 4
    assert core.task_seconds == 5e-8
    caches = {cache.name: cache.bytes_per_cycle for cache in measured_core(CLEAR).caches}
    assert caches == {"l1": 32, "l2": 14, "l3": 6}


def test_long_vectors_that_take_a_unit_twice_are_told_from_fewer_units():
    twice = replace(CLEAR, vector_floats=16, multiply_adds=0.99, multiply_adds_of_half=1.98)
    core = measured_core(twice).core
    assert (core.arithmetic_units, core.unit_bytes) == (2, 32)
    whole = replace(CLEAR, vector_floats=16, multiply_adds=1.99, multiply_adds_of_half=1.98)
    core = measured_core(whole).core
    assert (core.arithmetic_units, core.unit_bytes) == (2, 64)


def test_figures_of_a_disturbed_machine_are_not_believed():
    disturbed = replace(CLEAR, multiply_adds=1.4, multiply_adds_of_half=1.5, latency_cycles=5.4)
    core = measured_core(disturbed).core
    assert core.arithmetic_units is core.unit_bytes is None
    assert core.multiply_add_latency_cycles is None
    assert core.load_units == 2  # what else is clear still counts


def test_a_measurement_is_kept_and_goes_before_the_tables(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(SETTING, raising=False)  # a measurement is of the machine itself
    target = load_target("cpu")
    assert saved_measurement() is None and known_core(target).measured == ()
    three = replace(CLEAR, loads=2.97, loads_of_half=2.98)
    assert keep(three).is_relative_to(empty_folder)
    assert saved_measurement() == three
    core = known_core(target)
    assert core.core.load_units == 3 and "core.load_units" in core.measured
    assert cost_machine_of(core, target, 8).clock_hz == 3e9
    # What a target says goes before it, and another core is none that was measured.
    assert known_core(target.with_(**{"core.load_units": 1})).core.load_units == 1
    assert known_core(target.with_(**{"core.family": "haswell"})).measured == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"measurement": {"loads": 2}}', "\0"])
def test_a_damaged_file_is_none(empty_folder: Path, text: str):
    keep(CLEAR)
    path = kept_file()
    assert path is not None
    path.write_text(text)
    assert saved_measurement() is None


def test_steal_is_told_of_the_time_in_between(tmp_path: Path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 1000 0 0 0 10 0 0\ncpu0 1 2 3\n")
    with watching(stat) as load:
        stat.write_text("cpu  160 0 60 1020 0 0 0 20 0 0\ncpu0 1 2 3\n")
    assert load.steal == pytest.approx(0.1)
    assert load.others is not None and 0.6 <= load.others <= 0.7
    with watching(tmp_path / "nothing") as load:
        pass
    assert load.steal is None and load.others is None


def test_the_command_measures_keeps_and_prints(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("explorer.runtime.measuring.measure_core", lambda registers: CLEAR)
    monkeypatch.setattr("explorer.devices", lambda: [])
    assert main(["devices", "--measure"]) == 0
    printed = capsys.readouterr().out
    assert "48 GFLOP/s" not in printed and "95.0 GFLOP/s" in printed
    assert "taken away (steal) 1 %" in printed
    assert "load_units" in printed and "measured" in printed
    assert saved_measurement() == CLEAR
