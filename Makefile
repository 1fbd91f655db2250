# Everything that a person or CI does with this repository. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster test lint format bench bench-cluster cluster cluster-down generate lock tools clean

help: ## Show what there is to make
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .stamps/demo ## Set everything up and show all of it on this machine: ends with `demo: PASS`
	@$(BIN)/python examples/digits/demo

demo-cluster: .stamps/demo ## Show serving and joint inference on a cluster (KUBECONFIG's, else the test cluster): ends with `demo: PASS`
	@$(BIN)/python examples/digits/demo/cluster.py

test: .stamps/dev ## Set everything up and run every check and test; says what it leaves out, and why
	@$(BIN)/python tests/run.py

lint: .stamps/dev ## Check style, types, layers and generated files
	@$(BIN)/python tests/run.py lint

format: .stamps/dev ## Put the code in shape
	@$(BIN)/ruff check -q --fix src tests bench examples; $(BIN)/ruff format -q src tests bench examples

bench: .stamps/dev ## Measure speed and memory, against named peers where there are any
	@$(BIN)/python bench/run.py $(if $(QUICK),--quick)

bench-cluster: .stamps/dev ## Measure the operator with fake nodes, then serving on the test cluster (Debian, root, Go)
	@$(BIN)/python bench/cluster.py $(if $(QUICK),--quick)
	@$(BIN)/python bench/serving.py $(if $(QUICK),--quick)

cluster: .stamps/dev ## Start a real cluster of two nodes to play with (Debian, root, Go); says how to use and stop it
	@$(BIN)/python -m tests.cluster.rig up

cluster-down: .stamps/dev ## Stop it, and remove all that it has made
	@$(BIN)/python -m tests.cluster.rig down

generate: .stamps/dev ## Write the CRDs, OpenAPI documents and the field reference anew
	@$(BIN)/python -m modelwright.api.generate
	@$(BIN)/python deploy/generate_install.py

lock: ## Write the dependency locks anew from pyproject.toml
	@$(PYTHON) requirements/lock.py

tools: ## Install the programs that the tests run against (Debian, root, Go)
	@$(PYTHON) tests/tools/install.py

clean: ## Remove what make has made here
	rm -rf .venv .venv-* .stamps .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# An environment is made anew when what it is made from has changed: the stamps say so.
.stamps/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Modelwright needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=/path/to/python3.11" % sys.version_info[:2] or 0)'
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p .stamps && touch $@

.stamps/demo: .stamps/python requirements/demo.txt pyproject.toml
	@echo "installing dependencies into $(VENV) ..."
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/demo.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.stamps/dev: .stamps/demo requirements/dev.txt
	@echo "installing development tools into $(VENV) ..."
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/dev.txt
	@touch $@
