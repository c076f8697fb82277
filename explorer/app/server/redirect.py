"""Opens the page in a browser without its address on a command line, which all users can read.

    open_page("http://127.0.0.1:5006/TOKEN/", folder)     the browser is given file:///.../open.html

The file can be read by its owner only, and leads to the page (as Jupyter does).
"""

from __future__ import annotations

import html
import os
import webbrowser
from pathlib import Path

NAME = "open.html"
PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Compiler Explorer</title>
<a href="{url}">Compiler Explorer</a>
"""


def open_page(url: str, folder: Path) -> None:
    """`folder`: of this app alone; it removes the file with it."""
    webbrowser.open(redirect_file(url, folder).as_uri())


def redirect_file(url: str, folder: Path) -> Path:
    """A new file of mode 0600 that leads a browser to `url`."""
    path = folder.absolute() / NAME
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(PAGE.format(url=html.escape(url)))
    return path
