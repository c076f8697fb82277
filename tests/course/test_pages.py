"""A lesson as a page that needs no kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from explorer.course.pages import lesson_html
from explorer.errors import InputError


def written(tmp_path: Path, source: str) -> Path:
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# <Small> lesson"},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        },
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    path = tmp_path / "01_small.ipynb"
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook))
    return path


# Two seconds: a kernel starts.
def test_a_page_has_the_outputs_and_loads_nothing(tmp_path: Path):
    page = lesson_html(written(tmp_path, "print('four', 2 + 2)"))
    assert "four 4" in page and "<title>&lt;Small&gt; lesson</title>" in page
    assert not re.findall(r"https?://", page) and "<script" not in page


def test_a_lesson_that_fails_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="ZeroDivisionError"):
        lesson_html(written(tmp_path, "1 / 0"))
