"""Judges of compilations, plans and searches: what an answer does, on hidden networks, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from explorer.compilation.compilation import Compilation, compile_model
from explorer.compilation.custom_passes.pipelines import Insertion
from explorer.compilation.measurements.schedule_steps import Ladder
from explorer.course.exercises import lookalikes
from explorer.course.predictions import Judge, why_unfit, with_truth
from explorer.errors import ExplorerError
from explorer.importers import SourceModel, load
from explorer.memory.bounds import live_bytes
from explorer.memory.planners import make_plan, name_steps
from explorer.memory.verify import verify_plan
from explorer.results import BufferLifetime, RewriteEvent, SearchResult

A_COMPILATION = "a compilation, such as c.fork(...) or c.insert(...) gives,"
THRESHOLDS = "quantize-tensors/threshold/"
"""How the addresses of thresholds begin."""
SHARE_TOLERANCE = 0.01
"""Relative: a quotient that was typed with two or three digits counts."""


def _is_no(kind: type, what: str, answer: object) -> str:
    """Says that an answer is of another kind than `what`; empty where it is of this one."""
    if isinstance(answer, kind):
        return ""
    return f"{what} is asked for; this is of type {type(answer).__name__}"


def _of_compilation(judge: Callable[[Compilation], bool | str]) -> Judge:
    """The judge, which refuses everything that is no compilation."""

    def polite(mine: object) -> bool | str:
        if not isinstance(mine, Compilation):
            return _is_no(Compilation, A_COMPILATION, mine)
        return judge(mine)

    return polite


# -- passes and differences ------------------------------------------------------------------------


def address_of_rewrite(c: Compilation, *matched: str) -> Judge:
    """The address of the rewrite that matched all of these operations."""

    def judge(address: object) -> bool | str:
        if wrong := _is_no(str, "an address, a text such as 'pass/rule/operation',", address):
            return wrong
        event = _event_at(c, str(address))
        if event is None:
            return f"no rewrite of this compilation has the address {address!r}"
        missing = [name for name in matched if name not in event.matched]
        return not missing or f"that rewrite matched {', '.join(event.matched)}"

    return judge


def least_fuel(c: Compilation, name: str) -> Judge:
    """The least fuel with which the pass does all of its rewrites."""
    own = _fired(c, [name])
    needed = _fired(c, c.names[1 : c.names.index(name) + 1])

    def judge(fuel: object) -> bool | str:
        if wrong := why_unfit(fuel, needed):
            return wrong
        assert isinstance(fuel, int | float)
        done = min(own, max(0, int(fuel) - (needed - own)))
        if done < own:
            return f"with {fuel} of fuel only {done} of the {own} rewrites of {name} are done"
        return fuel == needed or "that is enough, but less is enough, too"

    return with_truth(judge, needed)


def has_launches(count: int, start: Compilation) -> Judge:
    """A compilation of so many launches in which every pass of `start` is still there."""

    def judge(mine: Compilation) -> bool | str:
        if set(mine.settings.disable) - set(start.settings.disable):
            return "a whole pass is left out"
        launches = len(mine.program.launches)
        return launches == count or f"it has {launches} launches"

    return _of_compilation(judge)


def fits_into(arena_bytes: int, target: str) -> Judge:
    """A compilation for that target with an arena of at most so many bytes."""

    def judge(mine: Compilation) -> bool | str:
        if mine.target.name != target:
            return f"it is compiled for {mine.target.name}"
        taken = mine.program.arena_bytes
        return taken <= arena_bytes or f"its arena takes {taken:,} bytes"

    return _of_compilation(judge)


# -- a rule of one's own ---------------------------------------------------------------------------


def replaces_divisions(c: Compilation) -> Judge:
    """A branch in which an inserted rule has replaced every division of the source model.

    The rule has to do the same to a network that is not shown: divisions by a number and by
    several numbers become products; one of a constant and one of two inputs stay.
    """
    divisions = _divisions(c, "import")

    def judge(mine: Compilation) -> bool | str:
        inserted = _inserted(mine)
        if not inserted:
            return "no rule of yours is in it"
        fired = _fired(mine, inserted)
        if fired != divisions:
            told = f"your rule fired {fired} times; right after the import there are"
            return f"{told} {divisions} divisions"
        left = _divisions(mine, inserted[-1])
        if left:
            return f"{left} divisions are left after {inserted[-1]}"
        if (right := _numbers_are_right(mine)) is not True:
            return right
        hidden = _same_rules(mine, lookalikes.divisions())
        left = _divisions(hidden, _inserted(hidden)[-1])
        if left > lookalikes.OTHER_DIVISIONS:
            return "on another network it leaves a division by a constant as it is"
        if left < lookalikes.OTHER_DIVISIONS:
            return "on another network it changes a division that is not by a constant"
        right = _numbers_are_right(hidden)
        return right is True or f"on another network {right}"

    return _of_compilation(judge)


def _inserted(mine: Compilation) -> list[str]:
    """The passes of one's own, in the order in which they run."""
    own = {edit.pass_.name for edit in mine.settings.edits if isinstance(edit, Insertion)}
    return [name for name in mine.names if name in own]


