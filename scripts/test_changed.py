"""Runs the tests that a change can affect.

    python scripts/test_changed.py                  changes of the working tree
    python scripts/test_changed.py --since main     also those of the commits since main
    python scripts/test_changed.py -- -n 2          further arguments of pytest

For Python files pytest-testmon selects the tests that executed a changed function in their last
run; the first run executes all tests and records them in .testmondata, which takes almost twice the
time of `make test`. For other files, which no coverage sees, the folders of FOLDERS run.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
NO_TESTS = 5
"""pytest's exit status where nothing was selected."""
DOCUMENTATION = ("tests/cli/test_documentation.py", "tests/test_paths.py", "tests/test_links.py")
FOLDERS = {
    "docs/": DOCUMENTATION,
    "README.md": DOCUMENTATION,
    "explorer/kernels/": ("tests/kernels", "tests/runtime"),
    "explorer/runtime/": ("tests/runtime", "tests/session"),
    "explorer/targets/": ("tests/targets", "tests/backends", "tests/npu"),
    "explorer/views/": ("tests/views", "tests/app"),
    "notebooks/": ("tests/notebooks",),
    "requirements/": ("tests/test_requirements.py",),
    "sample_models/": ("tests/test_sample_models.py", "tests/importers"),
    "tests/": ("tests/test_quick.py",),
    "tests/javascript/": ("tests/views/test_javascript.py",),
}
"""What reads the files that are not Python, by how their paths begin."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests that a change can affect.")
    parser.add_argument("--since", default="HEAD", metavar="REVISION", help="default: HEAD")
    parser.add_argument("rest", nargs="*", help="further arguments of pytest, after --")
    arguments = parser.parse_args()
    try:
        changed = changed_files(arguments.since)
    except subprocess.CalledProcessError as error:
        parser.error(error.stderr.strip())
    status = run_tests("--testmon", "--testmon-forceselect", *arguments.rest)
    folders = folders_of(changed)
    if folders:
        print("files that are not Python changed; their tests:", *folders, flush=True)
        status = run_tests("-p", "no:testmon", *arguments.rest, *folders) or status
    return status


def changed_files(since: str) -> list[str]:
    """Paths below the repository that differ from a revision, and those that git does not know."""
    listings = (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"])
    return [
        path
        for listing in listings
        for path in subprocess.run(
            ["git", *listing], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]


def folders_of(changed: Iterable[str]) -> list[str]:
    """The tests of the changed files that are not Python."""
    return sorted(
        {
            tests
            for path in changed
            if not path.endswith(".py")
            for beginning, of_it in FOLDERS.items()
            if path.startswith(beginning)
            for tests in of_it
        }
    )


def run_tests(*arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    status = subprocess.run(command, cwd=REPOSITORY).returncode
    return 0 if status == NO_TESTS else status


if __name__ == "__main__":
    sys.exit(main())
