# From a fresh clone, with Python 3.11 or later: `make compare` or `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AOT := $(VENV)/aot
CUDA := $(VENV)/cuda
HF := $(VENV)/huggingface
MKDOCS := $(VENV)/mkdocs
# POD=--ci: the few that CI compiles.
POD ?=
COMPARE ?= runs/compare
SCALE ?= smoke
# Trials at a time: two share two cores better than one has them alone.
PARALLEL ?= 2
# More of the sweep's flags: make compare FLAGS=--config.data.corpus=my/*.jsonl
FLAGS ?=
CHAOS ?= runs/chaos
KILLS ?= 50
CASES ?= 5000
# Of make tokens-hf: a file with a text on each line, in several languages.
TEXTS ?= README.md
SWEEP := experiments/sweeps/objectives.py
TABLE := experiments/tables/objectives.py

# Huge pages for the allocations of a step: 1.2 to 1.4 times faster on a Linux CPU.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1
# Bytecode is kept, also where the shell turns that off: a start takes a third.
export PYTHONDONTWRITEBYTECODE =

.PHONY: compare demo test long chaos fuzz mutants pod hopper hopper_values docs claims slices performance roofline speed goldens-hf exports-hf pipelines-hf tokens-hf published-hf tutorials site env lint lock

# A bot that answers from the documentation of Python's standard library, at
# http://127.0.0.1:8080/ until Ctrl-C.
PORT ?= 8080
demo: env
	$(BIN)/python -m palimpsest serve --documents=embedded --port=$(PORT)

compare: env
	$(BIN)/python -m launch.sweep --sweep=$(SWEEP) --workdir=$(COMPARE) \
		--scale=$(SCALE) --parallel=$(PARALLEL) $(FLAGS)
	$(BIN)/python -m launch.report --table=$(TABLE) --workdir=$(COMPARE)

test: env
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The cases that `make test` leaves out.
long: env
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m long

# Runs killed 50 times, alone and of two processes, on fewer devices and without their
# folder; exports, reports and drivers of sweeps that are killed. SHORT=--short: each of
# these once or twice, in about a minute.
SHORT ?=
chaos: env
	$(BIN)/python -m tests.proofs.chaos --workdir=$(CHAOS) --kills=$(KILLS) $(SHORT)
	rm -r $(CHAOS)

# Whatever a user writes, damaged files of runs, sweeps, tasks, texts and hf: folders,
# outputs that are no files: no command fails, hangs, or goes on as if nothing were wrong.
# SHORT=--short: 120 cases, in about a minute.
fuzz: env
	$(BIN)/python -m tests.proofs.fuzz --cases=$(CASES) $(SHORT)

# Bugs that others shipped, and ours, built into copies of the project: named tests kill
# them all. ONLY=WORD: those with a word in their id.
ONLY ?=
mutants: env
	$(BIN)/python -m tests.proofs.mutants --only=$(ONLY)

# XLA's TPU compiler as this JAX asks for it, beside the environment: JAX would look for
# a TPU if it were in it.
$(AOT)/stamp: $(VENV)/stamp
	$(BIN)/uv pip install --quiet --target $(AOT) \
		"$$($(BIN)/python -c 'from launch.measure.tpu_topology import required_libtpu; print(required_libtpu())')"
	touch $@

# Every experiment at its published sizes on its slice, against tests/goldens/compile.
pod: $(AOT)/stamp
	PYTHONPATH=$(AOT) $(BIN)/python -m tests.proofs.compile_regression $(POD)

# The attention kernels for Hopper, assembled without a GPU: the registers of each.
hopper: $(VENV)/stamp
	jax=$$($(BIN)/python -c 'import jax; print(jax.__version__)') && \
	$(BIN)/uv pip install --quiet --no-deps --target $(CUDA) jax-cuda12-plugin==$$jax \
		jax-cuda12-pjrt==$$jax nvidia-cuda-nvcc-cu12==12.9.86
	$(BIN)/python -m tests.proofs.hopper_assembly $(CUDA)

# Their outputs and gradients on a Hopper GPU, beside float64.
hopper_values: env
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements.txt \
		'jax[cuda13]'
	$(BIN)/python -m tests.proofs.hopper_values

# The table of docs/pods.md: what steps come to on slices of TPUs; tables of
# docs/performance.md: tiles and memory of attention, the loss; and its bounds of
# published sizes, from 8 to 256 chips, which compiles what is not in docs/roofline.json.
slices performance roofline: $(AOT)/stamp
	PYTHONPATH=$(AOT) $(BIN)/python -m experiments.studies.$@

