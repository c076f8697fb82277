"""The record of a compilation's placement: what the passes chose, and what the program has.

placement_of(passes, program, targets).parts         functions with operations, time and memory
                                      .transfers     values that go between devices
                                      .operations    of each its device, prices and refusals
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from explorer.compilation.assigning import host_device
from explorer.ir.evaluation import entry_function
from explorer.ir.functions.calls import calls_of, without_transfers
from explorer.ir.operation import identity_of
from explorer.ir.rewriting.passes import KNOBS, PassResult
from explorer.ir.structure import HOST, device_of, value_name
from explorer.ir.top.data import TransferOp
from explorer.ir.types import is_static, size_bytes
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.placement.assign import (
    ASSIGNMENT,
    INPUTS,
    OBJECTIVE,
    OUTPUTS,
    QUESTION,
    RULE,
    AssignDevices,
)
from explorer.placement.choosing import Assignment, least_cost
from explorer.placement.cluster import EDGES, ClusterOperations
from explorer.placement.find_devices import REFUSED
from explorer.placement.marks import cluster_of, placed_operations
from explorer.placement.price import LINKS, PRICES, Link, Price, PriceOperations
from explorer.results import Program
from explorer.results.placement import (
    AssignmentRecord,
    BandwidthPoint,
    DevicePrice,
    LinkRecord,
    OperationPlacement,
    PlacedPart,
    PlacedTransfer,
    PlacementRecord,
    RefusedEdge,
)
from explorer.targets import Target

BANDWIDTH_FACTORS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0)
MAX_ASKED_AGAIN = 1500
"""Operations of a graph for which the choice is made again with other bandwidths."""
Prices = Mapping[str, Mapping[str, Price]]


def placement_of(
    passes: Sequence[PassResult],
    program: Program,
    targets: Sequence[Target],
    decisions: Mapping[str, object],
) -> PlacementRecord:
    """Of any compilation; of one target without parts it has neither parts nor transfers."""
    found = _artifacts(passes)
    results = {result.name: result for result in passes}
    prices: Prices = found.get(PRICES, {})  # type: ignore[assignment]
    links: Mapping[tuple[str, str], Link] = found.get(LINKS, {})  # type: ignore[assignment]
    refused: Mapping[str, Mapping[str, str]] = found.get(REFUSED, {})  # type: ignore[assignment]
    assignment = found.get(ASSIGNMENT)
    host = host_device(targets)
    names = tuple(target.name for target in targets)
    parts, transfers = (), ()
    if program.parts:
        placed = results[PlaceOnDevice.name].after.program
        parts = _parts(placed, program, prices)
        transfers = _transfers(placed, host, links)
    if not isinstance(assignment, Assignment):
        return PlacementRecord(targets=names, host=host, parts=parts, transfers=transfers)
    return PlacementRecord(
        targets=names,
        host=host,
        parts=parts,
        transfers=transfers,
        operations=_operations(results, assignment, prices, refused),
        edges=tuple(
            RefusedEdge(maker=maker, reader=reader, reason=reason)
            for maker, reader, reason in found.get(EDGES, ())  # type: ignore[attr-defined]
        ),
        links=tuple(
            LinkRecord(
                source=source,
                target=target,
                latency_seconds=link.latency_seconds,
                bytes_per_second=1 / link.seconds_per_byte if link.seconds_per_byte else None,
                price=link.source,
            )
            for (source, target), link in links.items()
        ),
        assignment=AssignmentRecord(
            seconds=assignment.seconds,
            bound=assignment.bound,
            optimal=assignment.optimal,
            single=tuple(assignment.single.items()),
            greedy=assignment.greedy,
            objective=str(decisions.get(OBJECTIVE, "sum")),
        ),
        bandwidths=_bandwidths(found.get(QUESTION)),
    )


def _bandwidths(asked: object) -> tuple[BandwidthPoint, ...]:
    """The choice again, with faster and slower transfers."""
    if not isinstance(asked, dict) or len(asked["costs"]) > MAX_ASKED_AGAIN:
        return ()
    points = []
    for factor in BANDWIDTH_FACTORS:
        links = {
            pair: (latency, rate * factor) for pair, (latency, rate) in asked["transfers"].items()
        }
        # A contraction holds for the prices that it was made with: marks alone stay.
        found = least_cost(
            asked["costs"],
            asked["values"],
            links,
            together=asked["marked"],
            needs=asked["needs"],
            objective=asked["objective"],
            watts=asked["watts"],
        )
        counts = Counter(d for op, d in found.devices.items() if op not in (INPUTS, OUTPUTS))
        points.append(
            BandwidthPoint(
                factor=factor,
                seconds=found.seconds,
                counts=tuple(sorted(counts.items())),
                transferred_bytes=sum(sent.size_bytes for sent in found.transferred),
            )
        )
    return tuple(points)


def assigned_devices(result: PassResult) -> dict[str, object]:
    """The decisions that pin what a pass assigned; empty for other passes."""
    if ASSIGNMENT not in result.artifacts:
        return {}
    knobs = result.artifacts.get(KNOBS, ())
    assert isinstance(knobs, tuple)
    head = f"{AssignDevices.name}/{RULE}/"
    return {knob.address: knob.value for knob in knobs if knob.address.startswith(head)}


def _artifacts(passes: Sequence[PassResult]) -> dict[str, object]:
    wanted = (PRICES, LINKS, REFUSED, ASSIGNMENT, EDGES, QUESTION)
    return {
        name: result.artifacts[name]
        for result in passes
        for name in wanted
        if name in result.artifacts
    }


def _operations(
    results: Mapping[str, PassResult], assignment: Assignment, prices: Prices, refused: Mapping
) -> tuple[OperationPlacement, ...]:
    clustered = results.get(ClusterOperations.name, results[PriceOperations.name]).after
    block = entry_function(clustered.program).body.block
    return tuple(
        OperationPlacement(
            operation=name,
            device=assignment.devices[name],
            prices=tuple(
                DevicePrice(device=device, seconds=price.seconds, source=price.source)
                for device, price in prices.get(name, {}).items()
            ),
            refusals=tuple(refused.get(name, {}).items()),
            cluster=cluster_of(op),
        )
        for op in placed_operations(block)
        if (name := identity_of(op)) in assignment.devices
    )


def _parts(placed: ModuleOp, program: Program, prices: Prices) -> tuple[PlacedPart, ...]:
    operations = {
        call.function.sym_name.data: tuple(
            identity_of(op) for op in placed_operations(call.function.body.block)
        )
        for call in calls_of(placed)
    }
    return tuple(
        PlacedPart(
            function=part.function,
            device=part.device,
            operations=(own := operations.get(part.function, ())),
            predicted_us=_predicted(own, part.device, prices),
            arena_bytes=0 if part.program is None else part.program.arena_bytes,
            reason=part.reason,
        )
        for part in program.parts
    )


def _predicted(operations: tuple[str, ...], device: str, prices: Prices) -> float | None:
    """Microseconds of operations that were priced; copies that placement added cost none."""
    own = [prices[op][device].seconds for op in operations if device in prices.get(op, {})]
    return sum(own) * 1e6 if own else None


def _transfers(
    placed: ModuleOp, host: str, links: Mapping[tuple[str, str], Link]
) -> tuple[PlacedTransfer, ...]:
    """Of a program with parts: transfers within one memory are none."""
    maker = {
        result: device_of(call.function) for call in calls_of(placed) for result in call.results
    }
    found: list[PlacedTransfer] = []
    for op in entry_function(placed).body.block.ops:
        if not isinstance(op, TransferOp):
            continue
        is_back = not isinstance(op.input.owner, TransferOp) and op.input in maker
        source = maker[op.input] if is_back else HOST
        ends = tuple(host if end == HOST else end for end in (source, op.get("to")))
        if ends[0] == ends[1]:
            continue
        size = size_bytes(op.input) if is_static(op.input) else None
        link = links.get(ends)  # type: ignore[arg-type]
        if link is not None and not link.seconds(1):  # the same memory
            continue
        found.append(
            PlacedTransfer(
                value=_source_name(op.input),
                source=ends[0],
                target=ends[1],
                size_bytes=size,
                predicted_us=None if link is None or size is None else link.seconds(size) * 1e6,
                price="" if link is None else link.source,
            )
        )
    return tuple(found)


def _source_name(value: SSAValue) -> str:
    """The name of the value that a transfer sends, as the function that makes it has it."""
    value = without_transfers(value)
    call = value.owner
    if isinstance(value, OpResult) and isinstance(call, func.CallOp):
        module = call.parent_op()
        assert module is not None and module.parent_op() is not None
        for function in module.parent_op().walk():  # type: ignore[union-attr]
            if (
                isinstance(function, func.FuncOp)
                and function.sym_name.data == call.callee.string_value()
            ):
                last = function.body.block.last_op
                assert last is not None
                return value_name(last.operands[value.index])
    return value_name(value)
