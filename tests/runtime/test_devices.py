"""Devices are tried, and those that cannot be used are listed with the reason."""

import os
from pathlib import Path

import pytest

from explorer.errors import DeviceError
from explorer.processor import vector_floats
from explorer.runtime.devices import (
    DeviceRecord,
    examine_processor,
    first_usable,
    list_devices,
    probe_opencl,
)
from explorer.runtime.vendors import vendor_variables

FAKE_PROBE = """
import json, os, signal, sys, time
behaviours = {behaviours}

def write(**line):
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(line) + "\\n")

for index, behaviour in list(enumerate(behaviours))[int(sys.argv[2]):]:
    address = f"0:{{index}}"
    if behaviour == "empty":
        write(empty="Portable Computing Language")
        continue
    write(begin=dict(address=address, name=behaviour, processor="gpu", driver="d", version="v",
                     compute_units=1, memory_bytes=1, vector_floats=4))
    if behaviour == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if behaviour == "hang":
        time.sleep(60)
    if behaviour == "exit":
        sys.exit("the driver is of another version")
    write(end=address, refusal="wrong numbers" if behaviour == "wrong" else "")
"""


def probe_with(folder: Path, *behaviours: str) -> list[DeviceRecord]:
    """What is found when the drivers behave like this: good, wrong, crash, hang, exit, empty."""
    probe = folder / "probe.py"
    probe.write_text(FAKE_PROBE.format(behaviours=behaviours))
    return probe_opencl(time_limit_seconds=2.0, probe=probe)


def test_a_bad_driver_does_not_hide_the_devices_after_it(tmp_path):
    devices = probe_with(tmp_path, "crash", "wrong", "hang", "good", "exit")
    assert [(d.address, d.name, d.usable, d.refusal) for d in devices] == [
        ("0:0", "crash", False, "its driver ended the process with SIGSEGV"),
        ("0:1", "wrong", False, "wrong numbers"),
        ("0:2", "hang", False, "its driver did not answer within 2 s"),
        ("0:3", "good", True, ""),
        (
            "0:4",
            "exit",
            False,
            "its driver ended the process with status 1: the driver is of another version",
        ),
    ]


def test_no_opencl_device_is_one_entry_that_says_why(tmp_path):
    (device,) = probe_with(tmp_path)
    assert not device.usable
    assert "no OpenCL driver is installed" in device.refusal


def test_no_driver_for_the_loader_is_not_a_crash(tmp_path, monkeypatch):
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    (device,) = list_devices(("opencl",))
    assert not device.usable
    assert "no OpenCL driver is installed" in device.refusal


def test_the_processor_names_its_compiler():
    device = examine_processor()
    assert device.usable, device.refusal
    assert device.kind == "cpu"
    assert device.version.startswith(("gcc ", "clang ", "zig "))
    assert device.vector_floats in (4, 8, 16)
    assert device.compute_units >= 1


def test_the_processor_is_refused_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CC", "/nonexistent")
    device = examine_processor()
    assert not device.usable
    assert "CC names the C compiler `/nonexistent`" in device.refusal


@pytest.mark.opencl
def test_an_opencl_device_of_this_machine_passes_the_probe():
    devices = list_devices(("opencl",))
    if not devices[0].driver:
        pytest.skip(devices[0].refusal)
    assert any(d.usable for d in devices), [d.refusal for d in devices]


def test_first_usable_lists_every_refusal():
    refused = DeviceRecord(
        kind="opencl",
        name="GPU 1",
        driver="",
        version="",
        compute_units=1,
        memory_bytes=1,
        vector_floats=4,
        usable=False,
        refusal="unknown target CPU",
    )
    usable = DeviceRecord(
        kind="opencl",
        name="GPU 2",
        driver="",
        version="",
        compute_units=1,
        memory_bytes=1,
        vector_floats=4,
        usable=True,
        refusal="",
    )
    assert first_usable([refused, usable], "opencl") is usable
    with pytest.raises(DeviceError) as caught:
        first_usable([refused], "opencl")
    assert "no opencl device can be used on this machine; GPU 1: unknown target CPU; try:" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("flags", "width"),
    [("fpu sse2 avx2 fma avx512f", 16), ("fpu sse2 avx avx2 fma", 8), ("fpu sse2 avx", 4)],
)
def test_vector_width_comes_from_the_processors_features(flags, width):
    assert vector_floats(f"processor : 0\nflags\t\t: {flags}\n") == width


def test_vector_width_of_an_unknown_processor_is_four():
    assert vector_floats("Features : fp asimd\n") == 4


def test_a_driver_without_registration_is_registered_beside_the_systems(tmp_path):
    system = tmp_path / "vendors"
    system.mkdir()
    (system / "pocl.icd").write_text("/usr/lib/libpocl.so.2\n")
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    for name in ("libnvidia-opencl.so.535.1", "libnvidia-opencl.so.1"):
        (drivers / name).touch()
    pattern = f"{drivers}/libnvidia-opencl.so*"
    with vendor_variables({}, system, [pattern, pattern]) as variables:
        folder = Path(variables["OCL_ICD_VENDORS"])
        written = {file.name: file.read_text() for file in folder.iterdir()}
    assert written == {
        "pocl.icd": "/usr/lib/libpocl.so.2\n",
        "explorer-nvidia-opencl.icd": f"{drivers}/libnvidia-opencl.so.1\n",
    }
    assert not folder.exists()


def test_a_registered_driver_needs_nothing(tmp_path):
    (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    (tmp_path / "libnvidia-opencl.so.1").touch()
    pattern = f"{tmp_path}/libnvidia-opencl.so*"
    with vendor_variables({}, tmp_path, [pattern]) as variables:
        assert variables == {}


def test_the_variable_of_a_person_is_left_alone(tmp_path):
    (tmp_path / "libnvidia-opencl.so.1").touch()
    environment = {"OCL_ICD_VENDORS": "/chosen"}
    pattern = f"{tmp_path}/libnvidia-opencl.so*"
    with vendor_variables(environment, tmp_path / "none", [pattern]) as variables:
        assert variables == {}


def test_listing_leaves_the_environment_as_it_was():
    before = dict(os.environ)
    list_devices()
    assert dict(os.environ) == before
