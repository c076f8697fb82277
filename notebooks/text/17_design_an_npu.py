# %% [markdown]
# # Design an NPU
#
# Lesson 13 compiles for a machine that is given. Here you choose the machine: how many multipliers, how wide the link to global memory. Every multiplier and every wire costs area and energy, whether a network uses it or not.
#
# The idea of this notebook: **a machine is as fast as what it waits for, and what it waits for depends on the network**. You will predict which machine wins, and let a *sweep* judge: it compiles a network for many machines and simulates each.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict
from explorer.tuning.machines import parse_field, sweep_machines

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())
images = np.load(root / "sample_models" / "digits_test.npz")["images"][:20].astype(np.float32)

# %% [markdown]
# ## Two networks
#
# Both read the same pictures of digits. The convolutional network uses a weight for each of up to 64 positions, the network of three matrix products once for a picture.

# %%
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
    times = multiplications[name] / weights[name]
    print(f"{name}: {multiplications[name]:,} multiplications, {times:.1f} for each weight")


# %% [markdown]
# ## A machine in numbers
#
# `tiny-8` multiplies `batch` positions by a block of `rows` x `columns` weights in a cycle, and its DMA engine moves `bytes_per_cycle`. `sweep` gives the fields other values, in all combinations, and counts cycles in the simulator. What the networks compute is the same on each machine, to the last bit.

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


# %% [markdown]
# The array of `batch=1` has 32 multipliers, that of `batch=16` has 512.

# %% tags=["prediction"]
larger = predict(
    "How many times as fast is the MLP with 512 multipliers instead of 32 (4 bytes a cycle)?", ...
)
larger

# %%
mlp = nine_machines("mlp")
larger.check(
    round(mlp[1, 4] / mlp[16, 4], 2),
    "`batch` is a number of positions, and a product with one picture has one. Its weights are "
    "used once each, so that the array waits for the link, however large it is.",
    within=0.1,
    tempting={
        16: "That needs sixteen positions that share a weight.",
        4: "Nothing is shared here.",
    },
)

# %% [markdown]
# ## Where does the next transistor go?
#
# The convolutional network does have positions that share weights. Start from the machine in the middle: 128 multipliers, 4 bytes a cycle. You may make one of the two four times as large.

# %% tags=["prediction"]
where = predict("What makes the CNN faster?", ..., choices=("the array", "the link"))
where

# %%
cnn = nine_machines("cnn")
where.check(
    "the array" if cnn[16, 4] < cnn[4, 16] else "the link",
    f"The array gives {cnn[4, 4] / cnn[16, 4]:.2f} times, the link {cnn[4, 4] / cnn[4, 16]:.2f} "
    "times. With 128 multipliers this network already waits for its bytes most of the time.",
    tempting={"the array": "Convolutions reuse weights, but these tensors are small."},
)


# %%
def show(name, cycles):
    print(f"{name}: cycles by array (down) and link (across)")
    print("            " + "".join(f"{link:>4} B/cycle" for link in LINKS))
    for batch in ARRAYS:
        print(f"{32 * batch:4} MACs   " + "".join(f"{cycles[batch, n]:12,}" for n in LINKS))


show("cnn", cnn)
show("mlp", mlp)


# %% [markdown]
# Read the tables by columns and by rows. Where a step to the right changes little, the array is what the network waits for; where a step down changes little, it is the link.
#
# ## Two roofs
#
# No machine needs fewer cycles than its multiplications take, and none fewer than its bytes take. The larger of the two is the *roof*. Here is what the CNN takes above it; each parameter counts as one byte.

# %%
def roof(name, batch, link):
    return max(multiplications[name] / (32 * batch), weights[name] / link)


for (batch, link), cycles in cnn.items():
    share = roof("cnn", batch, link) / cycles
    print(
        f"{32 * batch:4} MACs {link:3} B/cycle  {share:4.0%} of the roof  {'█' * round(40 * share)}"
    )

# %% tags=["prediction"]
narrow = predict(
    "1 byte a cycle: how many times as fast is the CNN with 512 multipliers instead of 32?", ...
)
narrow

# %%
narrow.check(
    round(cnn[1, 1] / cnn[16, 1], 2),
    "Both machines wait for the same bytes. The multiplications that are left to hide are few.",
    within=0.2,
    tempting={16: "That is the roof of the array; the other roof is lower here.", 4: "It is less."},
)

# %% [markdown]
# The last machine, with everything, is the fastest for both, and far below its roof: starts, latencies and waits are left, which no array makes shorter. This is Amdahl's law for machines.
#
# ## Which machine is worth building?
#
# A machine that another one beats in cycles, multipliers, traffic, scratchpad and energy is not. The rest is the *Pareto front*, marked in the table. Here eight arrays compete; look for three of 128 multipliers.

# %%
fields = ("rows=4,8", "columns=8,16", "batch=2,4")
sweep("cnn", *(f"engines.matrix.{field}" for field in fields))

# %% [markdown]
# **Design note.** Google's first TPU has 65,536 multipliers. Of the six networks that it was measured with, the four of matrix products and LSTMs waited for memory, and the two convolutional ones for the array (Jouppi et al., 2017); the next TPU got faster memory first. NVDLA and Arm's Ethos-U are sold in several sizes for this reason. Timeloop and ZigZag search machines and tiles together, by a model instead of a simulator.
#
# `explorer sweep MODEL --target tiny-8 --vary engines.matrix.batch=1,4,16 -o front.json` does the same from the command line, and continues where it was interrupted.
#
# ## Exercises

# %% [markdown]
# **1.** At how many multipliers do both roofs of the CNN have the same height, if the link moves 4 bytes a cycle and each weight is loaded once? (Two digits are enough.)

# %% explorer={"exercise": "17.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "17.1"} tags=["grader"]
check(
    answer,
    exercises.balanced_array(multiplications["cnn"], weights["cnn"], bytes_per_cycle=4),
    "Set the two terms of `roof` equal.",
)

# %% [markdown]
# **2.** The middle machine has batch 4, 4 rows, 8 columns: 128 multipliers. Give `batch`, `rows` and `columns` of another array with at most 128 multipliers that takes fewer cycles for the CNN, the link as it is in `tiny-8`.

# %% explorer={"exercise": "17.2"} tags=["answer"]
answer = ...


# %% explorer={"exercise": "17.2"} tags=["grader"]
def cycles_of(batch, rows, columns):
    fields = {"batch": batch, "rows": rows, "columns": columns}
    found = sweep("cnn", *(f"engines.matrix.{field}={value}" for field, value in fields.items()))
    return found.points[0].cycles if found.points else found.skipped[0].reason


check(
    answer,
    exercises.is_a_better_array(cycles_of, than=(4, 4, 8)),
    "A tuple such as (4, 4, 8). The first convolution has one input channel.",
)

# %% [markdown]
# **3.** One of the nine machines has to do both networks, one after the other. Which has the fewest multipliers of those that take at most a quarter more cycles than the fastest? Give (batch, bytes_per_cycle).

# %% explorer={"exercise": "17.3"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "17.3"} tags=["grader"]
both = {machine: cnn[machine] + mlp[machine] for machine in cnn}
check(
    answer,
    exercises.smallest_machine(both, within=1.25),
    "Add both tables, and look from the fewest multipliers on.",
)
