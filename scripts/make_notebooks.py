"""Makes the notebooks of the course from their text.

    python scripts/make_notebooks.py                   text/*.py -> *.ipynb, in notebooks
    python scripts/make_notebooks.py --from-notebooks  the way back, after an edit in JupyterLab

The text is jupytext's percent format: a cell begins with `# %%`, Markdown is a comment. Tags and
other metadata of a cell are in that line. Identifiers of cells, kernel and language are added
here, so that they need not be written. Outputs are no part of a text.
"""

import argparse
import re
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
TEXTS = NOTEBOOKS / "text"
PERCENT = "py:percent"
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
OPENS_THE_EXPLORER = re.compile(r"^\w+\.explore\(", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the notebooks from their text.")
    parser.add_argument(
        "--from-notebooks", action="store_true", help="make the text from the notebooks"
    )
    back = parser.parse_args().from_notebooks
    made = texts() if back else notebooks()
    for path, content in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
            print(path.relative_to(NOTEBOOKS.parent))


def notebooks() -> dict[Path, str]:
    """Every notebook and its content, made from the text."""
    return {
        NOTEBOOKS / path.relative_to(TEXTS).with_suffix(".ipynb"): notebook_of(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(TEXTS.rglob("*.py"))
    }


def texts() -> dict[Path, str]:
    """Every text and its content, made from the notebook."""
    found = [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("solutions/*.ipynb")]
    return {
        TEXTS / path.relative_to(NOTEBOOKS).with_suffix(".py"): text_of(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(found)
    }


def notebook_of(text: str) -> str:
    """The JSON of the notebook that a text in percent format describes."""
    notebook = jupytext.reads(text, fmt=PERCENT)
    kept = {key: value for key, value in notebook.metadata.items() if key == "explorer"}
    notebook.metadata = NotebookNode({**kept, **KERNEL})
    notebook.nbformat_minor = 5
    for cell, name in zip(notebook.cells, identifiers(notebook.cells), strict=True):
        cell.id = name
    return nbformat.writes(notebook) + "\n"


def identifiers(cells: list[NotebookNode]) -> list[str]:
    """Names of cells, by which tests and noted answers find them. The cell of an answer has the
    number of its question, and one that opens the explorer that of the cell before it: neither
    changes the names of the cells that follow."""
    names, number = [], -1
    for cell in cells:
        suffix = ""
        if "answer" in cell.metadata.get("tags", ()):
            suffix = "-answer"
        elif cell.cell_type == "code" and OPENS_THE_EXPLORER.search(cell.source):
            suffix = "-explore"
        else:
            number += 1
        names.append(f"cell-{number:02d}{suffix}")
    return names


def text_of(notebook: str) -> str:
    """The text in percent format that describes the notebook of a JSON."""
    read = nbformat.reads(notebook, as_version=4)
    read.metadata["jupytext"] = {"notebook_metadata_filter": "explorer,-all"}
    return jupytext.writes(read, fmt=PERCENT)


if __name__ == "__main__":
    main()
