# %% [markdown]
# # A cache, and what it costs to move it
#
# A language model writes one token after another. Each new token looks at all tokens before it: it compares itself with their *keys* and adds up their *values*. Those do not change any more once they are computed, so they are kept in a *cache*.
#
# The idea of this notebook: **a cache saves arithmetic and costs memory traffic, and a compiler decides how much of that traffic is needed**. You will count both, on a step of attention small enough to be read as a whole.

# %%
import numpy as np
import onnx.parser

import explorer as ex
from explorer.course import check, exercises, predict
from explorer.importers.onnx import from_proto


def parsed(text):
    return from_proto(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text))


def decoder(rows):
    """One step of attention over a cache of so many rows. `hidden` is large where none is yet."""
    return parsed(f"""step (
        float[1, 64] token, float[{rows}, 64] keys, float[{rows}, 64] values,
        int64[1, 1] place, float[1, {rows}] hidden
    ) => (float[1, 64] y, float[{rows}, 64] new_keys, float[{rows}, 64] new_values) {{
        new_keys = ScatterND (keys, place, token)
        new_values = ScatterND (values, place, token)
        turned = Transpose (new_keys)
        scores = MatMul (token, turned)
        seen = Sub (scores, hidden)
        shares = Softmax (seen)
        y = MatMul (shares, new_values)
    }}""")


c = ex.compile(decoder(512))

# %% [markdown]
# ## What it saves
#
# Without a cache, step number *n* computes the keys of all *n* tokens again. With a cache it computes one.

# %% tags=["prediction"]
computed = predict("200 tokens without a cache: how many keys are computed in all?", ...)
computed

# %%
computed.check(
    sum(range(1, 201)),
    "1 + 2 + ... + 200: the work of a text grows with the square of its length.",
    within=0.02,
    tempting={200: "So many are computed with a cache.", 40_000: "Not each step has 200 tokens."},
)

# %% [markdown]
# ## What it costs
#
# The step above is a *function*: the caches come in, with one row more they go out. Nothing is kept between two calls, so the caller holds the caches and hands them over each time.

# %% tags=["prediction"]
moved = predict(
    "Caches of 512 rows of 64 floats: how many bytes of keys and values go in and out of a step?",
    ...,
)
moved


# %%
def bytes_of(ports):
    return sum(port.size_bytes for port in ports if "keys" in port.name or "values" in port.name)


