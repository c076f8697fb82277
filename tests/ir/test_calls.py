"""Calls of programs with open sizes."""

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.sizes.calls import Calls
from explorer.results.program import OpenAxis, OpenSizes


@pytest.mark.parametrize("most", [10**15, 10**19])
def test_an_input_that_fits_no_memory_is_named_with_its_bytes(most):
    sizes = OpenSizes(
        ranges=(("n", 1, most),),
        numbers=(),
        masks=(),
        inputs=(OpenAxis("x", 0, ((most, "n"),)),),
        outputs=(),
    )
    with pytest.raises(InputError, match=rf"'x' takes {4 * most:,} bytes at its largest sizes"):
        Calls(sizes).whole({"x": np.zeros(3, np.float32)})
