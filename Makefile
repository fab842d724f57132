# Needs only make and a Python 3.10 or newer (developed on 3.11); the targets get the rest. `make help` lists them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/ready
# Halves the start of the JVMs of the tests; made once.
CLASSES := .tools/spark-classes.jsa
# A Java for Spark: the machine's own, or one that scripts/java.py gets.
SPARK  := JAVA_HOME="$$($(PY) scripts/java.py)" && export JAVA_HOME &&

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-sim test-spark test-process test-e2e screenshots test-all test-large test-faults test-versions check docs docs-sources format sim mutants bench bench-quick bench-publish dist clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml scripts/setup.py
	@$(PYTHON) scripts/setup.py

$(CLASSES): $(READY) scripts/class_archive.py
	@$(SPARK) $(PY) scripts/class_archive.py $@

setup: $(READY) ## Make .venv with everything that the other targets need

demo: $(READY) ## Run a job on local Spark that loses a TaskManager and still counts right
	@$(SPARK) $(VENV)/bin/penstock demo $(ARGS)

test: $(CLASSES) ## All tests of every day: the tiers unit, sim, spark and process (15 minutes on two cores)
	@$(SPARK) $(PY) scripts/tiers.py unit sim spark process

test-unit: $(READY) ## Tests without Spark and without other processes
	@$(PY) scripts/tiers.py unit $(if $(ARGS),-- $(ARGS))

test-sim: $(READY) ## A thousand chosen seeds of the simulator
	@$(PY) scripts/tiers.py sim $(if $(ARGS),-- $(ARGS))

test-spark: $(CLASSES) ## Tests on a real local Spark
	@$(SPARK) $(PY) scripts/tiers.py spark $(if $(ARGS),-- $(ARGS))

test-process: $(CLASSES) ## Tests that start and kill real processes
	@$(SPARK) $(PY) scripts/tiers.py process $(if $(ARGS),-- $(ARGS))

test-e2e: $(CLASSES) ## Tests with a real Kafka, PostgreSQL and other systems, which are fetched and started (long)
	@$(SPARK) $(PY) scripts/tiers.py e2e $(if $(ARGS),-- $(ARGS))

screenshots: $(CLASSES) ## Pictures of the web pages: all into .tools/page, those of the documentation into docs/images/page
	@mkdir -p .tools/page
	@$(PY) scripts/browser.py
	@$(SPARK) PENSTOCK_SCREENSHOTS=.tools/page $(PY) -m pytest -q -m e2e tests/e2e
	@for picture in docs/images/page/*.png; do cp .tools/page/$$(basename $$picture) docs/images/page/; done

test-all: $(CLASSES) ## Every test, hours; PARTS="unit-coverage mutants" for some: see scripts/all_tests.py
	@$(PY) scripts/fault_tools.py
	@$(SPARK) $(PY) scripts/all_tests.py $(PARTS)

test-large: $(READY) ## State larger than memory; needs 25 GB of disk and a few minutes
	@$(PY) scripts/tiers.py large $(if $(ARGS),-- $(ARGS))

test-faults: $(CLASSES) ## Fault matrix, fencing, every failpoint and thirty kills with real processes (long)
	@$(PY) scripts/fault_tools.py
	@$(SPARK) $(PY) -m tests.faults $(ARGS)

test-versions: $(READY) ## Smoke tests on the oldest and newest patch of every supported PySpark, ARGS="4.1.0"
	@$(SPARK) $(PY) scripts/spark_versions.py $(ARGS)

check: $(READY) ## Format, lint, types and tidiness, as CI runs them
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/test_tidy.py tests/test_citations.py tests/test_specification.py

$(VENV)/docs-ready: $(READY)
	@$(PYTHON) scripts/setup.py docs

docs: $(VENV)/docs-ready ## Build the documentation as a site in site/; every link is checked
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --clean

docs-sources: $(READY) ## Write the pages and figures of docs/ that are made from the code
	@$(PY) scripts/error_reference.py
	@$(PY) scripts/options_page.py
	@$(PY) scripts/feature_rows.py
	@$(PY) scripts/api_reference.py
	@$(PY) scripts/house.py
	@$(PY) scripts/pyflink_names.py
	@$(PY) -m bench.publish --render

format: $(READY) ## Bring the code into form
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

sim: $(READY) ## The simulator: SEEDS=N of its seeds, or SEED=k with what happens in it
	@$(PY) -m tests.sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),500))

mutants: $(READY) ## Plant known bugs in a copy of the source; every one must be found (10 minutes), ARGS="M5 R17"
	@$(PY) -m tests.mutants $(ARGS)

bench: $(READY) ## Compare engines, for example ARGS="--workload w1 --json FILE"
	@$(SPARK) $(PY) -m bench $(ARGS)

bench-quick: $(READY) ## The same with little data
	@$(SPARK) $(PY) -m bench --quick $(ARGS)

bench-publish: $(READY) ## Measure the whole suite and write docs/benchmarks (hours), ARGS="--workloads w3,w6" or "--quick"
	@$(SPARK) $(PY) -m bench.publish $(ARGS)

dist: $(READY) ## Build the source distribution and the wheel into dist/
	@rm -rf dist
	@$(PY) -m build --no-isolation

clean: ## Remove what the targets have made, .venv included
	rm -rf $(VENV) .tools .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
