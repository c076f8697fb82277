"""Levers of decibels and bytes: which tensors are quantized, to how many bits, in which range.

quantize-tensors/mode/relu1_output = F32          9.2 dB more, by bisection
quantize-tensors/threshold/image = 0.93           1.1 dB more, as calibration measured
explorer calibrate net.onnx --data DATA.npz ...   where nothing is quantized
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from explorer.compilation.compiled import Compiled
from explorer.quantization.quantize_tensors import QuantizeTensors
from explorer.quantization.table import FLOAT
from explorer.results import Knob
from explorer.results.accuracy import AccuracyReport
from explorer.results.levers import LeverOption, LeverRecord
from explorer.results.runs.quantization import QuantizationErrors, QuantizedTensor

MODE, THRESHOLD = f"{QuantizeTensors.name}/mode/", f"{QuantizeTensors.name}/threshold/"
BISECTED = "a bisection over sets of quantized layers, run on the data"
OWN_NOISE = (
    "noise of this layer alone, fed the float model's tensors; what it costs the outputs is not "
    "known"
)
OBSERVED = "the outputs that calibration measured with this range"


def precision_levers(compiled: Compiled, report: AccuracyReport | None) -> Iterator[LeverRecord]:
    """The levers of `sqnr_db`: modes and ranges of tensors, or how to calibrate."""
    record = compiled.quantization
    if record is None or not record.tensors:
        yield from quantizing(compiled)
        return
    knobs = {knob.address: knob for knob in compiled.knobs}
    errors = None if report is None else report.quantization
    noise = _own_noise(errors)
    tensors = sorted(record.tensors, key=lambda tensor: noise.get(tensor.name, math.inf))
    for tensor in tensors:
        if (knob := knobs.get(MODE + tensor.name)) is not None:
            yield _mode(knob, tensor, errors, noise.get(tensor.name))
        if (knob := knobs.get(THRESHOLD + tensor.name)) is not None:
            yield _threshold(knob, tensor)
    name = file_name(compiled)
    yield LeverRecord(
        address="",
        group="calibration",
        of="",
        title="calibration",
        value=record.method,
        why="method and corrections of the table",
        commands=(
            f"explorer calibrate {name} --data DATA.npz --method best -o TABLE",
            f"explorer mixed {name} --data DATA.npz --quantize TABLE -o MODES",
        ),
    )


def quantizing(compiled: Compiled) -> Iterator[LeverRecord]:
    """How a float model is quantized: no decision of this compilation does that."""
    name, target = file_name(compiled), compiled.target
    integer = " --arithmetic integer" if target.arithmetic == "integer" else ""
    yield LeverRecord(
        address="",
        group="calibration",
        of="",
        title="quantize this model",
        value=None,
        why="all tensors are floats: a calibration with data of the task chooses ranges",
        commands=(
            f"explorer calibrate {name} --data DATA.npz --method best{integer} -o TABLE",
            f"explorer serve {name} --quantize TABLE --input EVAL.npz",
        ),
    )


def weight_levers(compiled: Compiled) -> Iterator[LeverRecord]:
    """The levers of `weights_bytes`: modes of layers, quantization of all or of weights alone."""
    record = compiled.quantization
    if record is None:
        size = compiled.program.weights_bytes
        (lever,) = quantizing(compiled)
        name = file_name(compiled)
        alone = f"explorer quantize {name} --weights int4 -o TABLE"
        yield LeverRecord(
            address="",
            group="calibration",
            of="",
            title=lever.title,
            value=None,
            options=(LeverOption(value="INT8", decisions=(), change=-0.75 * size),),
            source="a byte for each float weight; biases and tables stay wide",
            why=lever.why,
            commands=(*lever.commands, alone),
        )
        return
    knobs = {knob.address: knob for knob in compiled.knobs}
    for tensor in record.tensors:
        knob = knobs.get(MODE + tensor.name)
        if knob is not None:
            why = "weights are stored as what their operation computes in"
            yield _bits(knob, tensor, _other_modes(knob), why)


def _mode(
    knob: Knob, tensor: QuantizedTensor, errors: QuantizationErrors | None, noise: float | None
) -> LeverRecord:
    costliest = None if errors is None else errors.costliest
    is_costliest = costliest is not None and costliest.tensor == tensor.name
    gain = costliest.without_db - costliest.all_db if is_costliest and costliest else None
    options = []
    for option in _other_modes(knob):
        change = gain if option.value == FLOAT else None
        options.append(LeverOption(value=option.value, decisions=option.decisions, change=change))
    options.sort(key=lambda option: option.change is None)
    source = BISECTED if gain is not None else ""
    why = knob.why if noise is None else f"{noise:.1f} dB: {OWN_NOISE}"
    return _bits(knob, tensor, tuple(options), why, source)


def _bits(
    knob: Knob,
    tensor: QuantizedTensor,
    options: tuple[LeverOption, ...],
    why: str,
    source: str = "",
) -> LeverRecord:
    """The mode of a tensor as a lever."""
    return LeverRecord(
        address=knob.address,
        group="precision",
        of=tensor.name,
        title="bits",
        value=knob.value,
        options=options,
        source=source,
        why=why,
    )


def _other_modes(knob: Knob) -> tuple[LeverOption, ...]:
    return tuple(
        LeverOption(value=choice, decisions=((knob.address, choice),))
        for choice in knob.choices
        if choice != knob.value
    )


def _threshold(knob: Knob, tensor: QuantizedTensor) -> LeverRecord:
    """Ranges that calibration tried: one with measured outputs has a prediction."""
    candidates = () if tensor.observed is None else tensor.observed.candidates
    present = min(candidates, key=lambda c: abs(c.high - tensor.high), default=None)
    options = []
    for candidate in candidates:
        reach = max(-candidate.low, candidate.high)
        is_present = isinstance(knob.value, float) and math.isclose(reach, knob.value)
        if is_present or not reach > 0:
            continue
        known = present is not None and None not in (candidate.outputs_db, present.outputs_db)
        change = None
        if known and present is not None:
            change = (candidate.outputs_db or 0.0) - (present.outputs_db or 0.0)
        options.append(
            LeverOption(
                value=reach,
                decisions=((knob.address, reach),),
                change=change,
                also=f"method {candidate.method}",
            )
        )
    options.sort(key=lambda o: math.inf if o.change is None else -o.change)
    is_known = any(option.change is not None for option in options)
    return LeverRecord(
        address=knob.address,
        group="range",
        of=tensor.name,
        title="threshold",
        value=knob.value,
        options=tuple(options),
        source=OBSERVED if is_known else "",
        why=f"{knob.why}; any positive number is legal",
    )


def _own_noise(errors: QuantizationErrors | None) -> dict[str, float]:
    """By tensor the SQNR of the operation that makes it, by itself; the noisiest of several."""
    found: dict[str, float] = {}
    for layer in () if errors is None else errors.layers:
        if layer.tensor:
            found[layer.tensor] = min(found.get(layer.tensor, math.inf), layer.both_db)
    return found


def file_name(compiled: Compiled) -> str:
    path = compiled.model.path
    return compiled.model.name if path is None else path.name
