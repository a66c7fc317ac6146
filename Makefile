# Two commands do everything: `make demo` shows the main job, `make test` checks all of it.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# One test process a core, one thread each, so that 2 cores are 2 cores.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export NUMBA_NUM_THREADS = 1

.PHONY: demo test lint format bench clean

demo: .venv/demo
	$(BIN)/mixfree demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

lint: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/bench
	$(BIN)/python benchmarks/run.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[cli]'
	touch $@

.venv/test: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[cli,test]'
	touch $@ .venv/demo

.venv/bench: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[cli,test,bench]'
	touch $@ .venv/test .venv/demo

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
