# `make` alone prints what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python that .venv is made from; 3.11 is what the lock is tested with.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& command -v $$python && break; done || echo python3)

BIN := .venv/bin
CODE = $(foreach folder,include dags plugins spark_jobs simulation demo tools tests benchmarks,$(if \
	$(wildcard $(folder)/*.py $(folder)/*/*.py),$(folder)))
# What `make check` leaves out, but not what it has run. What takes longest is named: it must not grow.
REST = --durations=50 --durations-min=2 -m 'not unit or long' tests
# For two cores: schedulers and drivers mostly wait.
TEST_PROCESSES ?= 3
# Beside them, only when nobody else has anything to do: nobody waits for a world of the simulation.
LAST = nice -n 19
SEEDS_OF_A_TEST = 500
SEEDS_IN_FULL = 20000
# The first of the seeds whose tables have a mirror, or one with deletion vectors (simulation/mirrors.py),
# of those whose rewrites are prepared (simulation/prepared.py), whose rows have a time to live
# (simulation/aging.py), of those whose mirror is in an Iceberg
# catalog (simulation/snapshots.py), which take twenty times as long, of those whose kernels make
# mistakes (simulation/proofs.py), of those with legal holds (simulation/holds.py), and of those whose
# rows are updated (simulation/updates.py). `test-full` plays those below SEEDS_IN_FULL anyway.
WITH_A_MIRROR = 10000
WITH_VECTORS = 13000
WITH_PREPARED = 14000
WITH_A_TTL = 15000
WITH_A_CATALOG = 16003
WITH_MISTAKES = 17000
WITH_HOLDS = 20000
WITH_UPDATES = 21000
# FIRNLINE_TESTS=few, for a machine that gives little of its cores (tools/machine.py).
FEW = $(filter few,$(FIRNLINE_TESTS))
worlds_of = $(if $(FEW),$(shell expr $1 / 50 + 1),$1)
# Seeds that no run before has played: by the commit, so that a failure can be played again.
FAR_FROM_0 = $(shell printf '%d' "0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 76908ce)")

STORE ?= file
SPARK ?= local

# Found or installed by `make setup`; empty before it.
export JAVA_HOME = $(shell cat .cache/java-home 2>/dev/null)
# What set-up makes for Spark; gone with `make clean`.
export FIRNLINE_CACHE = $(CURDIR)/.cache/firnline
# Airflow and Spark start many processes that import the same thousand modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup check lint unit test rest worlds test-full matrix mutations servers simulate database demo up s3 bench \
	lock format reference docs image clean clean-demo

help: ## Print this
	@printf 'firnline: maintenance of log-structured Parquet tables\n\n'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## Make .venv from the lock, find or install Java 17 (done by the others by itself)
	@$(PYTHON) tools/bootstrap.py

check: setup ## Format, lint, types, layers, lock, unit and property tests but the long ones (a minute)
	@# Types alone take as long as half of the tests, on one core.
	+@$(MAKE) -j 2 lint unit

lint:
	$(BIN)/ruff format --check -q $(CODE)
	$(BIN)/ruff check -q $(CODE)
	@# Exit code 2 is mypy's own crash (seen once in six cold runs of 2.4.1), 1 a type error.
	$(BIN)/mypy --show-traceback $(CODE) || { [[ $$? == 2 ]] && $(BIN)/mypy --show-traceback $(CODE); }
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter
	$(BIN)/python -m tools.lock check
	@# Not the params of DAGs: importing Airflow takes longer, and a test has them loaded already.
	$(BIN)/python -m tools.reference check settings-reference cli why help

unit:
	@# What is named is marked as long, or made shorter.
	$(BIN)/pytest -q -n 2 -m 'not long' --durations=10 --durations-min=0.5 tests/unit

test: setup ## check, long unit tests, and all that needs a real S3 server, Spark or a scheduler (15 minutes)
	@$(BIN)/python -m tools.machine disk
	@# The tests of schedulers and drivers leave a core to others now and then, or both.
	+@export FIRNLINE_TESTS=$${FIRNLINE_TESTS:-$$($(BIN)/python -m tools.machine)}; \
	$(MAKE) check servers && $(MAKE) -j 2 rest worlds

rest:
	$(BIN)/pytest -q -n $(if $(FEW),2,$(TEST_PROCESSES)) $(REST)

worlds:
	@# Schedulers and drivers of the tests start at the same time: those of the matrix come after them.
	$(if $(FEW),# left out: )$(LAST) $(BIN)/python -m simulation.model
	$(if $(FEW),# left out: )$(BIN)/python -m tools.matrix run
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,$(SEEDS_OF_A_TEST)) --corpus
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,100) --from $(FAR_FROM_0)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,50) --from $(WITH_A_MIRROR)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,25) --from $(WITH_VECTORS)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,25) --from $(WITH_PREPARED)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,25) --from $(WITH_A_TTL)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,25) --from $(WITH_HOLDS)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,25) --from $(WITH_UPDATES)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,9) --from $(WITH_MISTAKES)
	$(LAST) $(BIN)/python -m simulation --seeds $(call worlds_of,3) --from $(WITH_A_CATALOG)

