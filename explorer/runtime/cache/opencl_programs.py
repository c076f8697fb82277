"""Programs of an OpenCL driver, out of the cache or built from source.

    cached_program(context, handle, record, source, options, cache)   -> cl.Program, built

A driver may crash on a binary that it wrote itself before an update (XiaoMi/mace, issue 248), so
every binary from a file is tried once in a child process.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import pyopencl as cl

from explorer.runtime.cache.entries import Entry
from explorer.runtime.cache.keys import ProgramKey
from explorer.runtime.cache.store import FoundEntry, ProgramCache
from explorer.runtime.cache.trial import try_in_child
from explorer.runtime.caller_devices import environment_of
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.scratch import own_folder
from explorer.runtime.vendors import vendor_variables


def cached_program(
    context: cl.Context,
    handle: cl.Device,
    record: DeviceRecord,
    source: str,
    options: Sequence[str],
    cache: ProgramCache,
    build: Callable[[], cl.Program],
    name: str = "",
) -> cl.Program:
    """`build` compiles the source where the cache has no binary that works."""
    started = time.perf_counter()
    key = program_key(source, options, record, name)
    found = cache.find(key, partial(try_binary, record, options), tries_own=True)
    reason = found.reason if not isinstance(found, FoundEntry) else ""
    if isinstance(found, FoundEntry):
        try:
            built = from_binary(context, handle, found.entry.payload, options)
        except cl.Error as error:
            reason = f"the driver refused the binary: {error}"
            cache.drop(key.digest())
        else:
            cache.note(key, found.tier, time.perf_counter() - started)
            return built
    built = build()
    seconds = time.perf_counter() - started
    binary = binary_of(built, handle)
    if binary:
        cache.store(
            Entry.of(
                key,
                binary,
                headers={},
                build_seconds=round(seconds, 3),
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        )
    cache.note(key, "source", seconds, reason)
    return built


def program_key(
    source: str, options: Sequence[str], record: DeviceRecord, name: str = ""
) -> ProgramKey:
    """The driver's name and version are the compiler. Generated sources include no header."""
    platform, _, version = record.driver.rpartition(" ")
    compiler = f"{platform} ({version}, {record.version})"
    return ProgramKey(
        language="opencl",
        source=source,
        options=tuple(options),
        compiler=compiler,
        device=record.name,
        name=name,
    )


def from_binary(
    context: cl.Context, handle: cl.Device, binary: bytes, options: Sequence[str]
) -> cl.Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cl.Program(context, [handle], [binary]).build(list(options), devices=[handle])


def binary_of(built: cl.Program, handle: cl.Device) -> bytes:
    """What the driver compiled for a device; empty where it does not give it."""
    try:
        binaries = cast(Sequence[bytes], built.get_info(cl.program_info.BINARIES))
        devices = cast(Sequence[cl.Device], built.get_info(cl.program_info.DEVICES))
    except cl.Error:
        return b""
    return next((b for d, b in zip(devices, binaries, strict=True) if d == handle), b"")


def try_binary(record: DeviceRecord, options: Sequence[str], entry: Entry) -> str:
    """Lets a child process make the program; why the binary is of no use, or nothing."""
    with (
        vendor_variables() as variables,
        tempfile.TemporaryDirectory(prefix="trial-", dir=own_folder()) as folder,
    ):
        file = Path(folder, "program.bin")
        file.write_bytes(entry.payload)
        return try_in_child(
            "opencl",
            [record.address, str(file), *options],
            {**os.environ, **variables, **environment_of(record)},
        )
