"""What an object file of gcc holds: bytes by where they lie, symbols by what they are."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from explorer.packaging.objects import read_object

SOURCE = """
extern int taken(int);
int first = 3;
int zeros[5];
const char *const names[2] = {"a", "b"};
static const int table[3] = {1, 2, 3};
int given(int i) { zeros[i] = first; return taken(table[i] + names[i & 1][0]); }
"""


def test_written_bytes_are_no_constants_with_addresses(tmp_path: Path):
    """`names` is written by whoever loads the file, and by nobody else."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "a.c").write_text(SOURCE)
    path = tmp_path / "a.o"
    command = [compiler, "-O1", "-fPIC", "-fno-common", "-c", tmp_path / "a.c", "-o", path]
    subprocess.run(command, check=True)
    found = read_object(path)
    assert found.written_bytes == 4 + 5 * 4
    assert found.constants["first"] == 4 and found.constants["table"] == 12
    assert found.constants["names"] == 16
    assert found.constant_bytes >= 12 + 16
    assert found.defined == ("first", "given", "names", "zeros")
    assert "taken" in found.undefined and "given" not in found.undefined
    assert 0 < found.functions["given"] <= found.code_bytes