# tests/goldens/huggingface anew, by Hugging Face's own code: PyTorch stays in an
# environment of its own.
$(HF)/stamp: $(VENV)/stamp
	$(PYTHON) -m venv $(HF)
	$(BIN)/uv pip install --quiet --python $(HF)/bin/python --torch-backend cpu \
		torch transformers safetensors sentencepiece protobuf
	touch $@

# Steps and attention on the accelerator that is there, for which JAX's own packages are
# added: ACCELERATOR=cuda13 or tpu where it is not found.
ACCELERATOR ?= $(if $(shell command -v nvidia-smi),cuda13,$(if $(wildcard /dev/accel*),tpu))
SPEED ?= runs/speed
speed: env
	$(if $(ACCELERATOR),$(BIN)/uv pip install --quiet --python $(BIN)/python \
		--constraint requirements.txt 'jax[$(ACCELERATOR)]')
	$(BIN)/python -m palimpsest speed --folder=$(SPEED)

goldens-hf: $(HF)/stamp
	$(HF)/bin/python tests/proofs/huggingface_goldens.py tests/goldens/huggingface

# tests/goldens/pipelines anew, by the last transformers that answers questions.
pipelines-hf: $(VENV)/stamp
	$(PYTHON) -m venv $(HF)-4
	$(BIN)/uv pip install --quiet --python $(HF)-4/bin/python --torch-backend cpu \
		torch 'transformers==4.57.*'
	$(HF)-4/bin/python tests/proofs/huggingface_pipelines.py tests/goldens/pipelines \
		README.md docs/*.md

# Exported runs of tasks, loaded by Hugging Face's Auto classes.
exports-hf: $(HF)/stamp
	rm -rf $(HF)/exports
	$(BIN)/python -m tests.proofs.huggingface_exports make $(HF)/exports
	$(HF)/bin/python tests/proofs/huggingface_exports.py check $(HF)/exports

# Token ids of tokenizers that Hugging Face trained and saved, on the lines of TEXTS.
tokens-hf: $(HF)/stamp
	$(HF)/bin/python tests/proofs/huggingface_tokenizers.py make $(HF)/tokens $(TEXTS)
	$(BIN)/python -m tests.proofs.huggingface_tokenizers compare $(HF)/tokens

# Those of published vocabularies, which are downloaded.
published-hf: $(HF)/stamp
	$(HF)/bin/python tests/proofs/huggingface_tokenizers.py download \
		$(HF)/published $(TEXTS)
	$(BIN)/python -m tests.proofs.huggingface_tokenizers compare $(HF)/published

# The pages as a site, in SITE/site, with a reference from the code; mkdocs has an
# environment of its own.
SITE ?= runs/site
$(MKDOCS)/stamp: $(VENV)/stamp
	$(PYTHON) -m venv $(MKDOCS)
	$(BIN)/uv pip install --quiet --python $(MKDOCS)/bin/python mkdocs-material==9.8.2
	touch $@

# What the commands of the tutorials print, written into their pages.
tutorials: env
	rm -rf $(VENV)/tutorials
	$(BIN)/python -m tests.testing.tutorials $(VENV)/tutorials

site: $(MKDOCS)/stamp
	$(BIN)/python -m experiments.studies.site_pages $(SITE)
	NO_MKDOCS_2_WARNING=1 $(MKDOCS)/bin/mkdocs build --strict --quiet --config-file $(SITE)/mkdocs.yml

# Style, import contracts, types, spelling.
lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/codespell research launch experiments tests docs *.md

env: $(VENV)/stamp

$(VENV)/stamp: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"error: Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --compile-bytecode --python $(BIN)/python -r requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	touch $@

# The ledger of published claims, from the results that are committed.
claims: env
	$(BIN)/python -m palimpsest claims --figure=docs/claims.svg > $(VENV)/page.md
	mv $(VENV)/page.md docs/claims.md

# One file for every Python from 3.11 on: a package that needs a later one has two lines.
lock: env
	$(BIN)/uv pip compile --quiet --no-header --universal --python-version 3.11 --upgrade \
		setup.py --extra dev --extra seqio --extra serve --output-file requirements.txt

# The pages of objectives, of parts, and of each published experiment beside its paper and code.
docs: env
	$(BIN)/python -m experiments.studies.objectives > $(VENV)/page.md
	mv $(VENV)/page.md docs/objectives.md
	$(BIN)/python -m experiments.studies.parts > $(VENV)/page.md
	mv $(VENV)/page.md docs/parts.md
	$(BIN)/python -m experiments.studies.fidelity > $(VENV)/page.md
	mv $(VENV)/page.md docs/fidelity.md
