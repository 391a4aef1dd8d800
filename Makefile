# make demo: set up, then both jobs on the shipped examples. make test: set up, then the whole test suite.
PYTHON_IN_ENV := .venv/bin/python

.PHONY: demo test lint setup

setup:
	@bash tools/setup.sh

demo: setup
	@$(PYTHON_IN_ENV) entrypoint.py demo --device cpu

test: setup
	@$(PYTHON_IN_ENV) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: setup
	@$(PYTHON_IN_ENV) -m pip install --quiet --disable-pip-version-check -r .ci/requirements.txt
	@$(PYTHON_IN_ENV) -m ruff check .
	@$(PYTHON_IN_ENV) -m ruff format --check .
	@$(PYTHON_IN_ENV) -m mypy --strict pan_scdg
