"""What decides how a model is compiled, and the pipeline that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explorer.backends import backend_of
from explorer.backends.records import Lowering
from explorer.compilation.assigning import AlonePricer, assigning_passes
from explorer.compilation.custom_passes.pipelines import Edit, with_edits
from explorer.compilation.settings.tuned import TunedSchedules, tuned_schedules
from explorer.errors import DeviceError, InputError
from explorer.ir.requantization import AS_ONNXRUNTIME, Requantization
from explorer.ir.rewriting.passes import Pass, RulePass
from explorer.ir.sizes.ranges import SizeRange
from explorer.memory.exact import ExactPlanner
from explorer.memory.planners import Planner
from explorer.passes import top_pipeline
from explorer.passes.lower.assign_layouts import LEGAL_BLOCKS
from explorer.passes.lower.partition import Other
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.passes.quantize.convolutions_of_one_window import ConvolutionsOfOneWindow
from explorer.passes.simplify.pad_windows import PadWindows
from explorer.passes.sizes.keep_range import KeepRange
from explorer.passes.sizes.keep_sizes import KeepSizes
from explorer.passes.states.growth import GrowingPair
from explorer.passes.states.keep_past import KeepPast
from explorer.passes.states.narrow_past import NarrowPast
from explorer.quantization.corrections.correct_bias import CorrectBias
from explorer.quantization.corrections.equalize_layers import EqualizeLayers
from explorer.quantization.corrections.record import ADAROUND, BIAS, CLE, SMOOTH, Corrections
from explorer.quantization.corrections.round_weights import RoundWeights
from explorer.quantization.corrections.smooth_activations import SmoothActivations
from explorer.quantization.quantize_tensors import MODE, QuantizeTensors
from explorer.quantization.quantize_weights import QuantizeWeights
from explorer.quantization.round_scales import RoundScales
from explorer.quantization.table import FLOAT, ThresholdTable
from explorer.results.names import near_name
from explorer.runtime.devices import DeviceRecord
from explorer.targets import Target
from explorer.targets.capabilities import common_capabilities

if TYPE_CHECKING:
    from explorer.compilation.custom_passes.continuing import HandEdit

Progress = Callable[[str, int, int], None]
"""Called before every pass with its name, its number from 0 and how many there are."""


@dataclass(frozen=True)
class Settings:
    """All that decides how a model is compiled: equal settings give equal programs.

    A fork changes some of it.
    """

    target: Target
    others: tuple[Target, ...] = ()
    """Further targets that operations may be assigned to; the first one is their fallback."""
    absent: tuple[tuple[str, str], ...] = ()
    """Targets that were left out, and why: this machine has no device for them."""
    clusters: tuple[tuple[str, str], ...] = ()
    """Names, and patterns of operations that run on one device."""
    disable: tuple[str, ...] = ()
    """Names of passes that are left out; required ones cannot be."""
    decisions: Mapping[str, object] = field(default_factory=dict)
    """Overrides by address, `pass/rule/site`, or `pass/rule` for a whole rule."""
    fuel: int | None = None
    """At most so many rewrites by optional passes; what lowering needs is always done."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes of symbolic dimensions."""
    open_ranges: tuple[SizeRange, ...] = ()
    """Dimensions that stay open; `dimensions` has the largest size of each."""
    capacity: int | None = None
    """Rows of states that would grow with each call."""
    pasts: tuple[GrowingPair, ...] = ()
    """Those states, where there is a capacity."""
    planner: Planner = field(default_factory=ExactPlanner)
    budget_bytes: int | None = None
    """Most bytes that the arena may take."""
    flash_bytes: int | None = None
    """Most bytes that weights and code may take."""
    pipeline: tuple[Pass, ...] | None = None
    """Another list of passes instead of the target's."""
    edits: tuple[Edit, ...] = ()
    """Passes inserted and put in another order, as they were one after the other."""
    tuned: bool = True
    """Whether kernels get the schedules that a search has measured to be faster, where some are
    kept; kernels of which something is overridden do not."""
    tuned_threads: int = 1
    """Threads that those were measured with."""
    host: bool = True
    """Whether the host runs what has no compiled form; without, such a model is refused."""
    quantization: ThresholdTable | None = None
    """Thresholds with which a float model is quantized."""
    edited: HandEdit | None = None
    """Text of a person's own in the place of what some pass made."""


CORRECTING: Mapping[str, Callable[[Corrections, frozenset[str], bool], Pass]] = {
    CLE: lambda record, floats, integers_only: EqualizeLayers(),
    SMOOTH: lambda record, floats, integers_only: SmoothActivations(record),
    ADAROUND: RoundWeights,
    BIAS: CorrectBias,
}


