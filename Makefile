# Everything runs in .venv, built with Python 3.11 or newer from the versions in constraints.txt.

RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.11 python3; do \
	"$$name" -c '$(RECENT)' 2>/dev/null && echo "$$name" && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS := agents,faiss,google,langchain,llama-index,offline,plots,remote,web,dev

# Nothing below needs a network besides the package index.
export HF_HUB_OFFLINE         := 1
export TRANSFORMERS_OFFLINE   := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types check format embedded closed-book embedded-gate \
	embedded-evaluator clean

help:
	@echo "make demo    answer the demo questions with the embedded models"
	@echo "make test    run the tests"
	@echo "make lint    check format and style"
	@echo "make types   check types"
	@echo "make check   lint, types and test"
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
	$(BIN)/python -m pytest -q

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy --strict

check: lint types test

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Trains what ships in fitrag_integrations/embedded, some hours on two cores; docs/training.md
DATA ?= ../shared/data
embedded: $(STAMP)
	$(BIN)/python scripts/embedded_rows.py $(DATA) runs
	$(BIN)/fitrag train reader runs/reading.jsonl --out runs/reader --steps 2100
	$(BIN)/fitrag label bilabel runs/scorer.jsonl --pool runs/pool.jsonl --model runs/reader \
		--depth 20 --seed 13 --unanswered --dtype bfloat16 --out runs/labelled.jsonl
	$(BIN)/fitrag calibrate reader runs/labelled.jsonl --model runs/reader
	$(BIN)/fitrag train bilabel runs/labelled.jsonl --base runs/reader --tune head --rate 5e-3 \
		--out runs/scorer
	$(BIN)/python scripts/embed.py runs/reader runs/scorer

# Trains the closed-book model, minutes on one core, and puts it into fitrag_integrations/embedded
closed-book: $(STAMP)
	$(BIN)/python -m scripts.closed_book.train runs/closed_book
	$(BIN)/python -m scripts.closed_book.ship runs/closed_book
	$(BIN)/python -m scripts.closed_book.measure

# Trains the gate of the closed-book model, minutes on one core
GATE := fitrag_integrations/embedded/ik
embedded-gate: $(STAMP)
	$(BIN)/python -m scripts.closed_book.gate_rows runs/gate
	$(BIN)/fitrag train ik runs/gate/gate_train.jsonl --variant head --out $(GATE) \
		--base fitrag_integrations/embedded/closed_book
	$(BIN)/fitrag calibrate gate runs/gate/gate_valid.jsonl --model $(GATE)
	rm -r $(GATE)/run
	$(BIN)/python benchmarks/gates.py runs/gate

# Trains the evaluator, over the embedded reader, about an hour on one core
embedded-evaluator: $(STAMP)
	$(BIN)/python scripts/evaluator_rows.py $(DATA) runs/evaluator-rows
	$(BIN)/fitrag train evaluator runs/evaluator-rows/train.jsonl --out runs/evaluator \
		--base fitrag_integrations/embedded/reader --name fitrag-minilm-1 --steps 560
	$(BIN)/fitrag calibrate evaluator runs/evaluator-rows/held.jsonl --model runs/evaluator \
		--sentences 1
	$(BIN)/python scripts/embed_evaluator.py runs/evaluator

clean:
	rm -rf $(VENV) build dist site .benchmarks .codspeed .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
