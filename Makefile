# Everything a user or CI runs. The environment is made once, in .venv, and made again when its inputs change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean
.DEFAULT_GOAL := demo

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/ready  ## select from scikit-learn's digits with every method; writes demo/batches.png
	$(BIN)/python examples/digits.py demo

test: $(VENV)/ready  ## all tests
	$(BIN)/python -m pytest

check: $(VENV)/ready  ## format, lint, types, tests with warnings as errors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -W error -m pytest

bench:  ## compare with other packages; writes docs/benchmarks.md, .json and .png
	sh benchmarks/setup.sh $(PYTHON) .venv-bench
	.venv-bench/bin/python -m benchmarks.run

clean:  ## remove everything that was made, except benchmark predictions
	rm -rf $(VENV) .venv-bench demo build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