def _same_rules(mine: Compilation, model: SourceModel) -> Compilation:
    """Another model, compiled with the same passes."""
    plain = compile_model(model)
    settings = replace(plain.settings, edits=mine.settings.edits, disable=mine.settings.disable)
    return plain.branch(settings, "another network")


def _divisions(c: Compilation, name: str) -> int:
    operations = c[name].after.operations.values()
    return sum(operation.get("kind") == "div" for operation in operations)


# -- loops and kernels -----------------------------------------------------------------------------


def accumulators(choices: Mapping[str, int | str]) -> Judge:
    """How many vectors a register tile keeps."""
    sides = [int(choices[name]) for name in ("vectors", "pixels", "rows")]
    truth = int(np.prod(sides))

    def judge(count: object) -> bool | str:
        if wrong := why_unfit(count, truth):
            return wrong
        if count == truth:
            return True
        if count == sum(sides):
            return "that is the sum of its sides"
        return f"a tile of {count} accumulators has other sides"

    return with_truth(judge, truth)


def has_accumulators(kernel: str, count: int) -> Judge:
    """A compilation in which the register tile of the kernel keeps so many vectors."""

    def judge(mine: Compilation) -> bool | str:
        choices = mine.schedule[kernel]
        found = int(np.prod([int(choices[name]) for name in ("vectors", "pixels", "rows")]))
        if found != count:
            return f"the tile of {kernel} has {found} accumulators"
        return _numbers_are_right(mine)

    return _of_compilation(judge)


def share_of_speed(kernel: str, large: Ladder) -> Judge:
    """A measured ladder of the kernel, and its last rung's share of the large layer's speed."""

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            return "two things in brackets are asked for: the ladder and the share"
        mine, share = answer
        if not isinstance(mine, Ladder):
            return _is_no(Ladder, "a ladder, as c.measure_ladder(kernel) gives it,", mine)
        if mine.kernel != kernel:
            return f"this is the ladder of {mine.kernel}"
        truth = mine.rungs[-1].gflops / large.rungs[-1].gflops
        if wrong := why_unfit(share, truth):
            return f"the share: {wrong}"
        if abs(share - 1 / truth) <= SHARE_TOLERANCE / truth and abs(truth - 1) > SHARE_TOLERANCE:
            return "this is how many times as fast the large layer is; the share is its inverse"
        if abs(share - truth) > max(SHARE_TOLERANCE * truth, 0.005):
            return f"the last rungs of the two ladders are not {share:g} apart"
        return True

    return judge


# -- memory ----------------------------------------------------------------------------------------


def places_tightly(buffers: Sequence[BufferLifetime]) -> Judge:
    """Addresses by name: no overlap, and an arena as small as the bound."""
    names = [buffer.id for buffer in buffers]
    steps = name_steps(buffers, ())
    live = live_bytes(buffers, len(steps))

    def judge(addresses: object) -> bool | str:
        if not isinstance(addresses, Mapping):
            return 'addresses by name are asked for: {"a": 0, ...}'
        missing = [name for name in names if name not in addresses]
        if missing:
            return f"{', '.join(missing)} has no address yet"
        offsets = [addresses[name] for name in names]
        for name, offset in zip(names, offsets, strict=True):
            if isinstance(offset, bool) or not isinstance(offset, int):
                return f"the address of {name} is a whole number, without quotes"
        plan = make_plan(buffers, offsets, steps, live, [])
        try:
            verify_plan(plan)
        except ExplorerError as error:
            return str(error)
        return (
            plan.optimal or f"it is valid and takes {plan.peak_bytes} bytes; {max(live)} would do"
        )

    return judge


def reaches_bounds(models: Sequence[Path]) -> Judge:
    """A planner of one's own that makes the smallest plan for each of the models."""

    def judge(planner: object) -> bool | str:
        if not callable(planner):
            return "a function is asked for, which takes buffers and steps and makes a plan"
        for path in models:
            plan = compile_model(load(path), planner=planner).memory  # pyright: ignore[reportArgumentType]
            if not plan.optimal:
                return f"{path.stem} takes {plan.peak_bytes} bytes; {plan.bound_bytes} would do"
        return True

    return judge


