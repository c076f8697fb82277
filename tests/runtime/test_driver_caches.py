"""Drivers work where their usual cache folder cannot be written; the true cause is named."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from explorer.runtime.devices import first_usable, list_devices
from explorer.runtime.driver_caches import cache_variables, pocl_refusal, write_refusal

from .test_devices import probe_with


@pytest.fixture
def unwritable_home(tmp_path, monkeypatch):
    """A HOME below a file: nobody can write there, the superuser included."""
    file = tmp_path / "file"
    file.write_text("")
    for name in ("XDG_CACHE_HOME", "POCL_CACHE_DIR", "PYOPENCL_NO_CACHE"):
        monkeypatch.setenv(name, "")  # so that it is restored, also where we set it
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(file / "home"))
    return file / "home"


@pytest.mark.opencl
def test_pocl_works_without_a_writable_home(unwritable_home):
    if not any(d.usable and "Portable" in d.driver for d in list_devices(("opencl",))):
        pytest.skip("there is no PoCL")
    assert os.environ["PYOPENCL_NO_CACHE"] == "1"
    assert write_refusal(Path(os.environ["POCL_CACHE_DIR"])) == ""


def test_a_home_that_cannot_be_written_moves_both_caches(unwritable_home):
    variables = cache_variables(os.environ)
    assert variables.keys() == {"POCL_CACHE_DIR", "PYOPENCL_NO_CACHE"}
    assert str(unwritable_home) in pocl_refusal(os.environ)
    assert "Not a directory" in pocl_refusal(os.environ)


def test_caches_that_can_be_written_stay(tmp_path):
    assert cache_variables({"XDG_CACHE_HOME": str(tmp_path / "not" / "made")}) == {}
    assert not (tmp_path / "not").exists()
    assert cache_variables({"XDG_CACHE_HOME": str(tmp_path), "POCL_CACHE_DIR": "/dev/null/x"}) == {
        "POCL_CACHE_DIR": cache_variables({"POCL_CACHE_DIR": "/dev/null/x"})["POCL_CACHE_DIR"]
    }


def test_a_full_disk_is_seen_by_a_write_that_ends_early(tmp_path, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def write(self, data):
            return len(data) // 2

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    assert write_refusal(tmp_path) == os.strerror(errno.ENOSPC)


def test_a_driver_without_devices_is_not_a_missing_driver(tmp_path, unwritable_home, monkeypatch):
    monkeypatch.setattr("explorer.runtime.devices.use_writable_caches", lambda: None)
    (device,) = probe_with(tmp_path, "empty")
    assert "Portable Computing Language lists no device" in device.refusal
    assert str(unwritable_home) in device.refusal
    assert "install" not in device.refusal
    with pytest.raises(Exception, match="lists no device") as caught:
        first_usable([device], "opencl")
    assert "remove the cause" in str(caught.value)
