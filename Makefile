# `make serve` and `make test` do everything on a fresh machine: they need only Python 3.11+ and a C/C++ compiler.
#   make serve PYTHON=python3.12    another Python (used when .venv is made)
#   make serve ARGS="--port 9000"   options of edgeserve serve
#   make test ARGS="-k chat"        options of pytest
#   make check WORKERS=8            processes that run tests side by side

BIN := .venv/bin
BENCHMARKS = $(shell grep -l __main__ benchmarks/*.py | xargs -n 1 basename | sed 's/\.py$$//') chaos
# Tests often wait, for a deadline or another process: a third process works meanwhile, even on 2 cores.
WORKERS ?= 3
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK = -m "not models and not slow" --hypothesis-profile check
export PYTHON
# Without bytecode on disk, pytest rewrites the assertions of all tests anew in each run and each process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help serve check quick test test-cluster coverage lint checked docs docs-check clients format bench clean

help:
	@echo "make serve   install, pull the models of models.toml, serve on http://127.0.0.1:8080"
	@echo "make check   lint, and the tests that need neither models nor long: about a minute"
	@echo "make test    install what tests need and run all of them, on real models"
	@echo "make test-cluster  install Ray and Caddy into .venv-cluster, run the tests of several boxes"
	@echo "make coverage  lines and branches that the tests of make check run, as a table"
	@echo "make lint    ruff, mypy and the check of plain English"
	@echo "make docs-check  dead links; runs every block of README.md and docs/"
	@echo "make docs    build the pages of docs/ as a site, in site/"
	@echo "make clients  install clients of other makers, run them against a server, write docs/clients.md"
	@echo "make format  let ruff rewrite the sources"
	@echo "make bench   run the benchmarks; tables and pictures go to docs/"
	@echo "make clean   remove .venv and all caches; pulled models stay"

serve:
	@sh tools/install.sh starter
	@$(BIN)/python -m edgeserve pull
	@exec $(BIN)/python -m edgeserve serve $(ARGS)

# Lint uses one core, and the tests leave one idle at times: side by side they end sooner.
check:
	@sh tools/install.sh dev
	@$(MAKE) --no-print-directory -j 2 checked quick

quick:
	@$(PYTEST) $(QUICK) $(ARGS)

test:
	@sh tools/install.sh dev
	@$(PYTEST) $(ARGS)

test-cluster:
	@sh tools/install.sh dev
	@sh tools/cluster.sh $(ARGS)

coverage:
	@sh tools/install.sh dev
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n $(WORKERS) --dist loadfile $(QUICK) $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

lint:
	@sh tools/install.sh dev
	@$(MAKE) --no-print-directory checked

checked:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/prose.py

docs:
	@sh tools/site.sh

docs-check:
	@sh tools/install.sh dev
	@$(BIN)/python tools/docs_check.py

clients:
	@sh tools/install.sh starter
	@$(BIN)/python -m edgeserve pull starter
	@sh tools/clients.sh $(ARGS)

format:
	@sh tools/install.sh dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench:
	@sh tools/install.sh dev
	@status=0; for name in $(BENCHMARKS); do \
		echo "$$name"; $(BIN)/python -m benchmarks.$$name || status=1; done; exit $$status

clean:
	rm -rf .venv .venv-clients .venv-cluster .venv-docs site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
