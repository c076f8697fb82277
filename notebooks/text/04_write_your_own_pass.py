# %% [markdown]
# # Write your own pass
#
# Every rewrite was written by somebody who thought: this could be shorter. Here it is you.
#
# The idea: **a rule says what it matches and what it makes; the compiler does the rest**. It finds the places, keeps the books, checks that the program is still one, and checks the numbers.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises, predict, skip

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

model = root / "sample_models" / "digits_transformer.onnx"
c = ex.compile(model, disable=["simplify-arithmetic"])  # some of its rules you will write

# %% [markdown]
# ## Look for something to do
#
# Begin with what the compiler looked at and did not do (`c.to_frame("events")` has it all, with reasons). Here is what was not fused into a product or a convolution.

# %%
for name in ("fuse-bias", "fuse-residual", "fuse-activation"):
    for event in c[name].events:
        if not event.applied:
            print(f"{event.address}\n    {event.reason}")

# %% [markdown]
# Two rules declined one addition. The transformer reads a digit as eight rows, and this addition says which row is which: a constant of 8×48 numbers is added to a matrix product. It is no bias, because it differs from row to row; and it is no residual connection, because it is constant.
#
# But a `matmul` of this compiler can end by adding a tensor, and nothing forbids that this tensor is constant:

# %%
program = c["fuse-residual"].after
site = next(event.site for event in c["fuse-residual"].events if not event.applied)
for name in (*program.index[site].operands, site):
    print(f"%{name} = {program.index[name].text()}")

# %% [markdown]
# ## The rule
#
# - `matches` names the operations that the rule wants to see. All others pass by.
# - `return` means: this is no candidate.
# - `raise Declined(...)` means: it looked like one, and here is why not. People will see this.
# - `replace(op, new, absorbs=[...])` says that `new` computes what `op` did, and takes over the work of what it absorbs.

# %%
import numpy as np

from explorer.errors import ExplorerError
from explorer.ir.rewriting import Declined, Rule
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import static_shape
from explorer.passes.analysis.matching import constant, require_single_use


class FuseConstantResidual(Rule):
    """matmul(x, w) + constant   =>   matmul(x, w, residual = constant)"""

    matches = (BinaryOp,)

    def rewrite(self, op, rewriter):
        product, array = op.left.owner, constant(op.right, rewriter.weights)
        if op.kind.data != "add" or not isinstance(product, MatMulOp) or array is None:
            return
        if product.residual is not None or product.get("activation"):
            raise Declined("something is fused into the product already")
        require_single_use(product)
        whole = np.broadcast_to(array, static_shape(op.output))
        residual = rewriter.add_weight(op, "residual", whole)
        rewriter.replace(op, product.altered(residual=residual), absorbs=[product])


# %% [markdown]
# ## Insert it
#
# `insert` makes a branch with your rule in the pipeline. `c` stays as it is. The rule is shown every operation of two operands, and sorts out the additions itself.

# %% tags=["prediction"]
fires = predict("How many times will the rule fire, placed after fuse-residual?", ...)
d = c.insert(FuseConstantResidual, after="fuse-residual")
fires.check(
    sum(event.applied for event in d["fuse-constant-residual"].events),
    "All other constants that are added are biases, and those are fused already.",
    evidence=d["fuse-constant-residual"],
)

# %% [markdown]
# ## Is it right? Does it pay?
#
# The first is answered by running the program after every pass, also after yours, against the source model.

# %%
accuracy = d.accuracy()
assert accuracy.passed
print(accuracy.summary)

# %%
print(len(c.program.launches), "launches before,", len(d.program.launches), "after")
c.compare(d)

# %% [markdown]
# One launch fewer. The rule is part of the record, with its text, though it only exists in a cell:

# %%
d.rule_source("fuse-constant-residual")

# %%
# The same in the explorer, with the candidates that declined.
d.explore(at={"pass": "fuse-constant-residual", "dock": "rewrites"})

# %% [markdown]
# ## The same rule, as an expression
#
# Half of the rule above looks for something, step by step. The compiler's own rules for softmax or attention say it as an expression instead, and one matcher finds it: operands of a sum in both orders, and nothing that somebody else reads. `found[part]` is what a part of the expression stands for.
#
# - `value` is any value, `weight` any constant, `x @ w` a matrix product.
# - `having` asks an operation for more, `like` wants a type: nothing is broadcast.
# - `telling` marks the part by which one recognizes a candidate. From there on, the matcher says what it expected and what it found instead.

# %%
from explorer.ir import patterns


