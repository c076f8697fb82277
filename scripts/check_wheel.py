"""Builds wheels and sdist, and runs the README's Python with what the wheel installs.

    python scripts/check_wheel.py

The wheel is installed into an empty folder, in front of the packages of this environment, and
Python runs in another empty folder: nothing of the repository is in reach. Status 1 says what
failed.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WHERE = "import explorer; print(explorer.__file__)"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        built, installed, empty = (Path(folder) / name for name in ("dist", "wheel", "empty"))
        empty.mkdir()
        run("-m", "hatchling", "build", "-d", str(built), cwd=REPOSITORY)
        (wheel,) = built.glob("*.whl")
        (source,) = built.glob("*.tar.gz")
        run("-m", "hatchling", "build", "-t", "wheel", "-d", str(built), cwd=REPOSITORY / "extras")
        (extras,) = (path for path in built.glob("*.whl") if path != wheel)
        install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target")
        run(*install, str(installed), str(wheel), cwd=empty)
        environment = os.environ | {"PYTHONPATH": str(installed)}
        place = run("-c", WHERE, cwd=empty, environment=environment).strip()
        if not place.startswith(str(installed)):
            print(f"the wheel is not what Python imports: {place}", file=sys.stderr)
            return 1
        run("-m", "explorer", "--version", cwd=empty, environment=environment)
        readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
        run("-c", "\n".join(BLOCK.findall(readme)), cwd=empty, environment=environment)
        run(*install, str(installed), str(extras), cwd=empty)
        run("-c", "import explorer_extras.onnx.trees", cwd=empty, environment=environment)
        files = (wheel, extras, source)
        sizes = ", ".join(f"{p.name} {p.stat().st_size / 1e6:.1f} MB" for p in files)
        print(f"{sizes}: the README's Python runs")
    return 0


def run(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Python's output; ends this script where it fails."""
    finished = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )
    if finished.returncode:
        print(finished.stdout + finished.stderr, file=sys.stderr)
        sys.exit(f"failed: python {arguments[0]} {arguments[1][:60]}")
    return finished.stdout


if __name__ == "__main__":
    sys.exit(main())
