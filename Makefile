# Everything below works from a fresh clone: the first call makes .venv and installs into it, later
# calls start at once (a stamp per set of packages, renewed when setup.cfg or pyproject.toml change).
#
#   make demo      rank the bundled networks on scikit-learn's digits
#   make test      the whole test suite
#   make help      the rest
#
# PYTHON=/path/to/python3.12 chooses the interpreter that makes the environment.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# scikit-learn's array API checks are only run when scipy sees this before it is imported.
export SCIPY_ARRAY_API := 1
# Two test processes with one thread each are faster than one with two on the small arrays of the
# tests, and nothing here may take more than two cores.
TEST_WORKERS ?= 2
TEST_THREADS = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# An environment that was moved with the checkout, or whose interpreter is gone, is installed again.
ifneq ($(shell $(PY) -c 'print("runs")' 2>/dev/null):$(shell cat $(STAMP)-at 2>/dev/null),runs:$(CURDIR))
$(shell rm -f $(STAMP)-*)
endif

.PHONY: demo test coverage lint format docs examples install help clean distclean

demo: $(STAMP)-demo  ## rank the bundled networks on scikit-learn's digits
	$(VENV)/bin/sktransfer rank --demo

test: $(STAMP)-test  ## run the whole test suite (PYTEST_ARGS="..." to add options)
	$(TEST_THREADS) $(PY) -m pytest -n $(TEST_WORKERS) $(PYTEST_ARGS)

# Apart from the tests, because following every line makes them slower.
coverage: $(STAMP)-test  ## run the whole test suite and list the lines that no test reaches
	$(MAKE) --no-print-directory test PYTEST_ARGS="--cov --cov-report=term-missing $(PYTEST_ARGS)"

lint: $(STAMP)-test  ## check style, formatting and spelling
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/codespell

format: $(STAMP)-test  ## apply the formatter and the safe fixes of the linter
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(STAMP)-docs  ## build the documentation into docs/_build/html, warnings as errors
	$(PY) -m sphinx -W --keep-going -q -j 2 $(SPHINXOPTS) -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

install: $(STAMP)-docs  ## install everything into .venv, for development

clean:  ## remove what tests, docs and builds left behind
	rm -rf build dist docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov coverage.xml
	find sktransfer tests examples docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## clean, and remove the environment too
	rm -rf $(VENV)

help:  ## show this list
	@awk -F ':.*##' '/^[a-z]+:.*##/ {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# -- the environment -------------------------------------------------------------------------------

# The first interpreter that runs, is new enough and can make environments; or one line saying why not.
$(PY):
	@set -eu; found=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11 python3.14 python); do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    "$$candidate" -c 'import ensurepip, venv' 2>/dev/null || { novenv=$$candidate; continue; }; \
	    found=$$candidate; break; \
	done; \
	if [ -z "$$found" ] && [ -n "$${novenv:-}" ]; then \
	    echo "sktransfer: $$novenv has no venv module; install it (on Debian and Ubuntu: python3-venv)" >&2; exit 1; \
	elif [ -z "$$found" ]; then \
	    echo "sktransfer needs Python 3.11 or newer, and $(if $(PYTHON),PYTHON=$(PYTHON) is not,none was found (set PYTHON=/path/to/python3))" >&2; exit 1; \
	fi; \
	"$$found" -m venv --clear $(VENV)

# $(call install,EXTRAS,SETS): install the package with its extras; a bigger set renews the smaller ones.
define install
	@echo "Installing sktransfer[$(1)] into $(VENV) (the first time this downloads PyTorch: some minutes)"
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null
	@$(PY) -m pip install --quiet --quiet --disable-pip-version-check --editable ".[$(1)]"
	@printf '%s' "$(CURDIR)" > $(STAMP)-at
	@touch $(foreach set,$(2),$(STAMP)-$(set))
endef

$(STAMP)-demo: setup.cfg pyproject.toml | $(PY)
	$(call install,torch$(comma)cli,demo)

$(STAMP)-test: setup.cfg pyproject.toml | $(PY)
	$(call install,all$(comma)test,demo test)

$(STAMP)-docs: setup.cfg pyproject.toml | $(PY)
	$(call install,all$(comma)test$(comma)docs,demo test docs)

comma := ,
