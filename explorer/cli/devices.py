"""`explorer devices`: what this machine can run programs on, and why something was refused."""

from __future__ import annotations

import argparse
import dataclasses

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines

SUMMARY = "list the devices of this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    import explorer
    from explorer.views.numbers import format_bytes
    from explorer.views.static.parts.plain import columns

    devices = explorer.devices()
    if arguments.json:
        print_json({"devices": [dataclasses.asdict(device) for device in devices]})
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
    return 0
