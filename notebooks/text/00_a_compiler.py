# %% [markdown]
# # A compiler in 150 lines
#
# A compiler reads a program, changes it so that it does less, and writes it for a machine. This lesson builds one for expressions of matrices, from nothing but Python and NumPy. It has four parts, as the large one of the other lessons has:
#
# 1. the *frontend* makes a graph of a program,
# 2. a *rule* replaces a node of the graph by a better one,
# 3. a *driver* applies rules until none of them fires,
# 4. the *backend* writes a program for the graph.
#
# You are asked for predictions. Choose or type yours, press *lock*, and run the cell again; the cell after it answers (`skip()` in place of the three dots shows the answer, too).

# %%
import inspect

import numpy as np

from explorer.course import check, exercises, predict, skip


# %% [markdown]
# ## The graph
#
# A *node* is a tuple: an operator and its operands. An operand is a node, the name of an input, or a number. Numbers are second operands: this is a *canonical form*, which spares every rule a second case.
#
# To get a graph we *trace*: a function is called once, with objects that note what is done to them.

# %%
class Tensor:
    """The result of a node while a function is traced."""

    def __init__(self, node):
        self.node = node

    def __add__(self, other):
        return Tensor(("add", self.node, node_of(other)))

    def __mul__(self, other):
        return Tensor(("mul", self.node, node_of(other)))

    def __matmul__(self, other):
        return Tensor(("matmul", self.node, other.node))

    __radd__, __rmul__ = __add__, __mul__  # 2 * x is noted as x * 2

    @property
    def T(self):
        return Tensor(("transpose", self.node))


def node_of(value):
    return value.node if isinstance(value, Tensor) else float(value)


def relu(tensor):
    """max(0, x), element by element: the activation of most networks."""
    return Tensor(("relu", tensor.node))


def trace(function):
    """The graph of a function: the node of its result."""
    return function(*map(Tensor, inspect.signature(function).parameters)).node


trace(lambda x, y: 2 * relu(x @ y) + 1)


# %% [markdown]
# The next function does five things, one after the other. Our graph counts operations that are *different*; numbers and inputs are none.

# %% tags=["prediction"]
def twice(x, y):
    return relu(x + y) * relu(x + y)


different = predict("How many operations has the graph of twice?", ...)
different


# %%
def operations(graph, found=None):
    """The different operations of a graph, operands before their readers."""
    found = {} if found is None else found
    if isinstance(graph, tuple) and graph not in found:
        for operand in graph[1:]:
            operations(operand, found)
        found[graph] = True
    return list(found)


different.check(
    len(operations(trace(twice))),
    "Equal tuples are one node: a sum, a relu and a product.",
    tempting={5: "The function has five calls, but two of them compute what was computed before."},
)

# %% [markdown]
# Compilers call this *common subexpression elimination*. This form of the graph does it by itself.
#
# ## The backend
#
# It writes a function in Python, one line for each operation. For a processor it would be C; the idea is the same.

# %%
TEXTS = {
    "add": "{} + {}",
    "mul": "{} * {}",
    "matmul": "{} @ {}",
    "relu": "np.maximum({}, 0)",
    "transpose": "{}.T",
}


def generate(graph, inputs="x, y"):
    """The text of a function that computes the graph."""
    names = {}
    lines = [f"def compiled({inputs}):"]
    for node in operations(graph):
        operands = [names.get(operand, operand) for operand in node[1:]]
        names[node] = f"t{len(names)}"
        lines.append(f"    {names[node]} = {TEXTS[node[0]].format(*operands)}")
    return "\n".join([*lines, f"    return {names.get(graph, graph)}"])


def build(graph, inputs="x, y"):
    """The function itself."""
    scope = {"np": np}
    exec(generate(graph, inputs), scope)
    return scope["compiled"]


print(generate(trace(twice)))
build(trace(twice))(np.array([1.0, -3.0]), np.array([2.0, 2.0]))


# %% [markdown]
# ## Rules
#
# A rule takes an operation. It gives the node that replaces it, or `None`: then it *declines*. Python's `match` writes a rule nearly as algebra does.

# %%
def drop_zero(node):
    """x + 0   =>   x"""
    match node:
        case ("add", x, 0.0):
            return x


def drop_one(node):
    """x * 1   =>   x"""
    match node:
        case ("mul", x, 1.0):
            return x


def one_relu(node):
    """relu(relu(x))   =>   relu(x)"""
    match node:
        case ("relu", ("relu", x)):
            return ("relu", x)


print(drop_zero(("add", "x", 0.0)), drop_zero(("add", "x", 2.0)))


# %% [markdown]
# ## Until nothing changes
#
# The driver looks for the first operation that a rule matches, replaces it wherever it is read, and begins again. It ends at a *fixpoint*: a graph that no rule changes.

# %%
def replace(graph, old, new):
    if graph == old:
        return new
    if not isinstance(graph, tuple):
        return graph
    return (graph[0], *(replace(operand, old, new) for operand in graph[1:]))


def step(graph, rules):
    """The name of the rule that fires, and the graph after it; None at a fixpoint."""
    for node in operations(graph):
        for rule in rules:
            new = rule(node)
            if new is not None and new != node:
                return rule.__name__, replace(graph, node, new)


