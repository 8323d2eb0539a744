# regard: `make demo` and `make test` work from a fresh clone; `make help` lists the rest.
#
#   TORCH="torch==2.12.0"    another torch (default: the one in tools/venv.py)
#   PIP_ARGS="…"             handed to pip as they are, e.g. to take a CPU build from a folder:
#                            PIP_ARGS="--find-links DIR"
#   SYSTEM_TORCH=1           use the torch that PYTHON already has
#   LOCK=1                   every package at the version in requirements/lock.txt (0: newer ones too)
#   PYTHON=python3.12        the Python to set up with
#   RERUN=1                  tests that fail run once more, alone (what CI does)
#
# Settings are remembered in .venv; requirements that change are installed at the next call.

PYTHON ?= python3
TORCH ?=
PIP_ARGS ?=
SYSTEM_TORCH ?=
LOCK ?=
JOBS ?= 2
# Tests wait for browsers, servers and disks: one process more than cores.
FORKS = $(shell expr $(JOBS) + 1)
HALF = $(shell expr \( $(JOBS) + 1 \) / 2)
ARGS ?=
export PYTHON TORCH PIP_ARGS SYSTEM_TORCH LOCK

BIN := .venv/bin
SETUP := $(PYTHON) tools/venv.py
STEP = $(PYTHON) tools/step.py --label
# Packages and modules where tensors have annotated shapes: to hook into an import takes time.
# mypy knows all other types.
CHECKED := regard.attention,regard.layers,regard.losses,regard.models,regard.data.audio.log_mel,regard.data.text.count_vectors,regard.decode.ctc,regard.decode.rules.extractive,regard.decode.tag_search,regard.encoders.stack,regard.fields.pretrained,regard.inference.alignment,regard.metrics.alignment,regard.metrics.calibration,regard.native.dropout,regard.tasks.generation.speech_view,regard.tasks.labels.image_view,regard.tasks.objectives,regard.tasks.tags.decoding,regard.tasks.windows,regard.watching.source_attention
HOOK := --jaxtyping-packages=$(CHECKED),beartype.beartype
FAST := not slow and not gpu
# Files with such tests: to collect all others takes longer than to run these.
NOHOOK = $(shell grep -rl nohook tests --include="test_*.py")
TESTS := $(BIN)/python tools/tests.py
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(TESTS)

.DEFAULT_GOAL := help
.PHONY: course load fuzz faults supply help venv setup-demo setup-test setup-docs demo lint types pages test slow sanitize sanitize-quick mutants gpu docs serve-docs wheel wheels clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1|/' | \
	  while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

venv: setup-demo  ## set up .venv with the `regard` command (editable)
	@echo "regard: activate it with  . .venv/bin/activate"

setup-demo:
	@$(SETUP) demo
setup-test:
	@$(SETUP) test
setup-docs:
	@$(SETUP) docs

demo: setup-demo  ## what shipped models do, a model trained live, a picture of each
	@$(BIN)/regard demo $(ARGS)

lint: setup-test  ## ruff and mypy --strict
	@$(STEP) ruff -- $(BIN)/ruff check .
	@$(STEP) format -- $(BIN)/ruff format --check .
	@$(STEP) mypy -- $(BIN)/mypy --strict --num-workers $(JOBS) src

node_modules: package.json
	@command -v npm >/dev/null || { echo "regard: npm is missing; scripts of pages are neither checked nor made short"; exit 0; }; \
	npm install --silent --no-package-lock --no-audit --no-fund

pages: node_modules  ## the pages' scripts: prettier, and tsc against their JSDoc types (needs npm)
	@node_modules/.bin/prettier --check 'src/regard/*/page/*.js'
	@for page in viewer serve; do node_modules/.bin/tsc -p tools/pages/$$page.json || exit 1; done

# Most files need the hook: one process collects them, while mypy and the tests without the hook run.
test: setup-test  ## lint, types, and the fast tests with shape annotations checked
	@$(STEP) ruff -- $(BIN)/ruff check .
	@$(STEP) format -- $(BIN)/ruff format --check .
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(PYTHON) tools/beside.py \
	  --job mypy $(BIN)/mypy --strict src \
	  --job nohook $(TESTS) --forks $(HALF) -o cache_dir=.pytest_cache/nohook -m "nohook and $(FAST)" $(NOHOOK) $(ARGS) \
	  --then $(STEP) tests -- $(TESTS) --forks $(FORKS) -m "not nohook and $(FAST)" $(HOOK) $(ARGS)

