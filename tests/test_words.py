"""The glossary names what the code defines, and replaced names do not come back."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| \[`(\w+)`\]\(\.\./([\w/.]+)\) \|$", re.MULTILINE)
REPLACED_FILES = {
    "beside", "kept", "kept_files", "kept_parts", "starting", "turns", "words",
    "own_factors", "elsewhere", "remembering", "exact_factors", "asked", "carried", "film",
    "ladders", "late", "looks", "made_from", "opened", "pieces", "sight", "steady", "twins",
}  # fmt: skip
"""Names of files of the compiler that others took the place of (`words` of 16 bits: `int16`)."""
ALLOWED = {"explorer/ir/patterns/words.py"}
"""Functions of the pattern language."""
REPLACED_PREFIX = re.compile(r"^(?:const )?_?(?:MOST|LEAST)_\w+ *(?::.*)?=", re.MULTILINE)


def sources():
    """The modules of the compiler and of the page."""
    return [p for suffix in ("py", "js") for p in REPOSITORY.glob(f"explorer/**/*.{suffix}")]


def test_each_term_is_defined_in_the_file_that_it_links_to():
    rows = ROW.findall((REPOSITORY / "docs" / "words.md").read_text(encoding="utf-8"))
    assert len(rows) >= 12
    for term, meaning, name, path in rows:
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:class|def) {name}\b", text, re.MULTILINE), (term, path)
        assert meaning.endswith("."), term


def test_replaced_names_of_files_do_not_come_back():
    found = {str(p.relative_to(REPOSITORY)) for p in sources() if p.stem in REPLACED_FILES}
    assert found == ALLOWED


def test_limits_have_the_prefixes_of_the_glossary():
    found = {p.name for p in sources() if REPLACED_PREFIX.search(p.read_text(encoding="utf-8"))}
    assert found == set()
