"""What every operation costs on every device, and what a transfer between two devices costs.

    %y = top.conv(%x, %w)      seconds = [1.2e-4, 3.0e-5]     price/cpu/y: 120 µs (cost model)

Each number has its source: the cost model, a measurement, the target's file, or an assumption. A
decision gives another one: `price/DEVICE/OPERATION` in seconds, `price/latency/FROM>TO` in seconds,
`price/bandwidth/FROM>TO` in bytes per second (0: the memory is shared).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.weights import Weights
from explorer.placement.marks import SECONDS, devices_of, numbers_attribute, placed_operations
from explorer.placement.problem import checked
from explorer.results import Knob

PRICES, LINKS = "prices", "links"
"""Artifacts: prices by operation and device; links by (from, to)."""
LINKS_MARK = "links"
"""Attribute of the entry function: latency and seconds per byte by `FROM>TO`."""


@dataclass(frozen=True)
class Price:
    seconds: float
    source: str


@dataclass(frozen=True)
class Link:
    """Transfers in one direction."""

    latency_seconds: float
    seconds_per_byte: float
    """0 where both devices have the same memory."""
    source: str

    def seconds(self, size_bytes: int) -> float:
        return self.latency_seconds + size_bytes * self.seconds_per_byte


Links = Mapping[tuple[str, str], Link]


class Pricer(Protocol):
    """Prices of one device. Equal ones give equal prices, so that forks share the pass."""

    def __call__(self, module: ModuleOp, weights: Weights) -> Mapping[str, Price]:
        """By operation; what is missing costs nothing."""
        ...


@dataclass(frozen=True)
class PriceOperations(Pass):
    """Every operation gets its seconds on each device that can run it, every direction of transfers
    its latency and bandwidth."""

    pricers: tuple[tuple[str, Pricer], ...]
    links: tuple[tuple[tuple[str, str], Link], ...]

    name = "price"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        entry = entry_function(rewriter.module)
        knobs: list[Knob] = []
        known = {device: ask(rewriter.module, rewriter.weights) for device, ask in self.pricers}
        prices: dict[str, dict[str, Price]] = {}
        for op in placed_operations(entry.body.block):
            own = {
                device: self._price(device, identity_of(op), known, options, knobs)
                for device in devices_of(op)
            }
            if own:
                prices[identity_of(op)] = own
                what = ", ".join(f"{p.seconds * 1e6:.3g} µs on {d}" for d, p in own.items())
                with events.rewrite("seconds", op, what):
                    numbers = numbers_attribute([price.seconds for price in own.values()])
                    rewriter.set_attribute(op, SECONDS, numbers)
        links = {pair: self._link(pair, link, options, knobs) for pair, link in self.links}
        mark_links(entry, links)
        rewriter.has_changed = True
        rewriter.artifacts[PRICES], rewriter.artifacts[LINKS] = prices, links
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _price(
        self,
        device: str,
        op: str,
        known: Mapping[str, Mapping[str, Price]],
        options: RewriteOptions,
        knobs: list[Knob],
    ) -> Price:
        price = known[device].get(op, Price(0.0, "nothing is launched"))
        address = f"{self.name}/{device}/{op}"
        decided = options.decision(address)
        if decided is not None:
            price = Price(checked(decided, address), "decided")
        knobs.append(Knob(address, price.seconds, (), f"seconds: {price.source}"))
        return price

    def _link(
        self, pair: tuple[str, str], link: Link, options: RewriteOptions, knobs: list[Knob]
    ) -> Link:
        site = ">".join(pair)
        latency, bandwidth = (f"{self.name}/{kind}/{site}" for kind in ("latency", "bandwidth"))
        decided = options.decision(latency)
        if decided is not None:
            link = replace(link, latency_seconds=checked(decided, latency), source="decided")
        decided = options.decision(bandwidth)
        if decided is not None:
            rate = checked(decided, bandwidth)
            link = replace(link, seconds_per_byte=1 / rate if rate else 0.0, source="decided")
        rate = 1 / link.seconds_per_byte if link.seconds_per_byte else 0.0
        why = link.source
        knobs.append(Knob(latency, link.latency_seconds, (), f"seconds of a transfer: {why}"))
        knobs.append(
            Knob(bandwidth, rate, (), f"bytes per second, 0 where memory is shared: {why}")
        )
        return link


def mark_links(entry: FuncOp, links: Links) -> None:
    """Notes the links at the entry function."""
    entry.attributes[LINKS_MARK] = DictionaryAttr({
        ">".join(pair): numbers_attribute([link.latency_seconds, link.seconds_per_byte])
        for pair, link in links.items()
    })  # fmt: skip


def links_of(entry: FuncOp) -> dict[tuple[str, str], Link]:
    """The links that are noted at the entry function. InputError where what is there is none."""
    attribute = entry.attributes.get(LINKS_MARK)
    found: dict[tuple[str, str], Link] = {}
    if not isinstance(attribute, DictionaryAttr):
        return found
    for name, pair in attribute.data.items():
        source, _, target = name.partition(">")
        numbers = [n.value.data for n in pair if isinstance(n, FloatAttr)] if isinstance(
            pair, ArrayAttr) else []  # fmt: skip
        if len(numbers) != 2 or not target:
            raise InputError(f"links of {entry.sym_name.data}: {name} is no pair of numbers")
        latency, per_byte = (checked(number, f"link {name}") for number in numbers)
        found[source, target] = Link(latency, per_byte, "")
    return found
