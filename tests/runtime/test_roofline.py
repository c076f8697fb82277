"""The figures of a roofline come from programs that do what they count."""

import dataclasses

import pytest

from explorer.backends import backend_named
from explorer.backends.peaks import PeakMeter
from explorer.results.runs.events import CachePeak, ProfileRecord
from explorer.runtime import roofline
from explorer.runtime.devices import DeviceRecord, examine_processor, list_devices
from explorer.runtime.profiles import Peaks


def test_the_processor_has_peaks():
    """Every processor of the last twenty years lies between these bounds, per thread."""
    peaks = PeakMeter().peaks(backend_named("c"), examine_processor(), threads=2)
    assert peaks.threads == 2
    assert 0.5 < peaks.gflops < 2000
    assert 0.2 < peaks.gbytes_per_second < 2000


def test_every_level_of_the_caches_has_a_peak(monkeypatch):
    sizes = {"l1": 32 << 10, "l2": 1 << 20, "l3": 16 << 20}
    monkeypatch.setattr(roofline, "cache_bytes", lambda: sizes)
    levels = roofline.measure_caches(examine_processor(), threads=2)
    assert [(level.name, level.size_bytes) for level in levels] == [
        ("l1", 64 << 10),
        ("l2", 2 << 20),
        ("l3", 16 << 20),
    ]
    assert all(0.2 < level.gbytes_per_second < 20_000 for level in levels)


def test_a_system_that_tells_no_caches_has_one_line_for_the_memory(monkeypatch):
    monkeypatch.setattr(roofline, "cache_bytes", dict)
    assert roofline.measure_caches(examine_processor(), threads=1) == ()


def test_the_bandwidth_for_data_is_that_of_the_nearest_level_that_holds_it():
    levels = (CachePeak("l1", 100, 9.0), CachePeak("l2", 1000, 5.0))
    bare = ProfileRecord(device="a processor", threads=1, repeats=3, milliseconds=1.0, events=())
    profile = Peaks("a processor", 1, 7.0, 2.0, levels).on(bare)
    assert profile.peak_gflops == 7.0
    assert [profile.bandwidth_for(size) for size in (100, 101, 1001)] == [9.0, 5.0, 2.0]


@pytest.mark.opencl
def test_an_opencl_device_has_peaks():
    usable = [d for d in list_devices(("opencl",)) if d.usable]
    if not usable:
        pytest.skip("no usable OpenCL device")
    peaks = PeakMeter().peaks(backend_named("opencl"), usable[0])
    assert peaks.device == usable[0].name
    assert peaks.gflops > 0.5
    assert peaks.gbytes_per_second > 0.2


def test_a_device_is_measured_once_per_number_of_threads(monkeypatch):
    measured = []

    def measure(device: DeviceRecord, threads: int, processor: str) -> Peaks:
        measured.append((device.name, threads, processor))
        return Peaks(device.name, threads, 1.0, 1.0)

    monkeypatch.setattr(roofline, "measure_processor", measure)
    device = DeviceRecord(
        kind="cpu",
        name="a processor",
        driver="",
        version="",
        compute_units=4,
        memory_bytes=0,
        vector_floats=8,
        usable=True,
        refusal="",
    )
    meter, backend = PeakMeter(), backend_named("c")
    assert meter.peaks(backend, device, 1) is meter.peaks(backend, device, 1)
    meter.peaks(backend, device, 2)
    meter.peaks(backend, dataclasses.replace(device, name="another"), 1)
    meter.peaks(backend, device, 1, "x86-64-v3")
    assert measured == [
        ("a processor", 1, "native"),
        ("a processor", 2, "native"),
        ("another", 1, "native"),
        ("a processor", 1, "x86-64-v3"),
    ]
