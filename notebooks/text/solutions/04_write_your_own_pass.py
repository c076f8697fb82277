# %% [markdown]
# # Write your own pass: solutions
#
# For teachers. The exercises are those at the end of the notebook of the same name.

# %%
from pathlib import Path

import explorer as ex
from explorer.course import check, exercises

root = next(p for p in [Path.cwd(), *Path.cwd().parents] if (p / "sample_models").is_dir())

model = root / "sample_models" / "digits_transformer.onnx"
c = ex.compile(model, disable=["simplify-arithmetic"])  # some of its rules you will write

# %% [markdown]
# **Exercise 1.** The rule has to come right after the import: `recognize-activations` takes two of the four divisions (they belong to GELU), and `recognize-attention` the other two. Divisions by something that is computed are declined: 1 / x would be a division again. The rule does not match what it makes, so it ends by itself. Rounding: 1 / c is rounded, then the product is, so that results differ from the division by about 1e-7.

# %%
import numpy as np

from explorer.ir.rewriting import Declined, Rule
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import static_shape
from explorer.passes.analysis.matching import constant, require_single_use


class MultiplyByReciprocal(Rule):
    """x / constant   =>   x * (1 / constant)"""

    matches = (BinaryOp,)

    def rewrite(self, op, rewriter):
        if op.kind.data != "div":
            return
        divisor = constant(op.right, rewriter.weights)
        if divisor is None:
            raise Declined("the divisor is computed")
        reciprocal = rewriter.add_weight(op, "reciprocal", 1 / divisor)
        rewriter.replace(op, BinaryOp.make([op.left, reciprocal], kind="mul"))


mine = c.insert(MultiplyByReciprocal, after="import")
mine["multiply-by-reciprocal"]

# %%
verdict = check(mine, exercises.replaces_divisions(c))
assert verdict.is_right
verdict

# %% [markdown]
# The same as an expression. The matcher says nothing of divisions by what is computed, for nothing in the expression is `telling`.

# %%
from explorer.ir import patterns


class MultiplyByReciprocalNumber(patterns.PatternRule):
    """x / constant   =>   x * (1 / constant)"""

    x, divisor = patterns.value("x"), patterns.weight("divisor")
    pattern = x / divisor

    def replacement(self, found, rewriter):
        reciprocal = rewriter.add_weight(found.root, "reciprocal", 1 / found[self.divisor])
        return BinaryOp.make([found[self.x], reciprocal], kind="mul")


same = c.insert(MultiplyByReciprocalNumber, after="import")
assert check(same, exercises.replaces_divisions(c)).is_right
same["multiply-by-reciprocal-number"]


# %% [markdown]
# **Exercise 2.** In the file a dense layer is a product and an addition, and there are thirteen of them; the classifier is a Gemm, which has its bias inside. The rule takes what it sees, in program order. When it comes to the positions, their product has a residual already, and it says so.

# %%
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


answer = 13
early = c.insert(FuseConstantResidual, after="import")
verdict = check(answer, sum(event.applied for event in early["fuse-constant-residual"].events))
for event in early["fuse-constant-residual"].events:
    print("applied " if event.applied else "declined", event.site, event.reason)
assert verdict.is_right
verdict

# %% [markdown]
# **Exercise 3.** Not once. The place for a residual is taken by what is really a bias. So the four residual connections stay additions of their own, and so does that of the positions: five launches more. The weights grow as well, for a bias is one row, and a residual is stored once for every row of the result. A rewrite that is right and pays in one place can be right and cost in another.

# %%
d = c.insert(FuseConstantResidual, after="fuse-residual")
for branch in (c, d, early):
    size = branch.program.weights_bytes
    print(len(branch.program.launches), "launches,", size, "bytes of weights", branch.label)
verdict = check(0, sum(event.applied for event in early["fuse-residual"].events))
assert verdict.is_right
verdict
