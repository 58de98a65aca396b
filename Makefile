# Two commands on a fresh machine: `make demo` and `make test`. Both make .venv themselves.

PYTHON ?= python3
VENV := .venv
# Set in many containers: each of the processes that tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test lint types wheel clean

help:
	@echo "make demo    install, then learn to pronounce English in about a minute"
	@echo "make test    install what the tests need, then run style, types and all tests"
	@echo "make wheel   build dist/*.whl"
	@echo "make clean   remove .venv and caches"

demo: $(VENV)/demo
	$(VENV)/bin/antiphon demo

test: $(VENV)/dev lint types
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

$(VENV)/demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing antiphon and the CMU dictionary (torch alone has some 200 MB: a minute or two)"
	@$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing antiphon and what its tests need (torch alone has some 200 MB: a minute or two)"
	@$(PIP) --editable '.[dev]'
	@touch $@
