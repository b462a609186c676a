# make demo       the finding on embedded data: a table, a picture and a page, in about a minute
# make test       lint, types, tests and doctests (minutes)
# make test-full  the same with the slow tests and more random examples
# make bench      speed and memory against named references

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Parallel test processes with one BLAS thread each.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-full bench clean venv

demo: $(VENV)/demo.stamp
	$(VENV)/bin/tensormvc demo --output demo --force

test: $(VENV)/test.stamp
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --strict src
	$(TEST_ENV) $(PY) -m pytest -n 2

test-full: $(VENV)/test.stamp
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --strict src
	$(TEST_ENV) HYPOTHESIS_PROFILE=full $(PY) -m pytest -n 2 -m ""

bench: $(VENV)/demo.stamp
	$(PY) benchmarks/shrinkage.py
	$(PY) benchmarks/agft.py
	$(PY) benchmarks/gmc.py
	$(PY) benchmarks/kmeans.py
	$(PY) benchmarks/audit.py
	$(PY) benchmarks/methods.py
	$(PY) benchmarks/scale.py

venv: $(VENV)/bin/python

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "tensormvc needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip

$(VENV)/demo.stamp: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --editable '.[plot,cli,io]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --editable '.[plot,cli,io,mudata,test]'
	@touch $@

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
