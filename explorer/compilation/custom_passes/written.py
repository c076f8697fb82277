"""Rules that a person writes as text beside a program, not in a cell: Python, run in this process.

    rules_of('class DropRelu(Rule):\\n    ...')        [<class DropRelu>]

Only who has this process anyway may write such text: the page in a notebook, whose kernel it is.
What a rule usually needs (RULE_NAMES) is there without an import.
"""

from __future__ import annotations

import itertools
import linecache
import traceback

from explorer.errors import InputError
from explorer.ir import patterns
from explorer.ir.rewriting import Declined, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp

RULE_NAMES = {
    "Rule": Rule,
    "Declined": Declined,
    "patterns": patterns,
    "UnaryOp": UnaryOp,
    "BinaryOp": BinaryOp,
}
TEMPLATE = '''class DropRelu(Rule):
    """relu(relu(x))   =>   relu(x)"""

    matches = (UnaryOp,)

    def rewrite(self, op, rewriter):
        before = op.input.owner
        if op.kind.data == "relu" and isinstance(before, UnaryOp) and before.kind.data == "relu":
            rewriter.replace(op, op.input)
'''
_NUMBERS = itertools.count(1)


def rules_of(text: str) -> list[type[Rule]]:
    """The classes of rules that a text defines, in its order.

    Raises InputError, with the line, for text that is no Python or fails, or defines no rule.
    """
    file = f"<rule {next(_NUMBERS)}>"
    # Where tracebacks and the explorer look for the text of a rule.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {**RULE_NAMES, "__name__": file}
    try:
        exec(compile(text, file, "exec"), names)
    except Exception as error:  # whatever a person's text may raise
        raise InputError(_what_is_wrong(error, file), hint="correct that line") from error
    rules = [
        found
        for found in names.values()
        if isinstance(found, type) and issubclass(found, Rule) and found.__module__ == file
    ]
    if not rules:
        raise InputError("the text defines no rule", hint="class MyRule(Rule): ...")
    return rules


def _what_is_wrong(error: Exception, file: str) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"
