PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e
TESTS := $(RUN) -m pytest -m "not slow and not trust" -n auto --maxprocesses 4 --dist worksteal
export PYTHONDONTWRITEBYTECODE := # else each process of a test compiles all that it imports

.PHONY: demo test check site dist coverage slow trust lowest audit docs bench

demo: $(VENV)/.package ## train on the embedded corpus, then predict a sentence with the model
	$(RUN) -m sentattn.train logger=none
	$(RUN) -m sentattn.predict run=latest text="Slow at first, but the food was wonderful."

test: $(VENV)/.installed ## the tests that take minutes
	$(TESTS)

check: $(VENV)/.installed ## lint, format, types, layers of imports, links and tables of the documentation
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/zensical build --strict
	$(RUN) benchmarks/table.py page check=true

site: $(VENV)/.installed ## build the documentation and serve it
	$(VENV)/bin/zensical build --strict
	$(VENV)/bin/zensical serve

dist: ## build wheel and sdist, install the wheel in a fresh environment, train with it
	.ci/dist $(PYTHON)

coverage: $(VENV)/.installed ## the tests of `make test` with their line coverage; slower
	$(TESTS) --cov=sentattn --cov-report=term:skip-covered

docs: $(VENV)/.installed ## write docs/settings.md and the table of parameters
	$(RUN) docs/reference.py

bench: $(VENV)/.installed ## each benchmark for a moment
	.ci/bench $(RUN)

slow: $(VENV)/.installed lowest ## the long tests, for half an hour
	$(RUN) -m pytest -m slow -n auto --maxprocesses 4 --dist worksteal

trust: $(VENV)/.installed ## kills, power cuts, hostile and random files, for most of an hour
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt atheris
	$(RUN) -m pytest -m trust -n auto --maxprocesses 4

lowest: $(VENV)/.installed ## the lowest versions that pyproject.toml allows, in a separate environment
	.ci/lowest $(VENV)/bin/uv

audit: $(VENV)/.installed ## known vulnerabilities of the packages that are used; needs a network
	.ci/audit $(VENV)/bin/uv

$(VENV)/.package: pyproject.toml constraints.txt # the package alone
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sentattn needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

$(VENV)/.installed: $(VENV)/.package # with what tests, checks and documentation need
	$(INSTALL) ".[dev,docs]"
	touch $@
