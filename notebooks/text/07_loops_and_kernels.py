# %% [markdown]
# # Loops and kernels
#
# A convolution is seven nested loops around one multiplication and one addition. Written like that, it runs at a fiftieth of the machine's speed, or a two-hundredth.
#
# The idea of this notebook: **the speed is not in what is computed but in the order**. A *schedule* is a list of steps that change the loops and not the result (up to rounding). You will climb it like a ladder and measure every rung.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises, predict, skip

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

DIRECT = {"schedule": "direct", "prefetch": "none"}
c = ex.compile(root / "sample_models" / "digits_cnn.onnx").fork(schedule={"conv_3x3_2": DIRECT})

# %%
from xdsl.dialects.builtin import f32

from explorer.compilation.measurements.schedule_steps import Bars, measure_ladder, measure_last_rung
from explorer.ir.compute import KernelBuilder
from explorer.ir.inspection.printing import show
from explorer.kernels.schedules import Machine, Schedule, schedule_kernel
from explorer.kernels.steps.mark import parallel
from explorer.kernels.steps.pack import blocked_pack
from explorer.kernels.steps.restructure import reorder
from explorer.runtime.core_at_hand import lanes_at_hand

# %% [markdown]
# ## What, not how
#
# Here is a layer as in the middle of a ResNet: 64 channels of 56×56 pixels, a 3×3 window, 64 channels out. The definition says *what* is computed: the domain (seven dimensions, three of them summed over), what is read, what is written, and a scalar expression.

# %% tags=["prediction"]
k = KernelBuilder("conv")
x = k.argument("x", (1, 64, 58, 58), f32, "input")  # a border of one pixel around
w = k.argument("w", (64, 64, 3, 3), f32, "weight")
y = k.argument("y", (1, 64, 56, 56), f32, "output")

n, o, i, j = k.dimensions(n=1, o=64, i=56, j=56)
k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))

n, o, i, j, ch, p, q = k.dimensions(n=1, o=64, i=56, j=56, c=64, p=3, q=3)
k.generic(
    "main",
    [(x, (n, ch, i + p, j + q)), (w, (o, ch, p, q))],
    (y, (n, o, i, j)),
    lambda s, x, w, y: y + x * w,
    reductions="c p q",
    accumulates=True,
)
definition = k.finish("convolution")
work = predict("How many multiply-adds is that?", ...)
work

# %% [markdown]
# ## The schedule
#
# The compiler needs to know how many floats a vector register holds, and in which layout the tensors come: in blocks of as many channels as that (`blocked_pack`).
#
# `direct` asks for the schedule that multiplies and adds what the definition says. For this layer the compiler would choose Winograd's algorithm, which computes something else: fewer products, of sums. Nor does it ask for memory before it is needed (`prefetch`).

# %%
lanes = lanes_at_hand()
machine = Machine(vector_floats=lanes, language="c")
layouts = {"x": blocked_pack(lanes), "y": blocked_pack(lanes)}
schedule = schedule_kernel(definition, machine, layouts, DIRECT)
print(lanes, "floats in a vector")
for step in schedule.steps:
    print(f"{step.name:11}", ", ".join(f"{key} {value}" for key, value in step.arguments))

# %% [markdown]
# The lowest rung: the loops of the textbook.

# %%
show(schedule.steps[0].function)

# %% [markdown]
# ## Climb
#
# Each rung is printed as C, compiled and run in one thread. GFLOP/s are billions of multiplications and additions per second.

# %% tags=["prediction"]
names = [step.name for step in schedule.steps]
print("the steps:", ", ".join(names[1:]))
largest = predict("Which of the steps will gain the largest factor?", ..., choices=names[1:])
largest

# %%
ladder = measure_ladder(schedule)
gains = ladder.gains
best = max(gains, key=gains.get)
largest.check(
    best,
    ", ".join(f"{name} ×{gain:.1f}" for name, gain in gains.items()),
    also=[name for name, gain in gains.items() if gain > 0.9 * gains[best]],  # as good as equal
    evidence=ladder,
)

