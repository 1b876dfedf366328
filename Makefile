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

demo: $(VENV)/ready  ## active learning on scikit-learn's digits, six methods, three seeds; writes demo/report
	$(BIN)/poolwise run configs/digits.toml -o demo/runs --jobs 2
	$(BIN)/poolwise report demo/runs -o demo/report

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