class FuseConstantSum(patterns.PatternRule):
    """matmul(x, w) + c   =>   matmul(x, w, residual = c)"""

    x, w, c = patterns.value("x"), patterns.value("w"), patterns.weight("c")
    product = (
        (x @ w)
        .telling()
        .having(
            lambda op: op.residual is None and not op.get("activation"),
            "a product without a residual",
        )
    )
    pattern = (product + c).like(product)

    def replacement(self, found, rewriter):
        product = found[self.product]
        whole = np.broadcast_to(found[self.c], static_shape(product.output))
        residual = rewriter.add_weight(product, "residual", whole)
        return product.altered(residual=residual)


same = c.insert(FuseConstantSum, after="fuse-residual")
print(len(same.program.launches), "launches, by the expression")

# %% [markdown]
# Why it declines follows from the expression. The docstring of `explorer.ir.patterns` has the whole language on one page.

# %%
earlier = c.insert(FuseConstantSum, after="fuse-bias")
for event in earlier["fuse-constant-sum"].events:
    print("applied " if event.applied else "declined", event.site, event.reason)

# %% [markdown]
# ## A rule that breaks the program
#
# This one takes a transposition away, and gives its readers a value of another shape. The compiler refuses to go on. The error names the pass, the rule and the operation.

# %%
from explorer.ir.top.movement.transpose import TransposeOp


class DropTranspose(Rule):
    """transpose(x)   =>   x      (wrong)"""

    matches = (TransposeOp,)

    def rewrite(self, op, rewriter):
        rewriter.replace(op, op.input)


try:
    c.insert(DropTranspose, after="fuse-residual")
except ExplorerError as error:
    print(error)

# %% [markdown]
# ## A rule that breaks the numbers
#
# This one is worse, because it sounds right. *Softmax only compares numbers with each other. So dividing all of them by the same constant changes nothing, and the division can go.*
#
# In attention the products of queries and keys are divided by a constant before softmax. The rule has to see them as they are in the file: later passes fold the division into the product.

# %% tags=["prediction"]
from explorer.ir.top.reductions.normalization import SoftmaxOp


class DropScale(Rule):
    """softmax(x / constant)   =>   softmax(x)      (wrong)"""

    matches = (SoftmaxOp,)

    def rewrite(self, op, rewriter):
        scaled = op.input.owner
        if isinstance(scaled, BinaryOp) and scaled.kind.data == "div":
            rewriter.replace(op, op.altered(input=scaled.left), absorbs=[scaled])


refused = predict("Will the compiler refuse the program (True or False)?", ...)
noticed = predict("Will the comparison with the source model fail (True or False)?", ...)
try:
    wrong = c.insert(DropScale, after="import")
except ExplorerError:
    wrong = None
refused.check(
    wrong is None,
    "Its shapes and types are all in order.",
    evidence=wrong["drop-scale"] if wrong else None,
)

# %%
report = wrong.accuracy()
noticed.check(
    not report.passed,
    "Softmax ignores a constant that is added, not one that multiplies.",
    evidence=report.bisect(),
)

# %% [markdown]
# The last line was found by *bisection*: first the pass after which a tensor is wrong, then the rewrite in it.
#
# **Design note.** MLIR's rules are C++ or declarative (PDL), TVM's patterns are Python, XLA's matchers C++. In MLIR a rule can tell why it declined (`notifyMatchFailure`), for debugging.
#
# ## Exercises
#
# **1.** A division is slower than a multiplication. Write a rule `x / constant => x * (1 / constant)`, insert it right after `import`, where all four divisions of the file still are, and assign the branch to `mine`. `BinaryOp.make([left, right], kind="mul")` makes a multiplication.

# %% explorer={"exercise": "4.1"} tags=["answer"]
mine = ...

# %% explorer={"exercise": "4.1"} tags=["grader"]
check(
    mine,
    exercises.replaces_divisions(c),
    "rewriter.add_weight(op, name, array) gives the new constant.",
)

# %% [markdown]
# **2.** Place decides. What if `FuseConstantResidual` came right after `import`: how many times would it fire?

# %% explorer={"exercise": "4.2"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "4.2"} tags=["grader"]
early = c.insert(FuseConstantResidual, after="import")
check(
    answer,
    exercises.rewrites_of(early, "fuse-constant-residual"),
    "At that point biases are additions of constants, too.",
)

# %% [markdown]
# **3.** The branch `early` computes the right numbers, but it has more launches than `d`. In `c` the pass `fuse-residual` fires four times, once for every residual connection. How many times does it fire in `early`?

# %% explorer={"exercise": "4.3"} tags=["answer"]
answer = ...

# %% explorer={"exercise": "4.3"} tags=["grader"]
print(len(c.program.launches), "launches in c,", len(early.program.launches), "in early")
check(
    answer,
    exercises.rewrites_of(early, "fuse-residual"),
    "A product has room for one residual.",
)
