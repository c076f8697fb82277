# %% [markdown]
# # Your first compilation
#
# A neural network in a file is a list of operations on tensors. A processor knows loads, additions and multiplications. A compiler translates; here is one on a small network that reads 8×8 pictures of digits.
#
# It keeps the program after every step.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import predict, skip

root = Path.cwd() if Path("sample_models").is_dir() else Path.cwd().parent
model = ex.load(root / "sample_models" / "digits_cnn.onnx")
print(model.name, "has", len(model.nodes), "nodes and", model.parameters, "parameters")
for node in model.nodes:
    print(f"  {node.operator:20} {node.name}")

# %% [markdown]
# A compiler will want to change some of these operators:
#
# - a **BatchNormalization** after every convolution multiplies and adds constants, which the convolution could do by itself;
# - a **Relu** of its own is one more walk through memory;
# - an **Identity** and a **Dropout** do nothing at inference.
#
# A test picture, with its label:

# %%
test = np.load(root / "sample_models" / "digits_test.npz")
image = test["images"][:1].astype(np.float32)
print("this should be a", test["labels"][0])
for row in image[0, 0]:
    print("".join(" .:-=+*#%@"[min(int(v * 9.99), 9)] * 2 for v in row))

# %% [markdown]
# ## Compile
#
# One call runs all passes. The table shows, for every pass, how many operations are left and how long it took.

# %%
c = ex.compile(model, target="cpu")
c

# %% [markdown]
# ## The import: what the file says, in our words
#
# The importer translates ONNX's operators into the operations of this compiler's first language, `top`. Each line below is one operation: its result on the left of `=`, its operands in parentheses, its properties in braces, and the type of the result after the colon. The next lesson reads such lines slowly.

# %%
c["import"].after.text

# %% [markdown]
# ## Folding batch normalization
#
# Batch normalization computes $y = s\,(x - \mu)/\sqrt{\sigma^2 + \epsilon} + b$ for each channel. All but $x$ are constants after training. If $x$ comes from a convolution, the scale can be multiplied into its weights, and the rest becomes its bias.

# %% tags=["prediction"]
left = predict("How many of its 15 operations will fold-batch-norm leave?", ...)
r = c["fold-batch-norm"]
left.check(
    r.after.operation_count,
    "Each of three normalizations goes into its convolution, which stays.",
    tempting={9: "Six go, three come: every pair becomes a new convolution."},
    evidence=r,
)

# %% [markdown]
# Each rewrite is an event: which rule, where, what it removed and what it made.

# %%
for event in c["fold-batch-norm"].events:
    state = "applied " if event.applied else "declined"
    print(state, event.address, "→", ", ".join(event.produced) or event.reason)
print()
print(event.explanation)

# %% [markdown]
# **Design note.** TFLite's converter folds normalizations before it writes a file. onnxruntime and TVM have passes like this one; XLA splits a normalization and fuses its parts into loops.
#
# ## Trust: every step can be run
#
# A snapshot is a program. Run the one before and the one after on the same picture, and compare the tensors that both have. The new convolution stands for the old normalization: that is its *origin*.

# %%
r = c["fold-batch-norm"]
inputs = {"image": image}
before, after = r.before.run(inputs), r.after.run(inputs)
for name, origin in r.after.origins.items():
    matching = [n for n, o in r.before.origins.items() if o == origin]
    if matching and name not in before:
        error = np.abs(after[name] - before[matching[0]]).max()
        print(f"{name:12} computes what {matching[0]:12} computed; largest difference {error:.1e}")

# %% [markdown]
# The differences are as small as rounding is: the order of operations changed.
#
# ## Fusing the activation
#
# As an operation of its own `relu` reads and writes the whole tensor. Inside the convolution it happens while the number is still in a register.

# %%
c["fuse-activation"]

# %% [markdown]
# ## Layouts: how tensors lie in memory
#
# A processor computes with vectors, several numbers at a time. If channels are the innermost dimension, in blocks as wide as a vector, one instruction computes a block of output channels. If each picture has a border of zeros (a *halo*), a 3×3 window never has to ask whether it is still inside. Only the encodings in the types change here.

# %%
diff = c["assign-layouts"].diff
for change in diff.changed:
    if change.field == "type":
        print(f"{change.id:12} {change.before:20} → {change.after}")

# %% [markdown]
# ## From operations to loops
#
# Each operation becomes a *kernel*: first the loops of a textbook, then named steps that change the loops and not the result (up to rounding):

# %%
kernel = c.kernels["conv_3x3_2"]
for step in kernel.steps:
    print(f"{step.name:12} {step.operations:4} operations")

# %% [markdown]
# Before the first step, a convolution as you would write it by hand: the sums begin at zero, seven loops add to them, then come bias and activation.

# %%
kernel.steps[0].text

# %% [markdown]
# After the last one, as C. A type like `float8` is a vector of eight numbers of single precision (`float16` one of sixteen); it is *not* half precision.

# %%
kernel.source

# %% [markdown]
# ## Memory: planned, not allocated
#
# The lifetimes of tensors are known, so the compiler gives each an address in one block of memory. Tensors that never live at the same time share bytes. No plan is smaller than the *bound*: the most bytes that live at once.

# %%
c.memory

# %% [markdown]
# ## Run it
#
# The C is compiled, loaded in a process of its own, and called.

# %%
outputs = c.run(inputs)
(logits,) = outputs.values()
print("the network says", int(logits.argmax()))

right = 0
for picture, label in zip(test["images"][:100], test["labels"][:100], strict=True):
    (logits,) = c.run({"image": picture[None].astype(np.float32)}).values()
    right += int(logits.argmax() == label)
print(right, "of 100 test pictures are recognized")
assert right >= 95

# %% [markdown]
# ## The whole check
#
# `accuracy` runs the program after *every* pass, and the binary, and compares every tensor with what onnxruntime computes from the file. If a pass were wrong, this table would say which, and `.bisect()` would name the rewrite.

# %%
accuracy = c.accuracy(inputs)
assert accuracy.passed
accuracy

# %% [markdown]
# ## Change a decision
#
# What does fusing the activation buy? Compile a branch without it.

# %%
branch = c.fork(disable=["fuse-activation"])
c.compare(branch)

# %% [markdown]
# ## Look around
#
# The explorer shows all of this at once: choose an operation and see it in the graph, the IR, the code and in memory. `c.export_html("digits.html")` writes it as a file.
#
# **Things to try.** Decline one rewrite: `c.fork(decisions={"fuse-activation/.../...": False})` with an address from the events above. Compile for `target="opencl"`.

# %%
# It opens at the pass that fused the activations: press an operation, then the keys j and k.
c.explore(at={"pass": "fuse-activation"})

# %% [markdown]
# ## Puzzle
#
# Follow a line of C back to its node of the file.

# %%
from explorer.course import puzzles

puzzle = puzzles.treasure_hunt()
puzzle  # puzzle.look(puzzle.start)
