# %% [markdown]
# # Search a schedule
#
# Notebook 7 climbed a ladder of steps that somebody had chosen. There are thousands of schedules for one convolution, all of them right (up to rounding), and which one is fastest depends on the machine.
#
# The idea of this notebook: **a schedule is data**. It can be written down, changed and given back. What can be changed can be *predicted* without running it, and *searched* by running it.

# %%
import os
import tempfile
from pathlib import Path

# What is kept below goes into a folder of this notebook's own.
os.environ["EXPLORER_CACHE"] = tempfile.mkdtemp(prefix="search-a-schedule-")

import explorer as ex
from explorer.course import check, exercises, predict, skip

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

model = root / "sample_models" / "digits_cnn.onnx"
KERNEL = "conv_3x3_2"
c = ex.compile(model).fork(schedule={KERNEL: {"schedule": "direct"}})
c.schedule[KERNEL]

# %% [markdown]
# `conv_3x3_2` makes 32 channels of 8×8 pixels out of 16, through a window of 3×3. These words and numbers are its *choices*: from them follows a list of steps.
#
# ## A schedule is a list
#
# Each row is a step and its arguments: these steps, in this order, turn the seven loops of the textbook into the kernel.

# %%
steps = c.kernels[KERNEL].schedule
for row in steps:
    print(row["step"].ljust(14), {key: value for key, value in row.items() if key != "step"})

# %% [markdown]
# Leave a step out and give the list back. `unroll` writes loops over the tile out, so that every sum has a register of its own.

# %% tags=["prediction"]
without = [row for row in steps if row["step"] != "unroll"]
slower = predict("How many times as slow will the kernel be without it?", ...)

d = c.fork(schedule={KERNEL: without})
before = c.measure_ladder(KERNEL).rungs[-1].milliseconds
after = d.measure_ladder(KERNEL).rungs[-1].milliseconds
slower

# %%
times = after / before
slower.check(
    round(times, 1),
    f"{after * 1e3:.1f} µs instead of {before * 1e3:.1f}, just now. A quarter more or less counts.",
    within=0.25 * times,
)

# %% [markdown]
# It is slower, and right: every step is checked when it is given back. A list can ask for something slow, never for something wrong. Ask for the impossible: cut the row of 8 pixels, `j`, into tiles of 7.

# %%
cut = {"step": "split", "loop": "j", "into": "jt jp", "factors": [7]}
impossible = [cut, *steps]

try:
    c.fork(schedule={KERNEL: impossible})
except ex.ExplorerError as error:
    print(error)

# %%
# The schedule step by step, with the loops that each leaves.
c.explore(at={"operation": c.kernels[KERNEL].operations[0], "tab": "loops", "dock": "kernels"})

# %% [markdown]
# ## What would it cost?
#
# To try a schedule takes a second, to *predict* it milliseconds. The compiler counts what the innermost loops do and asks the target's file (`explorer/targets/cpu.toml`) how much of that a core can do in a cycle.

# %%
c.cost(KERNEL)

# %% [markdown]
# Terms that overlap go on at the same time: the longest of them counts. The others are added. Now the tile with one pixel and one vector: one sum in one register.

# %% tags=["prediction"]
tiny = c.fork(schedule={KERNEL: {"pixels": 1, "vectors": 1}})
terms = ["arithmetic", "loads", "latency", "spills"]
bound = predict(f"Which term will decide ({', '.join(terms)})?", ..., choices=terms)
bound

# %%
bound.check(
    tiny.cost(KERNEL).bound,
    "One sum: each addition has to wait for the one before.",
    evidence=tiny.cost(KERNEL),
)

# %% [markdown]
# ## Search
#
# A model does not know everything about your processor. So `ex.tune` measures. It begins with the default, takes what the model likes best, and then *mutates* what turned out fastest, a choice or two at a time. Every candidate first has to give the same numbers as the default; then the two are timed in turns, because a machine is never quite quiet.
#
# Twelve candidates take half a minute.

# %%
result = ex.tune(c, budget=12, kernels=[KERNEL], seed=0)
search = result[KERNEL]
search

# %% [markdown]
# Every dot is a candidate: the square is the default, the diamond is what was chosen.
#
# The fastest of twelve measurements is fast for two reasons: its schedule is good, and it was lucky. So it is measured again, longer, and this time, in the column *confirmed*, is mostly the worse one: statisticians call it the *winner's curse*. A winner that is not faster than the default a second time is dropped, and the next one has its turn. To choose well it is enough that what it calls faster is faster.

# %% tags=["prediction"]
measured = [x for x in search.candidates if x.status == "measured"]
agreeing = predict(
    "Of all pairs of candidates, which share does the model order correctly (0 to 1)?", ...
)
agreeing

# %%
pairs = [(a, b) for a in measured for b in measured if a.measured_us < 0.98 * b.measured_us]
right = sum(a.predicted_us < b.predicted_us for a, b in pairs)
agreeing.check(
    round(right / len(pairs), 2) if pairs else 1.0,
    f"{right} of {len(pairs)} pairs that differ by more than 2 %. A tenth more or less counts.",
    within=0.1,
)

# %% [markdown]
# The same as a table, to sort and to plot:

# %%
result.to_frame()

# %% [markdown]
# ## Keep it
#
# What won by more than the noise is kept beside the compiled programs, under a key that holds everything it depends on: the whole workload, the target, the processor, the compiler, the number of threads. The next compilation asks for it. Where the default was best, nothing is kept. So a tuned kernel was faster when it was measured; that was alone, with everything in the caches, and a network is not quite that.

# %%
print(search.why)
again = ex.compile(model)
for knob in again.knobs:
    if KERNEL in knob.address:
        print(knob.address.split("/")[-1].ljust(16), str(knob.value).ljust(8), knob.why[:90])

# %% [markdown]
# Asking once more costs next to nothing: a search that ended is read, one that was killed is continued. In seconds:

# %%
ex.tune(c, budget=12, kernels=[KERNEL], seed=0).seconds

# %% [markdown]
# **Design note.** AutoTVM and Ansor learn their cost model from measurements, and Ansor makes its own space. XLA times tiles of products on GPUs. TFLite does not search.
#
# ## Exercises
#
# **1.** A tile can be too large: when more vectors are alive at once than there are registers, some are *spilled* to memory and loaded again. Make a fork of `c` in which the term `spills` of the kernel's cost is not zero. (Choices are `vectors`, `pixels` and `rows`; a tile may span several rows when it is as wide as the picture.)

# %% explorer={"exercise": "9.1"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "9.1"} tags=["grader"]
check(mine, exercises.spills(KERNEL), "c.fork(schedule={KERNEL: {choice: number, ...}})")

# %% [markdown]
# **2.** Make a fork of `c` in which `conv_3x3_2` is scheduled by a list of your own: the same steps in the same order, of which at least one is *told something else*. The numbers must be right, which is not up to you.

# %% explorer={"exercise": "9.2"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "9.2"} tags=["grader"]
check(
    mine, exercises.tells_steps_otherwise(KERNEL, steps), "c.fork(schedule={KERNEL: list_of_steps})"
)

# %% [markdown]
# **3.** Search another kernel of the network with a seed other than 0, eight candidates at most, and assign the `SearchResult` to `mine`.

# %% explorer={"exercise": "9.3"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "9.3"} tags=["grader"]
check(
    mine,
    exercises.is_another_search(KERNEL, seed=0, most=8),
    "ex.tune(c, budget=8, kernels=[name], seed=1)",
)
