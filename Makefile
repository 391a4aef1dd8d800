# make demo             set up, then explain one verdict and run both tasks on part of the examples
# make test             set up, then run the whole test suite
# make test-long        tests that `make test` leaves out; recorded in benchmarks/results/long-tests.md
# make test-transformers5  tests of language models, and one run, with transformers 5
# make lint             ruff and mypy
# make lock             resolve requirements.txt and requirements/*.txt, and write the locks beside them; UPGRADE=1 takes the newest
# make audit            ask for known vulnerabilities of what is locked; .ci/accepted-vulnerabilities.txt lists exceptions
# make licences         write docs/licences.md
# make sbom             lists of components of the wheel, and of the image IMAGE=NAME, in out/sbom/
# make pin-base-image   ask the registry for the digest of the Dockerfile's base image, and write it there
# make test-processors  numerical tests under each instruction set of the processor, as a table
# make fuzz             mutated files for every reader, for SECONDS=60; report and findings in fuzz-output/
# make faults           commands that are killed, get a full disk or are started twice; recorded in benchmarks/results/faults.md
# make gpu              the GPU benchmark, or one PART=attention|head|packed|overlap|long|texts|dense|runs of it. It uses
#                       the interpreter PYTHON, if that has torch and transformers, instead of .venv. COMMIT names the commit of a
#                       copy without .git.
PYTHON_IN_ENV := .venv/bin/python

.PHONY: demo test test-long test-transformers5 faults test-processors fuzz lint setup gpu lock audit licences sbom pin-base-image

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
	@mkdir -p fuzz-output
	@OMP_NUM_THREADS=1 $(PYTHON_IN_ENV) tests/fuzz --seconds $(SECONDS) --page fuzz-output/report.md --kept fuzz-output/inputs

faults: setup
	@$(PYTHON_IN_ENV) tests/faults --kills 9 --disks 4 --pairs 6 --seed 2 --page benchmarks/results/faults.md

lint: setup
	@bash tools/install.sh requirements/lint.lock
	@$(PYTHON_IN_ENV) -m ruff check .
	@$(PYTHON_IN_ENV) -m ruff format --check .
	@$(PYTHON_IN_ENV) -m mypy --strict pan_scdg benchmarks

SUPPLY_CHAIN := bash tools/supply_chain/run.sh

lock: setup
	@$(SUPPLY_CHAIN) locks $(if $(UPGRADE),--upgrade)

audit: setup
	@$(SUPPLY_CHAIN) audit

JAVA := .venv/java
licences: setup
	@bash tools/install.sh requirements/java.lock $(JAVA)
	@$(SUPPLY_CHAIN) licences .venv/tools $(JAVA)

sbom: setup
	@$(SUPPLY_CHAIN) components out/sbom $(IMAGE)

pin-base-image:
	@bash tools/supply_chain/pin_base_image.sh

HAS_TORCH := from importlib.util import find_spec as f; raise SystemExit(not (f("torch") and f("transformers")))

gpu:
	@python=$(PYTHON_IN_ENV); \
	if [ -n "$(PYTHON)" ] && "$(PYTHON)" -c '$(HAS_TORCH)' 2> /dev/null; then python="$(PYTHON)"; \
	else bash tools/setup.sh || exit; fi; \
	"$$python" -m benchmarks.gpu $(PART:%=--part %) $(COMMIT:%=--commit %)
