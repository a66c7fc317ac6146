# Two commands do everything: `make demo` shows the main job, `make test` checks all of it.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# One test process per core, one thread each, so that 2 cores are 2 cores.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export NUMBA_NUM_THREADS = 1

.PHONY: demo test test-slow docs lint format bench public-names coverage lowest lowest-frameworks wheel clean

demo: .venv/demo
	$(BIN)/mixfree demo

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -q
test: lint
	$(PYTEST) -m 'not slow'

# What takes long: coverage of intervals, browser, Dask, kills, the site, networks.
test-slow: .venv/test
	$(PYTEST) -m slow

# The documentation site: open build/site/index.html.
docs: .venv/test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m sphinx --fail-on-warning --quiet docs build/site

lint: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/bench
	$(BIN)/python benchmarks/run.py

# After a deliberate change of public names or signatures.
public-names: .venv/test
	$(BIN)/python -m tests.public_names --write

# Lines that the tests run, and the modules where they are fewer than 90 %.
coverage: .venv/dev
	mkdir -p build
	$(PYTEST) --cov --cov-report=json:build/coverage.json
	$(BIN)/python tools/coverage_gaps.py build/coverage.json

# The lowest versions that pyproject allows; they warn of newer packages than their own.
LOWEST := .venv-lowest/bin/python
LOWEST_ROOMS := $(filter-out tests/__pycache__/ tests/dropins/ tests/torch/ tests/optax/,$(wildcard tests/*/))
lowest:
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST) tools/lowest.py > .venv-lowest/constraints.txt
	$(LOWEST) -m pip install --quiet --constraint .venv-lowest/constraints.txt \
		--editable '.[report,graphs,rl,dask]' pytest pytest-xdist pytest-timeout hypothesis quantecon selenium pandas polars duckdb
	$(LOWEST) -m pytest -n 2 --dist worksteal -q -W default $(LOWEST_ROOMS)

# PyTorch and JAX need newer packages than the other lowest ones.
lowest-frameworks:
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST) tools/lowest.py > .venv-lowest/constraints.txt
	$(LOWEST) -m pip install --quiet --constraint .venv-lowest/constraints.txt \
		--editable '.[cli,torch,jax]' pytest pytest-timeout hypothesis
	$(LOWEST) -m pytest -q -W default tests/dropins tests/torch tests/optax \
		--ignore tests/torch/test_trainers.py

# Wheel and sdist, checked; the demo and the README's examples run from the wheel where nothing
# else of the project is.
wheel: | .venv/bin/python
	rm -rf dist build/wheel
	$(PIP) build twine
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/*.whl)[report,torch]"
	cp README.md examples/report_heating.py build/wheel
	cd build/wheel && bin/mixfree demo --samples 20000 --seeds 1 && bin/python -m doctest README.md && \
		PATH="$$PWD/bin:$$PATH" python report_heating.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[cli]'
	touch $@

# QuantEcon caches compiled functions at its first import, which two test processes must not do at once.
WARM := $(BIN)/python -c 'import quantecon'

.venv/test: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[test]'
	$(WARM)
	touch $@ .venv/demo

.venv/dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[dev]'
	$(WARM)
	touch $@ .venv/test .venv/demo

.venv/bench: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[test,bench]'
	$(WARM)
	touch $@ .venv/test .venv/demo

clean:
	rm -rf .venv .venv-lowest build dist docs/made .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
