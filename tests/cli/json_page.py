"""What docs/json.md says that commands print."""

import re
from pathlib import Path

JSON_PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"


def documented(command: str) -> list[str]:
    """Names of the fields that the page of JSON has for a command."""
    section = JSON_PAGE.read_text().split(f"## `explorer {command} MODEL --json`\n")[1]
    return re.findall(r"^\| `(\w+)` \|", section.split("\n## ")[0], re.MULTILINE)
