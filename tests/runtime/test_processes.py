"""Processes within limits of memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import mmap, resource
from explorer.runtime.processes import limit_memory

before = {before}
if before:
    resource.setrlimit(resource.RLIMIT_DATA, (before, before))
limit_memory({asked})
limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
mapped = mmap.mmap(-1, 4 << 30, prot=mmap.PROT_READ)  # never touched, and read-only
try:
    bytearray(limit)
except MemoryError:
    print("refused at", limit)
"""


@pytest.mark.parametrize(
    ("before", "asked", "limit"),
    [(0, 1 << 30, 1 << 30), (1 << 29, 1 << 30, 1 << 29), (1 << 31, 1 << 30, 1 << 30)],
)
def test_more_memory_than_a_process_may_take_is_a_memory_error(before, asked, limit):
    script = SCRIPT.format(before=before, asked=asked)
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.stdout == f"refused at {limit}\n", finished.stderr


def test_without_a_number_it_is_a_share_of_the_machines():
    script = (
        "import os, resource\n"
        "from explorer.runtime.processes import limit_memory\n"
        "limit_memory()\n"
        "machine = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0] < machine)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.stdout == "True\n", finished.stderr
