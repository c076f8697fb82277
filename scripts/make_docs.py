"""Builds the documentation site into build/site, then serves it on this machine and opens it.

    python scripts/make_docs.py               builds, serves on a free port, opens a browser
    python scripts/make_docs.py --no-serve    only builds

Lessons come from build/lessons, where scripts/run_notebooks.py writes them. A warning of MkDocs is
an error: the status is 1 and the site is not complete.
"""

import argparse
import functools
import os
import subprocess
import sys
import webbrowser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SITE = REPOSITORY / "build" / "site"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation and open it.")
    parser.add_argument("--no-serve", action="store_true", help="only build")
    arguments = parser.parse_args()
    # The theme prints a note about its successor at every start; this variable leaves it out.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(command, cwd=REPOSITORY, env=environment)
    if built.returncode:
        return 1
    print(f"{SITE.relative_to(REPOSITORY)}: {len(list(SITE.rglob('*.html')))} pages")
    if not arguments.no_serve:
        serve()
    return 0


def serve() -> None:
    """Serves the site to this machine until Ctrl-C. Search needs a server: it runs in a worker."""
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"{address} (Ctrl-C ends)", flush=True)
        webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main())
