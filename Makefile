# Everything runs in .venv, built with Python 3.11 or newer from the versions in constraints.txt.

RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.11 python3; do \
	"$$name" -c '$(RECENT)' 2>/dev/null && echo "$$name" && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS := agents,docs,faiss,google,langchain,llama-index,notebook,offline,onnx,openvino,pdf,plots,remote,serve,torch,web,dev

# Nothing below needs a network besides the package index.
export HF_HUB_OFFLINE         := 1
export TRANSFORMERS_OFFLINE   := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo docs dist sbom notebooks test test-notebooks gpu lint types \
	check format student embedded-student \
	embedded-fitted embedded-eligibility clean

help:
	@echo "make demo    show what FIT-RAG keeps of bundled documents for one question"
	@echo "make test    run the tests"
	@echo "make test-notebooks  run every notebook, saving nothing"
	@echo "make gpu     test and measure on a GPU, into benchmarks/results"
	@echo "make notebooks  run every notebook, and save it with its outputs"
	@echo "make lint    check format and style"
	@echo "make types   check types"
	@echo "make check   lint, types and test"
	@echo "make docs    build the documentation into site/, strictly"
	@echo "make dist    build the wheel and the source archive into dist/, and check them"
	@echo "make sbom    list what the environment holds, as CycloneDX, into release/"
	@echo "make format  rewrite the sources in the project's format"
	@echo "make clean   remove the environment and all caches"

install: $(STAMP)

# Built again when the dependencies or the pins change.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=..."; exit 1; }
	@echo "Installing into $(VENV) (once; takes some minutes)"
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

demo: $(STAMP)
	$(BIN)/fitrag demo

test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

# Some minutes on two cores.
test-notebooks: $(STAMP)
	$(BIN)/python scripts/notebooks.py --check

notebooks: $(STAMP)
	$(BIN)/python scripts/notebooks.py

# Under nine minutes; says so where there is no GPU. GPU_PYTHON is an interpreter that has torch for
# CUDA and the package's needs already: nothing is installed over them.
GPU_PYTHON ?= $(BIN)/python
gpu:
	PYTHONPATH=. $(GPU_PYTHON) benchmarks/gpu.py

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# The package strictly; what is beside it by the names and arguments it calls the package with.
types: $(STAMP)
	$(BIN)/mypy --strict
	$(BIN)/mypy --config-file= --cache-dir .mypy_cache/beside --check-untyped-defs \
		--ignore-missing-imports --follow-imports silent --explicit-package-bases \
		--disable-error-code arg-type benchmarks scripts

check: lint types test

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# In an environment of their own: what builds a package is no part of it.
TOOLS := .dist-tools
dist:
	test -x $(TOOLS)/bin/python || "$(PYTHON)" -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet build twine
	rm -rf dist
	$(TOOLS)/bin/python -m build
	$(TOOLS)/bin/python -m twine check --strict dist/*

# What a release is made of: the pinned packages of the environment, as CycloneDX.
sbom: $(STAMP)
	test -x $(TOOLS)/bin/python || "$(PYTHON)" -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet cyclonedx-bom
	mkdir -p release
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file release/sbom.cdx.json $(BIN)/python

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Trains the student that ships in fitrag_integrations/embedded; docs/training.md
DATA ?= ../shared/data
ROWS ?= runs/student/rows
RUN ?= runs/student/fitted

# A round as the one that ships was trained: the programs lie in the history, where two runs of an
# hour of one core each begin with the weights of then, and are fitted after their mean
TRAINED := 0b19ca38
ROUND := runs/student/round
student: $(STAMP)
	test -d $(ROUND) || git worktree add $(ROUND) $(TRAINED)
	$(MAKE) -C $(ROUND) student-both DATA=$(abspath $(DATA)) ROWS=$(abspath $(ROWS)) RUN=$(abspath $(RUN))

# Type of what is computed; float32 where the processor emulates bfloat16
DTYPE ?= bfloat16

# Puts the student into the package, one trunk under all four parts, and fits what depends on its
# scores: make embedded-student RUN=... ROWS=...
embedded-student: $(STAMP)
	$(BIN)/python scripts/embed_student.py $(RUN) $(ROWS)
	$(MAKE) embedded-fitted

# Thresholds of the actions and strips, the detector: nothing that was fitted to other
# scores ships. The reader's abstain_below is chosen from what scripts/student/reading.py prints.
embedded-fitted: $(STAMP)
	$(BIN)/fitrag calibrate evaluator $(RUN)/judged.jsonl --sentences 1 --correct 0.9 \
		--incorrect 0.9 --survival 0.93 --model fitrag_integrations/embedded/evaluator \
		--dtype $(DTYPE)
	$(MAKE) embedded-eligibility

# Trains the detector on the embedded scorer's scores, about two minutes on one core
ELIGIBILITY := fitrag_integrations/embedded/eligibility
embedded-eligibility: $(STAMP)
	$(BIN)/python scripts/eligibility_rows.py $(DATA) runs/eligibility.jsonl
	$(BIN)/fitrag label eligibility runs/eligibility.jsonl --out runs/eligibility_windows.jsonl \
		--combinations prefixes --depth 10 --dtype $(DTYPE) --overwrite
	$(BIN)/fitrag train eligibility runs/eligibility_windows.jsonl --out $(ELIGIBILITY) \
		--combinations prefixes --label kept --sees-rest

clean:
	rm -rf $(VENV) $(TOOLS) build dist site .benchmarks .codspeed .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
