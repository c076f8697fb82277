"""What devices can do at best, measured once for each.

PeakMeter().peaks(backend, device, threads=2)
-> Peaks(device="AMD EPYC", threads=2, gflops=540.0, gbytes_per_second=61.0, caches=(...))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.backends.interface import Backend

if TYPE_CHECKING:
    from explorer.runtime.devices import DeviceRecord
    from explorer.runtime.profiles import Peaks


class PeakMeter:
    """Measures every device once, and remembers the figures as long as it lives."""

    def __init__(self) -> None:
        self._peaks: dict[tuple[str, DeviceRecord | None, int, str], Peaks | None] = {}

    def peaks(
        self,
        backend: Backend,
        device: DeviceRecord | None,
        threads: int = 1,
        processor: str = "native",
    ) -> Peaks | None:
        """Peaks of a backend's device, None where they are not known; `threads` counts where they
        are the program's own, and `processor` is what its code is compiled for.

        Takes about a second. Raises `BuildError` or `DeviceError` as any program does.
        """
        key = (backend.name, device, threads if backend.owns_threads else 0, processor)
        if key not in self._peaks:
            self._peaks[key] = backend.peaks(device, threads, processor)
        return self._peaks[key]
