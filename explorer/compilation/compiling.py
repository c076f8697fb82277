"""`explorer.compile`: reads what it is given, compiles it, and describes every option.

c = compile("digits_cnn.onnx", target="cpu", disable=["fuse-activation"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.calling import named_arguments
from explorer.compilation.compilation import Compilation, compile_model
from explorer.compilation.settings.quantizing import ModesChoice, TableChoice
from explorer.compilation.settings.settings import Progress
from explorer.importers.live import load_any
from explorer.ir.rewriting.passes import Pass
from explorer.memory.choosing import PlannerName
from explorer.memory.planners import Planner
from explorer.results.pass_names import PassName
from explorer.targets.together import TargetsChoice

if TYPE_CHECKING:
    from explorer.files import ModelPath
    from explorer.importers import InputValue, SourceModel
    from explorer.importers.pytorch.live import TorchModel


@named_arguments
def compile(
    model: SourceModel | ModelPath | TorchModel,
    target: TargetsChoice = "cpu",
    *,
    disable: Sequence[PassName | str] = (),
    decisions: Mapping[str, object] | None = None,
    fuel: int | None = None,
    dimensions: Mapping[str, int | tuple[int, int]] | None = None,
    inputs: Mapping[str, InputValue] | None = None,
    planner: Planner | PlannerName | str | None = None,
    budget_bytes: int | None = None,
    flash_bytes: int | None = None,
    pipeline: Sequence[Pass] | None = None,
    tuned: bool = True,
    tuned_threads: int = 1,
    host: bool = True,
    quantization: TableChoice = None,
    modes: ModesChoice = None,
    states: str | Sequence[str] = (),
    capacity: int | None = None,
    clusters: Mapping[str, str] | None = None,
    fallback: bool = False,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
    progress: Progress | None = None,
) -> Compilation:
    """Compiles a model for a target and records every pass.

    model: a path, what `load` returns, or a module of PyTorch with args, kwargs and dynamic_shapes
    as torch.export.export takes them. target: a name, a file, a target, or several (`cpu+opencl`,
    or a list): then every operation runs where all costs are least. clusters: by name, patterns of
    operations, or of nodes of the model, that run on one device. fallback: targets without a device
    on this machine are left out; `placement.absent` has the reasons.

    disable: passes, rules or rewrites to leave out. decisions: values by address, as
    `Compilation.knobs` has them. fuel: the maximum of rewrites of optional passes. pipeline: passes
    of one's own, at least one.

    dimensions: sizes of symbolic dimensions by name; a pair (lowest, highest) for one of them makes
    one program for all these sizes. inputs: arrays for some inputs or all, whose shapes give the
    sizes that dimensions leaves out; lists of arrays for sequences.

    planner: of memory. budget_bytes: the maximum of the arena; flash_bytes: that of weights and
    code. tuned: whether schedules that `tune` kept are used, measured with tuned_threads. host:
    False refuses what only the host runs.

    quantization: a table of thresholds or its file (`calibrate` makes one). modes: INT8, INT16 or
    F32 by tensor, or the file of a quantization table. states: inputs and outputs that are states,
    as `past.*=present.*`, besides those that the model declares. capacity: rows of states that
    would grow with each call.

    progress: called before every pass with its name, its number and how many there are.

    Raises ExplorerError where the model, an option or the target does not allow it.
    """
    return compile_model(
        load_any(model, inputs, args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes),
        target,
        dimensions=dimensions,
        inputs=inputs,
        disable=disable,
        decisions=decisions,
        fuel=fuel,
        planner=planner,
        budget_bytes=budget_bytes,
        flash_bytes=flash_bytes,
        pipeline=pipeline,
        tuned=tuned,
        tuned_threads=tuned_threads,
        host=host,
        quantization=quantization,
        modes=modes,
        states=states,
        capacity=capacity,
        clusters=clusters,
        fallback=fallback,
        progress=progress,
    )
