# %% [markdown]
# # A cache, and what it costs to move it: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
import onnx.parser

from explorer.course import check, exercises
from explorer.importers.onnx import from_proto

# %% [markdown]
# **Exercise 1.** A token adds 8 x 64 keys and as many values to a layer, 2,048 bytes. There are 2,048 tokens and 24 layers: 96 MiB.

# %%
answer = 2 * 24 * 8 * 64 * 2048 * 2
verdict = check(
    answer, exercises.cache_size(layers=24, heads=8, size=64, rows=2048, element_bytes=2)
)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 2.** A row that goes in and out takes 24,576 bytes: from about 6,200 rows on, a step moves more of its cache than of its weights. A program that keeps the cache reads it once, from about 12,400 rows on as much as the weights.

# %%
answer = 152_000_000 / (2 * 12_288)
verdict = check(
    answer, exercises.rows_that_cost_as_much(weights_bytes=152_000_000, row_bytes=12_288)
)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** The row goes from `q` to `s`, and from `p` to `t`. The other way round has the same shapes, and moves both caches in each step.

# %%
text = """unnamed (float[1, 8] x, float[16, 8] p, float[16, 8] q, int64[1, 1] at)
    => (float[1, 8] r, float[16, 8] s, float[16, 8] t) {
        s = ScatterND (q, at, x)
        t = ScatterND (p, at, x)
        turned = Transpose (t)
        scores = MatMul (x, turned)
        shares = Softmax (scores)
        r = MatMul (shares, s)
    }"""
unnamed = from_proto(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]>' + text))
pairs = ["q=s", "p=t"]
verdict = check(pairs, exercises.keeps_in_place(unnamed, {"p", "q"}))
assert verdict.is_right
verdict
