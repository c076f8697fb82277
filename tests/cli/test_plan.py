"""`explorer plan`: tables in, offsets out, and what is refused."""

import csv
import json
from pathlib import Path

import pytest

from explorer.cli import main

TABLE = "id,lower,upper,size\na,0,20,4\nb,10,30,2\nc,20,40,4\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "net.csv"
    path.write_text(TABLE)
    return path


def test_json_has_offsets_in_the_order_of_the_file(table: Path, capsys):
    assert main(["plan", str(table), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [
        "peak", "lower_bound", "optimal", "seconds", "nodes", "planner", "offsets",
    ]  # fmt: skip
    assert (found["peak"], found["lower_bound"], found["optimal"]) == (6, 6, True)
    assert found["offsets"] == [0, 4, 0] and found["planner"] == "exact"


def test_the_table_comes_back_with_offsets_and_may_be_planned_again(table: Path, tmp_path: Path):
    written = tmp_path / "out.csv"
    assert main(["plan", str(table), "-o", str(written)]) == 0
    rows = list(csv.DictReader(written.open()))
    assert [(r["id"], r["lower"], r["upper"]) for r in rows] == [
        ("a", "0", "20"), ("b", "10", "30"), ("c", "20", "40"),
    ]  # fmt: skip
    assert main(["plan", str(written), "--capacity", "6"]) == 0  # all of them fixed


def test_alignments_and_fixed_offsets_are_kept(tmp_path: Path, capsys):
    path = tmp_path / "net.csv"
    path.write_text("id,lower,upper,size,alignment,offset\na,0,2,3,1,\nb,1,3,5,8,\nc,0,3,2,2,4\n")
    assert main(["plan", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["offsets"] == [0, 8, 4]


def test_a_capacity_that_is_not_met_is_status_1(table: Path, capsys):
    assert main(["plan", str(table), "--capacity", "5"]) == 1
    assert "1 bytes more than the capacity of 5" in capsys.readouterr().out
    assert main(["plan", str(table), "--capacity", "5", "--planner", "no-sharing"]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,lower,upper\na,0,1\n", "no column size"),
        ("id,lower,upper,size\na,2,2,4\n", "line 2 is no buffer"),
        ("id,lower,upper,size\na,3,2,4\n", "line 2 is no buffer"),
        ("id,lower,upper,size\na,0,2,-4\n", "line 2 is no buffer"),
        ("id,lower,upper,size\na,0,2,4.5\n", "line 2 is no buffer"),
        ("id,lower,upper,size\na,0,2\n", "line 2 is no buffer"),
        ("id,lower,upper,size\na,0,2,4,9\n", "line 2 is no buffer"),
        ("id,lower,upper,size,alignment\na,0,2,4,0\n", "line 2 is no buffer"),
        (f"id,lower,upper,size\na,0,2,{2**62}\nb,0,2,{2**62}\n", "exceed 62 bits"),
        ("id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,2\n", "collide"),
        ("id,lower,upper,size\na,0,2,\udc80\n", "line 2 is no buffer"),
    ],
)
def test_what_is_no_table_is_named_and_nothing_is_written(
    content: str, message: str, tmp_path: Path, capsys
):
    path, output = tmp_path / "bad.csv", tmp_path / "out.csv"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert main(["plan", str(path), "-o", str(output)]) == 2
    found = capsys.readouterr().err
    assert "bad.csv" in found and (message in found or "not a readable table" in found)
    assert not output.exists()


def test_a_capacity_below_the_largest_buffer_is_refused(table: Path, capsys):
    assert main(["plan", str(table), "--capacity", "3"]) == 2
    assert "buffer 'a' of 4 bytes is larger than the capacity of 3" in capsys.readouterr().err


def test_no_rows_are_no_bytes(tmp_path: Path, capsys):
    path = tmp_path / "none.csv"
    path.write_text("id,lower,upper,size\n")
    assert main(["plan", str(path)]) == 0
    assert "peak 0 bytes of 0 buffers, optimal" in capsys.readouterr().out


@pytest.mark.parametrize(
    "planner", ["exact", "greedy", "no-sharing", "portions", "tflite-micro", "onnxruntime"]
)
def test_every_planner_places_the_table(planner: str, table: Path, capsys):
    assert main(["plan", str(table), "--planner", planner, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["planner"] == planner and found["lower_bound"] == 6 <= found["peak"] <= 10


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_limit_that_is_none_is_refused(limit: str, table: Path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["plan", str(table), "--time-limit", limit])
    assert "expected seconds above 0" in capsys.readouterr().err


def test_rules_of_others_keep_no_fixed_offsets(tmp_path: Path, capsys):
    path = tmp_path / "net.csv"
    path.write_text("id,lower,upper,size,offset\na,0,2,4,8\n")
    assert main(["plan", str(path), "--planner", "portions"]) == 2
    assert "keeps no fixed offsets" in capsys.readouterr().err
