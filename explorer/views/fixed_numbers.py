"""Why no decision moves a number: what a press on it says in the page.

    Column(key="nodes", title="nodes", format="count", moves=MODEL)

A column names a quantity of `results.levers`, or has one of these sentences in its place.
"""

from __future__ import annotations

MODEL = "The file of the model has it. The line “edit of the model” in the tab “fork” changes it."
WEIGHTS = "It follows from the weights in the file of the model, which no decision changes."
PASSES = "It counts what passes did. The tab “fork” switches passes and rules off."
COST_MODEL = "It is the error of a prediction. No decision rests on it."
CACHE = (
    "It is the time to find or build machine code. The same program is found in the cache later."
)
SEARCH = "It counts what the search tried. The option --search decides how much is tried."
KIND = "It is a part of what the layer computes, as the model says."
TWO_FILES = "It compares two files as they are. Levers belong to each of them: open one for itself."
MACHINES = "A sweep has simulated it on that machine. “fork” makes the branch that has its levers."
