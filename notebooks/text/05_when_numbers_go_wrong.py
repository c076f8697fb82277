# %% [markdown]
# # When numbers go wrong
#
# A compiler's worst fault makes no noise. The program builds, it runs, it is fast, and its numbers are a little off. Somebody notices weeks later, twenty passes away from the cause.
#
# The idea of this notebook: **a program that can be run after every pass can be searched**. Two faults have been planted for you, a loud one and a quiet one. You will find the rewrite that is to blame in both.

# %%
from pathlib import Path

import numpy as np

import explorer as ex
from explorer.course import check, exercises, predict, skip

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

test = np.load(root / "sample_models" / "digits_test.npz")
inputs = {"image": test["images"][:1].astype(np.float32)}
c = ex.compile(root / "sample_models" / "digits_resnet.onnx")

# %% [markdown]
# ## Rounding is not a fault
#
# A right program is not equal to its source to the last bit. Floating-point numbers have about seven digits, and every pass that changes an order of operations changes their rounding. So the question is not *are they equal* but *how far apart are they*, for every tensor:
#
# $$\text{error} = \frac{\max |a - b|}{\max |b|}$$
#
# where $b$ is what onnxruntime computes from the original file.

# %% tags=["prediction"]
size = predict("Is the worst error of a right program nearer to 1e-3, 1e-6 or 1e-9?", ...)
healthy = c.accuracy(inputs)
worst = max(t.max_relative for p in healthy.report.passes for t in p.tensors)
size.check(
    min((1e-3, 1e-6, 1e-9), key=lambda guess: abs(np.log10(worst / guess))),
    "Single precision rounds each operation by up to 6e-8; sums collect some of that.",
    evidence=healthy.summary,
)

# %% [markdown]
# The tolerance of the comparison is 1e-4: far above rounding, and far below what a real fault does. Mostly.
#
# ## The loud fault
#
# A colleague has rewritten `fuse-residual`. In a residual block the result of a convolution is added to the block's input, and the convolution can do that addition by itself. The rule is short and looks fine. It is put in the place of ours:

# %%
from explorer.ir.rewriting import Declined, Rule
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.reductions.normalization import BatchNormOp
from explorer.passes.analysis.matching import constant, uses
from explorer.passes.simplify.fold_batch_norm import scaled, why_not_foldable


