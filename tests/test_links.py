"""Links between pages lead somewhere: to a file that is there, and to a heading that it has."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [
    path
    for pattern in ("*.md", "docs/*.md", "verification/*.md", "*_models/*.md", "**/*.ipynb")
    for path in sorted(REPOSITORY.glob(pattern))
    if not any(part.startswith(".") for part in path.relative_to(REPOSITORY).parts)
]
LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """A page without its code; of a notebook its cells of text."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return FENCED.sub("", text)


def anchors(text: str) -> set[str]:
    """What links to headings end with, as GitHub makes it: `## A b (c)` is `a-b-c`.

    A paragraph may have an anchor of its own: `<a id="a-b"></a>`.
    """
    found: dict[str, int] = dict.fromkeys(re.findall(r'<a id="([^"]+)"></a>', text), 0)
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = "".join(c for c in words if c in " -_" or unicodedata.category(c)[0] in "LN")
        slug = slug.replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return set(found)


def broken_links(page: Path) -> list[str]:
    """Relative links of a page that lead nowhere."""
    broken = []
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        is_page = target.suffix in (".md", ".ipynb")
        if not target.exists() or (heading and is_page and heading not in anchors(text_of(target))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("folder", sorted({page.parent for page in PAGES}), ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(folder: Path):
    pages = [page for page in PAGES if page.parent == folder]
    assert {page.name: broken for page in pages if (broken := broken_links(page))} == {}


def test_a_link_to_a_heading_that_was_renamed_is_broken(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# The old name (`tool`)\n\n## The old name (`tool`)\n\n"
        "[a](#the-old-name-tool) [b](#the-old-name-tool-1) [c](#the-new-name) [d](gone.md)\n"
        "[e](https://example.com/gone.md)\n\n```python\nx[0](gone)\n```\n"
    )
    assert broken_links(page) == ["#the-new-name", "gone.md"]
