"""A search of machines: fields, points, the front, and a sweep that goes on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer.cli import main
from explorer.errors import InputError
from explorer.results.encoding import from_json, to_json
from explorer.results.sweep import MachinePoint, MachineSweep, ModelOnMachine, SkippedMachine
from explorer.targets import load_target
from explorer.tuning import machines
from explorer.tuning.machines import Varied, parse_field, sweep_machines

MODEL = Path(__file__).resolve().parents[2] / "sample_models" / "roundings_int8.tflite"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("engines.matrix.rows=8", (8,)),
        ("engines.matrix.rows=8, 16,32", (8, 16, 32)),
        ("memories.buffers.size_bytes=16KiB..100KiB", (16384, 32768, 65536)),
        ("memories.sram.bytes_per_second=1e9,0.5e9", (1e9, 5e8)),
        ("requantization.rounding=nearest_up", ("nearest_up",)),
        ("a.b=1MB,1MiB", (1_000_000, 1_048_576)),
    ],
)
def test_fields_with_values(text, values):
    assert parse_field(text).values == values


@pytest.mark.parametrize(
    "text",
    ["rows=8", "a.b", "a.b=", "a.b=8,8", "a.b=8..4", "a.b=0..4", "a.b=x..y", "a.b=nan", "a.b=-inf",
     "a.b=1e999", "a..b=1", "=3", "a.b=8 KiB"],
)  # fmt: skip
def test_fields_that_are_none_are_refused(text):
    with pytest.raises(InputError):
        parse_field(text)


def point(cycles: int, traffic: int, size: int, units: int, energy: float | None) -> MachinePoint:
    model = ModelOnMachine(
        model="m",
        cycles=cycles,
        seconds=cycles / 1e6,
        traffic_bytes=traffic,
        macs=1,
        utilization=0.5,
        energy_picojoules=energy,
        elsewhere=0,
    )
    return MachinePoint(
        fields=(("a.b", cycles),), scratchpad_bytes=size, mac_units=units, models=(model,)
    )


def test_the_front_is_what_no_other_machine_is_better_than():
    points = (
        point(10, 5, 5, 5, 1.0),
        point(10, 5, 5, 5, 1.0),  # as good in all: neither is better
        point(11, 5, 5, 5, 1.0),
        point(20, 9, 1, 9, 9.0),
        point(20, 9, 1, 9, None),
    )
    sweep = MachineSweep(base="b", models=("m",), points=points[:4], skipped=())
    assert sweep.front == (0, 1, 3)
    unknown = replace(sweep, points=points)  # energy counts for none
    assert unknown.front == (0, 1, 3, 4)
    assert replace(sweep, points=()).front == ()
    assert "bytes of scratchpads upwards" in sweep.to_html()
    front = re.search("<th style=.*?>", sweep.to_html())
    assert front and "min-width" not in front.group(), "a column of marks is as wide as a mark"
    alike = tuple(replace(p, scratchpad_bytes=5) for p in points[:4])
    assert "multipliers upwards" in replace(sweep, points=alike).to_html()
    assert from_json(MachineSweep, to_json(sweep)) == sweep


# Two seconds: three machines are compiled for and simulated.
def test_points_are_what_the_compiler_and_the_simulator_say(tmp_path: Path):
    varied = [parse_field("engines.matrix.rows=8"), parse_field("engines.matrix.columns=8,7")]
    found = sweep_machines([str(MODEL)], "tiny-8", varied, jobs=1, journal=tmp_path / "j")
    assert len(found.points) + len(found.skipped) == 2
    plain = explorer.compile(MODEL, load_target("tiny-8", {"engines.matrix.rows": 8}))
    plain.run(plain.example_inputs())
    same = next(p for p in found.points if dict(p.fields)["engines.matrix.columns"] == 8)
    assert plain.counted is not None
    assert (same.cycles, same.traffic_bytes) == (plain.counted.cycles, plain.counted.bytes)
    assert "machine" in str(found) and "roundings_int8" in found.to_html()


def test_an_interrupted_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    journal = tmp_path / "front.json.journal"
    seen: list[int] = []

    def measured(models, base, fields, quantization):
        seen.append(dict(fields)["engines.matrix.rows"])
        if len(seen) == 3:
            raise KeyboardInterrupt
        return replace(point(7, 7, 7, 7, None), fields=fields)

    monkeypatch.setattr(machines, "measured", measured)
    varied = [Varied("engines.matrix.rows", (4, 8, 16, 32))]
    with pytest.raises(KeyboardInterrupt):
        sweep_machines([MODEL], "tiny-8", varied, jobs=1, journal=journal)
    with journal.open("a") as file:
        file.write('{"fields": [["engines.matr')  # cut off in the middle of a line
    found = sweep_machines([MODEL], "tiny-8", varied, jobs=1, journal=journal)
    assert seen == [4, 8, 16, 16, 32] and len(found.points) == 4
    with pytest.raises(InputError, match="another sweep"):
        sweep_machines([MODEL], "mac-128", varied, jobs=1, journal=journal)


def test_several_targets_are_one_table(monkeypatch: pytest.MonkeyPatch):
    def measured(models, base, fields, quantization):
        cycles, clock = {"tiny-8": (10, 1e6), "mac-128": (20, 4e6)}[dict(fields)["target"]]
        found = point(cycles, 7, 7, 7, 1.0)
        model = replace(found.models[0], seconds=cycles / clock)
        return replace(found, fields=fields, models=(model,))

    real = machines.measured
    monkeypatch.setattr(machines, "measured", measured)
    found = sweep_machines([MODEL], ["tiny-8", "mac-128"], jobs=1)
    assert [p.fields for p in found.points] == [(("target", "tiny-8"),), (("target", "mac-128"),)]
    assert found.base == "tiny-8, mac-128"
    assert found.front == (1,), "more cycles, and less time at its clock"
    text = str(found)
    assert "target=mac-128" in text and "5 µs" in text
    slow = [replace(p, models=(replace(p.models[0], seconds=None),)) for p in found.points]
    assert replace(found, points=tuple(slow)).front == (0,), "cycles count without a clock"
    for names, words in (
        (["tiny-8"], "several targets"),
        (["tiny-8"] * 2, "named twice"),
        ([], "several targets"),
    ):
        with pytest.raises(InputError, match=words):
            sweep_machines([MODEL], names, jobs=1)
    other = real([MODEL], "tiny-8", (("target", "odd-12x20"),), None)
    assert isinstance(other, machines.MachinePoint)
    assert other.mac_units == 3 * 12 * 20
    assert other.seconds == pytest.approx(other.cycles / 333e6)


def test_contradictory_fields_are_skipped_with_the_reason():
    fields = (("engines.matrix.rows", 8), ("engines.matrix.columns", 0))
    found = machines.measured([MODEL], "tiny-8", fields, None)
    assert isinstance(found, SkippedMachine) and "columns" in found.reason


@pytest.mark.parametrize(
    ("base", "field", "words"),
    [
        ("cpu", "memories.arena.size_bytes=64", "no machine that is simulated"),
        ("tiny-8", "engines.matrix.rowz=8", "rowz"),
        ("tiny-9", "engines.matrix.rows=8", "tiny-9"),
        ("tiny-8", "engines.matrix.rows=1..100000000", "machines"),
    ],
)
def test_mistakes_are_named_before_anything_is_compiled(base, field, words, tmp_path: Path, capsys):
    many = [] if "100000000" not in field else ["--vary", "engines.matrix.columns=1..100000000",
            "--vary", "engines.vector.lanes=1..100000000"]  # fmt: skip
    output = tmp_path / "front.json"
    arguments = ["sweep", str(MODEL), "--target", base, "--vary", field, *many, "-o", str(output)]
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert not output.exists()


def test_the_command_writes_the_front(tmp_path: Path, monkeypatch, capsys):
    def measured(models, base, fields, quantization):
        rows = dict(fields)["engines.matrix.rows"]
        return replace(point(100 // rows, 7, rows, rows, None), fields=fields)

    monkeypatch.setattr(machines, "measured", measured)
    output = tmp_path / "front.json"
    arguments = ["sweep", str(MODEL), "--target", "tiny-8", "--vary", "engines.matrix.rows=4,8"]
    assert main([*arguments, "--jobs", "1", "-o", str(output), "--json"]) == 0
    data = json.loads(output.read_text())
    assert data == json.loads(capsys.readouterr().out)
    assert data["front"] == [0, 1] and data["points"][0]["label"] == "engines.matrix.rows=4"
    assert not (tmp_path / "front.json.journal").exists()