slow: setup-test  ## the slow tests
	@$(STEP) slow -- env $(PYTEST) -n $(JOBS) -m "slow and not gpu" $(ARGS)

# Whole: every test that meets C (about 25 minutes on 2 cores). Quick: what CI runs, 5 minutes.
SANITIZED := tests/native tests/attention tests/layers tests/decode tests/losses/test_smoothed_cross_entropy.py tests/train
SANITIZED_QUICK := tests/native/test_fuzz.py tests/native/test_gate.py tests/native/test_gemm.py \
  tests/native/test_sanitized.py tests/decode/program/test_transformers.py tests/decode/program/test_recorded_encoder.py \
  tests/decode/program/test_lowering.py tests/decode/program/test_search_in_c.py tests/losses/test_smoothed_cross_entropy.py \
  tests/attention/test_dots.py tests/attention/test_dots_relative.py tests/attention/test_dots_biases.py \
  tests/attention/test_edges.py tests/attention/test_located_kernel.py \
  tests/layers/test_dropout.py tests/layers/test_gated_native.py tests/layers/test_reading.py

sanitize: setup-test  ## the tests that meet C, under AddressSanitizer and UBSan
	@$(STEP) sanitize -- $(BIN)/python tools/sanitize.py -q -n $(JOBS) -m "$(FAST) and not nohook" $(SANITIZED) $(ARGS)

sanitize-quick: setup-test  ## a part of them, in five minutes
	@$(STEP) sanitize -- env REGARD_FUZZ=150 $(BIN)/python tools/sanitize.py -q -n $(JOBS) -m "$(FAST) and not nohook" $(SANITIZED_QUICK) $(ARGS)

mutants: setup-test  ## break the kernels by hand, one line at a time: the tests must notice each
	@$(STEP) mutants -- $(BIN)/python tools/mutants.py $(ARGS)

load: setup-test  ## `regard serve` under load: throughput, latencies, 5,000 connections, memory (many minutes)
	@$(STEP) load -- $(BIN)/python benchmarks/serve.py load $(ARGS)
	@$(STEP) bare -- $(BIN)/python benchmarks/serve.py bare
	@$(STEP) queue -- $(BIN)/python benchmarks/serve_queue.py
	@$(STEP) connections -- $(BIN)/python benchmarks/serve_connections.py
	@$(STEP) memory -- $(BIN)/python benchmarks/serve.py memory

fuzz: setup-test  ## broken inputs to every reader: ARGS="--inputs 20000 tsv seen"
	@$(STEP) fuzz -- env OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.run $(ARGS)

faults: setup-test  ## work that is killed (SIGKILL) 216 times at random moments
	@$(STEP) faults -- env OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults.kills $(ARGS)

supply: setup-docs  ## write requirements/: pinned versions, licences, bill of materials
	@$(BIN)/python tools/supply.py $(ARGS)

gpu: setup-test  ## the tests that need an accelerator
	@$(STEP) gpu -- env $(PYTEST) -m gpu $(ARGS)

docs: setup-docs  ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(STEP) docs -- $(BIN)/mkdocs build --strict

course: setup-test  ## the lessons of docs/course as notebooks, in build/course
	@$(BIN)/python -m tests.docs.course notebooks

serve-docs: setup-docs  ## show the documentation while writing it
	@$(BIN)/mkdocs serve

wheel: setup-test node_modules  ## build the wheel into dist/
	@$(STEP) wheel -- $(BIN)/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

wheels: setup-test node_modules  ## wheels for Linux (x86-64, aarch64), macOS (arm64, x86-64) and Windows into dist/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "ziglang==0.17.1"
	@$(STEP) wheels -- $(BIN)/python tools/wheels.py $(ARGS)

clean:  ## remove what building left behind; not .venv, not runs/
	@rm -rf site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
