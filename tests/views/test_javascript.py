"""The page's modules pass their tests in Node.js."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "test_javascript.py"


def test_the_modules_pass_their_tests_in_node():
    command = [sys.executable, str(SCRIPT), "--test-reporter=spec"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