# -- when numbers go wrong -------------------------------------------------------------------------


def heals(d: Compilation, inputs: Mapping[str, np.ndarray]) -> Judge:
    """The address of the one rewrite without which all numbers are right."""

    def judge(address: object) -> bool | str:
        if wrong := _is_no(str, "an address, a text such as 'pass/rule/operation',", address):
            return wrong
        if _event_at(d, str(address)) is None:
            return f"no rewrite of this compilation has the address {address!r}"
        accuracy = d.fork(decisions={str(address): False}).accuracy(inputs)
        return accuracy.passed or "with that rewrite declined the numbers are still wrong"

    return judge


def smallest_variance(variances: np.ndarray) -> Judge:
    """The variance of the channel in which a wrong epsilon shows most; 2 % off counts."""
    truth = float(np.min(variances))

    def judge(variance: object) -> bool | str:
        if wrong := why_unfit(variance, truth):
            return wrong
        assert isinstance(variance, int | float | np.number)
        if abs(variance - truth) <= 0.02 * truth:
            return True
        near = np.abs(variances - variance) <= 0.02 * variances
        if near.any():
            return f"that is the variance of channel {int(near.argmax())}, which is not the worst"
        return f"no channel has a variance of {variance:g}"

    return judge


def folds_norms_rightly(inputs: Mapping[str, np.ndarray]) -> Judge:
    """A branch in which a rule of one's own folds all norms, with right numbers, on a network with
    small variances, too."""

    def judge(mine: Compilation) -> bool | str:
        if "fold-batch-norm" in mine.names:
            return "the compiler's own pass does the work here; leave it out"
        inserted = _inserted(mine)
        if not inserted:
            return "no rule of yours is in it"
        left = _norms(mine, inserted[-1])
        if left:
            return f"{left} of {_norms(mine, 'import')} norms are left after {inserted[-1]}"
        again = mine.accuracy(inputs)
        if not again.passed:
            return f"still wrong: {again.bisect()}"
        hidden = _same_rules(mine, lookalikes.small_variances())
        if _norms(hidden, _inserted(hidden)[-1]):
            return "on another network it leaves a norm as it is"
        right = _numbers_are_right(hidden)
        return right is True or f"on another network {right}"

    return _of_compilation(judge)


def _norms(c: Compilation, name: str) -> int:
    return sum(op.operation == "top.batch_norm" for op in c[name].after.graph.nodes)


# -- quantization ----------------------------------------------------------------------------------


def nearer_by(c: Compilation, inputs: Mapping[str, np.ndarray], decibels: float) -> Judge:
    """A branch with other thresholds, with outputs by so many dB nearer to the float model's.

    inputs: (N, ...) by name. Every tensor stays quantized as it was.
    """
    exact = _outputs(compile_model(c.model), inputs)
    needed = _signal_to_noise(_outputs(c, inputs), exact) + decibels
    modes = _modes(c)

    def judge(mine: Compilation) -> bool | str:
        if _modes(mine) != modes:
            return "other tensors are quantized than before, or otherwise; change thresholds only"
        if not any(address.startswith(THRESHOLDS) for address in mine.settings.decisions):
            return "no threshold was decided otherwise"
        found = _signal_to_noise(_outputs(mine, inputs), exact)
        return found >= needed or f"{found:.1f} dB; at least {needed:.1f} are wanted"

    return _of_compilation(judge)


def stored_byte(real: float, low: float, high: float) -> Judge:
    """The byte that stands for a number, where a range has 255 steps."""
    scale = (high - low) / 255
    byte = round(real / scale) + round(-low / scale)

    def judge(answer: object) -> bool | str:
        if wrong := why_unfit(answer, byte):
            return wrong
        return answer == byte or f"that byte stands for {(float(answer) * scale + low):.3g}"  # pyright: ignore

    return judge


def keeps_float(c: Compilation, tensor: str) -> Judge:
    """A branch in which this tensor is in floats, and all others are as they were."""
    before = _modes(c)

    def judge(mine: Compilation) -> bool | str:
        modes = _modes(mine)
        if not modes:
            return "nothing is quantized there"
        changed = [name for name, mode in modes.items() if mode != before.get(name)]
        if tensor not in changed:
            return f"{tensor} is still {modes.get(tensor)}"
        if others := [name for name in changed if name != tensor]:
            return f"{others[0]} is otherwise, too"
        return modes[tensor] == "F32" or f"{tensor} is {modes[tensor]}"

    return _of_compilation(judge)


def _modes(c: Compilation) -> dict[str, str]:
    """Of every tensor that can be quantized; none where nothing is."""
    record = c.quantization
    return {} if record is None else {tensor.name: tensor.mode for tensor in record.tensors}


