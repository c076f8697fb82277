"""`explorer devices`: what this machine can run programs on, and why something was refused.

Of the processor also its core: by what it was recognized, what schedules count with, who says so.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines

if TYPE_CHECKING:
    from explorer.targets.core_families import KnownCore

SUMMARY = "list the devices of this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument(
        "--target",
        default="cpu",
        metavar="T",
        help="whose core is described: cpu, opencl or a .toml file (default: cpu)",
    )


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.backends import backend_of
    from explorer.targets import load_target
    from explorer.views.numbers import format_bytes
    from explorer.views.static.parts.plain import columns

    target = load_target(arguments.target)
    core = backend_of(target).core(target)
    devices = explorer.devices()
    if arguments.json:
        found = [dataclasses.asdict(device) for device in devices]
        print_json({"devices": found, "core": dataclasses.asdict(core)})
        return 0
    rows = [
        (
            device.kind,
            device.name,
            str(device.compute_units),
            format_bytes(device.memory_bytes),
            str(device.vector_floats),
            f"{device.driver} {device.version}".strip(),
            "usable" if device.usable else f"refused: {device.refusal}",
        )
        for device in devices
    ]
    header = ("target", "device", "units", "memory", "vector floats", "driver", "")
    print_lines(columns(rows, header, align="llrrrll", indent=0))
    print_lines(["", *core_lines(core)])
    return 0


def core_lines(core: KnownCore) -> list[str]:
    """The core, a number per line, each with where it is from."""
    from explorer.views.static.parts.plain import columns

    family = core.family
    rows = []
    for name, value in dataclasses.asdict(core.core).items():
        rows.append((name, f"{value:g}", _said_by(f"core.{name}", core)))
    for cache in core.caches:
        for name, value in dataclasses.asdict(cache).items():
            path = f"caches.{cache.name}.{name}"
            if name not in ("name", "scope") and value is not None:
                rows.append((path, f"{value}", _said_by(path, core)))
    head = [
        f"core: {family.title} ({family.name}), recognized by: {core.recognized_by}",
        f"code for it may use: {', '.join(core.features) or 'nothing beyond the architecture'}",
        *([f"note: {family.note}"] if family.note else []),
    ]
    tables = [f"tables of {family.name}: " + "; ".join(family.sources)]
    return [*head, *columns(rows, align="lrl"), *tables]


def _said_by(path: str, core: KnownCore) -> str:
    if path in core.overridden:
        return "the target"
    if path in core.measured:
        return "measured"
    if path in ("core.vector_registers", "core.fuses_products"):
        return "what the code may use"
    if path.endswith("size_bytes"):
        return "the system" if core.is_at_hand else "usual"
    if path in ("core.task_seconds", "core.barrier_seconds"):
        return "usual"
    return "tables"
