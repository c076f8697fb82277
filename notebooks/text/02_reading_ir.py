# %% [markdown]
# # Reading IR
#
# Between the file and the machine code a compiler keeps its program in a language of its own, the *intermediate representation*, IR. Every pass reads it and writes it.
#
# The idea of this notebook: **a line of IR says everything about one operation**. Whoever can read one line can read every stage of the compiler, check it, and change it by hand.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict, skip
from explorer.targets import load_target

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

# Layouts depend on the processor. With those of one core all texts below are yours, too.
core = load_target("cpu", {"vector_floats": 4, "core": {"family": "neoverse_v1"}})
c = ex.compile(root / "sample_models" / "digits_cnn.onnx", core)
lines = c["fuse-activation"].after.text.lines
print(next(line for line in lines if "%conv8 =" in line).strip())

# %% [markdown]
# ## One line
#
# | part | here | what it says |
# | --- | --- | --- |
# | result | `%conv8` | the name of the *value* that the line defines; names of values begin with `%` |
# | operation | `top.conv` | the *dialect* `top` (tensors), and in it a convolution |
# | operands | `(%conv7, %w3, bias = %w4)` | the values that it reads; optional ones have a name |
# | properties | `{activation = "relu", pads = [1, 1, 1, 1], ...}` | constants that belong to the operation |
# | type | `tensor<1x32x8x8xf32>` | one picture, 32 channels, 8 rows, 8 columns; `f32` is a float of 32 bits |
#
# Here is the whole program. `func.func` begins a function: its arguments are values, too, and `top.return` ends it. The letters in the margin say which operation of the explorer's graph a line belongs to.

# %%
c["fuse-activation"].after.text

# %% [markdown]
# ## Each value once
#
# Every value is defined by exactly one line, and never changes. This is called *static single assignment*, SSA. A variable of Python may mean different things on different lines; `%conv7` means one tensor everywhere. So a pass may move a line without asking what a name meant there.
#
# May it move any line anywhere? `continue_from` takes an edited text and goes on compiling from there. First two weights change places, then a convolution and the one that reads it.

# %% tags=["prediction"]
weights = predict("May the lines of %w3 and %w4 change places (True or False)?", ...)
convolutions = predict("May the lines of %conv7 and %conv8 change places (True or False)?", ...)


def exchanged(first, second):
    """The text with two lines exchanged."""
    a, b = (
        next(n for n, line in enumerate(lines) if f"{name} =" in line) for name in (first, second)
    )
    moved = list(lines)
    moved[a], moved[b] = lines[b], lines[a]
    return "\n".join(moved)


def refusal(text):
    """What the compiler says of a text; empty where it takes it."""
    try:
        c.continue_from("fuse-activation", text)
    except ex.ExplorerError as error:
        return str(error).split("; where:")[0].splitlines()[-1].strip()
    return ""


weights.check(not refusal(exchanged("%w3", "%w4")), "Neither reads the other.")

# %%
said = refusal(exchanged("%conv7", "%conv8"))
convolutions.check(not said, f"It says: {said}")

# %% [markdown]
# The parser reads the text, the *verifier* asks every operation whether its operands exist before it and whether its types fit. It runs after every pass, too: a program that is not valid never goes further.
#
# ## Types say where numbers lie
#
# Look at the same convolution a few passes later.

# %%
later = c["assign-layouts"].after.text.lines
print(next(line for line in later if "%conv8 =" in line).split(" : ")[1])

# %% [markdown]
# The tensor still has 32 channels of 8×8. Its *encoding*, the part after `#`, says how they lie in memory: `block = 4` puts four channels next to each other, as many as a vector of this core holds, and `halo` would be a border of zeros around each picture.

# %% tags=["prediction"]
numbers = predict("Does assign-layouts change any number of the output (True or False)?", ...)
picture = np.load(root / "sample_models" / "digits_test.npz")["images"][:1].astype(np.float32)
r = c["assign-layouts"]
before, after = (list(s.run({"image": picture}).values())[-1] for s in (r.before, r.after))
numbers.check(
    not np.array_equal(before, after),
    "A layout is a promise about addresses. The operations and their meaning stay.",
    tempting={True: "The channels are in another order, but only in memory."},
)

# %%
# The text of every pass, next to the graph: press a line and see its operation.
c.explore(at={"pass": "assign-layouts", "tab": "ir"})

# %% [markdown]
# **Design note.** MLIR, which this syntax comes from, lets every compiler define dialects and keeps one syntax for all of them. ONNX names tensors instead of values, and their types are optional; TVM's Relay nests expressions, where a name is needed only for what is read twice. A text with one line per operation is longer. It can be compared line by line, and cut anywhere.
#
# ## Exercises
#
# **1.** Complete a line. After the import there is a convolution of 16 channels (`%conv1`, `tensor<1x16x8x8xf32>`) with 32 filters of 3×3, `pads = [1, 1, 1, 1]` and `strides = [1, 1]`. If the strides were `[2, 2]`, what would its shape be? Write it as in a type: `"1x32x8x8"`.

# %% explorer={"exercise": "2.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "2.1"} tags=["grader"]
check(
    answer,
    exercises.shape_with(c, "conv2", strides=[2, 2]),
    "A window starts at every second row and column.",
    "Count the places at which a window of 3 may start in a row of 8 with one zero at each end.",
)

# %% [markdown]
# **2.** Edit a program. Take the text after `fuse-activation`, in which each convolution has its ReLU inside, and write a text in which *only* `%conv9` has none. Assign the text to `mine`.

# %% explorer={"exercise": "2.2"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "2.2"} tags=["grader"]
check(
    mine,
    exercises.without_activation(c, "fuse-activation", "conv9"),
    "A property can be left out of the braces.",
    '"\\n".join(lines) is the text, which str.replace changes.',
)

# %% [markdown]
# **3.** Repair a program. `exercises.damaged_text(c, "fuse-activation")` is the same text with two faults. Find them with the help of the verifier, and assign the repaired text to `mine`. It may differ from the damaged one in two lines at most.

# %% explorer={"exercise": "2.3"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "2.3"} tags=["grader"]
check(
    mine,
    exercises.repaired(c, "fuse-activation", most=2),
    "The first fault is a value that no line defines.",
    "The second is a type: what shape does a pool with a window of 2 and strides of 2 make of 4×4?",
)
