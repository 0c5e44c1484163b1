"""REPLUG (Shi et al., 2023, arXiv:2301.12652): one prompt per passage, their predictions weighted.

Every passage is put before the question by itself, and each next token is chosen from the average
of what the model expects behind each, weighted by the softmax of the retrieval scores. That needs
the model's own distributions, so the model is a local one. Left out: training the retriever on the
model's likelihoods (REPLUG LSR).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Annotated, TypeAlias

from fitrag_integrations.core.checks import Count, check_number
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.prompts import PLAIN, READ
from fitrag_integrations.methods.writing import (
    NO_ANSWER,
    Generated,
    Generating,
    Prompt,
    Rounds,
    reply_text,
)
from fitrag_integrations.ports import Ports, port_of
from fitrag_integrations.types import Context, Excerpt

Item: TypeAlias = tuple[tuple[str, ...], tuple[float, ...]]  # prompts, and their weights
SCORE = "retrieval_score"
UNSCORED = "not all passages have a retrieval score: all weigh the same"


@dataclass(frozen=True)
class Replug(Generating):
    """REPLUG: answer from the first `k` passages at once, each weighted by its retrieval score.

    The caller's language model is not called. If a passage has no score, all have the same weight,
    with a note.

    Args:
        model: Object with `ensemble(items)`, such as `models.ReplugGenerator`, or a callable, from
            (prompts, weights) to texts.
        k: Number of passages.
        temperature: Divides the scores before the softmax.
        template: Renders the prompt of one passage.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    model: object
    _: KW_ONLY
    k: Count = 10
    temperature: Annotated[float, partial(check_number, low=1e-6)] = 1.0
    template: Prompt = READ

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._port

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are the passages, their scores the weights. The flow raises `InputError` for a
        blank question, and what the retrieval raises.
        """
        work = Rounds(self, question, ports, "replug")
        (found,) = yield from ports.retrieve.ask([question])
        passages = work.keep(found, self.k)
        scores = [passage.metadata.get(SCORE) for passage in passages]
        numbers = [float(one) for one in scores if isinstance(one, int | float)]
        weights = softmax([number / self.temperature for number in numbers])
        if len(numbers) < len(scores):
            weights = (1.0 / len(scores),) * len(scores)
            work.notes.append(UNSCORED)
        prompts = [work.prompt(self.template, [one]) for one in passages] or [work.prompt(PLAIN)]
        item = tuple(prompts), weights or (1.0,)
        texts, failed = yield from self.asked(self._port, [item], NO_ANSWER, reply_text)
        reply = Generated("", failed) if failed else self.read(texts[0], "answer")
        work.notes += reply.notes
        pairs = zip(passages, weights, strict=True)
        excerpts = [Excerpt.whole(passage, score=weight) for passage, weight in pairs]
        return work.ended(reply.text, excerpts=excerpts)

    @cached_property
    def _port(self) -> Port[Item, str]:
        return port_of("ensemble", self.model, "ensemble", argument="model")


def softmax(scores: Sequence[float]) -> tuple[float, ...]:
    """Compute weights that sum to 1 from scores."""
    parts = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(parts)
    return tuple(part / total for part in parts)
