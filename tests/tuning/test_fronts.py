"""The file of a sweep next to one of its models: what fits, and what is refused by name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.cli import main
from explorer.errors import InputError
from explorer.importers.samples import sample
from explorer.results.encoding import to_json
from explorer.results.sweep import MachinePoint, MachineSweep, ModelOnMachine, SkippedMachine
from explorer.tuning.fronts import PAGE_BYTES, read_front
from explorer.views.catalog.sweep import VIEW
from explorer.views.specification import Beside, ChartSpec, TableSpec

ROWS, SIZE = "engines.matrix.rows", "memories.buffers.size_bytes"


def point(cycles: int, models: tuple[str, ...] = ("net",), **fields: int | str) -> MachinePoint:
    each = [
        ModelOnMachine(
            model=model, cycles=cycles, seconds=None, traffic_bytes=8, macs=1, utilization=0.5,
            energy_picojoules=None, elsewhere=0,
        )
        for model in models
    ]  # fmt: skip
    named = tuple((name.replace("__", "."), value) for name, value in fields.items())
    return MachinePoint(fields=named, scratchpad_bytes=cycles, mac_units=64, models=tuple(each))


def sweep(*points: MachinePoint, base: str = "mac-128") -> MachineSweep:
    skipped = SkippedMachine(fields=((ROWS, 5),), reason="odd")
    return MachineSweep(base=base, models=("net",), points=points, skipped=(skipped,))


TWO = sweep(point(9, engines__matrix__rows=16), point(4, engines__matrix__rows=8))
OF_TARGETS = sweep(point(9, target="mac-128"), point(4, target="tiny-8"), base="mac-128, tiny-8")


def written(folder: Path, found: MachineSweep, change: Callable[[Any], object] | None = None):
    data = {**to_json(found), "front": list(found.front)}
    for record in data["points"]:
        record["label"] = "as the command writes it"
    if change is not None:
        change(data)
    path = folder / "front.json"
    path.write_text(json.dumps(data))
    return path


def test_a_sweep_is_read_as_it_was_written(tmp_path: Path):
    assert read_front(written(tmp_path, TWO), "net", "mac-128") == TWO
    assert read_front(written(tmp_path, OF_TARGETS), "net", "tiny-8") == OF_TARGETS


def first_field(value: object) -> Callable[[Any], object]:
    return lambda data: data["points"][0]["fields"][0].__setitem__(1, value)


def first_model(**numbers: float) -> Callable[[Any], object]:
    return lambda data: data["points"][0]["models"][0].update(numbers)


@pytest.mark.parametrize(
    ("found", "change", "words"),
    [
        (TWO, lambda d: d.update(models=["other"]), "the sweep is of other, not of net"),
        (TWO, lambda d: d.update(base="tiny-8"), "the sweep varies tiny-8, not mac-128"),
        (
            TWO,
            lambda d: d["points"][1]["models"][0].update(model="other"),
            f"the point {ROWS}=8 is of other, and the sweep of net",
        ),
        (TWO, lambda d: d["points"][0].update(models=[]), "is of none, and the sweep of net"),
        (OF_TARGETS, first_field("edge-64"), "the point target=edge-64 is of the target edge-64"),
        (TWO, first_field(-3), f"the point {ROWS}=-3: "),
        (
            TWO,
            lambda d: d["points"][0]["fields"][0].__setitem__(0, "engines.nothing.rows"),
            "engines.nothing is not there",
        ),
        (TWO, lambda d: d.update(points=[]), "no machine that runs its models"),
        (TWO, lambda d: d.update(points=3), "no result of a sweep"),
        (TWO, lambda d: d.update(points=[[]]), "no result of a sweep"),
        (TWO, lambda d: d.pop("skipped"), "no result of a sweep"),
        (TWO, lambda d: d.update(more=1), "no result of a sweep"),
        (TWO, first_model(seconds=math.inf), "Infinity is no finite number"),
        (TWO, first_model(energy_picojoules=-math.inf), "-Infinity is no finite number"),
        (TWO, first_model(utilization=math.nan), "NaN is no finite number"),
        (TWO, first_field(math.nan), "NaN is no finite number"),
        (TWO, first_model(seconds=10**400), "no result of a sweep"),
        (TWO, first_model(cycles=-1), "cycles is -1, expected 0 to"),
        (TWO, first_model(traffic_bytes=-8), "traffic_bytes is -8"),
        (TWO, first_model(macs=2**63), "macs is 9223372036854775808"),
        (TWO, first_model(elsewhere=-1), "elsewhere is -1"),
        (TWO, first_model(seconds=-1e-9), "seconds is -1e-09"),
        (TWO, lambda d: d["points"][1].update(scratchpad_bytes=-1), "scratchpad_bytes is -1"),
        (TWO, lambda d: d["points"][1].update(mac_units=10**400), "mac_units is 1000"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, found: MachineSweep, change: Callable[[Any], object], words: str
):
    path = written(tmp_path, found, change)
    with pytest.raises(InputError, match=words) as refused:
        read_front(path, "net", "mac-128")
    assert refused.value.file == str(path)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "\udcff", "[" * 100_000])
def test_files_of_other_forms_are_refused(tmp_path: Path, text: str):
    path = tmp_path / "front.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="no result of a sweep"):
        read_front(path, "net", "mac-128")


def test_a_number_that_overflows_is_refused_and_ends_of_ranges_are_not(tmp_path: Path):
    path = written(tmp_path, TWO)
    path.write_text(path.read_text().replace('"utilization": 0.5', '"utilization": 1e400'))
    with pytest.raises(InputError, match="1e400 is no finite number"):
        read_front(path, "net", "mac-128")
    for number in (0, 2**63 - 1):
        counts = first_model(cycles=number, seconds=0.0, macs=number, traffic_bytes=number)
        path = written(tmp_path, TWO, counts)
        found = read_front(path, "net", "mac-128")
        trace = explorer.compile(sample("digits_mlp")).trace().with_part("sweep", found)
        assert VIEW.specification is not None and VIEW.specification(trace, -1).parts


def test_a_page_reads_smaller_files_than_the_command(tmp_path: Path):
    path = written(tmp_path, TWO)
    text = path.read_text()
    path.write_text(text + " " * (PAGE_BYTES - len(text)))
    assert read_front(path, "net", "mac-128", PAGE_BYTES) == TWO
    path.write_text(text + " " * (PAGE_BYTES + 1 - len(text)))
    with pytest.raises(InputError, match="larger than 512 KiB") as refused:
        read_front(path, "net", "mac-128", PAGE_BYTES)
    assert "--front" in (refused.value.hint or "")
    assert read_front(path, "net", "mac-128") == TWO


def test_the_command_refuses_before_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path, TWO)
    model = str(sample("digits_mlp"))
    assert main(["serve", model, "--target", "mac-128", "--front", str(path)]) == 2
    assert "the sweep is of net, not of digits_mlp" in capsys.readouterr().err
    assert main(["serve", model, "--front", str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_every_machine_opens_as_a_fork_of_its_own():
    trace = explorer.compile(sample("digits_mlp")).trace()
    assert VIEW.specification is not None
    shown = VIEW.specification(trace.with_part("sweep", OF_TARGETS), -1)
    (pair, skipped) = shown.parts
    assert isinstance(pair, Beside) and isinstance(skipped, TableSpec)
    chart, table = pair.parts
    assert isinstance(table, TableSpec) and isinstance(chart, ChartSpec)
    offered = [row.action and dict(row.action.decisions) for row in table.rows]
    assert offered == [{"target": "tiny-8"}, {"target": "mac-128"}]
    assert {row.id for row in table.rows} <= {getattr(mark, "id", "") for mark in chart.marks}
    one = VIEW.specification(trace.with_part("sweep", TWO), -1).parts[0]
    assert isinstance(one, Beside) and isinstance(one.parts[1], TableSpec)
    actions = [row.action for row in one.parts[1].rows]
    assert [a and a.replaces for a in actions] == ["target/"] * 2
    assert actions[0] and dict(actions[0].decisions) == {"target": "mac-128", f"target/{ROWS}": 8}


def test_a_part_is_added_and_the_others_stay_to_be_made():
    trace = explorer.compile(sample("digits_mlp")).trace()
    with_front = trace.with_part("sweep", TWO)
    assert set(with_front.parts) == {*trace.parts, "sweep"}
    assert with_front.part("sweep", MachineSweep) is TWO
    assert with_front.parts["weights"] is trace.parts["weights"]
