"""`make test-changed`: which tests run for files that are not Python."""

from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[1]
script = run_path(str(ROOT / "scripts" / "test_changed.py"))
folders_of = script["folders_of"]


def test_files_of_a_folder_run_the_tests_that_read_them():
    assert folders_of(["explorer/views/js/explorer.js"]) == ["tests/app", "tests/views"]
    assert folders_of(["tests/javascript/state.test.mjs"]) == [
        "tests/test_quick.py",
        "tests/views/test_javascript.py",
    ]
    assert folders_of(["explorer/targets/cpu.toml", "notebooks/10_memory.ipynb"]) == [
        "tests/backends",
        "tests/notebooks",
        "tests/npu",
        "tests/targets",
    ]


def test_python_is_left_to_what_was_recorded():
    assert folders_of(["explorer/views/page.py", "tests/views/conftest.py"]) == []


def test_all_folders_and_beginnings_exist():
    for beginning, tests in script["FOLDERS"].items():
        assert (ROOT / beginning).exists()
        assert all((ROOT / path).exists() for path in tests)
