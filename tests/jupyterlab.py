"""A real JupyterLab on this machine with one notebook, for tests and pictures.

    with served(folder, ["import explorer as ex", "ex.compile('net.onnx').explore()"]) as address:
        page.goto(address)
        run_all_cells(page)

It knows nothing of this person's: its settings, data and kernels' files lie in the folder. Test
modules load this file by its path, for xDSL's wheel installs a top-level package `tests`.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

REPOSITORY = Path(__file__).resolve().parents[1]
START_SECONDS = 60
END_SECONDS = 10

KERNEL_IS_IDLE = """() => {
  const widget = window.jupyterapp?.shell.currentWidget;
  return widget?.sessionContext?.session?.kernel?.status === 'idle';
}"""
EXECUTE = "([id, options]) => window.jupyterapp.commands.execute(id, options).then(() => null)"


@contextmanager
def served(folder: Path, cells: Sequence[str], name: str = "lesson.ipynb") -> Iterator[str]:
    """The address of a notebook of these cells; nothing has run yet."""
    import nbformat  # a second, which the collection of all tests would take

    notebooks = folder / "notebooks"
    notebooks.mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, notebooks / name)
    settings = folder / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    no_news = {"fetchNews": "false", "checkForUpdates": False}  # "none" would ask for permission
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(no_news))
    port = _free_port()
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="),
        *(f"--ServerApp.root_dir={notebooks}", "--LabApp.expose_app_in_browser=True"),
        # Each of these would ask another machine for something.
        *("--LabApp.news_url=None", "--LabApp.extension_manager=readonly"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    private = {
        f"JUPYTER_{kind.upper()}_DIR": str(folder / kind) for kind in ("config", "data", "runtime")
    }
    private |= {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": str(REPOSITORY)}
    log = folder / "log.txt"
    with log.open("w") as file:
        process = subprocess.Popen(
            command, env={**os.environ, **private}, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        _wait_for_answer(f"http://127.0.0.1:{port}/api", process, log)
        yield f"http://127.0.0.1:{port}/lab/tree/{name}?reset"
    finally:
        _end(process)


def run_all_cells(page: Page) -> None:
    """Starts to run the notebook that the page shows, once its kernel is ready. By command, for
    menus are not where they were in the version before."""
    page.wait_for_function(KERNEL_IS_IDLE, timeout=1000 * START_SECONDS)
    run_command(page, "notebook:run-all-cells")


def run_command(page: Page, identity: str, **options: object) -> None:
    """One of JupyterLab's commands, until it is done."""
    page.evaluate(EXECUTE, [identity, options])


def change_theme(page: Page, name: str) -> None:
    """Until the page shows it. The splash screen that JupyterLab shows meanwhile is removed 200 ms
    later; a change before that makes JupyterLab remove it twice, which is an error on its page."""
    run_command(page, "apputils:change-theme", theme=name)
    is_light = "true" if name.endswith("Light") else "false"
    page.wait_for_selector(f'body[data-jp-theme-light="{is_light}"]', state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")


def _end(process: subprocess.Popen[bytes]) -> None:
    """As a person ends it. A server that still waits for a kernel does not end by itself; a kernel
    does, when its server is gone."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_answer(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"JupyterLab did not answer at {address}:\n{log.read_text()[-3000:]}")
