"""`explorer devices`: what this machine can run programs on, and why something was refused.

Of the processor also its core: by what it was recognized, what schedules count with, who says so.
With `--measure` that is measured first, in some fifteen seconds, and kept for this processor.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines

if TYPE_CHECKING:
    from explorer.runtime.measuring import Measurement
    from explorer.runtime.measuring.links import MeasuredLink
    from explorer.targets import Target
    from explorer.targets.core_families import KnownCore

SUMMARY = "list the devices of this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument(
        "--target",
        default="cpu",
        metavar="T",
        help="whose core is described: cpu, opencl or a .toml file; with --measure several, "
        "cpu+opencl (default: cpu)",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure what the core does in a cycle, and transfers of other devices, and keep it "
        "(15 s)",
    )


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.backends import backend_of
    from explorer.runtime.measuring import saved_measurement
    from explorer.targets.together import load_targets
    from explorer.views.numbers import format_bytes
    from explorer.views.parts.plain import columns

    target, *others = load_targets(arguments.target)
    if arguments.measure:
        measure(backend_of(target).core(target))
        measure_links([target, *others])
    links = saved_links([target, *others])
    measured = saved_measurement()
    core = backend_of(target).core(target)
    devices = explorer.devices()
    if arguments.json:
        found = [dataclasses.asdict(device) for device in devices]
        figures = None if measured is None else dataclasses.asdict(measured)
        transfers = {name: dataclasses.asdict(link) for name, link in links.items()}
        print_json(
            {
                "devices": found,
                "core": dataclasses.asdict(core),
                "measured": figures,
                "transfers": transfers,
            }
        )
        return 0
    rows = [
        (
            device.kind,
            device.name,
            str(device.compute_units),
            # A simulated machine may leave its memory open, and has no floats.
            format_bytes(device.memory_bytes) if device.memory_bytes else "–",
            str(device.vector_floats or "–"),
            f"{device.driver} {device.version}".strip(),
            "usable" if device.usable else f"refused: {device.refusal}",
        )
        for device in devices
    ]
    header = ("target", "device", "units", "memory", "vector floats", "driver", "")
    print_lines(columns(rows, header, align="llrrrll", indent=0))
    print_lines(["", *core_lines(core)])
    if measured is not None:
        print_lines(["", *measured_lines(measured)])
    print_lines(
        f"transfers with {name}: {link.latency_seconds * 1e6:.1f} µs and "
        f"{link.bytes_per_second * 1e-9:.1f} GB/s each way, a launch "
        f"{link.launch_seconds * 1e6:.1f} µs (measured)"
        for name, link in links.items()
    )
    return 0


def measure_links(targets: Sequence[Target]) -> None:
    """Measures the transfers of every target with a device of its own, and keeps them."""
    from explorer.backends import backend_of
    from explorer.runtime.measuring.links import keep_link
    from explorer.tuning.links import measure_link

    with Progress("measuring") as progress:
        for number, target in enumerate(targets):
            device = backend_of(target).device()
            if device is not None:
                progress(f"transfers of {target.name}", number, len(targets))
                keep_link(device, measure_link(target))


def saved_links(targets: Sequence[Target]) -> dict[str, MeasuredLink]:
    """By target, where they were measured."""
    from explorer.backends import backend_of
    from explorer.errors import DeviceError
    from explorer.runtime.measuring.links import saved_link

    found = {}
    for target in targets:
        try:
            link = saved_link(backend_of(target).device())
        except DeviceError:  # the table of devices says why
            continue
        if link is not None:
            found[target.name] = link
    return found


def measure(core: KnownCore) -> None:
    """Measures the processor at hand and keeps what was found."""
    from explorer.runtime.measuring import keep, measure_core

    with Progress("measuring") as progress:
        progress("the core", 0, 1)
        keep(measure_core(core.core.vector_registers))


def measured_lines(measured: Measurement) -> list[str]:
    """What was measured, as it was, a figure per line."""
    from explorer.views.numbers import format_percent, format_seconds
    from explorer.views.parts.plain import columns

    bits = 32 * measured.vector_floats
    rows = [
        ("clock", f"{measured.clock_hz * 1e-9:.2f} GHz", "by a chain of additions"),
        ("peak", f"{measured.gflops:.1f} GFLOP/s", "one thread, float32"),
        ("multiply-adds", f"{measured.multiply_adds:.2f}", f"of {bits} bits in a cycle"),
        ("latency", f"{measured.latency_cycles:.2f} cycles", "until a sum can be added to again"),
        ("loads", f"{measured.loads:.2f}", f"of {bits} bits in a cycle"),
        ("stores", f"{measured.stores:.2f}", f"of {bits} bits in a cycle"),
    ]
    for level in ("l1", "l2", "l3", "memory"):
        rate = getattr(measured, f"{level}_bytes")
        each = f"{rate * measured.clock_hz * 1e-9:.1f} GB/s, one thread"
        rows.append((level, f"{rate:.1f} bytes", f"in a cycle: {each}"))
    for name, seconds, what in (
        ("launch", measured.launch_seconds, "a call through the table of launches"),
        ("task", measured.claim_seconds, "a thread claims one, while no other does"),
        ("handover", measured.handover_seconds, "from a thread to one that waits for it"),
        ("waking", measured.wake_seconds, "of a thread that sleeps"),
    ):
        rows.append((name, format_seconds(seconds) if seconds else "–", what))
    busy = [
        f"{name} {format_percent(part)}"
        for name, part in (("taken away (steal)", measured.steal), ("others", measured.others))
        if part is not None
    ]
    head = "measured of this processor, the best of many rounds"
    return [
        f"{head}; of the time: {', '.join(busy)}" if busy else head,
        *columns(rows, align="lrl"),
    ]


def core_lines(core: KnownCore) -> list[str]:
    """The core, a number per line, each with where it is from."""
    from explorer.views.parts.plain import columns

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
        *_kinds_lines(core),
    ]
    tables = [f"where the numbers of {family.name} are from:", *map("  {}".format, family.sources)]
    return [*head, *columns(rows, align="lrl"), *tables]


def _kinds_lines(core: KnownCore) -> list[str]:
    """That threads may run on cores which schedules are not made for."""
    if not core.kinds:
        return []
    kinds = ", ".join(f"{count} of {name}" for name, count in core.kinds)
    return [
        f"cores of several kinds, logical processors: {kinds}; schedules are made for the first, "
        "and threads run on any unless they are pinned (taskset)"
    ]


def _said_by(path: str, core: KnownCore) -> str:
    if path in core.overridden:
        return "the target"
    if path in core.measured:
        return "measured"
    if path in ("core.vector_registers", "core.fuses_products"):
        return "what the code may use"
    if path.endswith("size_bytes"):
        return "the system" if core.is_at_hand else "usual"
    if path in ("core.task_seconds", "core.barrier_seconds", "core.wake_seconds"):
        return "usual"
    return "tables"
