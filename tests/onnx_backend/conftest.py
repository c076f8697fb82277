"""What the tests of the backend share: the OpenCL device, or the reason why there is none."""

from __future__ import annotations

import pytest

from explorer.errors import DeviceError
from explorer.runtime.devices import DeviceRecord, opencl_device


@pytest.fixture(scope="session")
def opencl_device_or_reason() -> DeviceRecord | str:
    try:
        return opencl_device()
    except DeviceError as error:
        return str(error)


@pytest.fixture
def opencl_device_record(opencl_device_or_reason: DeviceRecord | str) -> DeviceRecord:
    if isinstance(opencl_device_or_reason, str):
        pytest.skip(opencl_device_or_reason)
    return opencl_device_or_reason
