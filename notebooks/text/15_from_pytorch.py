# ---
# jupyter:
#   explorer:
#     needs:
#     - torch
# ---

# %% [markdown]
# # From a line of Python to its kernel
#
# You write a network as a module of PyTorch, a line for each thought; a machine runs kernels, a loop nest for each. Between them nothing is exported to ONNX, and nothing is lost: every node remembers the lines of Python that made it.
#
# The idea of this notebook: **lines and kernels are cut at different places**. A line may become half a kernel, several kernels, or none at all, and what you change in one line may be seen in another one's kernel, or nowhere.
#
# This lesson needs PyTorch: `%pip install "nn-compiler-explorer[pytorch]"`. Without it the next cell says so, and the rest can only be read.

# %%
try:
    import torch
except ImportError:
    raise ImportError(
        'this lesson needs PyTorch: %pip install "nn-compiler-explorer[pytorch]"'
    ) from None
import numpy as np
from torch import nn

import explorer as ex
from explorer.course import check, exercises, predict, skip


# %% [markdown]
# ## A module of your own
#
# Nothing in it is special: a convolution, a normalization, an average over the picture, a linear layer. The weights are random, but always the same ones.

# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image)))
        x = x.mean(dim=(2, 3))
        x = torch.tanh(x) * 0.5 + 1
        return torch.softmax(self.head(x), dim=-1)


torch.manual_seed(0)
net = Net().eval()
image = torch.rand(1, 1, 8, 8)
c = ex.compile(net, args=(image,))

(ours,) = c.run({"image": image.numpy()}).values()
print("largest difference from PyTorch:", np.abs(ours - net(image).detach().numpy()).max())

# %% [markdown]
# ## Lines
#
# `torch.export` ran `forward` once, with stand-ins for tensors, and noted for every operator which line was running. PyTorch's own lines are left out; yours remain, with their numbers in the cell.

# %% tags=["prediction"]
nodes = predict("How many nodes does the line with `torch.tanh` make?", ...)

lines = c.trace(with_code=False).model.source_lines
(tanh_line,) = [line for line in lines if "tanh" in line.place.text]
nodes.check(
    len(tanh_line.nodes),
    "A node for each operator that PyTorch calls.",
    evidence="\n".join(
        f"{line.place.line:3}  {line.place.text:45} {', '.join(line.nodes)}" for line in lines
    ),
)


# %% [markdown]
# ## Kernels
#
# Now from the other end: every kernel knows its operations, every operation the nodes that it comes from, and every node its line.

# %% tags=["prediction"]
def lines_of_kernels(compiled):
    """For every kernel the texts of the lines that it computes something of."""
    trace = compiled.trace()
    texts = {node: line.place.text for line in trace.model.source_lines for node in line.nodes}
    sources = {op.id: op.sources for op in trace.snapshots[-1].graph.nodes}
    return {
        kernel.name: list(
            dict.fromkeys(
                texts[node]
                for operation in kernel.operations
                for node in sources[operation]
                if node in texts
            )
        )
        for kernel in trace.kernels
    }


kernels = lines_of_kernels(c)
where = predict(
    "`tanh` has a kernel, `tanh_1`. In which one is `* 0.5 + 1` computed?",
    ...,
    choices=[*kernels, "none of them"],
)
where

# %%
where.require()
print(*c.kernels["tanh_1"].source.lines, sep="\n")
(of_both,) = [name for name, found in kernels.items() if len(found) > 1]
where.check(
    "none of them",
    f"{of_both} comes from the line, too, but look at what it computes: the product became a part "
    "of its weights and the sum a part of its bias, when the module was compiled.",
    also=[of_both],
    evidence="\n".join(f"{name:16} {'   |   '.join(found)}" for name, found in kernels.items()),
)

# %%
# Hover the lines under "model", click one, then look at C and asm: its line stays above them.
c.explore(at={"tab": "model"})

# %% [markdown]
# A linear layer of $0.5\,x + 1$ is a linear layer of $x$:
#
# $$W (0.5\,x + 1) + b = (0.5\,W)\,x + (W \mathbf{1} + b)$$
#
# Two rewrites say the same of the program, and each names its rule.

# %%
for event in c["fold-batch-norm"].events:
    print(f"{event.rule:18} {event.explanation}")

# %% [markdown]
# ## Change a line
#
# Only the third line is another one now: `relu` in the place of `tanh`. The weights are the same.

# %% tags=["prediction"]
changed = predict(
    'Which kernels go, come, or change their text? A set of names, such as {"matmul_1"}',
    ...,
)


class Other(Net):
    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image)))
        x = x.mean(dim=(2, 3))
        x = torch.relu(x) * 0.5 + 1
        return torch.softmax(self.head(x), dim=-1)


torch.manual_seed(0)
other = ex.compile(Other().eval(), args=(image,))


def text(compiled, kernel):
    return compiled.kernels[kernel].source.lines if kernel in compiled.kernels else None


touched = {name for name in {*c.kernels, *other.kernels} if text(c, name) != text(other, name)}
changed.check(
    touched,
    "tanh_1 is gone, and nothing came for it.",
    evidence="\n".join(
        f"{name:16} {'   |   '.join(found)}" for name, found in lines_of_kernels(other).items()
    ),
)

# %% [markdown]
# Where is the `relu`? It is neither a kernel nor the last step of another one. Some pass has taken it away, for good: find it.

# %%
trace = other.trace()
gone = next(
    record.name
    for record, snapshot in zip(trace.passes, trace.snapshots, strict=True)
    if not any("relu_1" in op.sources for op in snapshot.graph.nodes)
)
print(gone)
for event in other[gone].events:
    print(f"  {event.site:14} {event.rule:16} {event.explanation}")

# %% [markdown]
# A mean of what a `relu` made is never negative: the second one has nothing to do. You wrote a line with three operators, and the machine runs none of them. That is why a profile of kernels needs a way back to lines: none of *your* operators are in it.
#
# `torch.compile(net, backend="explorer")` compiles a module that is called from a program of yours in this way; `explorer.last_compilation()` is what was made, to look at as above.
#
# **Design note.** `torch.compile` traces bytecode (Dynamo) and guards what it assumed; `torch.export` wants one graph, or refuses. PyTorch's ONNX exporter keeps the lines in the file, XLA a source line for each instruction.
#
# ## Exercises
#
# **1.** How many of the nodes of `Net` are in the kernel `conv_3x3_1`?

# %% explorer={"exercise": "15.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "15.1"} tags=["grader"]
check(answer, exercises.nodes_in_kernel(c, "conv_3x3_1"), "All of them are of one line.")

# %% [markdown]
# **2.** A linear layer with the weights `[[2, 3]]` and the bias `[4]` follows the line `x = x * 0.5 + 1`. Which bias has the kernel?

# %% explorer={"exercise": "15.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "15.2"} tags=["grader"]
check(
    answer,
    exercises.folded_bias(weights=[[2, 3]], bias=[4], shift=1),
    "The line adds the same number to every input.",
)

# %% [markdown]
# **3.** Which rule made the normalization a part of the convolution's weights? (Its name, as a text.)

# %% explorer={"exercise": "15.3"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "15.3"} tags=["grader"]
check(
    answer,
    exercises.rule_at(c, "fold-batch-norm", "batch_norm"),
    "Its equation, printed above, begins with batch_norm.",
)
