"""Which processors the threads of a program may run on: one for each, the caller's first.

check_affinity((0, 1))       (0, 1), or InputError: this process may run on 0 to 3 only
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from explorer.errors import DeviceError, InputError


def check_affinity(affinity: Sequence[int]) -> tuple[int, ...]:
    """The processors as they are given, none for no wish.

    InputError for one that this process may not use or that is named twice; DeviceError where the
    system has no way to bind threads.
    """
    chosen = tuple(affinity)
    if not chosen:
        return ()
    if not hasattr(os, "sched_getaffinity"):
        raise DeviceError(
            "this system has no way to bind threads to processors",
            device="cpu",
            hint="leave `affinity` away",
        )
    usable = os.sched_getaffinity(0)
    for processor in chosen:
        if processor not in usable:
            raise InputError(
                f"affinity: this process may not run on processor {processor}",
                hint=f"choose among {', '.join(map(str, sorted(usable)))}",
            )
    if len(set(chosen)) < len(chosen):
        raise InputError(f"affinity: a processor is named twice: {', '.join(map(str, chosen))}")
    return chosen
