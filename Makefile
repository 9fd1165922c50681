# make repro: from nothing to the table.  make test: the tests.  Both install what they need into .venv first.
PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)
INSTALLED := .venv/installed-from-lock

.PHONY: repro test lint tables sweep sweeps commands mutants bench bench-long soak clean

repro: $(INSTALLED)
	python docs/mend.py
	dvc repro
	python -m docs.tables show

test: $(INSTALLED)
	ruff check .
	python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(INSTALLED)
	ruff check .

tables: $(INSTALLED)
	python -m docs.tables write

# docs/sweeps.md: one setting varied; NAME is temperature, jitter, crop, grayscale, momentum, queue or head
NAME ?= temperature
sweep: $(INSTALLED)
	python -m docs.sweeps $(NAME)

sweeps: $(INSTALLED)
	python -m docs.sweeps

# every command of the README and docs/, at small size
commands: $(INSTALLED)
	python -m docs.commands

# each loss broken on purpose: a test must fail for it
mutants: $(INSTALLED)
	python tests/mutants.py

.venv/installed-peers: $(INSTALLED) benchmarks/requirements.txt
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/requirements.txt --constraint requirements.lock
	@touch .venv/installed-peers

bench: .venv/installed-peers
	python -m benchmarks.pretrain
	python -m benchmarks.pretrain resnet
	python -m benchmarks.extract
	python -m benchmarks.knn

# those that take an hour together, and 6 GB of disk
bench-long: .venv/installed-peers
	python -m benchmarks.pipeline
	python -m benchmarks.growth
	python -m benchmarks.candidates
	python -m benchmarks.memory

soak: $(INSTALLED)
	python benchmarks/soak.py --kills 50 --minutes 60

clean:
	rm -rf data/features data/correct models .resume

$(INSTALLED): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "error: Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@touch $(INSTALLED)
