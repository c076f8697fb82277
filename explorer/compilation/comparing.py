"""Two branches side by side: their traces, and the first decision in which they differ."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results import Trace


@dataclass(frozen=True)
class Comparison:
    left: Trace
    right: Trace

    @property
    def first_difference(self) -> tuple[str, str, str] | None:
        """(address, value on the left, value on the right); "" where it was not decided.

        In the order of the passes; None where every decision is the same.
        """
        left, right = dict(self.left.decisions), dict(self.right.decisions)
        order = [p.name for p in self.left.passes] + [p.name for p in self.right.passes]
        addresses = sorted(
            dict.fromkeys([*left, *right]), key=lambda address: order.index(address.split("/")[0])
        )
        for address in addresses:
            if left.get(address) != right.get(address):
                return address, left.get(address, ""), right.get(address, "")
        return None
