"""Several targets on the command line: what is printed, and what is refused."""

import json
from pathlib import Path

import pytest

import explorer
from explorer.processor import processor_name
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.measuring.links import MeasuredLink, keep_link, link_file, saved_link

CPU = Path(explorer.__file__).parent / "targets" / "cpu.toml"


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A file of another target of this processor."""
    path = tmp_path / "second.toml"
    path.write_text(CPU.read_text().replace('name = "cpu"', 'name = "second"'))
    return path


def test_the_json_of_compile_has_parts_transfers_and_the_assignment(
    explorer_command, sample_models, second
):
    finished = explorer_command(
        "compile",
        sample_models / "digits_cnn.onnx",
        "--target",
        f"cpu+{second}",
        "--decide",
        "assign/device/conv9=second",
        "--json",
    )
    assert finished.status == 0, finished.errors
    found = json.loads(finished.output)
    assert found["target"] == "cpu+second"
    assert [part["device"] for part in found["parts"]][1] == "second"
    assert found["parts"][1]["operations"][0] == "conv9"
    assert all(part["predicted_us"] > 0 and part["arena_bytes"] > 0 for part in found["parts"])
    assert found["transfers"] == []  # the same memory
    assert found["assignment"]["optimal"]
    assert found["assignment"]["seconds"] <= found["assignment"]["single"]["second"]
    assert set(found["assignment"]) == {"seconds", "bound", "optimal", "single", "greedy"}
    assert all(entry["reason"] for entry in found["refused"])


def test_one_target_has_no_assignment(explorer_command, sample_models):
    finished = explorer_command("compile", sample_models / "digits_mlp.onnx", "--json")
    found = json.loads(finished.output)
    assert (found["target"], found["assignment"], found["transfers"]) == ("cpu", None, [])


def test_a_short_text_says_what_went_where(explorer_command, sample_models, second):
    finished = explorer_command(
        "compile", sample_models / "digits_mlp.onnx", "--target", f"cpu+{second}"
    )
    assert "0 to second; 0 transfers of 0 bytes" in finished.output
    assert "proven the least" in finished.output


def test_every_pass_is_checked_across_targets(explorer_command, sample_models, second):
    finished = explorer_command(
        "check",
        sample_models / "digits_mlp.onnx",
        "--target",
        f"cpu+{second}",
        "--decide",
        "assign/device=second",
    )
    assert finished.status == 0, finished.errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "cpu+"], "a target is missing in 'cpu+'"),
        (["--target", "cpu+cpu"], "two targets are called 'cpu'"),
        (["--target", "cpu+nothing"], "there is no target 'nothing'"),
        (["--cluster", "head=*"], "clusters belong to several targets"),
        (["--cluster", "head"], "expected NAME=PATTERN"),
    ],
)
def test_what_is_no_choice_of_targets_ends_with_status_2(
    explorer_command, sample_models, options, message
):
    finished = explorer_command("compile", sample_models / "digits_mlp.onnx", *options)
    assert finished.status == 2
    assert message in finished.errors


def test_a_pin_to_a_device_that_is_none_ends_with_status_2(explorer_command, sample_models, second):
    finished = explorer_command(
        "compile",
        sample_models / "digits_mlp.onnx",
        "--target",
        f"cpu+{second}",
        "--decide",
        "assign/device=third",
    )
    assert finished.status == 2
    assert "cannot be 'third'" in finished.errors


def test_bench_compares_each_target_alone(explorer_command, sample_models, second):
    finished = explorer_command(
        "bench",
        sample_models / "digits_mlp.onnx",
        "--target",
        f"cpu+{second}",
        "--repeats",
        "4",
        "--json",
    )
    assert finished.status == 0, finished.errors
    found = json.loads(finished.output)
    assert found["target"] == "cpu+second"
    assert list(found["peers"]) == ["cpu", "second", "onnxruntime"]


# -- measured transfers ----------------------------------------------------------------------------

DEVICE = DeviceRecord(
    kind="opencl",
    name="a device",
    driver="a driver",
    version="1",
    compute_units=2,
    memory_bytes=1 << 30,
    vector_floats=8,
    usable=True,
    refusal="",
)
LINK = MeasuredLink(latency_seconds=1e-5, bytes_per_second=1e9, launch_seconds=2e-6)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "programs"
    monkeypatch.setenv("EXPLORER_CACHE", str(folder))
    return folder


def test_a_measured_link_is_kept_by_device_and_driver(cache):
    assert saved_link(DEVICE) is None
    path = keep_link(DEVICE, LINK)
    assert path == link_file(DEVICE)
    assert saved_link(DEVICE) == LINK
    assert json.loads(path.read_text())["device"] == "a device"
    other = DeviceRecord(**{**vars(DEVICE), "driver": "another driver"})
    assert saved_link(other) is None
    assert processor_name()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"link": 3}', '{"link": {"latency_seconds": -1, "bytes_per_second": 1, '
     '"launch_seconds": 0}}', '{"link": {"latency_seconds": 1, "bytes_per_second": 0, '
     '"launch_seconds": 0}}', "x" * 70_000],
)  # fmt: skip
def test_a_file_that_is_no_measurement_is_none(cache, text):
    path = keep_link(DEVICE, LINK)
    path.write_text(text)
    assert saved_link(DEVICE) is None
