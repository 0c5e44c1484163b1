"""The tests' language model, which knows a made-up world, and its gate."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
LLM, GATE = DATA / "closed_book", DATA / "ik"
