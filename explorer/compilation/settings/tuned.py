"""The tuned schedules that a compilation may use: those of its target, device and threads.

    tuned_schedules(target, device, threads=1)      -> TunedSchedules, or None where none are kept
    TunedSchedules(...).find(workload)              -> ({"pixels": 7, ...}, "tuned: 41.2 µs ...")

They lie in the program cache's folder. Who has none pays for one look into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.backends import backend_of
from explorer.errors import InputError
from explorer.kernels.schedules.schedule import Choice
from explorer.runtime.cache import default_cache
from explorer.runtime.cache.folder import cache_folder
from explorer.runtime.cache.tuned import TunedKey, TunedStore, generator_digest
from explorer.runtime.devices import DeviceRecord
from explorer.targets import Target


@dataclass(frozen=True, kw_only=True)
class TunedSchedules:
    """Equal ones give equal schedules: `stamp` changes with what is in the folder."""

    folder: str
    target: str
    device: str
    compiler: str
    threads: int
    stamp: tuple[int, int]

    def key(self, workload: str) -> TunedKey:
        return TunedKey(
            workload=workload,
            target=self.target,
            device=self.device,
            threads=self.threads,
            compiler=self.compiler,
            generator=generator_digest(),
        )

    def find(self, workload: str) -> tuple[Mapping[str, Choice], str] | None:
        """The choices of a workload and what was measured; None where none are kept."""
        entry = tuned_store().find(self.key(workload))
        return None if entry is None else (dict(entry.choices), entry.why)


def tuned_store() -> TunedStore:
    """The one in the folder of the program cache that the environment asks for."""
    return TunedStore(default_cache().folder)


def tuned_schedules(
    target: Target, device: DeviceRecord | None, threads: int
) -> TunedSchedules | None:
    """Those that are kept for a device; None where there are none at all. Makes no folder."""
    try:
        folder = cache_folder()
    except InputError:  # it has no place, which `default_cache` tells
        return None
    if folder is None or not folder.is_dir():
        return None
    stamp = tuned_store().stamp()
    if not stamp[0]:
        return None
    return schedules_for(target, device, threads, stamp)


def schedules_for(
    target: Target, device: DeviceRecord | None, threads: int, stamp: tuple[int, int] = (0, 0)
) -> TunedSchedules | None:
    """What keys are made of on this machine; None where there is no compiler to measure with.

    None as well for a target that names a processor: searches measure what is compiled for the
    one at hand.
    """
    if target.processor != "native":
        return None
    found = backend_of(target).measured_on(device, threads)
    if found is None:
        return None
    folder = str(tuned_store().folder)
    return TunedSchedules(
        folder=folder,
        target=target.name,
        device=found.device,
        compiler=found.compiler,
        threads=found.threads,
        stamp=stamp,
    )