def rewrite(graph, rules, limit=100):
    """What happens to a graph, rewrite by rewrite."""
    history = [("traced", graph)]
    while (fired := step(history[-1][1], rules)) is not None:
        history.append(fired)
        if len(history) > limit:
            raise RuntimeError("these rules come to no end")
    return history


# %%
class Replay:
    """A picture of a history: a row for each rewrite, a box for each operation."""

    def __init__(self, history):
        self.rows = [(name, [node[0] for node in operations(graph)]) for name, graph in history]

    def __str__(self):
        return "\n".join(f"{name:>10}   {' → '.join(boxes)}" for name, boxes in self.rows)

    def _repr_html_(self):
        box = '<span style="border:1px solid #4c78a8;border-radius:4px;padding:1px 8px">{}</span>'
        rows = (f"{name}: {' → '.join(map(box.format, boxes))}" for name, boxes in self.rows)
        return "".join(f'<div style="margin:8px 0">{row}</div>' for row in rows)


# %% [markdown]
# This function has four operations: relu, a product, relu, a sum.

# %% tags=["prediction"]
def four(x, y):
    return relu(relu(x) * 1) + 0


left = predict("How many of the four operations are left at the fixpoint?", ...)
left

# %%
history = rewrite(trace(four), [drop_zero, drop_one, one_relu])
left.check(
    len(operations(history[-1][1])),
    "Without the product the two relus meet, and a rule fires that did not match before.",
    tempting={
        2: "That counts what matches at the start: the sum and the product.",
        0: "The relu itself computes something.",
    },
    evidence=Replay(history),
)


# %% [markdown]
# One rule made a match for another. This is why drivers go on until nothing changes, and why the order of passes matters (lesson 3).
#
# ## A rule that looks right
#
# A square is never negative, so relu of a square is the square. Somebody writes this rule, and tries it with the numbers below.

# %% tags=["prediction"]
def bare_square(node):
    match node:
        case ("relu", ("mul", a, b)):
            return ("mul", a, b)


graph = trace(lambda x, y: relu(x * y))
wrong = rewrite(graph, [bare_square])[-1][1]
x, y = np.arange(1.0, 5.0), np.arange(3.0, 7.0)

noticed = predict("Will comparing the numbers before and after show a fault? True or False", ...)
noticed

# %%
noticed.check(
    not np.array_equal(build(graph)(x, y), build(wrong)(x, y)),
    "The pattern also matches a product of two different arrays. These numbers are all positive.",
    tempting={True: "The rule is wrong, but a comparison sees only the numbers that it is given."},
)

# %%
generator = np.random.default_rng(0)
x, y = generator.normal(size=(2, 6))
print(build(graph)(x, y).round(2))
print(build(wrong)(x, y).round(2))

# %% [markdown]
# A rule is a pattern *and its conditions*. Here the condition is that both operands are the same node. Whoever tests a rule needs numbers of all signs, and graphs that look like the pattern and are not.
#
# **Design note.** tinygrad's graphs are of this kind: equal nodes are one object, and rules run to a fixpoint. MLIR, and with it TFLite's converter, has a greedy driver with a limit on its rounds; XLA repeats its algebraic simplifier until nothing changes. Rules that do not shrink a graph can undo each other for ever. *Equality saturation* (egg) keeps all forms, and chooses at the end.
#
# ## Exercises
#
# The graders try your rule on graphs that are not shown. Inputs are `x`, `y` and `z`, all of them square matrices.

# %% [markdown]
# **1.** Two factors in a row, as in `mul(mul(x, 2.0), 3.0)`, are one operation too many. Write a rule `merge` that makes one of two, and that declines whatever only looks like it.

# %% explorer={"exercise": "0.1"} tags=["answer"]
merge = ...

# %% explorer={"exercise": "0.1"} tags=["grader"]
check(
    merge,
    exercises.merges_factors(),
    "Ask what kind of operand each of the two factors is.",
    "`isinstance(factor, float)` tells a number from a node.",
)

# %% [markdown]
# **2.** A product of matrices with both operands transposed, `x.T @ y.T`, takes three operations. Write a rule `turn` after which it takes two.

# %% explorer={"exercise": "0.2"} tags=["answer"]
turn = ...

# %% explorer={"exercise": "0.2"} tags=["grader"]
check(
    turn,
    exercises.turns_products(),
    "Transpose the product of two small matrices by hand, and compare.",
    "The order of the operands of `matmul` matters.",
)

# %% [markdown]
# **3.** In `mul(relu(mul(x, 2.0)), 3.0)` the factors do not meet. Make a list `rules` after which two operations are left, and the numbers are right for factors of every sign. `merge` can be one of them.

# %% explorer={"exercise": "0.3"} tags=["answer"]
rules = ...

# %% explorer={"exercise": "0.3"} tags=["grader"]
check(
    rules,
    exercises.brings_factors_together(),
    "When is relu of a product the product of a relu? Try factors of both signs.",
    "Only one direction: with both, the driver comes to no end.",
)
