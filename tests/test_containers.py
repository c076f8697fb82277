"""The container has what the set-up would install, and the editor's one is its first part."""

import json
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")


def test_the_container_has_the_packages_that_the_script_installs():
    script = (REPOSITORY / "scripts" / "setup.sh").read_text(encoding="utf-8")
    body = script.split("provide_system_packages() {", 1)[1].split("\n}\n", 1)[0]
    wanted = set(" ".join(re.findall(r'missing="\$missing ([^"]+)"', body)).split())
    assert wanted >= {"gcc", "graphviz"}
    (installed,) = re.findall(r"apt-get install (.*?)&&", DOCKERFILE, re.DOTALL)
    assert wanted <= set(installed.replace("\\", " ").split())


def test_the_container_for_editors_is_a_stage_of_the_same_file():
    folder = REPOSITORY / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / settings["build"]["dockerfile"]).resolve() == REPOSITORY / "Dockerfile"
    stages = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE)
    assert settings["build"]["target"] in stages


def test_goals_of_make_that_containers_run_exist():
    goals = set(re.findall(r"^(\w[\w-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    page = (REPOSITORY / "docs" / "containers.md").read_text(encoding="utf-8")
    settings = (REPOSITORY / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    commands = re.sub(r"apt-get install .*?&&", "", DOCKERFILE, flags=re.DOTALL) + page + settings
    called = set(re.findall(r'\bmake"?,? "?([a-z]\w+)', commands))
    assert {"setup", "explore"} <= called <= goals
