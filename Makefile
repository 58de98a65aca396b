# Two commands on a fresh machine: `make demo` and `make test`. Both make .venv themselves.

PYTHON ?= python3
VENV := .venv
# Set in many containers: each of the processes that tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)/constraints.txt
export TORCH TORCH_INDEX

.PHONY: help demo test lint types wheel clean

help:
	@echo "make demo    install, then learn to pronounce English in about a minute"
	@echo "make test    install what the tests need, then run style, types and all tests"
	@echo "make wheel   build dist/*.whl"
	@echo "make clean   remove .venv and caches"
	@echo "PYTHON=python3.12, TORCH_INDEX=URL (torch's CPU build), TORCH=cuda: see docs/platforms.md"

demo: $(VENV)/demo
	$(VENV)/bin/antiphon demo

test: $(VENV)/dev lint types
	@sh scripts/install_chromium.sh
	$(VENV)/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/dev
	$(VENV)/bin/mypy

wheel: $(VENV)/dev
	$(VENV)/bin/python -m build --wheel --no-isolation .

clean:
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Debian's python3 without python3-venv cannot put pip into a venv; its pip can.
$(VENV)/bin/python:
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || ( \
		$(PYTHON) -m venv --without-pip --clear $(VENV) && \
		$(PYTHON) -m pip --python $(VENV)/bin/python install --quiet pip ) || \
		{ rm -rf $(VENV); echo "no venv could be made: apt-get install python3-venv, or give PYTHON=..."; exit 1; }

$(VENV)/constraints.txt: $(VENV)/bin/python constraints.txt
	@sh scripts/install_torch.sh $(VENV)

$(VENV)/demo: $(VENV)/constraints.txt pyproject.toml
	@echo "installing antiphon and the CMU dictionary (without torch about 80 MB)"
	@$(PIP) --editable '.[demo,serve]'
	@touch $@

$(VENV)/dev: $(VENV)/constraints.txt pyproject.toml
	@echo "installing antiphon and what its tests need (without torch about 400 MB)"
	@$(PIP) --editable '.[dev]'
	@touch $@
