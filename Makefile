PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test check slow lowest docs

demo: $(VENV)/.installed ## train on the embedded corpus, then read a sentence with the model
	$(RUN) -m sentattn.train logger=none
	$(RUN) -m sentattn.predict run=latest text="Slow at first, but the food was wonderful."

test: $(VENV)/.installed ## the tests that need no more than minutes
	$(RUN) -m pytest -m "not slow" -n auto --maxprocesses 4 --dist worksteal

check: $(VENV)/.installed ## lint, format, types, layers of imports
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed ## write docs/settings.md and the table of parameters
	$(RUN) docs/reference.py

slow: $(VENV)/.installed lowest ## the long tests
	$(RUN) -m pytest -m slow

lowest: $(VENV)/.installed ## the lowest versions that pyproject.toml allows, in an environment of their own
	.ci/lowest $(VENV)/bin/uv

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sentattn needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