class JoinShortcut(Rule):
    """conv(x, w) + other   =>   conv(x, w, residual = other)"""

    matches = (BinaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data != "add":
            return
        for value in (op.right, op.left):
            conv = value.owner
            if isinstance(conv, ConvOp) and conv.residual is None and uses(conv) == 1:
                rewriter.replace(op, conv.altered(residual=op.right), absorbs=[conv])
                return


d = c.fork(disable=["fuse-residual"]).insert(JoinShortcut, after="fuse-bias")
for event in d["join-shortcut"].events:
    print(event.site, "→", event.produced[0])


# %% [markdown]
# Four additions, four rewrites; shapes and types are right. Does the network still read digits?

# %%
def recognized(compilation, count=60):
    """How many of the first test pictures the compiled program reads correctly."""
    right = 0
    for picture, label in zip(test["images"][:count], test["labels"][:count], strict=True):
        (logits,) = compilation.run({"image": picture[None].astype(np.float32)}).values()
        right += int(logits.argmax() == label)
    return right


print(recognized(c), "of 60 before,", recognized(d), "of 60 after")

# %% [markdown]
# Something is wrong, and it must be in one of the four rewrites.

# %% tags=["prediction"]
broken = predict("How many of the four rewrites are wrong (a number)?", ...)
report = d.accuracy(inputs)
assert not report.passed
fault = report.bisect()
print(fault)

# %% [markdown]
# ## How it was found
#
# First the pass: the first one after which a tensor is off. Then the rewrite, by *bisection*. The pass is run again with fuel for only some of its rewrites, and the program is compared each time. Right with one rewrite, wrong with two: then the second one is to blame. With a thousand rewrites ten such trials are enough.
#
# Four rewrites are few enough to try each alone, with the three others declined.

# %%
events = d["join-shortcut"].events
expected = c.run(inputs)["logits"]
wrong, lines = [], []
for event in events:
    others = {other.address: False for other in events if other is not event}
    logits = d.fork(decisions=others).run(inputs)["logits"]
    error = np.abs(logits - expected).max() / np.abs(expected).max()
    lines.append(f"{event.site} alone: the outputs are off by {error:.1e}")
    if error > 1e-4:
        wrong.append(event.site)
broken.check(
    len(wrong),
    f"{' and '.join(wrong)}; bisection has named the first.",
    evidence="\n".join(lines),
)

# %%
# Errors of every tensor after every pass.
d.explore(at={"pass": "join-shortcut", "dock": "accuracy"})

# %% [markdown]
# What do they have in common? Look at what was fused where bisection points, and at the rule again.

# %%
guilty = next(event for event in events if event.address == fault.address)
for name, text in (*guilty.delta.removed, *guilty.delta.added):
    print(name, "=", text, "\n")


# %% [markdown]
# `add2` adds two convolutions. The rule tries the right one first, and that is a convolution, so it takes it; and then it always passes `op.right` as the other side. The convolution is added to *itself*. Where only the left side is a convolution, `op.right` happens to be right. Two of four tests would have passed.
#
# ## The quiet fault
#
# The second colleague has rewritten `fold-batch-norm`, the pass of the first notebook, which multiplies $s / \sqrt{\sigma^2 + \epsilon}$ into the weights.

# %%
class FoldNorm(Rule):
    """batch_norm(conv(x, w))   =>   conv(x, w * factor, shift - factor * mean)"""

    matches = (BatchNormOp,)

    def rewrite(self, op, rewriter):
        reason = why_not_foldable(op)
        if reason:
            raise Declined(reason)
        parameters = [constant(o, rewriter.weights).astype(float) for o in op.operands[1:]]
        scale, shift, mean, variance = parameters
        factor = scale / (np.sqrt(variance) + op.get("epsilon"))
        conv = op.input.owner
        folded = scaled(conv, factor, shift - factor * mean, op, rewriter)
        rewriter.replace(op, folded, absorbs=[conv])


d = c.fork(disable=["fold-batch-norm"]).insert(FoldNorm, after="eliminate-common-subexpressions")
print(recognized(c), "of 60 before,", recognized(d), "of 60 after")

# %% [markdown]
# Eleven rewrites, and the network reads as well as before. Testing whether it still recognizes digits tells nothing: the largest of ten numbers stays the largest when all are a little off.

# %% tags=["prediction"]
quiet = predict("Will the comparison find anything (True or False)?", ...)
report = d.accuracy(inputs)
quiet.check(not report.passed, report.summary + ".")

# %% [markdown]
# ## Accumulated and isolated
#
# Every comparison is made twice. *Accumulated*: the program runs as it is, and errors travel on to whatever follows. *Isolated*: each operation is fed the source model's own numbers, so only those that make an error of their own show one.

# %% tags=["prediction"]
index = d.names.index("fold-norm")


def off(passes):
    return {t.operation for t in passes[index].tensors if t.max_relative > report.report.tolerance}


together, apart = off(report.report.passes), off(report.report.isolated)
errors = {t.operation: t for t in report.report.isolated[index].tensors}
start = c["import"].after  # constant(start.operations[name].variance, start.weights)
few = predict("Of the eleven convolutions, how many are off by themselves?", ...)
few.check(
    len(apart),
    f"In isolation: {', '.join(sorted(apart))}. When errors travel, {len(together)} are off.",
    evidence=report,
)

# %% [markdown]
# The matrix has a row for every tensor and a column for every pass.
#
# One rule, eleven times applied, and only once with a visible error. Do not look for what is wrong with that place. Ask what makes it visible there.
#
# **Design note.** XLA's `hlo_bisect` halves a module, Polygraphy's `debug reduce` an ONNX graph, LLVM's `-opt-bisect-limit` the list of passes.
#
# ## Exercises
#
# **1.** Of the eleven rewrites of `fold-norm` one is to blame: with it declined, and the ten others done, the comparison passes. Give its address.

# %% explorer={"exercise": "5.1"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "5.1"} tags=["grader"]
check(answer, exercises.heals(d, inputs), "Bisection names it; .address is the decision.")

# %% [markdown]
# **2.** Find out what is special about that place. `errors[convolution].worst_index` is picture, channel, row and column of its worst element. What is the *variance* of the guilty normalization in the channel in which the convolution is worst, in isolation after the pass `fold-norm`? (Two digits will do.)

# %% explorer={"exercise": "5.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "5.2"} tags=["grader"]
norm = start.operations[report.bisect().address.split("/")[-1]]
check(
    answer,
    exercises.smallest_variance(constant(norm.variance, start.weights)),
    "A normalization has a variance per channel; its name ends the address of exercise 1.",
)

# %% [markdown]
# **3.** Compare the rule with the formula above it, and fix it. Assign a branch with your rule instead of the compiler's `fold-batch-norm` to `mine`. (Why does it matter most where a channel's variance is small?)

# %% explorer={"exercise": "5.3"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "5.3"} tags=["grader"]
check(mine, exercises.folds_norms_rightly(inputs), "What stands under the root?")

# %% [markdown]
# ## Puzzle
#
# One rewrite of many is wrong, and every run costs a probe.

# %%
from explorer.course import puzzles

puzzle = puzzles.find_the_broken_pass()
puzzle  # puzzle.probe(count), then puzzle.play(number)
