"""The text of the notebooks and the notebooks say the same (scripts/make_notebooks.py)."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_notebooks.py"
HINT = "run scripts/make_notebooks.py, or with --from-notebooks if the notebook was edited"


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("jupytext")
    spec = importlib.util.spec_from_file_location("make_notebooks", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_notebook_is_what_its_text_makes(script):
    made = script.notebooks()
    assert len(made) > 30
    assert [path.name for path, content in made.items() if read(path) != content] == [], HINT


def test_every_text_is_what_its_notebook_makes(script):
    made = script.texts()
    assert set(made) == set(script.TEXTS.rglob("*.py"))
    assert [path.name for path, content in made.items() if read(path) != content] == [], HINT


def read(path):
    return path.read_text(encoding="utf-8") if path.exists() else None


CELLS = """\
# %% [markdown]
# # A title

# %% tags=["prediction"]
question = 1

# %% tags=["answer"]
c.explore()

# %%
c.explore(at={"pass": "fold"})

# %%
# %matplotlib inline
print("c.explore()")
"""


def test_answers_and_the_explorer_do_not_change_the_names_of_later_cells(script):
    notebook = script.nbformat.reads(script.notebook_of(CELLS), as_version=4)
    names = [cell.id for cell in notebook.cells]
    assert names == ["cell-00", "cell-01", "cell-01-answer", "cell-01-explore", "cell-02"]
    assert notebook.cells[1].metadata == {"tags": ["prediction"]}
    assert notebook.cells[-1].source.startswith("%matplotlib inline")  # commented in the text
    assert notebook.metadata == script.KERNEL


def test_a_notebook_comes_back_from_its_text(script):
    notebook = script.notebook_of(CELLS)
    assert script.text_of(notebook) == CELLS
    assert script.notebook_of(script.text_of(notebook)) == notebook
