"""Ask for an answer from a combination of excerpts, and without any.

A language model gets the combination as one passage, numbered as a prompt shows it. An extractive
reader reads excerpt by excerpt and gives the answer it trusts most, as `fitrag read` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.models.remote.client import finish
from fitrag_integrations.training.asking_llm import Asker, AskLLM, AskReader, Heard, May
from fitrag_integrations.training.collecting import Told
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import render_excerpts

CLOSED_BOOK = "Answer the question in a few words.\n\nQuestion: {question}\nAnswer:"
NOTHING = Passage("", "")
"""What is asked about where the model has to answer by itself."""


def as_one(excerpts: Sequence[Excerpt]) -> Passage:
    """Write excerpts as the passage a language model is shown; its parts are kept beside it."""
    parts = tuple(excerpt.as_passage() for excerpt in excerpts)
    return Passage("", render_excerpts(excerpts), metadata={"parts": parts})


@dataclass(frozen=True)
class AskCombinations:
    """Ask a language model or a reader; `NOTHING` as passage asks the model without passages."""

    asker: Asker

    @property
    def name(self) -> str:
        """Name who is asked."""
        return self.asker.name

    @property
    def keeps(self) -> bool:
        """Say whether answers are too dear to be asked for twice."""
        return self.asker.keeps

    @property
    def may_know(self) -> bool:
        """Say whether a question can be answered without a passage; a reader never can."""
        return not isinstance(self.asker, AskReader)

    def prompt(self, question: str, passage: Passage) -> str:
        """Write what is asked."""
        if passage.text:
            return self.asker.prompt(question, passage)
        return CLOSED_BOOK.replace("{question}", question)

    def ask(self, pairs: Sequence[tuple[str, Passage]], heard: Heard, may: May) -> None:
        """Ask about every pair."""
        if isinstance(self.asker, AskReader):
            _read(self.asker, pairs, heard)
        elif isinstance(self.asker, AskLLM):
            _ask(self.asker, [self.prompt(*pair) for pair in pairs], heard, may)
        else:
            self.asker.ask(pairs, heard, may)


def _ask(asker: AskLLM, prompts: Sequence[str], heard: Heard, may: May) -> None:
    """Ask all prompts; also where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(asker.aask(prompts, heard, may))
    else:
        finish(lambda: asker.aask(prompts, heard, may))


def _read(asker: AskReader, pairs: Sequence[tuple[str, Passage]], heard: Heard) -> None:
    """Read every part of a question's combinations once; the most trusted answer is a whole's."""
    parts = [(question, passage.metadata["parts"]) for question, passage in pairs]
    once = dict.fromkeys((question, part) for question, own in parts for part in own)
    read = dict(zip(once, asker.reader.read(list(once)), strict=True))
    for i, (question, own) in enumerate(parts):
        best = max((read[question, part] for part in own), key=lambda answer: answer.score)
        heard(i, Told(best.text, score=float(best.score)))
