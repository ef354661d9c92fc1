# Verbs only. What takes more than a line lives in deploy/setup/ or in the package that the verb calls.
KAFKA := 4.3.1
BIN := .venv/bin
MEASURED := tests/unit/core tests/unit/config tests/golden tests/snapshots
UNMEASURED := tests/unit tests/property tests/contract # coverage slows tests down: that of a package is due to its own tests
SLOW := tests/integration tests/parity tests/faults
# Test processes side by side: more than cores, as tests wait for brokers, JVMs and timers. Which files
# stay together, and what runs first: tests/lab/stages.py.
FAST_WORKERS := 3
SLOW_WORKERS := 3
SPREAD := --dist loadfile
# Tests that take minutes: results of a commit are stored, and the next run continues (tests/long).
LONG = $(BIN)/python -m tests.long $(if $(FRESH),--fresh) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PAGE),--page)
# Percent of lines and branches that the fast tests must reach: all of mm2/core, where decisions are made.
CORE := 100
CONFIG := 95
# Where the environment forbids to store bytecode, each program that is started here would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE

EMPTY :=
SPACE := $(EMPTY) $(EMPTY)

.PHONY: help setup demo run test prepared test-fast test-slow test-versions test-long faults outages outage-quiz soak matrix fuzz durations spark-functions spark-keys lint bench bench-quick docs clean pack lock
.DEFAULT_GOAL := help

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s%s\n", $$1, $$2 }' Makefile

setup: ## make .venv from requirements.lock, check Java, fetch Kafka's jars once
	@sh deploy/setup/setup.sh $(KAFKA)

demo: setup ## two brokers, nodes and a writer, with a live table (NODES=n; SQL=1 with a query; DEMO_SECONDS=n ends by itself)
	@NODES='$(NODES)' SQL='$(SQL)' $(BIN)/python -m tests.demo

run: setup ## run a node in the foreground (FILE=mm2.properties)
	@$(BIN)/mm2 run $(or $(FILE),mm2.properties)

test: ## all tests but the long ones: those without sockets first, then on real brokers
	@sh deploy/setup/timed.sh '$(MAKE)' test-fast test-slow

test-fast: setup ## tests without brokers, with the coverage that is demanded
	@$(BIN)/pytest -n $(FAST_WORKERS) $(SPREAD) $(MEASURED) --cov --cov-report=
	@$(BIN)/pytest -n $(FAST_WORKERS) $(SPREAD) $(UNMEASURED) --ignore tests/unit/core --ignore tests/unit/config
	@$(BIN)/coverage report --include='mm2/core/*' --fail-under=$(CORE) --skip-covered
	@$(BIN)/coverage report --include='mm2/config/*' --fail-under=$(CONFIG) --skip-covered

test-slow: prepared ## tests on real brokers (SLOW_WORKERS=n)
	@$(BIN)/pytest -n $(SLOW_WORKERS) $(SPREAD) $(SLOW)

test-versions: prepared ## the newest Python and Java of README.md: fast tests of the program, a plain and a SQL flow (PYTHON_NEWEST=, JAVA_NEWEST=)
	@sh deploy/setup/newest.sh

test-long: prepared ## what takes minutes, in parts (PART="readme table", MINUTES=n for each), from where it stopped (FRESH=1: all)
	@$(LONG) test-long --part '$(PART)'

faults: prepared ## the fault tests and a table: ROW=node-killed, MODE=exactly-once, SEEDS=n rounds, PAGE=1: into docs
	@MM2_ROW='$(ROW)' MM2_MODE='$(MODE)' MM2_SEEDS=$(or $(SEEDS),1) $(LONG) faults

outages: prepared ## record what operators see in outages, and write docs/reference/what-you-see.md (ROW="target dead" for some)
	@MM2_PAGE=1 $(BIN)/pytest --long tests/faults/test_what_operators_see.py $(if $(ROW),-k '$(subst $(SPACE), and ,$(strip $(ROW)))')

outage-quiz: prepared ## five outages at random, to be explained from mm2 status alone (SEED=n)
	@$(BIN)/python -m tests.faults.outages.quiz $(if $(SEED),--seed $(SEED))

soak: prepared ## nodes under load with churn and faults for HOURS=n (0.5), MODE=exactly-once; memory, files, threads must not grow
	@SOAK_HOURS=$(or $(HOURS),0.5) MM2_MODE='$(MODE)' $(LONG) soak --fresh

matrix: prepared ## every fault in every topology with both elections and in both modes, SEEDS=n times (20: a day on two cores)
	@MM2_SEEDS=$(or $(SEEDS),20) MM2_MODE='$(MODE)' $(LONG) matrix --part '$(PART)'

fuzz: setup ## random bytes for every decoder (SECONDS=n, SEED=n); a failure prints how to repeat it
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

durations: prepared ## store what the last runs measured (tests/durations.json), and measure new files; FILES=tests/faults for some
	@$(BIN)/python -m tests.lab.durations --workers $(SLOW_WORKERS) $(FILES)

spark-functions: setup ## write the list of Spark's functions that mm2 check reads, after a change of Spark's version
	@$(BIN)/python -m tests.lab.spark_functions

spark-keys: setup ## write the list of Spark's settings that mm2 check reads, after a change of Spark's version
	@$(BIN)/python -m tests.lab.spark_keys

prepared: setup
	@$(BIN)/python -m tests.lab.prepare

lint: setup ## format, lint, types, import arrows, dependencies, wording, waits of tests, the list of unstable tests
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/deptry .
	@$(BIN)/python -m tests.lint.words && $(BIN)/python -m tests.lint.waits && $(BIN)/python -m tests.lint.unstable
	@$(BIN)/mypy

bench: setup ## measure beside the real Java MirrorMaker 2 (ONLY="large latency" for some)
	@$(BIN)/python -m tests.bench $(if $(ONLY),--only $(ONLY))

bench-quick: setup ## minutes: plain flows beside another build (PARENT=path of a checkout with a .venv), or beside Java
	@$(BIN)/python -m tests.bench.quick $(if $(PARENT),--parent '$(PARENT)')

docs: setup ## rewrite what is generated in docs/ and deploy/, and build the site into site/
	@$(BIN)/python -m mm2.config.docs && $(BIN)/python -m tests.lab.prometheus_rule && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean: ## remove the environment and what tools leave behind; the cache outside the tree stays
	@rm -rf .venv .venv-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist build site

pack: setup ## pack what lanes need on the machines of a Spark cluster (ARCHIVE=dist/mm2-lanes.tar.gz)
	@sh deploy/spark/pack.sh $(ARCHIVE)

lock: ## resolve all dependencies into requirements.lock and requirements-runtime.lock
	@sh deploy/setup/lock.sh