# %%
work.check(ladder.flops // 2, "The extents of all seven loops, multiplied.")

# %% [markdown]
# What the steps did:
#
# - **split** alone does next to nothing: the same iterations in the same order, counted twice.
# - **reorder** brings those loops inside that reuse what was just read.
# - **accumulate** keeps a tile of results in an array of its own while the sums grow, instead of storing every intermediate sum into `y`.
# - **fuse** lets the tile begin as zero, so that `y` is not filled beforehand.
# - **pack** lays tensors and weights out in the order in which they are read, so that the C compiler finds vectors by itself.
# - **vectorize** says so instead of hoping: the innermost loop over channels becomes one vector.
# - **unroll** writes the loops over the tile out. Now every element of the tile has a constant index, and the C compiler can give each a *register*.
# - **parallel** says which loops are independent tasks. In one thread that changes nothing.
#
# And the result? Every rung is compared with the textbook's:

# %%
for rung in ladder.rungs:
    print(f"{rung.step:11} {rung.max_relative:.1e}")
assert all(rung.max_relative < 1e-5 for rung in ladder.rungs)

# %% [markdown]
# Some sums are added up in another order, and so rounded differently.
#
# ## Steps are checked
#
# A step refuses what would change the result. Bring the sum over channels to the outside, and make its iterations tasks of several threads.

# %% tags=["prediction"]
reordered = predict("Will the compiler allow the new order (True or False)?", ...)
tasks = predict("Will it allow the tasks (True or False)?", ...)

trial = Schedule(definition)
reasons = trial.attempt(reorder, order="c n o i j"), trial.attempt(parallel, loops="c")
reordered.check(not reasons[0], "A sum may be added up in another order.")

# %%
tasks.check(not reasons[1], f"It says: {reasons[1]}.")

# %% [markdown]
# ## How large a tile?
#
# The tile is `pixels` × `vectors`: so many results are kept in registers, each a whole vector. A larger tile reuses more: a vector of weights serves all pixels, a pixel all vectors. But vector registers are few: 32 with AVX-512 and on Arm, 16 with AVX2.

# %% tags=["prediction"]
tiles = [(1, 1), (1, 4), (2, 7), (2, 14), (4, 14)]
fastest = predict("Which of these tiles (vectors, pixels) is fastest?", ..., choices=tiles)
slower = predict("Is the largest one slower than the fastest (True or False)?", ...)

speeds = {}
for vectors, pixels in tiles:
    chosen = DIRECT | {"vectors": vectors, "pixels": pixels}
    tiled = schedule_kernel(definition, machine, layouts, chosen)
    speeds[vectors, pixels] = measure_last_rung(tiled).gflops
print("the tiles:", tiles)

# %%
bars = Bars(
    tuple((f"{v} × {p:2} = {v * p:2} accumulators", speed) for (v, p), speed in speeds.items()),
    "GFLOP/s",
)
most = max(speeds.values())
fastest.check(
    max(speeds, key=speeds.get),
    "Enough to reuse, and few enough for the registers. What is within 5 % of the best counts.",
    also=[tile for tile, speed in speeds.items() if speed > 0.95 * most],
    evidence=bars,
)

# %%
slower.check(
    speeds[4, 14] < 0.9 * most,
    "56 accumulators do not fit: they are stored to memory and loaded again.",
)

# %% [markdown]
# ## What the C compiler gets
#
# This is the whole kernel on its last rung. `float16` is a vector of 16 floats, not a number of half precision; `UNROLL` asks for the loop below it to be written out. The letters in the margin say which statement of the definition a line comes from.

# %%
from explorer.kernels.printing.c import print_c

print_c(schedule.function, "conv").source

# %%
# The steps of the network's own kernel, of which `c` keeps every rung: loops, C and assembly.
c.explore(at={"operation": c.kernels["conv_3x3_2"].operations[0], "tab": "loops"})

# %% [markdown]
# **Design note.** Halide and TVM keep a schedule apart from what is computed, as here. TFLite calls XNNPACK's kernels, written by hand for each instruction set; XLA calls libraries for large products.
#
# ## Exercises
#
# **1.** How many accumulators does the tile of the schedule above hold? (`schedule.choices` knows its tile: `vectors`, `pixels`, and `rows`, which is how many rows of the picture it spans.)

# %% explorer={"exercise": "7.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "7.1"} tags=["grader"]
check(answer, exercises.accumulators(schedule.choices), "A tile is a box of three sides.")

# %% [markdown]
# **2.** Sizes of tiles are decisions, with addresses like `schedule-loops/conv_3x3_2/pixels`. Make a branch of `c`, the small digits network, in which the tile of kernel `conv_3x3_2` has exactly four accumulators. `c.schedule["conv_3x3_2"]` tells what they are now.

# %% explorer={"exercise": "7.2"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "7.2"} tags=["grader"]
check(
    mine,
    exercises.has_accumulators("conv_3x3_2", 4),
    "c.fork(decisions={address: number, ...})",
)

# %% [markdown]
# **3.** Measure the ladder of one of the digits network's own kernels, `c.measure_ladder("conv_3x3_2")`. Its picture is 8×8. What share of the large layer's speed does it reach on its last rung? Assign both to `mine`: `(its ladder, the share)`.

# %% explorer={"exercise": "7.3"} tags=["answer"]
mine = ...  # (ladder, share)

# %% explorer={"exercise": "7.3"} tags=["grader"]
check(
    mine,
    exercises.share_of_speed("conv_3x3_2", ladder),
    "The last of ladder.rungs has .gflops; a share of one half is 0.5.",
)

# %% [markdown]
# ## Puzzle
#
# Four choices lead from the textbook's tile to within 5 % of the best that the cost model knows.

# %%
from explorer.course import puzzles

puzzle = puzzles.four_steps()
puzzle  # puzzle.play({"pixels": 2, ...})
