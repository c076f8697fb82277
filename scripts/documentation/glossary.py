"""Terms of docs/words.md, explained on hover at their first place in a lesson.

terms_of(text)                           {"arena": "The block of memory that holds ..."}
with_terms("<p>In the arena</p>", terms) '<p>In the <abbr title="The block ...">arena</abbr></p>'
"""

import html
import re
from collections.abc import Mapping

ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|", re.MULTILINE)
UNTOUCHED = re.compile(
    r"(<(?:pre|code|h[1-6]|a|math|script|style|abbr|button|nav)\b.*?</(?:pre|code|h[1-6]|a|math|"
    r"script|style|abbr|button|nav)>|<[^>]+>)",
    re.DOTALL | re.IGNORECASE,
)
"""Elements in which no term is marked, and tags."""


def terms_of(words: str) -> dict[str, str]:
    """Terms and meanings of all tables of the page."""
    rows = {m[1]: m[2] for m in ROW.finditer(words) if m[1] != "term" and "---" not in m[1]}
    return {term: meaning.replace("`", "") for term, meaning in rows.items()}


def with_terms(page: str, terms: Mapping[str, str]) -> str:
    """The page's HTML; each term is marked once, at its first place in running text."""
    parts = UNTOUCHED.split(page)
    for term, meaning in terms.items():
        pattern = re.compile(rf"(?<![\w-]){re.escape(term)}s?(?![\w-])")
        for number in range(0, len(parts), 2):
            found = pattern.search(parts[number])
            if found:
                start, end = found.span()
                mark = f'<abbr title="{html.escape(meaning)}">{found[0]}</abbr>'
                text = parts[number]
                parts[number : number + 1] = [text[:start], mark, text[end:]]
                break
    return "".join(parts)
