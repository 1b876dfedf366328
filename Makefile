# Everything a user or CI runs. The environment is made once, in .venv, and updated when its inputs change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
comma := ,

.PHONY: demo test check docs paper bench clean
.DEFAULT_GOAL := demo

# Each command installs only what it needs: $(call install,EXTRAS).
define install
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$(1)]'
	touch $@
endef

$(VENV)/demo-ready: pyproject.toml constraints.txt
	$(call install,label$(comma)plot)

# One process with one thread per core: a third one waits less, but takes longer to start and slows the others. Tests of a
# group run in one process, so that Ray is started once. Bytecode is written even if the environment forbids it: pip
# compiled nothing, so every process that a test starts would compile PyTorch and all it imports, which is most of its
# processor time.
TEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python

# Tests are collected once here, so that what they import is compiled to bytecode once, not by several processes at a time.
# So are the loops that Numba compiles, by the tests of these. If something fails, the tests will say why.
$(VENV)/dev-ready: pyproject.toml constraints.txt
	$(call install,dev)
	$(TEST) -m pytest -q -k 'compiled or numba' -m 'not thorough' >/dev/null 2>&1 || true

demo: $(VENV)/demo-ready  ## active learning on scikit-learn's digits, six methods, six seeds; writes demo/report
	$(BIN)/poolwise run configs/digits.toml -o demo/runs --jobs 2
	$(BIN)/poolwise report demo/runs -o demo/report
	@echo 'To label your own images or texts in the browser: $(BIN)/poolwise label DATA --classes cat,dog'

test: $(VENV)/dev-ready  ## the tests, in parallel; `make check` adds those marked thorough
	$(TEST) -m pytest -n 2 --dist loadgroup -m 'not thorough'

check: $(VENV)/dev-ready  ## format, lint, types, all tests with warnings as errors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(TEST) -W error -m pytest -n 2 --dist loadgroup

docs: $(VENV)/dev-ready  ## build the documentation site into site/
	$(BIN)/mkdocs build --strict

paper: $(VENV)/dev-ready  ## a tour of the paper: its figures from recorded runs, Table 2 measured here
	$(BIN)/python -m paper figures --records -o demo/paper
	$(BIN)/python -m paper table-2 -o demo/paper

bench:  ## compare with other packages; writes docs/benchmarks.md, .json and .png
	sh benchmarks/setup.sh $(PYTHON) .venv-bench
	.venv-bench/bin/python -m benchmarks.run

clean:  ## remove everything that was made, except benchmark predictions
	rm -rf $(VENV) .venv-bench demo site build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