test-full: export FIRNLINE_TESTS = full
test-full: check servers ## test, and everything that it only takes samples of (hours; nightly)
	$(BIN)/python -m simulation.model --full
	$(BIN)/python -m simulation --seeds $(SEEDS_IN_FULL) --corpus
	$(BIN)/python -m simulation --seeds 2000 --from $(FAR_FROM_0)
	$(BIN)/python -m simulation --seeds 1000 --from $(WITH_VECTORS)
	$(BIN)/python -m simulation --seeds 2000 --from $(WITH_PREPARED)
	$(BIN)/python -m simulation --seeds 1000 --from $(WITH_HOLDS)
	$(BIN)/python -m simulation --seeds 1000 --from $(WITH_UPDATES)
	$(BIN)/pytest -q -n $(TEST_PROCESSES) $(REST)
	$(BIN)/python -m tools.matrix run --all

matrix: setup ## The versions of others beside which firnline works: one environment each [CELLS="airflow-3.1 ..."]
	$(BIN)/python -m tools.matrix run $(CELLS)

mutations: setup servers ## Mistakes in the product that the tests have to catch, and what catches them
	@$(BIN)/python -m tests.mutations

servers: setup
	@# Without Go there is no S3 server: said here, and what needs it is skipped unless forbidden.
	@$(BIN)/python -m tools.gotools versitygw actionlint || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]
	@# Likewise Azurite, which needs Node.js.
	@$(BIN)/python -m tools.azureserver install || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]
	@# Likewise PostgreSQL, the database of a local Airflow.
	@$(BIN)/python -m tools.postgres install || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]
	@# Likewise the REST catalog of Iceberg tables, which comes from Maven Central.
	@$(BIN)/python -m tools.restcatalog install || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]
	@# Likewise DuckDB with extensions as a reader of mirrors, from the package index.
	@$(BIN)/python -m tools.duckdbreader install || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]
	@# And the shells whose completion is tested.
	@$(BIN)/python -m tools.shells install || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]
	@# And the browser in which the page is tested.
	@$(BIN)/python -m tools.browser install || [[ "$${FIRNLINE_NO_SKIP:-}" != 1 ]]

simulate: setup ## The real code in thousands of random worlds with crashes and faults [SEEDS=n FROM=s]
	@$(BIN)/python -m simulation --seeds $(or $(SEEDS),2000) --from $(or $(FROM),0)

database: setup
	@# Without PostgreSQL the local Airflow works on SQLite, and says so.
	@$(BIN)/python -m tools.postgres install || true

demo: database ## The flights of 2013 merged by a DAG of a real Airflow, before and after [STORE=s3 SPARK=cluster]
	@STORE=$(STORE) SPARK=$(SPARK) $(BIN)/python -m demo

up: database ## The demo's Airflow and its table, to look around in, until Ctrl-C [SPARK=cluster]
	@SPARK=$(SPARK) $(BIN)/python -m demo up

s3: ## An S3 on this machine until Ctrl-C, for those without a bucket: it says how to get in [PORT=9000]
	@# No set-up: it would replace the environment of somebody who has installed the package from here.
	@PYTHONPATH=include $(PYTHON) -m tools.local_s3 $(if $(PORT),--port $(PORT))

bench: setup ## The measured figures of docs/benchmarks.md, or two commits compared [SECTIONS="lazy read" AGAINST=commit]
	@$(BIN)/python -m tools.gotools versitygw
	@$(BIN)/python -m benchmarks $(SECTIONS) $(if $(AGAINST),--against $(AGAINST)) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(SIZES:%=--size %)

lock: setup ## Resolve the dependencies anew [UPGRADE=1: to the newest versions]
	$(BIN)/python -m tools.lock make $(if $(UPGRADE),--upgrade)

format: setup ## Write the code the way check wants it
	$(BIN)/ruff check -q --fix-only $(CODE)
	$(BIN)/ruff format -q $(CODE)

reference: setup ## Write the generated tables of docs/
	$(BIN)/python -m tools.reference write

docs: setup ## Build the site of docs/ (look at it: python -m http.server -d .cache/site)
	@# What it would say is an advertisement.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

image: ## Build the image of the command line alone, and start it; needs Docker
	docker build --target cli -t firnline .
	docker run --rm firnline --version
	docker run --rm firnline doctor

clean: ## Remove all that make has made here: .venv, caches, the demo's folder
	rm -rf .venv .cache .firnline .hypothesis .ruff_cache

clean-demo: ## Remove what the demo has left
	rm -rf .firnline/demo
