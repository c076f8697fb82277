"""Tests the page's modules in Node.js, without a browser.

    python scripts/test_javascript.py                              all of tests/javascript
    python scripts/test_javascript.py --test-name-pattern=column   further options of `node --test`

The modules are written to build/js first, for some of them are made by Python (theme.js, panes.js).
Node.js is the one that Playwright's package brings.
"""

import os
import subprocess
import sys
from pathlib import Path

from playwright._impl._driver import compute_driver_executable

from explorer.views import register
from explorer.views.bundle import bundle
from explorer.views.module import module_source

REPOSITORY = Path(__file__).resolve().parents[1]
MODULES = REPOSITORY / "build" / "js"
TESTS = REPOSITORY / "tests" / "javascript"


def main() -> int:
    write_modules(MODULES)
    tests = sorted(str(path.relative_to(REPOSITORY)) for path in TESTS.rglob("*.test.mjs"))
    # One process for all files: they share no state but the modules, which have none.
    command = [node(), "--test", "--test-isolation=none", *sys.argv[1:], *tests]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


def node() -> str:
    """The path of Node.js."""
    return str(compute_driver_executable()[0])


def write_modules(folder: Path) -> None:
    """Every module that the page is made of. Files that are right stay: others may read them."""

    def read(name: str) -> str:
        text = module_source(name, register.VIEWS)
        write(folder / name, text)
        return text

    bundle("explorer.js", read)
    write(folder / "package.json", '{"type": "module"}\n')


def write(path: Path, text: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}")
    half.write_text(text, encoding="utf-8")
    half.replace(path)


if __name__ == "__main__":
    sys.exit(main())
