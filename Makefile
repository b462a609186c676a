# make demo       the finding on embedded data: a table, a picture and a page, in about a minute
# make test       lint, types, tests and doctests (minutes)
# make test-full  the same with the slow tests and more random examples
# make docs       the documentation, docs/_build/html/index.html; warnings are errors
# make docs-check looks at the built documentation in Chromium
# make dist       source distribution and wheel, in dist
# make bench      speed and memory against named references

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PY := $(BIN)/python
# Parallel test processes with one BLAS thread each.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-full docs docs-check dist bench clean venv

demo: $(VENV)/demo.stamp
	$(BIN)/tensormvc demo --output demo --force

test: $(VENV)/test.stamp
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(TEST_ENV) $(PY) -m pytest -n 2

test-full: $(VENV)/test.stamp
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(TEST_ENV) HYPOTHESIS_PROFILE=full $(PY) -m pytest -n 2 -m ""

docs: $(VENV)/docs.stamp
	$(TEST_ENV) $(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

docs-check: $(VENV)/test.stamp
	TENSORMVC_NEED_SITE=1 $(PY) -m pytest tests/docs/test_site.py

dist: $(VENV)/test.stamp
	$(PY) -m build --outdir dist

bench: $(VENV)/demo.stamp
	$(PY) benchmarks/shrinkage.py
	$(PY) benchmarks/agft.py
	$(PY) benchmarks/gmc.py
	$(PY) benchmarks/kmeans.py
	$(PY) benchmarks/audit.py
	$(PY) benchmarks/methods.py
	$(PY) benchmarks/scale.py

venv: $(BIN)/python

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "tensormvc needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(PY) -m pip install --quiet --editable '.[plot,cli,io]'
	@touch $@

$(VENV)/docs.stamp: pyproject.toml | $(BIN)/python
	$(PY) -m pip install --quiet --editable '.[docs]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(PY) -m pip install --quiet --editable '.[plot,cli,io,mudata,test]'
	@touch $@

clean:
	rm -rf $(VENV) build dist demo docs/_build docs/api docs/gallery docs/tutorials/built .pytest_cache .mypy_cache .ruff_cache .hypothesis