exact = bytes_of(c.program.inputs) + bytes_of(c.program.outputs)
moved.check(
    exact,
    "Keys and values, in and out: the step writes 512 bytes of them that are new.",
    within=0.02,
    tempting={exact // 2: "They go in, and out again.", exact // 4: "In and out, both of them."},
)

# %% [markdown]
# So a thousandth of what is moved is new. The step itself needs the rest only to read it where it is.
#
# ## One address
#
# A *state* is a value that lives from call to call: an input and an output that are the same memory. The compiler may give both one place if each element is read before it is overwritten. A pair of names says which belong together.

# %% tags=["prediction"]
kept = ex.compile(decoder(512), states=["keys=new_keys", "values=new_values"])
copied = predict("The program keeps both caches. How many bytes of them does a step copy?", ...)
copied.require()
tokens = np.random.default_rng(0).standard_normal((3, 1, 64)).astype(np.float32)
with kept.open(isolated=False, remembers=True) as program:
    for number, token in enumerate(tokens):
        hidden = np.where(np.arange(512)[None] > number, 1e9, 0).astype(np.float32)
        place = np.array([[number]])
        y = program.run({"token": token, "place": place, "hidden": hidden})["y"]
    bytes_copied = program.copied_bytes
copied.check(
    bytes_copied,
    "The new row is written over the old one, and nothing else of the cache is touched.",
    tempting={exact: "That is what the function moves.", 512: "Those are written, not copied."},
)

# %% [markdown]
# Input and output have the same offset in the arena:

# %%
for port in (*kept.program.inputs, *kept.program.outputs):
    print(f"{port.name:<12} at {port.offset_bytes:>7,}  {port.size_bytes:>7,} bytes")

# %% [markdown]
# In the explorer the memory map shows both caches from the first launch to the last: their memory is never free for something else.
#
# ## When it must be copied
#
# Two states can change places in each step. Then neither may be overwritten before the other one is read.

# %% tags=["prediction"]
swapping = parsed("""swap (float[64] a, float[64] b, float[64] x)
    => (float[64] new_a, float[64] new_b) { new_a = Add (b, x)  new_b = Sub (a, x) }""")
needed = predict("Does the program have to copy one of them (True or False)?", ...)
needed.require()
swapped = ex.compile(swapping, states=["a=new_a", "b=new_b"])
with swapped.open(isolated=False, remembers=True) as program:
    program.run({"x": np.ones(64, np.float32)})
    bytes_copied = program.copied_bytes
needed.check(
    bytes_copied > 0,
    "One of the two stays at a second place until the other one is read, and moves then.",
)

# %%
print(swapped["write-in-place"].artifacts["state copies"])

# %% [markdown]
# The pass says for each state why its input and output have two places; an empty reason is one place.
#
# A search over several continuations (*beams*) copies on purpose: `program.fork()` is a second program with its own caches and the same weights. `program.reset()` empties them, `program.state()` reads them.
#
# ## How large?
#
# A cache has a *capacity*: rows that exist from the beginning. A larger one costs memory at once. It costs no time where a step reads valid rows only, as here. A smaller one ends the text early, or moves everything to a larger one.
#
# **Design note.** The runtime of llama.cpp keeps one buffer for all layers and moves nothing, with a mask for what is not valid. onnxruntime takes and returns caches as ordinary inputs and outputs, and lets a caller bind both to one buffer. vLLM cuts caches into pages, as operating systems do with memory, so that texts of different lengths waste little and beams share what they have in common (Kwon et al., 2023). Grouped heads (Ainslie et al., 2023) make the cache itself smaller: several queries share one pair of keys and values.
#
# ## Exercises

# %% [markdown]
# **1.** A decoder has 24 layers, each with 8 heads of keys and values of size 64. How many bytes does its cache have for 2,048 tokens, if each number is a float of 16 bits?

# %% explorer={"exercise": "19.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "19.1"} tags=["grader"]
check(
    answer,
    exercises.cache_size(layers=24, heads=8, size=64, rows=2048, element_bytes=2),
    "Count what one token adds to one layer first.",
)

# %% [markdown]
# **2.** A decoder has 152,000,000 bytes of weights, which each step reads once. Keys and values of a token take 12,288 bytes in all layers. For how many rows does a cache that goes in and out of each step move as many bytes as the weights have? (Two digits are enough.)

# %% explorer={"exercise": "19.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "19.2"} tags=["grader"]
check(
    answer,
    exercises.rows_that_cost_as_much(weights_bytes=152_000_000, row_bytes=12_288),
    "Each row is moved twice.",
)

# %% [markdown]
# **3.** Nobody named the caches of this model so that they are found. Give the list of pairs with which the program keeps both and copies nothing.

# %%
unnamed = parsed("""unnamed (float[1, 8] x, float[16, 8] p, float[16, 8] q, int64[1, 1] at)
    => (float[1, 8] r, float[16, 8] s, float[16, 8] t) {
        s = ScatterND (q, at, x)
        t = ScatterND (p, at, x)
        turned = Transpose (t)
        scores = MatMul (x, turned)
        shares = Softmax (scores)
        r = MatMul (shares, s)
    }""")

# %% explorer={"exercise": "19.3"} tags=["answer"]
pairs = ...

# %% explorer={"exercise": "19.3"} tags=["grader"]
check(
    pairs,
    exercises.keeps_in_place(unnamed, {"p", "q"}),
    "Follow each cache to the output that has its other rows.",
)