def _outputs(c: Compilation, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first output of every example."""
    (count,) = {len(array) for array in inputs.values()}
    runs = [c.run({name: array[i][None] for name, array in inputs.items()}) for i in range(count)]
    return np.concatenate([next(iter(found.values())) for found in runs])


def _signal_to_noise(found: np.ndarray, exact: np.ndarray) -> float:
    """In dB."""
    noise = np.sum((found.astype(np.float64) - exact) ** 2)
    return float(10 * np.log10(np.sum(exact.astype(np.float64) ** 2) / noise))


# -- searching a schedule --------------------------------------------------------------------------


def spills(kernel: str) -> Judge:
    """A compilation in which the kernel keeps more vectors than there are registers."""

    def judge(mine: Compilation) -> bool | str:
        term = next(term for term in mine.cost(kernel).terms if term.name == "spills")
        if not term.microseconds:
            return f"nothing is spilled: {term.why}"
        return _numbers_are_right(mine)

    return _of_compilation(judge)


def tells_steps_otherwise(kernel: str, steps: Sequence[Mapping[str, Any]]) -> Judge:
    """A compilation with the same steps in the same order, one of which is told something else."""
    names = [row["step"] for row in steps]

    def judge(mine: Compilation) -> bool | str:
        own = list(mine.kernels[kernel].schedule)
        if own == list(steps):
            return "this is the list as it was"
        found = [row["step"] for row in own]
        if found != names:
            return f"these are other steps: {', '.join(found)}"
        return _numbers_are_right(mine)

    return _of_compilation(judge)


def uses_schedule(kernel: str, schedule: str) -> Judge:
    """A compilation in which a kernel has the schedule of that name, and which is right."""

    def judge(mine: Compilation) -> bool | str:
        found = mine.schedule[kernel]["schedule"]
        if found != schedule:
            return f"{kernel} has the schedule {found!r}"
        return _numbers_are_right(mine)

    return _of_compilation(judge)


def is_another_search(kernel: str, seed: int, most: int) -> Judge:
    """The result of a search of one other kernel, with another seed and few candidates."""

    def judge(mine: object) -> bool | str:
        if not isinstance(mine, SearchResult):
            return _is_no(SearchResult, "what ex.tune gives", mine)
        if len(mine.kernels) != 1:
            return f"{len(mine.kernels)} kernels were searched"
        (found,) = mine.kernels
        if found.kernel == kernel:
            return f"this is {kernel} again"
        if mine.seed == seed:
            return f"this is seed {seed} again"
        if len(found.candidates) > most:
            return f"{len(found.candidates)} candidates"
        measured = sum(candidate.status == "measured" for candidate in found.candidates)
        return measured > 1 or "nothing was measured beside the default"

    return judge


# -- parts -----------------------------------------------------------------------------------------


def _event_at(c: Compilation, address: str) -> RewriteEvent | None:
    """The applied rewrite of that address."""
    events = (event for result in c.passes for event in result.events if event.applied)
    return next((event for event in events if event.address == address), None)


def _fired(c: Compilation, names: Sequence[str]) -> int:
    """How many rewrites these passes did."""
    return sum(event.applied for name in names for event in c[name].events)


def _numbers_are_right(mine: Compilation) -> bool | str:
    accuracy = mine.accuracy()
    return accuracy.passed or f"the numbers are wrong: {accuracy.bisect()}"


# -- smaller ---------------------------------------------------------------------------------------


def is_small_and_right(
    images: np.ndarray,
    labels: np.ndarray,
    right: int,
    *,
    weights_bytes: int | None = None,
    arena_bytes: int | None = None,
    is_float: bool = False,
) -> Judge:
    """A compilation within the bytes that answers at least so many images rightly.

    images: (N, ...), one input; labels: (N,), the place of the largest element of the output.
    None: there is no limit. is_float: nothing may be quantized.
    """

    def judge(mine: Compilation) -> bool | str:
        if is_float and mine.quantization is not None:
            return "it is quantized, and here all tensors stay floats"
        for what, taken, most in (
            ("weights", mine.program.weights_bytes, weights_bytes),
            ("the arena", mine.memory.peak_bytes, arena_bytes),
        ):
            if most is not None and taken > most:
                return f"{what}: {taken:,} bytes; at most {most:,} are allowed"
        (name,) = (value.name for value in mine.model.inputs)
        found = 0
        for image, label in zip(images, labels, strict=True):
            scores = next(iter(mine.run({name: image[None]}).values()))
            found += int(np.argmax(scores)) == int(label)
        return found >= right or f"{found} of {len(labels)} right; at least {right} are wanted"

    return _of_compilation(judge)
