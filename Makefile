# make help             list these commands
# make setup            create .venv from requirements.lock, with every extra except gpu
# make demo             set up, then explain one decision and run both tasks on part of the examples
# make test             set up, then run the whole test suite
# make test-long        tests that `make test` leaves out; recorded in benchmarks/results/long-tests.md
# make test-transformers5  tests of language and embedding models, and one run, with transformers 5
# make lint             ruff and mypy
# make renew            after a changed constant: pins, quoted output, notebook and pictures again, then what is left for a person; LONG=1
#                       also the pinned results of make test-long
# make lock             resolve requirements.txt and requirements/*.txt, and write the locks beside them; UPGRADE=1 takes the newest
# make audit            ask for known vulnerabilities of what is locked; .ci/accepted-vulnerabilities.txt lists exceptions
# make pin-base-image   ask the registry for the digest of the Dockerfile's base image, and write it there
# make test-processors  numerical tests under each instruction set of the processor, as a table
# make fuzz             mutated files for every reader of foreign input, for SECONDS=60; findings in fuzz-output/
# make faults           runs of both jobs that are killed or get a full disk, 20 moments each
# make gpu              the GPU benchmark, or one PART=preflight|attention|packed|norm|overlap|encode|long|load|dense|head|runs. It uses
#                       the interpreter PYTHON, if that has torch and transformers, instead of .venv. COMMIT names the commit of a
#                       copy without .git.
PYTHON_IN_ENV := .venv/bin/python

.PHONY: help demo test test-long test-transformers5 faults test-processors fuzz lint setup gpu renew lock audit pin-base-image

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

setup:
	@bash tools/setup.sh

demo: setup
	@$(PYTHON_IN_ENV) entrypoint.py demo --device cpu

test: setup
	@$(PYTHON_IN_ENV) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-long: setup
	@$(PYTHON_IN_ENV) -m pytest -n 2 --dist loadfile -m "long or documented"

test-transformers5: setup
	@bash tools/test_transformers5.sh

test-processors: setup
	@bash tools/test_processors.sh

SECONDS ?= 60
fuzz: setup
	@OMP_NUM_THREADS=1 $(PYTHON_IN_ENV) -m tests.fuzz --seconds $(SECONDS) --findings fuzz-output

faults: setup
	@OMP_NUM_THREADS=1 MOMENTS=20 $(PYTHON_IN_ENV) -m pytest tests/faults -q

lint: setup
	@bash tools/install.sh requirements/lint.lock
	@$(PYTHON_IN_ENV) -m ruff check .
	@$(PYTHON_IN_ENV) -m ruff format --check .
	@$(PYTHON_IN_ENV) -m mypy --strict pan_scdg studies benchmarks

# with the packages of requirements/tools.lock, which stay out of .venv itself
TOOLS := .venv/tools
RUN_TOOL = bash tools/install.sh requirements/tools.lock $(TOOLS) && \
	PATH=$$PWD/$(TOOLS)/bin:$$PWD/.venv/bin:$$PATH PYTHONPATH=$$PWD/$(TOOLS) $(PYTHON_IN_ENV) -m

renew: setup
	@$(PYTHON_IN_ENV) -m tools.renew $(if $(LONG),--long)

lock: setup
	@$(RUN_TOOL) tools.locks $(if $(UPGRADE),--upgrade)

audit: setup
	@$(RUN_TOOL) tools.audit

pin-base-image:
	@bash tools/pin_base_image.sh

HAS_TORCH := from importlib.util import find_spec as f; raise SystemExit(not (f("torch") and f("transformers")))

gpu:
	@python=$(PYTHON_IN_ENV); \
	if [ -n "$(PYTHON)" ] && "$(PYTHON)" -c '$(HAS_TORCH)' 2> /dev/null; then python="$(PYTHON)"; \
	else bash tools/setup.sh || exit; fi; \
	"$$python" -m benchmarks.gpu $(PART:%=--part %) $(COMMIT:%=--commit %)
