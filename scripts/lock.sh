#!/bin/sh
# Renews requirements/: every package that the set-up installs, at one version, with its hashes.
#
#   scripts/lock.sh              the newest versions that pyproject.toml admits
#   scripts/lock.sh panel numpy  only these are renewed, the others stay where they are
#
# One file per stage of scripts/setup.sh, for Python 3.11 and newer on every platform (markers say
# where a package is needed). A later stage names the file of the one before and holds what it adds. `make test LOCKED=no` in a fresh clone tries the newest versions
# without any lock; run it before a renewed lock is committed.
set -eu
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/uv"
"$scratch/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv

upgrades=--upgrade
if [ $# -gt 0 ]; then
    upgrades=
    for package in "$@"; do upgrades="$upgrades --upgrade-package=$package"; done
fi

# lock NAME ARGUMENTS...: requirements/NAME.txt from what the arguments ask for.
lock() {
    name=$1
    shift
    # shellcheck disable=SC2086  # one option per word
    "$scratch/uv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-annotate --custom-compile-command scripts/lock.sh $upgrades \
        --output-file "requirements/$name.txt" "$@" >/dev/null
    echo "requirements/$name.txt: $(grep -c == "requirements/$name.txt") packages"
}

# The build backend belongs to the first stage: an editable install asks for it, and would
# otherwise fetch it without a hash.
printf 'hatchling\neditables\n' >"$scratch/build.in"
printf 'ziglang\n' >"$scratch/compiler.in"
lock lint pyproject.toml "$scratch/build.in" --extra dev
upgrades=
lock docs pyproject.toml "$scratch/build.in" --extra docs --constraint requirements/lint.txt
lock test pyproject.toml "$scratch/build.in" --extra test --constraint requirements/lint.txt
lock explore pyproject.toml "$scratch/build.in" --extra quick --constraint requirements/lint.txt
upgrades=--upgrade
lock compiler "$scratch/compiler.in"

# without STAGE EARLIER: takes out of STAGE's file what EARLIER's has, and refers to that instead.
without() {
    python3 - "requirements/$1.txt" "$2.txt" <<'END'
import re
import sys
from pathlib import Path

file, earlier = Path(sys.argv[1]), sys.argv[2]
pins = r"(?m)^(?=[A-Za-z0-9])"  # a pin begins a line, its hashes are indented
comment, *own = re.split(pins, file.read_text())
there = set(re.split(pins, file.with_name(earlier).read_text())[1:])
file.write_text("".join([comment, f"-r {earlier}\n", *(pin for pin in own if pin not in there)]))
END
}
without lint test
without docs test
without test explore
