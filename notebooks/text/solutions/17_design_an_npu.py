# %% [markdown]
# # Design an NPU: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises
from explorer.tuning.machines import parse_field, sweep_machines

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
images = np.load(root / "sample_models" / "digits_test.npz")["images"][:20].astype(np.float32)

models = {name: root / "sample_models" / f"digits_{name}.onnx" for name in ("cnn", "mlp")}
tables = {
    name: ex.calibrate(
        path, {"image": images}, method="min-max", corrections=(), arithmetic="integer"
    )
    for name, path in models.items()
}
multiplications, weights = {}, {}
for name, path in models.items():
    c = ex.compile(path)
    multiplications[name], weights[name] = c["infer-shapes"].after.macs, c.model.parameters


# %%
def sweep(name, *varied):
    fields = [parse_field(text) for text in varied]
    return sweep_machines([models[name]], "tiny-8", fields, quantization=tables[name], jobs=1)


ARRAYS, LINKS = (1, 4, 16), (1, 4, 16)
NINE = "engines.matrix.batch=1,4,16", "engines.dma.bytes_per_cycle=1,4,16"


def nine_machines(name):
    """Cycles by (batch, bytes_per_cycle)."""
    points = sweep(name, *NINE).points
    return {tuple(value for _, value in point.fields): point.cycles for point in points}


cnn, mlp = nine_machines("cnn"), nine_machines("mlp")

# %% [markdown]
# **Exercise 1.** 538,240 / units = 31,963 / 4: 67 multipliers. More of them wait, fewer make the link wait.

# %%
units = multiplications["cnn"] * 4 / weights["cnn"]
verdict = check(
    round(units),
    exercises.balanced_array(multiplications["cnn"], weights["cnn"], bytes_per_cycle=4),
)
assert verdict.is_right
verdict


# %% [markdown]
# **Exercise 2.** The layers have 16 and 32 output channels and the first one has a single input channel: outputs are used, inputs and positions less. Any of (2, 4, 16), (1, 8, 16), (4, 2, 16) and (2, 8, 8) is right.

# %%
def cycles_of(batch, rows, columns):
    fields = {"batch": batch, "rows": rows, "columns": columns}
    found = sweep("cnn", *(f"engines.matrix.{field}={value}" for field, value in fields.items()))
    return found.points[0].cycles if found.points else found.skipped[0].reason


verdict = check((2, 4, 16), exercises.is_a_better_array(cycles_of, than=(4, 4, 8)))
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** 128 multipliers and 16 bytes a cycle take about a tenth more cycles than the fastest machine with its 512. With 32 multipliers the convolutions take too long on any link, and with 4 bytes a cycle the weights.

# %%
both = {machine: cnn[machine] + mlp[machine] for machine in cnn}
verdict = check((4, 16), exercises.smallest_machine(both, within=1.25))
assert verdict.is_right
verdict
