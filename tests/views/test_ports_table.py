"""A row for each hot loop: what is zero has no number."""

import pytest

from explorer.results.runs.ports import LoopPorts
from explorer.views.catalog.ports import _row


@pytest.mark.parametrize(("spills", "peak"), [(0.0, None), (2.0, 0.5)])
def test_spills_and_peaks_that_are_none_leave_their_cells_empty(spills: float, peak: float | None):
    loop = LoopPorts(
        kernel="k", loop=("i", "j"), lines=(0, 1), text=("a",), share=1.0, merged=1, cycles=2.0,
        bound=1.0, limit="load", ports=(("p0", 1.0),), counts=(("load", 1.0),), spills=spills,
        predicted_cycles=1.0, predicted_bound="loads", peak_cycles=None if peak is None else 1.0,
    )  # fmt: skip
    cells = _row(loop, ()).cells
    assert cells["spills"] == (spills or None)
    assert cells["peak"] == peak and cells["loop"] == "i > j"
