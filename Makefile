# Needs python3 (3.11 or newer) and make, nothing else. Every target may be repeated.

PYTHON  ?= python3
WORKERS ?= 3
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-postgres check again bench crash chaos fuzz screenshots conformance clean

help:
	@echo "make setup   a virtualenv in $(VENV) with everything locked by hash"
	@echo "make demo    the whole story in under a minute"
	@echo "make test    lint, types, tests, docs and examples (make check is the same)"
	@echo "make test-postgres  the suites of the store, runs, workers, doors and crashes with every home in PostgreSQL"
	@echo "make again   the tests that failed, at most three, alone and five times each"
	@echo "make crash   the long crash suite"
	@echo "make chaos   one command, repeated under 300 kills, stops, deploys and reboots (SEED=N: the same choices again)"
	@echo "make fuzz    abuse: made-up requests, odd values, starving, corruptions, hostile repositories, forged files"
	@echo "make bench   the benchmarks, into bench/RESULTS.md and docs/images"
	@echo "make conformance  others' tools against our MCP server (needs the network)"
	@echo "make screenshots  pictures of the console for the docs (needs chromium)"
	@echo "make clean   removes what make made"

setup: $(VENV)/.installed
	@:

# The stamp is written last: a setup that was cut short starts over from an empty environment.
$(VENV)/.locked: requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --require-hashes --requirement requirements-dev.txt
	@touch $@

# Without isolation, because hatchling is among the locked requirements: nothing unlocked is fetched.
$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup
	@$(BIN)/outlast demo

# The examples are run by tests/docs, so that one list of failures says everything. Lint and types are looked at while
# the tests run, and told after them: all three, whatever becomes of the others.
LOOK = { code=0; $(BIN)/ruff check --quiet . || code=1; $(BIN)/ruff format --quiet --check . || code=1; \
	$(BIN)/mypy --no-error-summary || code=1; exit $$code; }
test check: setup
	@mkdir -p build; $(LOOK) > build/look.txt 2>&1 & look=$$!; trap 'kill $$look 2> /dev/null; exit 130' INT TERM; \
	$(BIN)/python -m pytest --quiet -n $(WORKERS) --dist worksteal; tests=$$?; \
	wait $$look; look=$$?; cat build/look.txt; test $$tests = 0 -a $$look = 0

test-postgres: setup
	@OUTLAST_TESTS_ON=postgres $(BIN)/python -m pytest --quiet -n $(WORKERS) tests/store tests/home/test_by_url.py \
		tests/runs tests/worker tests/crash tests/doors

again: setup
	@$(BIN)/python tests/again.py

bench: setup
	@$(BIN)/python bench/run.py --peers --write

crash: setup
	@$(BIN)/python -m pytest tests/crash --crash-long --timeout 3600

chaos: setup
	@CHAOS_SEED=$(SEED) $(BIN)/python -m pytest --quiet --crash-long --timeout 3600 -s tests/chaos tests/machine tests/verdict_machine \
		tests/worker/test_kills.py tests/worker/test_simulation.py tests/crash/test_bucket_kills.py \
		tests/temporal/test_kills.py tests/temporal/test_rounds.py

fuzz: setup
	@$(BIN)/python -m pytest --quiet --crash-long --timeout 3600 tests/doors/fuzz_http.py \
		tests/doors/test_http_fuzz.py tests/doors/test_http_hostile.py tests/doors/test_http_watchers.py tests/abuse \
		tests/runs/test_going_back.py tests/commands/test_plan_and_resume.py

# Installs node and two npm packages into a temporary folder, and asks them.
screenshots: setup
	@$(BIN)/python bench/screenshots.py

conformance: setup
	@$(BIN)/python tests/conformance/run.py

clean:
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests examples bench -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
