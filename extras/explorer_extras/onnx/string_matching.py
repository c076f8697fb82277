"""RegexFullMatch: all characters are functions from state to state, which are composed in pairs.

    codes (..., 8)  ->  functions (..., 8, states)  ->  (..., 4, states)  ->  ...  ->  (..., states)

The function of two characters is b[a[state]], a gather; as composition is associative, the eight
functions of a string of eight characters take three gathers, whatever the pattern. Zeros behind a
string's end leave the state as it is. Reference: Hillis and Steele, "Data parallel algorithms",
Communications of the ACM 29, 1986 (parsing a regular language).
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherElementsOp, GatherOp
from explorer_extras.onnx.automata import Automaton, automaton

MAX_NUMBERS = 1 << 26
"""Of the functions of all characters together."""


@converts("RegexFullMatch", since=20, on_strings=True)
def full_match(node: Node, build: Build) -> Expr:
    """Booleans: whether the whole string is in the pattern's language."""
    codes = node.strings(0)
    machine = automaton(node.text("pattern"))
    sizes = codes.sizes(range(codes.rank), "RegexFullMatch")
    places = 1 << max(sizes[-1] - 1, 0).bit_length()
    count = int(np.prod(sizes[:-1], dtype=np.int64)) * places * len(machine.table)
    if count > MAX_NUMBERS:
        raise Unsupported(f"{len(machine.table)} states for strings of shape {sizes}")
    if 0 in sizes[:-1]:
        return build.weight(np.zeros(sizes[:-1], bool))
    last = codes.rank - 1
    codes = codes.pad([0] * (last + 1), [*[0] * last, places - sizes[-1]])
    functions = _functions(codes, machine, build)
    while places > 1:
        first, second = (functions.slices({last: (i, places, 2)}) for i in (0, 1))
        functions = build.value(GatherElementsOp, [second, first], axis=last + 1)
        places //= 2
    state = functions.slices({last + 1: (0, 1, 1)}).squeeze([last, last + 1])
    return build.value(GatherOp, [build.weight(machine.accepted), state], axis=0)


def _functions(codes: Expr, machine: Automaton, build: Build) -> Expr:
    """(..., places, states): where each character leads from each state."""
    bounds = build.weight(machine.bounds.astype(np.int32))
    rank = codes.rank
    symbols = codes.constant(0)
    if len(machine.bounds):
        above = codes.unsqueeze([rank]) >= bounds
        symbols = above.astype(np.int32).sum([rank])
    symbols = symbols + 1
    is_end = codes == 0
    symbols = where(is_end, 0, symbols)
    states = np.arange(len(machine.table))
    table = np.concatenate([states[np.newaxis], machine.table.T]).astype(np.int32)
    return build.value(GatherOp, [build.weight(table), symbols], axis=0)
