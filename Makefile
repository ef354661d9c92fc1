# Verbs only. What takes more than a line lives in deploy/setup/ or in the package that the verb calls.
KAFKA := 4.3.1
BIN := .venv/bin
FAST := tests/unit tests/property tests/golden tests/contract
SLOW := tests/integration tests/parity tests/faults
# Two tests beside each other: most of the time both wait, for brokers, JVMs and timers. What goes together on one of the
# two, and what comes first: tests/lab/stages.py.
TWO := -n 2 --dist loadfile
# Once more, as long as no record was lost, repeated or changed (rerun_except in pyproject.toml); shown with what it was.
AGAIN := --reruns 1 -rR --rerun-show-tracebacks
# Percent of lines and branches in mm2/core and mm2/config, where decisions are made, that the fast tests must reach.
DECIDED := 100

.PHONY: help setup demo run test lint bench docs clean pack lock
.DEFAULT_GOAL := help

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s%s\n", $$1, $$2 }' Makefile

setup: ## make .venv from requirements.lock, check Java, fetch Kafka's jars once
	@sh deploy/setup/setup.sh $(KAFKA)

demo: setup ## two brokers, nodes and a writer, with a live table (NODES=n; DEMO_SECONDS=n ends by itself)
	@NODES='$(NODES)' $(BIN)/python -m tests.demo

run: setup ## run a node in the foreground (FILE=mm2.properties)
	@$(BIN)/mm2 run $(or $(FILE),mm2.properties)

test: setup ## all tests: those without sockets first, then on real brokers
	@$(BIN)/python -m tests.lab.prepare
	@$(BIN)/pytest $(TWO) $(FAST) --cov --cov-report=
	@$(BIN)/coverage report --include='mm2/core/*,mm2/config/*' --fail-under=$(DECIDED) --skip-covered
	@$(BIN)/pytest $(TWO) $(SLOW) $(AGAIN) --cov --cov-append --cov-report=term:skip-covered

lint: setup ## format, lint, types, import arrows, dependencies
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/deptry .

bench: setup ## measure beside the real Java MirrorMaker 2
	@$(BIN)/python -m tests.bench && $(BIN)/python -m tests.bench.discovery && $(BIN)/python -m tests.bench.assignment && $(BIN)/python -m tests.bench.idle

docs: setup ## write the generated pages of docs/ anew
	@$(BIN)/python -m mm2.config.docs

clean: ## remove the environment and what tools leave behind; the cache outside the tree stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist build

pack: setup ## pack what lanes need on the machines of a Spark cluster (ARCHIVE=dist/mm2-lanes.tar.gz)
	@sh deploy/spark/pack.sh $(ARCHIVE)

lock: ## pin all dependencies anew in requirements.lock
	@sh deploy/setup/lock.sh
