"""Try a binary in a process of its own: a stale or foreign one may crash or hang its loader.

    try_in_child("c", [library, function])                     -> "" or why it is of no use
    try_in_child("opencl", [platform:device, binary, option...])

The child is this very file, run by its path; it imports nothing of ours.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

LIMIT_SECONDS = 30.0


def try_in_child(
    kind: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> str:
    """Why a binary is of no use, or nothing. `environment` is the child's, this one by default."""
    # Imported here, because the child runs this file alone.
    from explorer.runtime.processes import run_command, signal_name

    command = [sys.executable, "-P", str(Path(__file__)), kind, *arguments]
    try:
        finished = run_command(command, seconds=LIMIT_SECONDS, environment=environment)
    except subprocess.TimeoutExpired:
        return f"loading it did not end within {LIMIT_SECONDS:g} s"
    except OSError as error:
        return f"it could not be tried: {error.strerror}"
    if finished.status == 0:
        return ""
    last_words = finished.output.strip().splitlines()[-1:]
    ending = signal_name(finished.status) or f"status {finished.status}"
    return ": ".join([f"loading it ended with {ending}", *last_words])


def load_library(path: str, function: str) -> None:
    """Resolves every symbol at once, so that one that is missing shows here."""
    import ctypes
    import os

    getattr(ctypes.CDLL(path, mode=os.RTLD_NOW), function)


def load_opencl_binary(address: str, path: str, *options: str) -> None:
    """Makes the program and all its kernels."""
    import warnings

    import pyopencl as cl

    warnings.simplefilter("ignore")
    platform, device = map(int, address.split(":"))
    handle = cl.get_platforms()[platform].get_devices()[device]
    context = cl.Context([handle])
    built = cl.Program(context, [handle], [Path(path).read_bytes()]).build(list(options))
    if not built.all_kernels():
        sys.exit("it holds no kernel")


if __name__ == "__main__":
    {"c": load_library, "opencl": load_opencl_binary}[sys.argv[1]](*sys.argv[2:])
