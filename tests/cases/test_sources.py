"""Arrays of files: the only one needs no name."""

from pathlib import Path

import numpy as np
import pytest

from explorer.cases.cases import Source
from explorer.cases.sources import read_source
from explorer.errors import InputError


def test_the_only_array_of_a_file_needs_no_name(tmp_path: Path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "one.npz", x=array)
    np.savez(tmp_path / "two.npz", x=array, y=-array)
    np.testing.assert_array_equal(read_source(Source("one.npz"), tmp_path), array)
    np.testing.assert_array_equal(read_source(Source("two.npz", "y"), tmp_path), -array)
    with pytest.raises(InputError, match="there is no array ''"):
        read_source(Source("two.npz"), tmp_path)
