"""How much of every level leads to an operation, as data for the explorer's code panes.

{"program": [["source", "lines", 412, 412, []], ...],    level, unit, linkable, linked, missing
 "kernels": {"conv_3x3_1": [["loops", ...], ...]}, "aims": {"source": 0.95, ...}}
"""

from __future__ import annotations

from explorer.results import Trace
from explorer.results.coverage import AIMS, kernel_coverages, level_coverages
from explorer.results.linking import LevelCoverage
from explorer.views.payload.text import Json


def links_payload(trace: Trace) -> Json:
    return {
        "program": [_row(coverage) for coverage in level_coverages(trace)],
        "kernels": {
            name: [_row(coverage) for coverage in coverages]
            for name, coverages in kernel_coverages(trace).items()
        },
        "aims": dict(AIMS),
    }


def _row(coverage: LevelCoverage) -> Json:
    return [
        coverage.level,
        coverage.unit,
        coverage.linkable,
        coverage.linked,
        list(coverage.missing),
    ]
