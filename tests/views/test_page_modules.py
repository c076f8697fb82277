"""The width of the page's modules, and modules and exports that are used."""

import re

import pytest

from explorer.views import bundle, module, register
from explorer.views.bundle import read_module

FOLDER = module.FOLDER / "js"
FILES = sorted([*FOLDER.rglob("*.js"), *FOLDER.glob("*.d.ts"), module.FOLDER / "loader.js"])
ENTRY = "explorer.js"


def test_no_line_is_longer_than_100_columns():
    assert len(FILES) > 100
    longer = [
        f"{file.relative_to(module.FOLDER)}:{number}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1)
        if len(line) > 100
    ]
    assert longer == []


@pytest.fixture(scope="module")
def modules():
    """Every module that the page is made of."""
    found = {}

    def read(name):
        text = module.module_source(name, register.VIEWS)
        found[name] = read_module(name, text)
        return text

    bundle.bundle(ENTRY, read)
    return found


def test_the_page_needs_every_file(modules):
    assert {file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.js")} <= set(modules)


def test_every_export_is_imported_somewhere(modules):
    imported = {
        (file, there)
        for other in modules.values()
        for file, names in other.imports
        for there, _here in names
    }
    for name, parts in modules.items():
        for exported in parts.exports:
            assert name == ENTRY or (name, exported) in imported, f"{name}: {exported}"


def test_modules_that_are_made_have_their_types_beside_the_others(modules):
    for name in sorted(
        set(modules) - {file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.js")}
    ):
        types = (FOLDER / name).with_suffix(".d.ts").read_text(encoding="utf-8")
        assert (
            tuple(re.findall(r"^export const (\w+):", types, re.MULTILINE)) == modules[name].exports
        )
