"""Makes the smallest model and input that still fail, out of ones that fail.

candidate.py      a model with its inputs, and what the reference says of them
conditions.py     what "fails" means: a function Candidate -> Outcome or bool
trials.py         asks a condition once for each candidate, and keeps what was found on the disk
graphs.py         parts of a model: operations that are cut out, with their values as new inputs
steps/            how a candidate is made smaller: operations, attributes, sizes, numbers
reducer.py        all steps until none helps
report.py         what remains, as a page

Models: llvm-reduce (LLVM), `polygraphy debug reduce` (TensorRT), C-Reduce (Regehr, "Test-Case
Reduction for C Compiler Bugs", PLDI 2012); delta debugging is that of Zeller and Hildebrandt
("Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002).
"""

from explorer.reducing.candidate import Candidate, candidate_of
from explorer.reducing.conditions import Condition, Outcome, differing
from explorer.reducing.reducer import Reduced, reduce

__all__ = [
    "Candidate",
    "Condition",
    "Outcome",
    "Reduced",
    "candidate_of",
    "differing",
    "reduce",
]
