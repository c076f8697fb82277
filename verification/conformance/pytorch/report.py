"""The report on PyTorch's operator samples: how many entries are right, and which are not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from explorer.references.torch_graph import torch_version
from verification.conformance.report import COLUMNS, Report, table
from verification.conformance.suite import STATUSES, Case

LEFT_OUT = ("random", "not exported")


@dataclass(frozen=True)
class PytorchReport(Report):
    """Entries and how they went."""

    title: str = "explorer conformance --suite pytorch"

    @cached_property
    def judged(self) -> list[Case]:
        """Entries that are exported and not random."""
        device = self.devices[0]
        return [case for case in self.cases if self.of(case, device).status not in LEFT_OUT]

    def summary(self) -> list[str]:
        return [
            f"{device}: {self.passed(self.judged, device)} of {len(self.judged)} entries right "
            f"({len(self.cases) - len(self.judged)} are random or not exported)"
            for device in self.devices
        ]

    def markdown(self) -> str:
        head = [["", *(COLUMNS[device] for device in self.devices)]]
        right = (str(self.passed(self.judged, device)) for device in self.devices)
        head += [["entries", *(str(len(self.judged)) for _ in self.devices)], ["right", *right]]
        rows = [["outcome", *self.devices, "meaning"]]
        rows += [
            [status, *(str(found[d]) for d in self.devices), STATUSES[status]]
            for status, found in self.statuses()
        ]
        failing = [["entry", *(COLUMNS[device] for device in self.devices)]]
        for case in self.judged:
            outcomes = [self.of(case, device) for device in self.devices]
            if not all(outcome.passed for outcome in outcomes):
                failing.append([case.name, *(_cell(o.status, o.reason) for o in outcomes)])
        return "\n".join(
            [
                "# Conformance of PyTorch",
                "",
                "How the samples of PyTorch's own operator tests (OpInfo, float32) go through this "
                f"compiler. Made by `{self.title}`; PyTorch {torch_version()}. Three samples of "
                "each entry, the first, the middle and the last, are exported"
                f" ({self.cases[0].group}) and compared with eager: integers equal, floats within "
                "1e-4 of the largest number of their tensor.",
                "",
                *table(head),
                "",
                "## Outcomes",
                "",
                *table(rows),
                "",
                "## Entries that are not right",
                "",
                *(table(failing) if len(failing) > 1 else ["None."]),
                "",
            ]
        )

    def as_json(self) -> dict:
        """Versions, cases and outcomes as plain data."""
        return {
            "suite": "pytorch",
            "torch": torch_version(),
            "devices": list(self.devices),
            "cases": [asdict(case) for case in self.cases],
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }


def _cell(status: str, reason: str) -> str:
    words = " ".join(reason.split("[")[0].split()).replace("|", "/")[:90]
    return f"{status}: {words}" if words else status
