"""The page of measurements is what its tables make, and says which of them are old."""

import dataclasses
import datetime
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    import make_measurements  # pyright: ignore[reportMissingImports]

    yield make_measurements
    sys.modules.pop("make_measurements", None)


def unmarked(page: str, mark: str) -> str:
    """A page without its marks of old tables, which follow the commits."""
    return "\n\n".join(part for part in page.split("\n\n") if not part.startswith(f"*{mark}"))


def test_the_page_is_what_the_tables_make(making):
    made = making.to_markdown(making.read_tables(), lambda path: "")
    page = making.PAGE.read_text(encoding="utf-8")
    assert unmarked(page, making.OLDER) == made, "run: python scripts/make_measurements.py"


def test_a_table_says_when_where_and_how_it_was_measured(making):
    tables = making.read_tables()
    files = {path.stem for path in making.TABLES.glob("*.csv")}
    assert sorted(table.name for table in tables) == sorted(files)
    assert len({table.title for table in tables}) == len(tables)
    for table in tables:
        assert datetime.date.fromisoformat(table.date)
        assert table.processor and table.measures
        assert len({len(row) for row in table.rows}) == 1, table.name
        for path in table.measures:
            assert (REPOSITORY / path).exists(), (table.name, path)
        program, script, *_ = table.command.split()
        if program == "python" and script != "-m":
            assert (REPOSITORY / script).exists(), (table.name, script)
        else:
            assert program in ("python", "explorer")


def test_a_table_is_marked_only_where_its_code_changed_on_a_later_day(making):
    table = dataclasses.replace(
        making.read_tables()[0], date="2026-05-10", measures=("explorer/ir", "explorer/passes")
    )
    assert making.older_than(table, {"explorer/ir": "", "explorer/passes": ""}.get) == ""
    changed = {"explorer/ir": "2026-05-10", "explorer/passes": "2026-05-11"}
    mark = making.older_than(table, changed.get)
    assert mark == f"{making.OLDER}`explorer/passes` changed later, until 2026-05-11."
    page = making.to_markdown([table], changed.get)
    assert unmarked(page, making.OLDER) == making.to_markdown([table], lambda path: "")
