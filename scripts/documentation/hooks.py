"""What MkDocs calls while it builds the site: pages that are made, and links out of docs/.

Pages that are made: the reference of the commands from argparse, one page for each lesson from its
executed notebook, copies of pages that stand elsewhere in the repository, and a page for each file
that a page links to.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(REPOSITORY / "scripts")]

from commands import commands_page  # noqa: E402
from glossary import terms_of, with_terms  # noqa: E402
from lessons import LESSONS, Lesson, read_lessons  # noqa: E402
from make_measurements import last_change, read_tables, to_markdown  # noqa: E402

COPIES = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "sample_models.md": "sample_models/README.md",
    "readme.md": "README.md",
}
"""Pages of the site that stand outside of docs/ in the repository."""
REACHED_BY_LINKS = ("readme.md", "sample_models.md")
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^()\s#]+)(?P<heading>#[^()\s]*)?(?P<after>\))")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".c": "c", ".toml": "toml", ".js": "js", ".csv": "text"}

_lessons: dict[str, Lesson] = {}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages that are made to those of docs/."""
    _lessons.clear()
    _lessons.update(read_lessons())
    made = {"commands.md": commands_page()}
    made |= {page: _text(REPOSITORY / path) for page, path in COPIES.items()}
    made |= {page: lesson.markdown for page, lesson in _lessons.items()}
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()} | made
    for page, text in texts.items():
        for target in _linked_files(page, text):
            made[_source_page(target)] = _source_text(target)
    for page, text in made.items():
        file = File.generated(config, page, content=text)
        if page.startswith("source/") or page in REACHED_BY_LINKS:
            file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    for path in sorted((LESSONS / "pages").glob("*.html")):
        name = f"lessons/pages/{path.name}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    config.nav = [_with_lessons(entry) for entry in config.nav]
    return files


def _with_lessons(entry: Any) -> Any:
    """An entry of the navigation; that of the lessons names all their pages."""
    if entry != {"Lessons": "lessons/"}:
        return entry
    return {"Lessons": ["lessons/index.md", *(p for p in _lessons if p != "lessons/index.md")]}


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository lead to their pages of the site.

    Tables of measurements are marked as old by the commits that there are now.
    """
    if page.file.src_uri == "measurements.md":
        markdown = to_markdown(read_tables(), last_change)
    return _outside_code(markdown, lambda text: _relinked(page.file.src_uri, text))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts the outputs of a lesson's cells where their marks are."""
    lesson = _lessons.get(page.file.src_uri)
    if lesson is None:
        return html
    return lesson.with_outputs(with_terms(html, terms_of(_text(REPOSITORY / "docs" / "words.md"))))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _outside_code(markdown: str, change) -> str:
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def _home(page: str) -> str:
    """The folder of the repository that the links of a page start from."""
    if page in COPIES:
        return os.path.dirname(COPIES[page])
    if page in _lessons:
        return "notebooks"
    return "docs"


def _place(page: str, target: str) -> str | None:
    """The path in the repository that a link names; None for one of another kind."""
    if re.match(r"[a-z]+:|/", target):
        return None
    return os.path.normpath(os.path.join(_home(page), target))


def _linked_files(page: str, text: str) -> set[str]:
    """Files of the repository that are no pages of the site, which a page links to."""
    found: set[str] = set()
    for match in LINK.finditer(FENCE.sub("", text)):
        place = _place(page, match["target"])
        if place is not None and _page_of(place) is None:
            path = REPOSITORY / place
            if not path.exists():
                raise PluginError(f"{page} links to {match['target']}, which is not there")
            if path.suffix not in (".png", ".svg", ".md"):
                found.add(place)
    return found


def _page_of(place: str) -> str | None:
    """The page of the site that shows a file of the repository, if one does."""
    for page, path in COPIES.items():
        if place == path:
            return page
    folder, name = os.path.split(place)
    if folder == "notebooks" and name.endswith(".ipynb"):
        page = f"lessons/{name.removesuffix('.ipynb')}.md"
        return page if page in _lessons else None
    if folder == "docs" or folder.startswith("docs/"):
        return os.path.relpath(place, "docs")
    return None


def _source_page(place: str) -> str:
    return f"source/{place}.md"


def _relinked(page: str, text: str) -> str:
    def relinked(match: re.Match[str]) -> str:
        place = _place(page, match["target"])
        if place is None:
            return match[0]
        goal = _page_of(place) or _source_page(place)
        address = os.path.relpath(goal, os.path.dirname(page) or ".")
        return f"{match['before']}{address}{match['heading'] or ''}{match['after']}"

    return LINK.sub(relinked, text)


def _source_text(place: str) -> str:
    """A page with the text of a file, or the names of what is in a folder."""
    path = REPOSITORY / place
    title = f"# {place}\n\n"
    hidden = "---\nsearch:\n  exclude: true\nhide: [navigation]\n---\n\n"
    if path.is_dir():
        names = sorted(p.name for p in path.iterdir() if not p.name.startswith(("_", ".")))
        return hidden + title + "\n".join(f"- `{name}`" for name in names) + "\n"
    language = LANGUAGES.get(path.suffix, "text")
    return f"{hidden}{title}````{language}\n{_text(path)}\n````\n"