def default_pipeline(settings: Settings, device: DeviceRecord | None) -> tuple[Pass, ...]:
    """The passes for a target, in order."""
    target = settings.target
    backend = backend_of(target)
    lanes = machine_lanes(target, device)
    sizes = dict(settings.dimensions)
    kept = _kept_sizes(settings)
    if settings.capacity is not None:
        kept += (KeepPast(settings.pasts, settings.capacity, sizes), NarrowPast(backend.runs_loops))
    lowering = Lowering(
        target=target,
        device=device,
        lanes=lanes,
        channel_block=channel_block(target, lanes) if backend.runs_loops else 0,
        is_open=bool(settings.open_ranges) or settings.capacity is not None,
        tuned=_tuned(settings, device),
        planner=settings.planner,
        budget_bytes=settings.budget_bytes,
        refuses=backend.refusals(target),
    )
    if settings.others and kept:
        _require_rows_alone(settings)
    others = other_targets(settings)
    capabilities = common_capabilities([
        backend.capabilities(target, lanes),
        *(backend_of(t).capabilities(t, machine_lanes(t, device_for(t))) for t in settings.others),
    ])  # fmt: skip
    return (
        *kept,
        *top_pipeline(
            dict(settings.dimensions) if settings.capacity is None else {},
            requantization=_requantization(settings) or AS_ONNXRUNTIME,
            capabilities=capabilities,
            quantizing=_quantizing(settings),
            rounding=_rounding(settings),
            integers_only=_integers_only(settings),
        ),
        *dict.fromkeys(
            p for t in (target, *settings.others) for p in backend_of(t).before_placement()
        ),
        *_assigning(settings),
        # One program for a range of sizes has one function.
        PlaceOnDevice(
            target.name,
            settings.host and not settings.open_ranges,
            lowering.refuses,
            others=tuple(Other(t.name, backend_of(t).refusals(t)) for t in others),
            missing="" if settings.others else backend.companion(target).missing,
        ),
        *backend.passes(lowering),
    )


def _kept_sizes(settings: Settings) -> tuple[Pass, ...]:
    """The passes that keep dimensions open: by rows where one of them is enough for that."""
    ranges, sizes = settings.open_ranges, dict(settings.dimensions)
    if not ranges:
        return ()
    if settings.others:
        return (PadWindows(), KeepRange(ranges[0], sizes))
    every = KeepSizes(ranges, sizes)
    keeping = KeepRange(ranges[0], sizes, every) if len(ranges) == 1 else every
    return (PadWindows(), keeping)


def _require_rows_alone(settings: Settings) -> None:
    """What several targets may leave open: one dimension, row by row, where all run loops."""
    plain = [t.name for t in (settings.target, *settings.others) if not backend_of(t).runs_loops]
    if settings.capacity is not None or len(settings.open_ranges) > 1:
        raise InputError(
            "on several targets one dimension may be open, and no capacity of a cache",
            hint="give one size, or one target",
        )
    if plain:
        raise InputError(f"{plain[0]} runs programs of one size", hint="give one size")


def present_targets(
    targets: Sequence[Target],
) -> tuple[tuple[Target, ...], tuple[tuple[str, str], ...]]:
    """The targets that have a device, and the others with the reason; DeviceError without any."""
    present: list[Target] = []
    absent: list[tuple[str, str]] = []
    for target in targets:
        try:
            device_for(target)
        except DeviceError as error:
            absent.append((target.name, str(error)))
        else:
            present.append(target)
    if not present:
        raise DeviceError("; ".join(f"{name}: {reason}" for name, reason in absent))
    return tuple(present), tuple(absent)


def other_targets(settings: Settings) -> tuple[Target, ...]:
    """Targets that functions may be compiled for besides the first one: those that were given, else
    the one that the backend has for what it refuses."""
    if settings.others:
        return settings.others
    companion = backend_of(settings.target).companion(settings.target).target
    return () if companion is None else (companion,)


def _assigning(settings: Settings) -> tuple[Pass, ...]:
    """The passes that choose between several targets."""
    if not settings.others:
        return ()
    pricers = [_pricer(settings, target) for target in (settings.target, *settings.others)]
    return assigning_passes(pricers, settings.clusters)


def _pricer(settings: Settings, target: Target) -> AlonePricer:
    """What a target alone would take: its own passes from placement on."""
    device = device_for(target)
    alone = Settings(target, tuned=settings.tuned, tuned_threads=settings.tuned_threads)
    passes = default_pipeline(alone, device)
    placed = next(i for i, pass_ in enumerate(passes) if isinstance(pass_, PlaceOnDevice))
    return AlonePricer(target, device, machine_lanes(target, device), passes[placed:])


def _requantization(settings: Settings) -> Requantization | None:
    """Of the first target that has a scheme: all compute the same numbers."""
    schemes = (target.requantization for target in (settings.target, *settings.others))
    return next((scheme for scheme in schemes if scheme is not None), None)


def _integers_only(settings: Settings) -> bool:
    return any(t.arithmetic == "integer" for t in (settings.target, *settings.others))


def _quantizing(settings: Settings) -> tuple[Pass, ...]:
    table = settings.quantization
    if table is None:
        return ()
    if table.weights is not None:
        return ConvolutionsOfOneWindow(), QuantizeWeights(table)
    integers_only = _integers_only(settings)
    quantize = QuantizeTensors(table, integers_only=integers_only, in_powers=_shifts(settings))
    return (
        *correcting_passes(table.corrections, _floats(settings, table), integers_only),
        quantize,
    )


