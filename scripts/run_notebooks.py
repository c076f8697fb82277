"""Executes notebooks from top to bottom and says which cell of which notebook fails.

    python scripts/run_notebooks.py notebooks other/lesson.ipynb --limit-seconds 300

A folder stands for the notebooks in it. Each runs in a kernel of its own, in its own folder, as
JupyterLab would run it, and as many at once as there are processors. The files on disk are only
read: outputs are thrown away. A notebook whose metadata name a package that is not installed
(`"explorer": {"needs": ["torch"]}`) is skipped.
"""

import argparse
import asyncio
import importlib.util
import re
import sys
import tempfile
import time
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
    parser.add_argument("--jobs", type=int, default=core_count(), help="notebooks at a time")
    arguments = parser.parse_args()

    notebooks = find_notebooks(arguments.paths)
    if not notebooks:
        print("no notebooks in", *arguments.paths)
        return 0

    failures = asyncio.run(execute_all(notebooks, arguments.jobs, arguments.limit_seconds))
    if failures:
        print(f"{failures} of {len(notebooks)} notebooks failed", file=sys.stderr)
    return 1 if failures else 0


async def execute_all(notebooks: list[Path], jobs: int, limit_seconds: float) -> int:
    """Runs `jobs` notebooks at a time; each tells how it went when it ends. How many failed."""
    free = asyncio.Semaphore(jobs)

    async def fails(path: Path) -> bool:
        if missing := missing_packages(path):
            print(f"{path}: skipped, {', '.join(missing)} is not installed", flush=True)
            return False
        async with free:
            started = time.monotonic()
            try:
                cells = await execute(path, limit_seconds)
            except NotebookFailed as failure:
                print(f"FAILED {failure}", file=sys.stderr, flush=True)
                return True
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


def missing_packages(path: Path) -> list[str]:
    """What the notebook cannot do without, of what is not installed here."""
    notebook = nbformat.read(path, as_version=4)
    needs = notebook.metadata.get("explorer", {}).get("needs", [])
    return [name for name in needs if importlib.util.find_spec(name) is None]


async def execute(path: Path, limit_seconds: float) -> int:
    """Runs all cells of one notebook and returns how many of them hold code."""
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
    return sum(cell.cell_type == "code" for cell in notebook.cells)


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


if __name__ == "__main__":
    sys.exit(main())
