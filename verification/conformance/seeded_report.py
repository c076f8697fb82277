"""The report on seeded cases of one format: which operators have every case right, what is not.

class TfliteReport(SeededReport):
    def opening(self): return ["# Conformance of TFLite", "", "How random models ..."]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from verification.conformance.report import COLUMNS, Report, table
from verification.conformance.suite import STATUSES


@dataclass(frozen=True)
class SeededReport(Report):
    """Cases and how they went."""

    suite: str = ""
    seed: int = 0

    @abstractmethod
    def opening(self) -> Sequence[str]:
        """Title, and what the cases are and who judges them."""

    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Of who judges."""

    def whole_operators(self, device: str) -> list[str]:
        """Operators of which every case passed."""
        return [
            operator
            for operator, cases in self.cases_of.items()
            if all(self.of(case, device).passed for case in cases)
        ]

    def summary(self) -> list[str]:
        lines = super().summary()
        for device in self.devices:
            count = len(self.whole_operators(device))
            lines.append(f"{device}: {count} of {len(self.cases_of)} operators, every case right")
        return lines

    def markdown(self) -> str:
        return "\n".join([*self._opening(), *self._status_table(), *self._failing_table()])

    def _opening(self) -> list[str]:
        rows = [["", *(COLUMNS[device] for device in self.devices)]]
        rows.append(["operators", *(str(len(self.cases_of)) for _ in self.devices)])
        whole = (len(self.whole_operators(device)) for device in self.devices)
        rows.append(["every case right", *map(str, whole)])
        return [*self.opening(), "", *table(rows), ""]

    def _status_table(self) -> list[str]:
        rows = [["outcome", *self.devices, "meaning"]]
        rows += [
            [status, *(str(found[d]) for d in self.devices), STATUSES[status]]
            for status, found in self.statuses()
        ]
        return ["## Outcomes", "", *table(rows), ""]

    def _failing_table(self) -> list[str]:
        rows = [["operator", *(COLUMNS[device] for device in self.devices)], *self._failing_rows()]
        shown = table(rows) if len(rows) > 1 else ["None."]
        return ["## Operators of which not every case is right", "", *shown, ""]

    def _failing_rows(self) -> Iterator[list[str]]:
        for operator in sorted(self.cases_of):
            cells = [self.operator_cell(operator, device) for device in self.devices]
            if not all(cell.startswith("all ") for cell in cells):
                yield [operator, *cells]

    def as_json(self) -> dict:
        """The seed, versions, cases and outcomes as plain data."""
        return {
            "suite": self.suite,
            "seed": self.seed,
            **self.versions(),
            "devices": list(self.devices),
            "cases": [asdict(case) for case in self.cases],
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }
