"""What depends on a backend is asked of it: nobody else compares with the name of one."""

import ast
from pathlib import Path

import pytest

import explorer
from explorer.backends import NAMES

PACKAGE = Path(explorer.__file__).parent
WORDS = {*NAMES, "cpu"}
OTHER_MEANINGS = ("name", "names", "processor")
"""Of loops, which `c` is one of, and of what kind of device OpenCL found."""
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "backends" not in p.relative_to(PACKAGE).parts)


def compared_names(text: str) -> list[str]:
    """Comparisons with the name of a backend, of its language or its device, as text."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        words = {c.value for s in sides for c in ast.walk(s) if isinstance(c, ast.Constant)}
        others = {
            getattr(n, "attr", getattr(n, "id", "")) for side in sides for n in ast.walk(side)
        }
        if words & WORDS and not others & set(OTHER_MEANINGS):
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('if "opencl" in target.languages: pass', ["'opencl' in target.languages"]),
        ('threads = n if self.target == "cpu" else None', ["self.target == 'cpu'"]),
        ('if language not in ("c", "opencl"): pass', ["language not in ('c', 'opencl')"]),
        ('if name.split("_")[-1] in ("c", "r", "p", "q"): pass', []),
        ('if device.processor == "cpu": pass', []),
    ],
)
def test_comparisons_with_a_backend_are_found(text, found):
    assert compared_names(text) == found


def test_nobody_but_the_backends_compares_with_their_names():
    found = {str(p.relative_to(PACKAGE)): compared_names(p.read_text("utf-8")) for p in FILES}
    assert {file: lines for file, lines in found.items() if lines} == {}
