"""Executes notebooks from top to bottom and says which cell of which notebook fails.

    python scripts/run_notebooks.py notebooks other/lesson.ipynb --limit-seconds 300
    python scripts/run_notebooks.py notebooks --into build/lessons

A folder stands for the notebooks in it. Each runs in a kernel of its own, in its own folder, as
JupyterLab would run it, and as many at once as there are processors. The notebooks on disk are
only read. With --into the executed ones are written to a folder, and the explorers in them as
offline pages in its subfolder `pages`; without it outputs are thrown away. A notebook that names a
package in its metadata (`"explorer": {"needs": ["torch"]}`) is skipped where it is not installed.
"""

import argparse
import asyncio
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from explorer.processor import core_count


class NotebookFailed(Exception):
    """A notebook that did not run to its end; the message names the notebook and the cell."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Execute notebooks without changing them.")
    parser.add_argument("paths", nargs="+", type=Path, help="notebooks, or folders of them")
    parser.add_argument("--limit-seconds", type=float, default=600, help="for each notebook")
    parser.add_argument("--into", type=Path, help="a folder for the executed notebooks")
    parser.add_argument("--jobs", type=int, default=core_count(), help="notebooks at a time")
    arguments = parser.parse_args()

    notebooks = find_notebooks(arguments.paths)
    if not notebooks:
        print("no notebooks in", *arguments.paths)
        return 0

    os.environ["EXPLORER_COURSE"] = "open"  # questions stay open, and no cell stops for them
    if arguments.into is not None:
        shutil.rmtree(arguments.into, ignore_errors=True)
        (arguments.into / "pages").mkdir(parents=True)
        os.environ["EXPLORER_PAGES"] = str((arguments.into / "pages").resolve())
    limit = arguments.limit_seconds
    failures = asyncio.run(
        execute_all(notebooks, arguments.jobs, limit, arguments.into, arguments.paths)
    )
    if failures:
        print(f"{failures} of {len(notebooks)} notebooks failed", file=sys.stderr)
    return 1 if failures else 0


async def execute_all(
    notebooks: list[Path],
    jobs: int,
    limit_seconds: float,
    into: Path | None = None,
    given: Sequence[Path] = (),
) -> int:
    """Runs `jobs` notebooks at a time; each reports its end. The number of those that failed.

    into: a folder for the executed notebooks, which lie in it as they do in the folders `given`.
    """
    free = asyncio.Semaphore(jobs)

    async def fails(path: Path) -> bool:
        if missing := missing_packages(path):
            print(f"{path}: skipped, {', '.join(missing)} is not installed", flush=True)
            return False
        async with free:
            started = time.monotonic()
            try:
                executed = await execute(path, limit_seconds)
            except NotebookFailed as failure:
                print(f"FAILED {failure}", file=sys.stderr, flush=True)
                return True
        if into is not None:
            place = into / place_of(path, given)
            place.parent.mkdir(exist_ok=True)
            nbformat.write(executed, place)
        cells = sum(cell.cell_type == "code" for cell in executed.cells)
        print(f"{path}: {cells} cells, {time.monotonic() - started:.1f} s", flush=True)
        return False

    return sum(await asyncio.gather(*map(fails, notebooks)))


def find_notebooks(paths: list[Path]) -> list[Path]:
    """The notebooks of `paths` in order; a folder gives its own and those of its subfolders."""
    found: list[Path] = []
    for path in paths:
        if path.suffix == ".ipynb":
            found.append(path)
        else:
            inside = sorted(path.rglob("*.ipynb"))
            found.extend(p for p in inside if ".ipynb_checkpoints" not in p.parts)
    return found


def place_of(path: Path, given: Sequence[Path]) -> Path:
    """The path of a notebook in the folder that it was found in; its name, if it was named."""
    return next((path.relative_to(root) for root in given if root in path.parents), Path(path.name))


def missing_packages(path: Path) -> list[str]:
    """What the notebook cannot do without, of what is not installed here."""
    notebook = nbformat.read(path, as_version=4)
    needs = notebook.metadata.get("explorer", {}).get("needs", [])
    return [name for name in needs if importlib.util.find_spec(name) is None]


async def execute(path: Path, limit_seconds: float) -> nbformat.NotebookNode:
    """Runs all cells of one notebook and returns it with their outputs."""
    notebook = nbformat.read(path, as_version=4)
    running = 0

    def remember(cell: nbformat.NotebookNode, cell_index: int) -> None:
        nonlocal running
        running = cell_index

    with tempfile.TemporaryDirectory() as sockets:
        # The kernel is spoken to through sockets in a private folder, so that no port is open.
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(
            notebook,
            km=kernel,
            timeout=None,  # the limit is for the notebook as a whole
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_start=remember,
        )
        limit = asyncio.timeout(limit_seconds)
        try:
            async with limit:
                await client.async_execute()
        except (CellExecutionError, DeadKernelError, TimeoutError) as error:
            where = f"{path}, cell {running + 1} of {len(notebook.cells)}"
            if isinstance(error, CellExecutionError):
                raise NotebookFailed(f"{where}: {without_colours(str(error))}") from error
            # nbclient reports a cancelled cell as a dead kernel.
            reason = f"over {limit_seconds:.0f} s" if limit.expired() else "the kernel died"
            source = notebook.cells[running].source
            raise NotebookFailed(f"{where}: {reason} in\n{source}") from error
        finally:
            await kernel.shutdown_kernel(now=True)
    return notebook


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


if __name__ == "__main__":
    sys.exit(main())