def _rounding(settings: Settings) -> tuple[Pass, ...]:
    """Of scales that are the source's own: thresholds of a table become powers by themselves."""
    return (RoundScales(),) if settings.quantization is None and _shifts(settings) else ()


def _shifts(settings: Settings) -> bool:
    """Whether the target requantizes by shifts alone."""
    how = _requantization(settings)
    return how is not None and how.scheme == "shift"


def _floats(settings: Settings, table: ThresholdTable) -> frozenset[str]:
    """Tensors that stay float, as the table and decisions about it say."""
    head = f"{QuantizeTensors.name}/{MODE}/"
    decided = {
        address.removeprefix(head): str(value)
        for address, value in settings.decisions.items()
        if address.startswith(head)
    }
    modes = {**table.modes, **decided}
    return frozenset(name for name, mode in modes.items() if mode == FLOAT)


def correcting_passes(
    record: Corrections | None,
    floats: frozenset[str] = frozenset(),
    integers_only: bool = False,
) -> tuple[Pass, ...]:
    """Those that the record has something for, in the order in which it was found.

    floats: tensors whose modes are F32; integers_only: whether the target computes without
    floats.
    """
    if record is None:
        return ()
    return tuple(CORRECTING[kind](record, floats, integers_only) for kind in record.kinds)


def _tuned(settings: Settings, device: DeviceRecord | None) -> TunedSchedules | None:
    if not settings.tuned:
        return None
    return tuned_schedules(settings.target, device, settings.tuned_threads)


def full_pipeline(settings: Settings, device: DeviceRecord | None) -> tuple[Pass, ...]:
    """The given passes or the target's, edited; disabled ones included."""
    return with_edits(settings.pipeline or default_pipeline(settings, device), settings.edits)


def machine_lanes(target: Target, device: DeviceRecord | None) -> int:
    """Floats in a vector: the target's, or the device's where the target says auto."""
    backend = backend_of(target)
    if target.vector_floats == "auto":
        return backend.vector_floats(device, target)
    if target.vector_floats not in backend.vector_widths:
        raise InputError(
            f"target {target.name}: vector_floats is {target.vector_floats}",
            hint="auto or one of " + ", ".join(map(str, backend.vector_widths)),
        )
    return int(target.vector_floats)


def channel_block(target: Target, lanes: int) -> int:
    """Channels per block that the target asks for; 0 where it wants plain tensors."""
    preferred = target.layout.channel_block
    wanted = lanes if preferred == "vector" else preferred
    block = wanted if wanted > 1 else 0
    if block not in LEGAL_BLOCKS:
        raise InputError(
            f"target {target.name}: layout.channel_block is {preferred}",
            hint="vector, 1 or one of " + ", ".join(str(b) for b in LEGAL_BLOCKS if b),
        )
    return block


def device_for(target: Target) -> DeviceRecord | None:
    """The device that the program will run on; None for this processor."""
    return backend_of(target).device()


def without_disabled(pipeline: Sequence[Pass], disable: Sequence[str]) -> tuple[Pass, ...]:
    names = [p.name for p in pipeline]
    for name in disable:
        if name not in names:
            raise InputError(f"there is no pass {name!r}", hint=near_name(name, names))
        if any(p.name == name and p.is_required for p in pipeline):
            raise InputError(
                f"pass {name!r} cannot be disabled: what follows needs it",
                hint="disable one of " + ", ".join(p.name for p in pipeline if not p.is_required),
            )
    return tuple(p for p in pipeline if p.name not in disable)


def check_decisions(decisions: Mapping[str, object], pipeline: Sequence[Pass]) -> None:
    """InputError for an address of no pass, of a rule that the pass has not, or that is no bool.

    `pipeline` with what is disabled. Sites are known only when the pass has run.
    """
    passes = {p.name: p for p in pipeline}
    for address, value in decisions.items():
        name, *rest = address.split("/", 2)
        if not rest or name not in passes:
            raise InputError(
                f"no decision has the address {address!r}",
                hint="addresses are pass/rule/operation; " + near_name(name, list(passes)),
            )
        rules = rule_names(passes[name])
        if rules and rest[0] in passes[name].choices:  # pyright: ignore[reportAttributeAccessIssue]
            continue
        if rules and rest[0] not in rules:
            raise InputError(
                f"no decision has the address {address!r}: {name} has no rule {rest[0]!r}",
                hint=near_name(rest[0], rules),
            )
        if rules and not isinstance(value, bool):
            raise InputError(
                f"{address} cannot be {value!r}: a rule is used, or not", hint="a bool"
            )


def rule_names(pass_: Pass) -> list[str]:
    """Names of the rules of a pass; empty for passes that are not made of rules."""
    return [rule().name for rule in pass_.rules] if isinstance(pass_, RulePass) else []
