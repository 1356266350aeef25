# Two commands: `make run` and `make test`. Everything stays inside this folder; nothing asks for sudo.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; choose another with `make run PYTHON=python3.12`.
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
    "$$python" -c '$(IS_NEW_ENOUGH)' 2>/dev/null && echo "$$python" && break; done)
VENV_PYTHON := .venv/bin/python

# What is installed is a function of these two files and of this folder's place: while the stamp named by their
# digest is there, nothing is installed and no network is needed.
DIGEST := $(shell cat constraints.txt pyproject.toml <(echo "$(CURDIR)") | (sha256sum 2>/dev/null || shasum -a 256) | cut -c1-16)
RUN_STAMP := .venv/installed-run-$(DIGEST)
DEV_STAMP := .venv/installed-dev-$(DIGEST)

# For the programs of `make train`; tomeflow's own commands see to it themselves.
export ORT_DISABLE_TELEMETRY := 1

SAMPLE_PAGES ?= 12
# Two processes share the test files, since many tests wait for servers; `make test TEST_WORKERS=0` runs in one.
TEST_WORKERS ?= 2
PYTEST_ARGS ?=

.PHONY: help venv train run test test-fast check fix bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

run: $(RUN_STAMP) ## Install, draw a sample book, digitize it and show what came out
	@$(VENV_PYTHON) -m flows.commands.demo --pages $(SAMPLE_PAGES)

test: $(DEV_STAMP) ## Install what tests need and run all tests
	$(VENV_PYTHON) -m pytest --numprocesses $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-fast: $(DEV_STAMP) ## Run the tests that are quick and stay in one process
	$(VENV_PYTHON) -m pytest -m "not slow and not flow and not e2e and not gpu" $(PYTEST_ARGS)

check: $(DEV_STAMP) ## Check style, types and architecture; changes nothing
	$(VENV_PYTHON) -m ruff check
	$(VENV_PYTHON) -m ruff format --check
	$(VENV_PYTHON) -m mypy
	.venv/bin/lint-imports

fix: $(DEV_STAMP) ## Apply what ruff can repair and format
	$(VENV_PYTHON) -m ruff check --fix
	$(VENV_PYTHON) -m ruff format
	$(VENV_PYTHON) -m data_contracts.config_table data_contracts/README.md

bench: $(RUN_STAMP) ## Measure key-value memory, and with DATA=FOLDER (books/ with truth) accuracy; takes long
	.venv/bin/tomeflow bench kv
	$(if $(DATA),.venv/bin/tomeflow bench readers --data "$(DATA)")

# With LANGUAGE=fr pages of that language alone, in a folder of their own; with FROM=FILE from another training's weights.
TRAINING := .cache/train$(if $(LANGUAGE),/$(LANGUAGE))
DRAW = $(VENV_PYTHON) -m models.training.drawing.generate --data "$(DATA)" --cache $(TRAINING) \
    $(if $(BOOKS),--books "$(BOOKS)") $(if $(LANGUAGE),--language $(LANGUAGE))

train: $(RUN_STAMP) ## Draw training pages and train the compact decoder: make train DATA=FOLDER; goes on where it stopped
	@test -n "$(DATA)" || { echo "make train DATA=FOLDER: a folder of en/ fr/ de/ zh/ with *.txt;" \
	    "fonts: models/training/install_fonts.sh $(TRAINING)/fonts"; exit 2; }
	$(DRAW) --held-out --documents 80
	$(DRAW) --documents $(or $(DOCUMENTS),1500)
	$(VENV_PYTHON) -m models.training.train --cache $(TRAINING) --steps $(or $(STEPS),5000) \
	    $(if $(LANGUAGE),--curves models/training/curves/$(LANGUAGE)) $(if $(FROM),--from "$(FROM)") \
	    --export $(TRAINING)/decoder.safetensors
	$(VENV_PYTHON) -m models.training.evaluate --cache $(TRAINING) \
	    --weights $(TRAINING)/decoder.safetensors --fit

venv: $(VENV_PYTHON) ## Only make the virtual environment, e.g. to install a CPU build of torch first

clean: ## Remove the virtual environment, the sample and all caches; what was digitized (out/) stays
	rm -rf .venv sample build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV_PYTHON):
	@test -n "$(PYTHON)" || { echo "tomeflow needs Python 3.11 or newer; none of python3, python3.13, python3.12," \
	    "python3.11 is. Install one, or name yours: make run PYTHON=/path/to/python"; exit 1; }
	@"$(PYTHON)" -c '$(IS_NEW_ENOUGH)' 2>/dev/null || { echo "$(PYTHON) does not run or is older than Python 3.11," \
	    "which tomeflow needs. Name another: make run PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments." \
	    "On Debian and Ubuntu the package python3-venv brings that."; exit 1; }
	"$(PYTHON)" -m venv .venv

# torch from the default index brings the CUDA libraries: NEED_GIB is what a download and its unpacked files take
# at once. With a torch that is already in .venv the rest needs less.
NEED_GIB_WITH_TORCH := 10
NEED_GIB_WITHOUT_TORCH := 3
define check_disk
	@"$(VENV_PYTHON)" -c 'import importlib.util, shutil, sys; \
	need = $(NEED_GIB_WITHOUT_TORCH) if importlib.util.find_spec("torch") else $(NEED_GIB_WITH_TORCH); \
	free = shutil.disk_usage(".").free / 2**30; \
	sys.exit(0 if free >= need else f"{free:.1f} GiB are free here, installing needs about {need} GiB. Free some, " \
	    "or install a CPU build of torch first, which is much smaller: see README, Two commands.")'
endef

$(RUN_STAMP): $(VENV_PYTHON)
	$(check_disk)
	$(VENV_PYTHON) -m pip install --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV_STAMP): $(VENV_PYTHON)
	$(check_disk)
	$(VENV_PYTHON) -m pip install --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@ $(RUN_STAMP)
