"""The report on seeded Caffe cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.references.open_cv import NAME, open_cv_version
from verification.conformance.seeded_report import SeededReport


@dataclass(frozen=True)
class CaffeReport(SeededReport):
    title: str = "explorer conformance --suite caffe"
    suite: str = "caffe"

    def opening(self) -> Sequence[str]:
        return (
            "# Conformance of Caffe",
            "",
            "How random nets of one layer go through this compiler. "
            f"Made by `{self.title}`; {NAME} {open_cv_version()}, layers not fused. Shapes, "
            "settings and weights are drawn from the seed; what OpenCV refuses is drawn anew. "
            "Every second case has images of 4,000 elements and more. Floats are within 2e-5 of "
            "the largest number of their tensor.",
        )

    def versions(self) -> Mapping[str, str]:
        return {"opencv": open_cv_version()}
